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
from pathlib import Path

import structlog
from pydantic import BaseModel, ValidationError

from dumpfilter.base import files
from dumpfilter.base.errors import (
    OutputError,
    SourceReplaced,
    SourceStreamDamaged,
    StateCorrupt,
)
from dumpfilter.base.files import DirectoryLock
from dumpfilter.base.printable import printable
from dumpfilter.base.state_file import State
from dumpfilter.binlog.file_reads import open_regular
from dumpfilter.binlog.format import Family, FormatDescription
from dumpfilter.index.log_writer import LogWriter
from dumpfilter.receiver.binlog_file import OpenFile

log = structlog.get_logger("dumpfilter.receiver")

SOURCE_FILE = "dumpfilter-source.json"
"""The name of the file that identifies the server whose binlogs a store has."""

_LOCK_FILE = "dumpfilter-source.lock"
_FORMAT = 1
_BINLOG_NAME = re.compile(r"(?![-.])[^/\0]*[^/\0.]\.(?!0+\Z)[0-9]{1,18}")
_LONGEST_SOURCE = 1 << 16
"""The largest size of a store's :data:`SOURCE_FILE` that is read, bytes."""
_FIRST_SERVER_ID, _SERVER_IDS = 0xF0000000, 1 << 28
"""The first of the server ids with which stores register at their sources, and the number of these ids: the highest
sixteenth of all.
"""
_LONGEST_NAME = 255
"""The longest name of a file on common file systems, bytes."""


class Sync(enum.StrEnum):
    """The policy when received events are synced to the disk (``fdatasync``)."""

    TRANSACTION = "transaction"
    """All events that have arrived are synced before more are read."""
    INTERVAL = "interval"
    """Events are synced once a second, while more are read, and at the end of each file."""
    NONE = "none"
    """Events are never synced. A power failure may cost events, which the next start fetches again."""


class _Note(BaseModel):
    """The format version in a store's :data:`SOURCE_FILE`, which every release can read."""

    format: int


class StoredSource(State):
    """The content of the file in a store (directory of received binlogs) that names the store's source server. It also
    holds the UUID and server id with which the receiver registers at the source as a replica.
    """

    format: int = _FORMAT
    family: Family
    server_uuid: str
    """The server's UUID. Empty for MariaDB, which has none."""
    address: str
    """The address of the last connection, for display only."""
    replica_uuid: str
    replica_id: int
    """The server id with which the store registers at the source."""

    def check_is(self, family: Family, server_uuid: str, address: str, directory: Path) -> None:
        """Check that a server with this family and UUID is the source of the store in ``directory``. Raises
        SourceReplaced.
        """
        if (self.family, self.server_uuid) != (family, server_uuid):
            raise SourceReplaced(
                f"{directory}: the store has the binlogs of {_server(self.family, self.server_uuid)}, and "
                f"{address} is {_server(family, server_uuid)}; fetch into another directory"
            )


