"""The relay log: the events that the I/O thread received, stored as a binlog set.

The relay log consists of the files ``relay-bin.000001`` and so on, and the index file ``relay-bin.index``, which names
them in order. The slave begins a new relay log file for each binlog file of the master. The events of the relay log
therefore depend on the master's binlog and the filter alone, not on timing, restarts or crashes. Timing only decides
whether one Gap event or several neighbouring ones stand for the dropped transactions at a position.

A relay log file begins with the magic bytes, the master's format description event, and an artificial Rotate event.
The Rotate event names the master's file and the position from which the slave read that file. A head event
(:mod:`dumpfilter.binlog.gap_events`) names the master. The received events follow unchanged, with the master's
``end_log_pos``. Where the master dropped transactions, a Gap event names their GTIDs and the position after them.
``mysqlbinlog`` and ``mariadb-binlog`` can read the file.

Crash safety rests on one rule. The relay log is valid up to the position recorded in ``master.info``, and
:meth:`RelayLog.recover` truncates the relay log to that position. When the slave begins a file, it first writes the
file's head, then names the file in the index, and last records the file in ``master.info``.
"""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dumpfilter.base import errors as E
from dumpfilter.base import files
from dumpfilter.binlog.events import MAGIC, EventHeader
from dumpfilter.binlog.format import FormatDescription
from dumpfilter.binlog.gap_events import make_head
from dumpfilter.binlog.reader import unreadable
from dumpfilter.dump.packets.protocol import rotate
from dumpfilter.index.index_file import GrowingFile, LogWriter, write_index
from dumpfilter.slave.relay_position import AFRESH, BASENAME, RelayPosition, file_number

if TYPE_CHECKING:
    from dumpfilter.index.fileset import FileBegin

_FILE = re.compile(rf"{BASENAME}\.\d{{6,}}")


def unusable(path: Path, error: OSError | E.BinlogError, text: str) -> E.DumpfilterError:
    """Return the error to raise because ``error`` has ended the reading of the relay log file ``path``.

    The result is RelayLogDamaged with ``text``, after which the slave fetches the file again. It is a BinlogUnreadable
    for a sound file that cannot be read now, for example because of too many open files.
    """
    found = unreadable(error, file=str(path)) if isinstance(error, OSError) else error
    return found if isinstance(found, E.BinlogUnreadable) and found.momentary else E.RelayLogDamaged(text)


def read_head(path: Path) -> FileBegin:
    """Read the head (the first events) of a relay log file, and return its content. The head names, for example, the
    master's binlog file and the position in it from which the relay log file's other events come.

    Raises RelayLogDamaged when the relay log file is missing, too short or damaged, and BinlogUnreadable when it cannot
    be read now (:func:`unusable`).
    """
    # Programs that show the state of a slave import this module, and must not wait for the compiled code of a scan.
    from dumpfilter.index.fileset import BinlogFile

    try:
        with BinlogFile(path) as file:
            begin = file.begin
    except E.BinlogError as error:
        raise unusable(path, error, f"{path}: the head of the relay log cannot be read: {error}") from error
    if not begin.is_relay_log:
        raise E.RelayLogDamaged(f"{path}: ends inside its head, before the name of the master's binlog file")
    return begin


def header_bytes(
    source_file: str, start_position: int, format_description: bytes, origin: dict[str, Any]
) -> bytes:
    """Return the first bytes of a relay log file: magic, format description event, artificial Rotate event and head
    event (dumpfilter's own event, which names the master).

    The Rotate event says that the following events come from the master's binlog file ``source_file``, from the byte
    offset ``start_position`` on. ``format_description`` is the master's format description event as raw bytes.
    ``origin`` has the fields of the head event, such as ``master_uuid``.
    """
    checksum = FormatDescription.parse(format_description).checksum
    server_id = EventHeader.unpack(format_description).server_id
    rotate_event = rotate(source_file, start_position, server_id, checksum)
    return (
        MAGIC + format_description + rotate_event + make_head(origin, server_id=server_id, checksum=checksum)
    )


def read_index(directory: Path) -> list[str]:
    """Read ``relay-bin.index`` and return the names of the relay log files, oldest first.

    The names have no directory. Without an index file the list is empty. Raises StateCorrupt when the index cannot
    be read or names a file that is no relay log.
    """
    path = directory / f"{BASENAME}.index"
    try:
        lines = path.read_text("utf-8").splitlines()
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise E.StateCorrupt(f"{path}: cannot be read: {error}; {AFRESH}") from error
    names = [line.removeprefix("./") for line in lines]
    for name in names:
        if not _FILE.fullmatch(name):
            raise E.StateCorrupt(
                f"{path}: the index names {name!r}, which is no relay log of this slave; {AFRESH}"
            )
    return names


