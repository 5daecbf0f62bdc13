"""The writing of binlogs: single events, and whole binlog sets (binlog files with their index file)."""

from __future__ import annotations

import contextlib
import zlib
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from dumpfilter.base.compiler.arrays import Bytes
from dumpfilter.base.errors import BinlogCorrupt, OutputError
from dumpfilter.base.files import committed, remove, writing
from dumpfilter.binlog.context_events import Rotate, encode_rotate
from dumpfilter.binlog.events import (
    CHECKSUM_LENGTH,
    COMMON_HEADER,
    HEADER_LENGTH,
    MAGIC,
    EventHeader,
    EventType,
    seal,
)
from dumpfilter.binlog.format import FormatDescription


def make_event(
    kind: int,
    body: bytes,
    *,
    timestamp: int = 0,
    server_id: int = 0,
    end_log_pos: int = 0,
    flags: int = 0,
    checksum: bool = True,
) -> bytes:
    """Return the bytes of an event: a common header, ``body`` and, with ``checksum``, a CRC32.

    ``kind`` is the number of the event's type. The keyword arguments fill the header.
    """
    # A live commit that is dropped for a replica needs two such events.
    size = HEADER_LENGTH + len(body) + (CHECKSUM_LENGTH if checksum else 0)
    event = COMMON_HEADER.pack(timestamp, kind, server_id, size, end_log_pos, flags) + body
    if checksum:
        event += zlib.crc32(event).to_bytes(CHECKSUM_LENGTH, "little")
    return event


def with_body(header: EventHeader, body: bytes, *, checksum: bool) -> bytes:
    """Return the bytes of an event with another body, for example with fewer rows.

    ``header`` is the header of the original event. Length and checksum are computed anew. All other fields of the
    header stay, even end_log_pos.
    """
    timestamp, kind, server_id, _, end_log_pos, flags = header
    return make_event(
        kind,
        body,
        timestamp=timestamp,
        server_id=server_id,
        end_log_pos=end_log_pos,
        flags=flags,
        checksum=checksum,
    )


def rotate_event(following: str, fd: FormatDescription, position: int, timestamp: int) -> bytearray:
    """Return the Rotate event for the end of a binlog file, which names the file ``following``.

    ``fd`` is the file's format description event. ``position`` is the byte offset of the Rotate event in the file, and
    ``timestamp`` is its Unix time.
    """
    event = make_event(
        EventType.ROTATE,
        encode_rotate(Rotate(following, 4)),
        timestamp=timestamp,
        server_id=fd.header.server_id,
        checksum=fd.checksum,
    )
    return rebase(event, position, checksum=fd.checksum)


def rebase(events: bytes | bytearray, position: int, *, checksum: bool) -> bytearray:
    """Return a copy of consecutive events, for a file in which they begin at the byte offset ``position``. In the copy
    each end_log_pos and checksum is computed anew, even one that was 0 or wrong.

    ``checksum`` tells whether the events end in a CRC32. Raises BinlogCorrupt when ``events`` does not consist of whole
    events.
    """
    data = bytearray(events)
    rebase_array(np.frombuffer(data, np.uint8), position, checksum=checksum, is_new=True)
    return data


def rebase_array(events: Bytes, position: int, *, checksum: bool, is_new: bool = False) -> None:
    """Rewrite end_log_pos and checksums of consecutive events in place, for a file in which they begin at the byte
    offset ``position``.

    ``events`` is a uint8 array, and ``checksum`` tells whether events end in a CRC32. ``is_new`` is for new events:
    each end_log_pos and checksum is computed anew. Otherwise an end_log_pos of 0 stays 0, because MariaDB writes 0 for
    the events inside a transaction. Then also a wrong checksum stays wrong, but only in events of up to 65,535 bytes.
    Larger events get a right checksum.

    Raises BinlogCorrupt when ``events`` does not consist of whole events.
    """
    # The import loads compiled code, or compiles it, and many programs move no events.
    from dumpfilter.binlog import event_kernels as K

    wrong = K.rebase(events, position, checksum, is_new)
    if wrong >= 0:
        raise BinlogCorrupt("an event is incomplete or too short", position=position + int(wrong))