def check_binlog_name(name: str) -> tuple[str, int]:
    """Return the base name and the number in a binlog file's name such as ``bin.000001``.

    Raises SourceStreamDamaged for a name with a directory in it, or any other name that no server sends.
    """
    if not is_binlog_name(name):
        raise SourceStreamDamaged(
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


class BinlogDirectory(LogWriter[OpenFile]):
    """A store (directory of received binlog files) that this process writes. The constructor locks the directory.

    It raises DirectoryBusy when another process writes the directory, and OutputError for a directory with binlogs that
    no receiver put there.
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
            self.source = _load(directory / SOURCE_FILE)
            self.index = _find_index(directory)
            if self.source is None:
                _check_empty(directory)
        except BaseException:
            self._lock.release()
            raise

    def recognize(self, family: Family, server_uuid: str, address: str) -> StoredSource:
        """Check that a server is the source from which this store has its files, and return the saved identities of the
        source and of the receiver. Raises SourceReplaced for another server.

        A new store accepts any server, and saves its identity. It also saves a random UUID and server id with which the
        receiver registers as a replica. This server id is higher than people usually choose.
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
            text = known.model_dump_json(indent=1)
            files.replace(self.directory / SOURCE_FILE, f"{text}\n".encode())
            self.source = known
        return known

    def resume(self) -> OpenFile | None:
        """Open the newest file at its last whole event, and cut off an incomplete event at its end. Return None if the
        store has no file.
        """
        self.close_file(synced=False)
        names = self.names
        if not names:
            return None
        self.file, cut = OpenFile.resume(self.directory / names[-1])
        if cut:
            log.warning("torn event cut", file=names[-1], bytes=cut, hint="the source sends the event again")
        return self.file

    def begin_file(self, name: str, head: bytes, description: FormatDescription) -> OpenFile:
        """Close the open file, if any, and begin the file ``name``. ``head`` is its format description event as raw
        bytes.

        Raises SourceStreamDamaged for a number that is not higher than that of the newest file, and SourceReplaced for
        another base name.
        """
        base, number = check_binlog_name(name)
        names = self.names
        if names:
            newest_base, newest = check_binlog_name(names[-1])
            if base != newest_base:
                raise SourceReplaced(
                    f"{self.directory}: the source's binlogs are named {printable(base)}, and those of the store "
                    f"{newest_base}; fetch into another directory"
                )
            if number <= newest:
                raise SourceStreamDamaged(f"the source goes back to {printable(name)} after {names[-1]}")
        self.end_file()
        index = self.index or self.directory / f"{base}.index"
        if not names:
            self._keep_uuid(index, description)
        return self.begin(index, OpenFile.begin(self.directory / name, head, description))

    def _keep_uuid(self, index: Path, description: FormatDescription) -> None:
        """Write the UUID of the store's binlog set to a file beside the file ``index``, in the format of ``auto.cnf``.

        By this UUID, slaves notice that a master serves another binlog set than before. The set of a MySQL server has
        the server's UUID. For a MariaDB server the UUID is computed from ``description``, the format description event
        of the set's first file. So two stores that begin with the same file have equal UUIDs.
        """
        server_uuid = self.source.server_uuid if self.source is not None else ""
        found = server_uuid or str(uuid.uuid5(uuid.NAMESPACE_OID, description.raw.hex()))
        text = f"[auto]\nserver-uuid={found}\n"
        files.replace(index.with_suffix(".uuid"), text.encode())

    def end_file(self) -> None:
        """Close the open file, if any, because the source has begun another one.

        A file without a Rotate or Stop event at its end was left by a server that crashed. MySQL clears
        LOG_EVENT_BINLOG_IN_USE_F in it at its next start, and so does this method. MariaDB never clears the flag.
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


def _load(path: Path) -> StoredSource | None:
    if not os.path.lexists(path):
        return None
    with open_regular(path) as file:
        data = file.read(_LONGEST_SOURCE)
    try:
        if _Note.model_validate_json(data).format != _FORMAT:
            raise StateCorrupt(f"{path}: written by a newer dumpfilter; use that one, or another directory")
        return StoredSource.model_validate_json(data)
    except ValidationError:
        raise StateCorrupt(
            f"{path}: the file is damaged, and nothing else says whose binlogs these are; fetch into another "
            "directory"
        ) from None


def _find_index(directory: Path) -> Path | None:
    found = sorted(directory.glob("*.index"))
    if len(found) > 1:
        raise OutputError(f"{directory}: has several index files; name another directory")
    return found[0] if found else None


def _check_empty(directory: Path) -> None:
    for path in sorted(directory.iterdir()):
        if path.suffix == ".index" or _BINLOG_NAME.fullmatch(path.name):
            raise OutputError(
                f"{path}: the directory has binlogs that dumpfilter did not fetch; name an empty or a new directory"
            )