class RelayLog(LogWriter[GrowingFile]):
    """The relay log of one channel, to which the I/O thread appends events.

    A caller must first call :meth:`recover`, which truncates the relay log to the position in ``master.info`` and opens
    it. With ``synced`` a file is forced to the disk before the next file begins.
    """

    index: Path

    def __init__(self, directory: Path, *, synced: bool = True) -> None:
        super().__init__(directory / f"{BASENAME}.index", synced=synced)
        self.directory = directory

    @property
    def position(self) -> RelayPosition | None:
        """The position after the last event that was appended. None before the first relay log file, and after
        :meth:`close`.
        """
        return None if self.file is None else RelayPosition(self.file.name, self.file.end)

    @property
    def names(self) -> list[str]:
        """The names of the relay log files that the index lists, oldest first. Raises StateCorrupt for an unusable
        index.
        """
        return read_index(self.directory)

    def recover(self, recorded: RelayPosition | None) -> None:
        """Truncate the relay log to the position that ``master.info`` records, and open it there for appending.

        Everything after ``recorded`` is removed: later files, files that a crash left outside the index, and the rest
        of the recorded file. With None all relay log files are removed. Raises RelayLogDamaged when the relay log is
        shorter than ``recorded``, or when the recorded file is missing or damaged. Raises BinlogUnreadable when it
        cannot be opened now (:func:`unusable`). In these cases nothing is removed.
        """
        self.close()
        listed = self.names
        kept: list[str] = []
        file = None
        if recorded is not None:
            if recorded.file not in listed:
                raise E.RelayLogDamaged(
                    f"{self.index}: does not name {recorded.file}, which master.info records"
                )
            file = self._open(recorded)
            kept = listed[: listed.index(recorded.file) + 1]
        self.file = file
        if kept != listed:
            write_index(self.index, kept)
        for path in self.directory.glob(f"{BASENAME}.*"):
            name = path.name.removesuffix(".new")
            if path.name not in kept and (_FILE.fullmatch(name) or path.name == f"{BASENAME}.index.new"):
                files.remove(path)
        if file is not None and recorded is not None:
            file.cut(recorded.offset)

    def _open(self, recorded: RelayPosition) -> GrowingFile:
        path = self.directory / recorded.file
        try:
            file = GrowingFile.open(path)
        except OSError as error:
            raise unusable(path, error, f"{path}: cannot be opened: {error.strerror}") from error
        wrong = None
        if file.end < recorded.offset:
            wrong = (
                f"has {file.end} bytes, but {recorded.offset} were recorded (the machine crashed before "
                f"all of them were on the disk: see --sync-relay-log)"
            )
        elif file.read(0, len(MAGIC)) != MAGIC:
            wrong = "is not a relay log (wrong magic)"
        if wrong:
            file.close()
            raise E.RelayLogDamaged(f"{path}: {wrong}")
        return file

    def format_description(self) -> bytes:
        """Return the format description event of the newest relay log file, as raw bytes.

        The slave compares the event with the master's, to notice that the master's file was replaced. Raises
        RelayLogDamaged when the beginning of the file is damaged.
        """
        return read_head(self.directory / self.names[-1]).format_description.raw

    def rotate(
        self, source_file: str, start_position: int, format_description: bytes, origin: dict[str, Any]
    ) -> RelayPosition:
        """Begin the next relay log file, because the master continues with another binlog file. Return the position
        after the first events of the new file. Raises OutputError if a file cannot be written.

        The master's binlog file ``source_file`` is read from the byte offset ``start_position`` on.
        ``format_description`` is its format description event as raw bytes. ``origin`` has the fields of the head event
        (dumpfilter's own event, which names the master), such as ``master_uuid``. The head event also holds the size of
        the previous relay log file, so that the applier notices when that file was truncated.
        """
        if self.position is not None:
            name, size = self.position
            origin = {**origin, "previous_file": name, "previous_size": size}
        number = 1 + max(map(file_number, self.names), default=0)
        head = header_bytes(source_file, start_position, format_description, origin)
        self.close_file()
        made = self.begin(self.index, GrowingFile.create(self.directory / f"{BASENAME}.{number:06d}", head))
        return RelayPosition(made.name, made.end)

    def expire(self, before: str, written_before: float) -> list[str]:
        """Remove the oldest relay log files, and return their names. A file is removed if it precedes the file named
        ``before``, and was last written before the Unix time ``written_before``. The removal ends at the first file
        that stays.

        The newest file always stays. A crash may leave removed files that the index no longer names; :meth:`recover`
        removes them. Raises OutputError if a file cannot be removed.
        """
        names = self.names
        oldest = itertools.takewhile(lambda name: file_number(name) < file_number(before), names[:-1])
        gone = list(itertools.takewhile(lambda name: self._is_older(name, written_before), oldest))
        if gone:
            write_index(self.index, names[len(gone) :])
            for name in gone:
                files.remove(self.directory / name)
        return gone

    def _is_older(self, name: str, time: float) -> bool:
        try:
            return (self.directory / name).stat().st_mtime < time
        except OSError:
            # A file that is not there needs no space. The applier finds out that it is missing.
            return False

    def append(self, data: bytes | memoryview) -> int:
        """Append whole raw events to the newest relay log file, and return the size of the file. The events may end
        inside a transaction. Raises OutputError if the file cannot be written.
        """
        assert self.file is not None, "no relay log has been begun"
        self.file.append(data)
        return self.file.end

    def close(self) -> None:
        """Close the open relay log file without waiting for the disk. :meth:`recover` opens it again.

        Raises OutputError when an earlier write to the disk has failed.
        """
        self.close_file(synced=False)
