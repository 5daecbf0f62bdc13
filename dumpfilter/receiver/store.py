"""The store of a receiver: a directory with a source's binlog files, their index file, and a file that identifies the
source.

A crash at any moment leaves a valid binlog set, which at worst lacks its newest events. A file is named in the index
only after its first event has been written. Only one process writes a store.
"""

from __future__ import annotations

import enum
import os
import re
import secrets
import uuid
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from dumpfilter.base import errors as E
from dumpfilter.base import files
from dumpfilter.base.files import DirectoryLock, writing
from dumpfilter.base.logs import logger
from dumpfilter.base.printable import printable
from dumpfilter.base.state_file import Format, State, StateFile
from dumpfilter.binlog import events
from dumpfilter.binlog.context_events import decode_rotate
from dumpfilter.binlog.format import Family, FormatDescription
from dumpfilter.binlog.reader import open_regular, read_format_description, read_into
from dumpfilter.index.index_file import INDEX_CHANGES, GrowingFile, LogWriter, take_out
from dumpfilter.receiver._deframe_kernels import walk

log = logger("dumpfilter.receiver")

SOURCE_FILE = "dumpfilter-source.json"
"""The name of the file in a store (directory of received binlogs) that identifies the server of these binlogs."""

_LOCK_FILE = "dumpfilter-source.lock"
_FORMAT = Format(1, "store", "nothing else says whose binlogs these are; fetch into another directory")
_BINLOG_NAME = re.compile(r"(?![-.])[^/\0]*[^/\0.]\.(?!0+\Z)[0-9]{1,18}")
_LONGEST_SOURCE = 1 << 16
"""The largest size of the file :data:`SOURCE_FILE`, which identifies the source server, that is read, bytes."""
_FIRST_SERVER_ID, _SERVER_IDS = 0xF0000000, 1 << 28
"""The lowest of the server ids with which receivers register at servers as replicas, and the number of these ids: the
highest sixteenth of all.
"""
_LONGEST_NAME = 255
"""The longest name of a file on common file systems, bytes."""


class Sync(enum.StrEnum):
    """The choices for when received events are synced to the disk (``fdatasync``)."""

    TRANSACTION = "transaction"
    """All events that have arrived are synced before more are read."""
    INTERVAL = "interval"
    """Events are synced once a second, while more are read, and at the end of each file."""
    NONE = "none"
    """Events are never synced. A power failure may cost events, which the next start fetches again."""


class StoredSource(State):
    """The content of the file in a store (directory of received binlogs) that names the store's source server. The file
    also has the UUID and server id with which the receiver registers at the source as a replica.
    """

    family: Family
    server_uuid: str
    """The server's UUID. Empty for MariaDB, which has none."""
    address: str
    """The server's address at the last connection, for display only."""
    replica_uuid: str
    replica_id: int
    """The server id with which the receiver registers at the source as a replica."""

    def check_is(self, family: Family, server_uuid: str, address: str, directory: Path) -> None:
        """Raise SourceReplaced unless the server with the given family (MySQL or MariaDB) and UUID is the source of the
        store, the received binlogs in ``directory``. The text of the error names ``address``, the server's address.
        """
        if (self.family, self.server_uuid) != (family, server_uuid):
            raise E.SourceReplaced(
                f"{directory}: the store has the binlogs of {_server(self.family, self.server_uuid)}, and "
                f"{address} is {_server(family, server_uuid)}; fetch into another directory"
            )


def check_binlog_name(name: str) -> tuple[str, int]:
    """Return the base name and the number in a binlog file's name such as ``bin.000001``.

    Raises SourceStreamDamaged for a name with a directory in it, or any other name that no server sends.
    """
    if not is_binlog_name(name):
        raise E.SourceStreamDamaged(
            f"the source names a binlog file '{printable(name, _LONGEST_NAME)}', which no server does: names are like "
            "bin.000001, do not begin with - or ., and count from 1; check that the address is that of the source"
        )
    base, _, number = name.rpartition(".")
    return base, int(number)


def is_binlog_name(name: str) -> bool:
    r"""Tell whether a text is a valid name of a binlog file, such as ``bin.000001``.

    >>> is_binlog_name("bin.000001"), is_binlog_name("../bin.000001"), is_binlog_name("bin")
    (True, False, False)
    >>> is_binlog_name("-rf.000001"), is_binlog_name("bin.000000"), is_binlog_name("a\nb.000001")
    (False, False, False)
    """
    return (
        _BINLOG_NAME.fullmatch(name) is not None
        and len(os.fsencode(name)) <= _LONGEST_NAME
        and name.isprintable()
    )


