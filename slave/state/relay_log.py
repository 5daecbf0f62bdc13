"""The relay log: the events that the I/O thread received, stored as a binlog set.

The relay log is a directory with files ``relay-bin.000001`` and so on, and the index ``relay-bin.index``.
Each binlog file of the master has one relay log. The bytes therefore depend on the master's binlog and the
filter alone, and not on timing, restarts or crashes.

A relay log begins with the magic, the master's format description event, and an artificial Rotate event. The
Rotate event names the master's file and the position from which the slave read that file. The received events
follow with the master's ``end_log_pos``. ``mysqlbinlog`` and ``mariadb-binlog`` read relay logs.

Crash safety rests on one rule: the relay log is valid up to the position recorded in ``master.info``, and
:meth:`RelayLog.recover` truncates the relay log to that position. A new file has its complete head before the
index names the file, and ``master.info`` records the file after that.
"""

from __future__ import annotations

import os
import re
import struct
import zlib
from pathlib import Path
from typing import NamedTuple

from dumpfilter.binlog.events import (
    CHECKSUM_LENGTH,
    HEADER_LENGTH,
    LOG_EVENT_ARTIFICIAL_F,
    MAGIC,
    EventHeader,
    EventType,
)
from dumpfilter.binlog.format import FormatDescription
from dumpfilter.errors import StateCorrupt
from dumpfilter.slave.state import AFRESH, durable

BASENAME = "relay-bin"
"""The base name that a server sets with ``--relay-log``."""

_FILE = re.compile(rf"{BASENAME}\.\d{{6,}}")


class RelayPosition(NamedTuple):
    """A position in the relay log: the file's base name, and an offset in bytes."""

    file: str
    offset: int


def header_bytes(source_file: str, start_position: int, format_description: bytes) -> bytes:
    """Return the head of a relay log: magic, format description event, artificial Rotate event."""
    description = FormatDescription.parse(format_description)
    body = struct.pack("<Q", start_position) + source_file.encode()
    size = HEADER_LENGTH + len(body) + (CHECKSUM_LENGTH if description.checksum else 0)
    server_id = EventHeader.unpack(format_description).server_id
    rotate = EventHeader(0, EventType.ROTATE, server_id, size, 0, LOG_EVENT_ARTIFICIAL_F).pack() + body
    if description.checksum:
        rotate += struct.pack("<I", zlib.crc32(rotate))
    return MAGIC + format_description + rotate


def file_number(file: str) -> int:
    """Return the number at the end of a relay log's name.

    >>> file_number("relay-bin.000012")
    12
    """
    return int(file.rpartition(".")[2])


def read_index(directory: Path) -> list[str]:
    """Return the base names of the relay logs in the index, in order. Without an index there are none.

    Raises :class:`StateCorrupt` when the index names a file that is no relay log.
    """
    path = directory / f"{BASENAME}.index"
    try:
        lines = path.read_text("utf-8").splitlines()
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise StateCorrupt(f"{path}: cannot be read: {error}; {AFRESH}") from error
    names = [line.removeprefix("./") for line in lines]
    for name in names:
        if not _FILE.fullmatch(name):
            raise StateCorrupt(
                f"{path}: the index names {name!r}, which is no relay log of this slave; {AFRESH}"
            )
    return names