class BinlogSetWriter:
    """A writer of a binlog set: the files ``<base>.000001`` … and ``<base>.index`` in a directory.

    The writer writes each file under a temporary name, synchronizes it, and renames it when it is complete. The index
    appears last, so that an interrupted writer leaves no index of an incomplete set. As a context manager, the writer
    writes the index at the end. When an error is raised, the writer removes its files instead.

    Raises OutputError when a file cannot be written, or when the index exists and ``overwrite`` is false.

    Parameters:
        directory: the directory of the binlog set, which the writer makes when it does not exist.
        base: the files' name without number, such as ``shop-bin``.
        overwrite: whether the writer replaces a binlog set of this name. In that case, the writer removes the old index
            before the files.
    """

    def __init__(self, directory: Path, base: str, *, overwrite: bool = False) -> None:
        self.directory = directory
        self.base = base
        self.names: list[str] = []
        self._open = contextlib.ExitStack()
        """The context of the open file, which renames the file when it is complete and removes it after an error."""
        self._file: BinaryIO | None = None
        self._fd: FormatDescription | None = None
        self.position = 0
        """The byte offset in the open binlog file at which the next event will be written."""
        self._done: list[Path] = []
        self.index = directory / f"{base}.index"
        if self.index.exists() and not overwrite:
            raise OutputError(
                f"{self.index}: it is there already; name another output directory, or use --overwrite"
            )
        with writing(directory):
            directory.mkdir(parents=True, exist_ok=True)

    def begin(self, fd: FormatDescription) -> None:
        """Open the next file of the binlog set, and write its magic number and the format description event ``fd``.
        Raises OutputError if the file cannot be written. The caller must have ended the file before.
        """
        self.names.append(f"{self.base}.{len(self.names) + 1:06}")
        self._fd = fd
        head = bytearray(fd.raw)
        head[13:17] = (4 + len(head)).to_bytes(4, "little")
        if fd.ends_in_checksum:
            seal(head)
        self._file = self._open.enter_context(committed(self._path))
        with writing(self._path):
            self._file.write(MAGIC + head)
        self.position = 4 + len(head)

    def append(self, events: bytes | bytearray | Bytes) -> None:
        """Write whole events to the open binlog file. The events' end_log_pos and checksums are changed to fit the new
        position in this file.

        An end_log_pos of 0 stays 0, because MariaDB writes 0 for the events inside a transaction. An array is changed
        in place, which saves a copy. Raises OutputError if the file cannot be written, and BinlogCorrupt if ``events``
        does not consist of whole events.
        """
        assert self._file is not None
        assert self._fd is not None
        moved = events if isinstance(events, np.ndarray) else np.frombuffer(bytearray(events), np.uint8)
        rebase_array(moved, self.position, checksum=self._fd.checksum)
        with writing(self._path):
            self._file.write(moved.data)
        self.position += moved.size

    def rotate(self, timestamp: int = 0) -> None:
        """Close the open binlog file with a Rotate event that names the next file, and give the file its final name.
        ``timestamp`` is the event's Unix time.
        """
        assert self._fd is not None
        following = f"{self.base}.{len(self.names) + 1:06}"
        self.append(rotate_event(following, self._fd, self.position, timestamp))
        self.end()

    def end(self) -> None:
        """Close the open binlog file without a Rotate event, as at the end of the last file of a set. The file gets its
        final name. Before the first file of a set, an old index of the same name is removed.
        """
        with self._open:
            self._file = None
            if not self._done:
                remove(self.index)
            self._done.append(self._path)

    def close(self) -> None:
        """Close the open binlog file, if there is one, and write the index file of the set."""
        if self._file is not None:
            self.end()
        self._done.append(self.index)
        with committed(self.index) as file:
            file.write("".join(f"./{name}\n" for name in self.names).encode("utf-8", "surrogateescape"))

    @property
    def _path(self) -> Path:
        return self.directory / self.names[-1]

    def __enter__(self) -> BinlogSetWriter:
        return self

    def __exit__(self, *raised: Any) -> None:
        with contextlib.ExitStack() as after_error:
            after_error.callback(self._discard)
            if raised[0] is None:
                self.close()
                after_error.pop_all()
            else:
                # Closing a file writes its buffered bytes, which may fail again after a failed write.
                with contextlib.suppress(OutputError):
                    self._open.__exit__(*raised)

    def _discard(self) -> None:
        for path in self._done:
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