_BLOCK = 4 << 20
_LONGEST_CLOSING = 4096
"""The length above which an event is not read as a Rotate or Stop event, with which a server closes a file, bytes."""


def find_end(path: Path, description: FormatDescription) -> tuple[int, int]:
    """Return two byte offsets in a received file: the beginning of its last whole event, and the end of this event.
    Later bytes are a torn event.

    An event is whole when its length, ``end_log_pos`` and checksum are right. After a crash the receiver truncates the
    file to the second offset.

    ``description`` is the file's format description. Raises BinlogError for a file that cannot be read.
    """
    last, at = len(events.MAGIC), len(events.MAGIC) + len(description.raw)
    is_wrong = False
    with open_regular(path) as source:
        size = os.fstat(source.fileno()).st_size
        data = np.empty(min(_BLOCK, max(size, 1)), np.uint8)
        while at < size and not is_wrong:
            got = read_into(source.fileno(), data.data, at, file=path.name)
            offset, end, is_wrong = walk(data, got, at, description.checksum)
            if offset >= 0:
                last, at = at + offset, at + end
                continue
            length = events.EventHeader.unpack(data.data).size if got >= events.HEADER_LENGTH else size
            if at + length > size:
                break
            # The event is larger than the buffer.
            data = np.empty(length, np.uint8)
    return last, at


class OpenFile(GrowingFile):
    """The binlog file that a receiver is writing.

    After a reconnection the stream may begin before the end of the file. Events that the file already has are then
    compared with the stream, and not written again.
    """

    def __init__(self, path: Path, fd: int, end: int) -> None:
        super().__init__(path, fd, end)
        self.description: FormatDescription
        self.position = end
        """The byte offset in this file of the next event of the stream."""
        self.is_closed = False
        """Whether the file ends with a Rotate or a Stop event, with which the server closed it."""
        self.next_name = ""
        """The name of the next file in the Rotate event at the end; empty without one."""

    @classmethod
    def begin(cls, path: Path, head: bytes, description: FormatDescription) -> OpenFile:
        """Create a file with the format description event ``head`` (raw bytes; ``description`` is the same event,
        parsed). The file is marked as in use (LOG_EVENT_BINLOG_IN_USE_F). Raises OutputError if the file cannot be
        written.
        """
        marked = bytearray(events.MAGIC + head)
        marked[events.FLAGS_OFFSET] |= events.LOG_EVENT_BINLOG_IN_USE_F
        made = cls.create(path, bytes(marked))
        made.description = description
        return made

    @classmethod
    def resume(cls, path: Path) -> tuple[OpenFile, int]:
        """Open a received file, and cut off an incomplete event at its end. Return the file and the number of bytes
        that were cut off.

        The file's ``position`` is the beginning of its last whole event, from which the source is asked to send again.
        If the source sends an equal event, the source still has this file. If the last event is a Rotate or Stop event,
        the file is closed, and its flag LOG_EVENT_BINLOG_IN_USE_F is cleared. Raises BinlogError if the file cannot be
        read, and OutputError if it cannot be changed.
        """
        with open_regular(path) as source:
            description = read_format_description(source, file=path.name)
        last, end = find_end(path, description)
        with writing(path):
            made = cls.open(path)
        made.description, made.position = description, last
        cut = made.end - end
        try:
            made.cut(end)
            event = made.read(last, end - last if end - last < _LONGEST_CLOSING else events.HEADER_LENGTH)
            kind = events.EventHeader.unpack(event).type
            made.is_closed = kind in (events.EventType.ROTATE, events.EventType.STOP)
            if kind == events.EventType.ROTATE:
                made.next_name = decode_rotate(description.body(event)).name
            if made.is_closed:
                made.clear_in_use()
        except BaseException:
            made.close()
            raise
        return made, cut

    @property
    def is_ahead(self) -> bool:
        """Whether this file has events that the source has not sent again in the present stream. The events of the
        stream are then compared with the file, and not written.
        """
        return self.position < self.end

    def check_head(self, sent: FormatDescription) -> None:
        """Raise SourceReplaced unless the source's file begins with the same format description event as this received
        file of the same name.

        ``sent`` is the event that the source has sent. If a dump begins inside a file, ``sent`` lacks the time of the
        file's creation, so this field is not compared.
        """
        ours, theirs = self.description.header, sent.header
        if (
            (ours.timestamp, ours.server_id) != (theirs.timestamp, theirs.server_id)
            or sent.post_header_lengths != self.description.post_header_lengths
            or sent.server_version != self.description.server_version
            or sent.checksum != self.description.checksum
        ):
            raise self.replaced("begins differently")

    def replaced(self, how: str) -> E.SourceReplaced:
        """Return the error to raise when the source's file with the name of this received file is another file. ``how``
        is a text that tells the difference, such as "begins differently".
        """
        return E.SourceReplaced(
            f"{self.name}: at {self.position}: the source's file {how}: it is another server, or its binlogs began "
            f"anew (RESET MASTER), or it lost events in a crash; fetch into another directory than {self.path.parent}"
        )

    def append(self, data: bytes | memoryview) -> None:
        """Process whole events from the stream: compare them with the events that the file already has, and write the
        others.

        Raises SourceReplaced when a compared event differs, and OutputError when the file cannot be read or written.
        """
        if self.is_ahead:
            known = min(len(data), self.end - self.position)
            if self.read(self.position, known) != data[:known]:
                raise self.replaced("has other events")
            self.position += known
            data = data[known:]
        if data:
            super().append(data)
            self.position = self.end

    def append_large(self, pieces: Iterable[memoryview]) -> None:
        """Append one event that comes in pieces. After an error, truncate the file to the end of the previous event,
        and raise the error.
        """
        position, end = self.position, self.end
        try:
            for piece in pieces:
                self.append(piece)
        except (E.DumpfilterError, OSError):
            self.position = position
            self.cut(end)
            raise

    def clear_in_use(self) -> None:
        """Clear LOG_EVENT_BINLOG_IN_USE_F in the file's header, as a server does when it closes a file. Raises
        OutputError if the file cannot be written.
        """
        flags = self.read(events.FLAGS_OFFSET, 1)[0]
        if flags & events.LOG_EVENT_BINLOG_IN_USE_F:
            with writing(self.path):
                os.pwrite(self._fd, bytes([flags & ~events.LOG_EVENT_BINLOG_IN_USE_F]), events.FLAGS_OFFSET)
            self.is_synced = False