class RelayLog:
    """The relay log of one channel, open for appending.

    ``sync_every`` is ``--sync-relay-log``: after that many events, at the end of a chunk, the slave
    synchronizes the file to the disk. 0 leaves synchronizing to the operating system. A caller calls
    :meth:`recover` first.
    """

    def __init__(self, directory: Path, *, sync_every: int = 10_000) -> None:
        self.directory = directory
        self._sync_every = sync_every
        self._unsynced_events = 0
        self._files: list[str] = []
        self._fd: int | None = None
        self._offset = 0

    @property
    def files(self) -> tuple[str, ...]:
        """The base names of the relay logs in the index, in order."""
        return tuple(self._files)

    @property
    def position(self) -> RelayPosition | None:
        """The end of the written events. None before the first file."""
        return RelayPosition(self._files[-1], self._offset) if self._files else None

    def path(self, file: str) -> Path:
        """Return the path of a relay log."""
        return self.directory / file

    def recover(self, recorded: RelayPosition | None) -> None:
        """Truncate the relay log to the recorded position. None means that there is no relay log.

        This method removes later files from the index and the directory, removes files that a crash left
        outside the index, and truncates the last file. Raises :class:`StateCorrupt` when the directory holds
        less than was recorded.
        """
        self.close()
        listed = read_index(self.directory)
        kept: list[str] = []
        if recorded is not None:
            if recorded.file not in listed:
                index = self.directory / f"{BASENAME}.index"
                raise StateCorrupt(
                    f"{index}: does not name {recorded.file}, which master.info records; {AFRESH}"
                )
            kept = listed[: listed.index(recorded.file) + 1]
        if kept != listed:
            self._write_index(kept)
        for path in self.directory.glob(f"{BASENAME}.*"):
            name = path.name.removesuffix(".new")
            if path.name not in kept and (_FILE.fullmatch(name) or path.name == f"{BASENAME}.index.new"):
                durable.remove(path)
        self._files = kept
        if recorded is not None:
            self._open(recorded)

    def _open(self, recorded: RelayPosition) -> None:
        path = self.path(recorded.file)
        try:
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            raise StateCorrupt(f"{path}: cannot be opened: {error.strerror}; {AFRESH}") from error
        self._fd = fd
        size = os.fstat(fd).st_size
        if size < recorded.offset:
            raise StateCorrupt(
                f"{path}: has {size} bytes, but {recorded.offset} were recorded (the machine crashed before "
                f"all of them were on the disk: see --sync-relay-log); {AFRESH}"
            )
        if os.pread(fd, len(MAGIC), 0) != MAGIC:
            raise StateCorrupt(f"{path}: is not a relay log (wrong magic); {AFRESH}")
        if size > recorded.offset:
            durable.truncate(path, fd, recorded.offset)
        os.lseek(fd, recorded.offset, os.SEEK_SET)
        self._offset = recorded.offset

    def format_description(self) -> bytes:
        """Return the format description event of the current file, as raw bytes. There must be a current
        file."""
        assert self._fd is not None
        head = os.pread(self._fd, HEADER_LENGTH, len(MAGIC))
        return os.pread(self._fd, EventHeader.unpack(head).size, len(MAGIC))

    def rotate(self, source_file: str, start_position: int, format_description: bytes) -> None:
        """Begin the next relay log, for another binlog file of the master."""
        number = file_number(self._files[-1]) + 1 if self._files else 1
        name = f"{BASENAME}.{number:06d}"
        head = header_bytes(source_file, start_position, format_description)
        if self._fd is not None and self._sync_every:
            self.sync()
        self.close()
        path = self.path(name)
        self._fd = durable.create(path)
        durable.write(path, self._fd, head)
        if self._sync_every:
            durable.sync(path, self._fd)
        self._write_index([*self._files, name])
        self._files.append(name)
        self._offset = len(head)

    def append(self, data: bytes | memoryview, *, events: int) -> None:
        """Write raw events. ``events`` is their number, which counts towards ``sync_every``."""
        assert self._fd is not None, "no relay log has been begun"
        durable.write(self.path(self._files[-1]), self._fd, data)
        self._offset += len(data)
        self._unsynced_events += events
        if self._sync_every and self._unsynced_events >= self._sync_every:
            self.sync()

    def truncate_to(self, offset: int) -> None:
        """Truncate the current file to ``offset`` bytes."""
        assert self._fd is not None, "no relay log has been begun"
        durable.truncate(self.path(self._files[-1]), self._fd, offset)
        self._offset = offset

    def sync(self) -> None:
        """Wait until all appended events are on the disk."""
        if self._fd is not None:
            durable.sync(self.path(self._files[-1]), self._fd)
        self._unsynced_events = 0

    def close(self) -> None:
        """Close the current file. The object can be used again after :meth:`recover`."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _write_index(self, names: list[str]) -> None:
        text = "".join(f"./{name}\n" for name in names)
        durable.replace(self.directory / f"{BASENAME}.index", text.encode(), synced=True)