class BinlogDirectory(LogWriter[OpenFile]):
    """A store (directory of received binlog files) that this process writes. The constructor locks the directory, and
    creates it if it is missing.

    ``sync`` says when written events are synced to the disk. The constructor raises DirectoryBusy when another process
    writes the directory. It raises OutputError for a directory with several index files, or with binlogs that no
    receiver put there. It raises StateCorrupt if the file that identifies the source is damaged.
    """

    def __init__(self, directory: Path, *, sync: Sync = Sync.INTERVAL) -> None:
        super().__init__(None, synced=sync is not Sync.NONE)
        self.directory = directory
        self.policy = sync
        self._lock = DirectoryLock(
            directory / _LOCK_FILE,
            f"{directory}: another process fetches binlogs into this directory; stop it, or name another directory",
        )
        try:
            self._note = StateFile(directory / SOURCE_FILE, StoredSource, _FORMAT)
            self.source: StoredSource | None = None
            """The identity of the server from which the binlogs in this directory come. None for a new directory."""
            if os.path.lexists(self._note.path):
                with open_regular(self._note.path) as file:
                    self.source = self._note.decode(file.read(_LONGEST_SOURCE))
            self.index = _find_index(directory)
            if self.source is None:
                _check_empty(directory)
        except BaseException:
            self._lock.release()
            raise

    def recognize(self, family: Family, server_uuid: str, address: str) -> StoredSource:
        """Check that a server is the source of the files in this store (directory of received files). Return the saved
        identities of the source and of the receiver. Raises SourceReplaced for another server, and OutputError when the
        identities cannot be saved.

        A new store accepts any server, and saves its family (MySQL or MariaDB), UUID and address. It also saves a
        random UUID and server id with which the receiver registers as a replica. This server id is higher than people
        usually choose.
        """
        if self.source is None:
            known = StoredSource(
                family=family,
                server_uuid=server_uuid,
                address=address,
                replica_uuid=str(uuid.uuid4()),
                replica_id=_FIRST_SERVER_ID + secrets.randbelow(_SERVER_IDS),
            )
        else:
            self.source.check_is(family, server_uuid, address, self.directory)
            known = self.source.model_copy(update={"address": address})
        if known != self.source:
            self._note.save(known)
            self.source = known
        return known

    def resume(self) -> OpenFile | None:
        """Open the newest file at its last whole event, and cut off an incomplete event at its end. Return None if the
        store (directory of received files) has no file. Raises BinlogError if the file cannot be read, and OutputError
        if it cannot be changed.

        A newest file without a whole first event is taken out of the index, and the file before it is opened. A power
        failure leaves such a file if received events are never synced.
        """
        self.close_file(synced=False)
        while self.index is not None and (names := self.names):
            name = names[-1]
            try:
                self.file, cut = OpenFile.resume(self.directory / name)
            except E.BinlogTruncated:
                with INDEX_CHANGES:
                    take_out(self.index, [name])
                log.warning("torn file taken out", file=name, hint="the source sends the file again")
                continue
            if cut:
                log.warning("torn event cut", file=name, bytes=cut, hint="the source sends the event again")
            return self.file
        return None

    def begin_file(self, name: str, head: bytes, description: FormatDescription) -> OpenFile:
        """Close the open file, if any, and begin the file ``name`` in the store, the directory of received files.
        ``head`` is the file's format description event as raw bytes, and ``description`` the same event, parsed.

        Raises SourceStreamDamaged if the number in ``name`` is not higher than that of the newest file, and
        SourceReplaced for another base name. Raises OutputError if a file cannot be written.
        """
        base, number = check_binlog_name(name)
        names = self.names
        if names:
            newest_base, newest = check_binlog_name(names[-1])
            if base != newest_base:
                raise E.SourceReplaced(
                    f"{self.directory}: the source's binlogs are named {printable(base)}, and those of the store "
                    f"{newest_base}; fetch into another directory"
                )
            if number <= newest:
                raise E.SourceStreamDamaged(f"the source goes back to {printable(name)} after {names[-1]}")
        self.end_file()
        index = self.index or self.directory / f"{base}.index"
        if not names:
            self._keep_uuid(index, description)
        return self.begin(index, OpenFile.begin(self.directory / name, head, description))

    def _keep_uuid(self, index: Path, description: FormatDescription) -> None:
        """Write the UUID of the received binlog set to a file beside the file ``index``, in the format of ``auto.cnf``.

        By this UUID, slaves notice that a master serves another binlog set than before. The set of a MySQL server has
        the server's UUID. For a MariaDB server the UUID is computed from ``description``, the format description event
        of the set's first file. So two stores that begin with the same file have equal UUIDs.
        """
        server_uuid = self.source.server_uuid if self.source is not None else ""
        found = server_uuid or str(uuid.uuid5(uuid.NAMESPACE_OID, description.raw.hex()))
        text = f"[auto]\nserver-uuid={found}\n"
        files.replace(index.with_suffix(".uuid"), text.encode())

    def end_file(self) -> None:
        """Close the open file, if any, because the source has begun another one. The file's flag
        LOG_EVENT_BINLOG_IN_USE_F is cleared if the file ends with a Rotate or Stop event.

        A file without such an event at its end was left by a server that crashed. MySQL clears the flag in such a file
        at its next start, so this method clears the flag for MySQL. MariaDB never clears it.
        """
        if self.file is None:
            return
        if self.file.is_closed or self.file.description.family == "mysql":
            self.file.clear_in_use()
        self.close_file()

    def close(self) -> None:
        """Close the open file, and release the lock on the directory."""
        try:
            self.close_file()
        finally:
            self._lock.release()


def _server(family: str, server_uuid: str) -> str:
    name = "MySQL" if family == "mysql" else "MariaDB"
    return f"the {name} server {server_uuid}".rstrip()


def _find_index(directory: Path) -> Path | None:
    found = sorted(directory.glob("*.index"))
    if len(found) > 1:
        raise E.OutputError(f"{directory}: has several index files; name another directory")
    return found[0] if found else None


def _check_empty(directory: Path) -> None:
    for path in sorted(directory.iterdir()):
        if path.suffix == ".index" or _BINLOG_NAME.fullmatch(path.name):
            raise E.OutputError(
                f"{path}: the directory has binlogs that dumpfilter did not fetch; name an empty or a new directory"
            )
