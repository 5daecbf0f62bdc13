"""The removal of old binlog files: the statement PURGE BINARY LOGS, and the expiry of a received binlog set.

Files are first removed from the set's index file, and then deleted. Expiry goes by age and by total size, and spares
the files that a known slave still needs.
"""

from __future__ import annotations

import glob
import itertools
import math
import os
import re
import stat
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from dumpfilter.base.errors import BinlogError, OutputError
from dumpfilter.base.logs import logger
from dumpfilter.base.printable import printable
from dumpfilter.console.sql.result import Note
from dumpfilter.console.sql.server_errors import (
    ER_UNKNOWN_TARGET_BINLOG,
    ER_WARN_PURGE_LOG_IS_ACTIVE,
    SqlError,
)
from dumpfilter.index.fileset import BinlogSet, gtid_index_of
from dumpfilter.index.index_file import INDEX_CHANGES, take_out
from dumpfilter.master.register import KnownSlave, Presence
from dumpfilter.master.service import DumpFilterService
from dumpfilter.master.store import keep_uuid
from dumpfilter.master.who import SlaveIdentity

_EPOCH = 1970
"""The year before which no file was written."""


def purge(
    binlogs: BinlogSet,
    *,
    to: str | None = None,
    before: datetime | None = None,
    reading: Iterable[str] = (),
    is_own: bool = False,
) -> tuple[list[str], list[Note]]:
    """Delete the oldest binlog files of a set, and return their names and the statement's warnings.

    The call deletes the files before the file ``to``, or the files last written before the time ``before``. The newest
    file always stays. ``reading`` lists the files that dumps are reading. The oldest of them and all later files stay,
    with a warning, as in ``MYSQL_BIN_LOG::purge_logs``. ``is_own`` says that this process itself writes the set, which
    it receives from a server. Otherwise the call checks that no other process is writing the set. A new index file
    replaces the old one before any file is deleted. Therefore a crash leaves a valid set, at worst with files that the
    index no longer names. A file's GTID index is deleted with the file.

    Raises SqlError. 1373: the set has no file ``to``. 1375: a server is writing the set, or the set has no index file.
    1375, too: a file to delete stands outside of the index file's directory, or is no binlog file. 1377: the system
    refused, for example because of missing permissions, or the index file has just changed. An error before the
    replacement of the index changes nothing.
    """
    index = binlogs.index
    if index is None:
        raise _prohibited("the set is served file by file, without an index")
    try:
        binlogs.refresh()
        names = binlogs.names
        if to is not None and Path(to).name not in names:
            raise ER_UNKNOWN_TARGET_BINLOG()
        notes = [] if is_own else _check_unused(binlogs)
        wanted, warnings = _wanted(binlogs, None if to is None else Path(to).name, before)
        in_use = Counter(reading)
        going = list(itertools.takewhile(lambda name: not in_use[name], wanted))
        if len(going) < len(wanted):
            name = wanted[len(going)]
            text = (
                f"file {name} was not purged because it was being read by {in_use[name]} thread(s), "
                f"purged only {len(going)} out of {len(wanted)} files."
            )
            warnings = [Note("Warning", 1867, text)]
        if going:
            paths = [binlogs.path(name) for name in going]
            _check_inside(index, paths)
            keep_uuid(binlogs)
            with INDEX_CHANGES:
                take_out(index, going)
            binlogs.refresh()
            for path in paths:
                gtid_index_of(path).unlink(missing_ok=True)
                path.unlink(missing_ok=True)
    except (OSError, OutputError, BinlogError) as error:
        raise SqlError(1377, "HY000", f"Fatal error during log purge: {error}") from error
    return going, notes + warnings


def _wanted(binlogs: BinlogSet, to: str | None, before: datetime | None) -> tuple[list[str], list[Note]]:
    """Return the files that a PURGE BINARY LOGS statement asks to delete, oldest first, and the statement's warnings.

    ``to`` is the file of PURGE BINARY LOGS TO, and ``before`` the time of PURGE BINARY LOGS BEFORE.
    """
    names = binlogs.names
    if to is not None:
        return names[: names.index(to)], []
    assert before is not None
    # Python has no timestamp for a local time of the year 1.
    end = before.timestamp() if before.year >= _EPOCH else 0.0
    found: list[str] = []
    for name in names:
        if binlogs.path(name).stat().st_mtime >= end:
            return found, []
        if name == names[-1]:
            return found, [ER_WARN_PURGE_LOG_IS_ACTIVE.warning(name)]
        found.append(name)
    return found, []


def _check_unused(binlogs: BinlogSet) -> list[Note]:
    """Check that no server is writing the binlog set, and return warnings. Raises SqlError 1375 if a process is writing
    it.

    A file's header may be marked as in use although no visible process writes the file. Such a file was copied from a
    running server, or its server crashed. Then the warning says so.
    """
    newest = binlogs.names[-1]
    with binlogs.file(newest) as file:
        if not file.in_use:
            return []
    writer = writer_of(binlogs.path(newest))
    if writer is not None:
        raise _prohibited(f"process {writer} writes this set ({newest}): purge it on that server")
    text = f"{newest} is marked as in use, but no process that can be seen here has it open for writing"
    return [Note("Warning", 1105, text)]


def writer_of(path: Path) -> int | None:
    """Return the id of another process that has the file open for writing, or None when none is found.

    Only root sees the processes of other users, and nobody sees those of other containers. Usually a user who cannot
    inspect a server's process cannot delete the server's files either. Raises OSError for a missing file.
    """
    wanted = path.stat()
    for descriptor in glob.iglob("/proc/[0-9]*/fd/*"):
        process, number = descriptor.split("/")[2::2]
        # The process may close the file after the directory was listed.
        with suppress(OSError):
            if (
                int(process) != os.getpid()
                and os.path.samestat(os.stat(descriptor), wanted)
                and _writes(Path(f"/proc/{process}/fdinfo/{number}"))
            ):
                return int(process)
    return None


def _writes(fdinfo: Path) -> bool:
    flags = re.search(r"^flags:\s*(\d+)", fdinfo.read_text(), re.MULTILINE)
    return flags is not None and int(flags[1], 8) & os.O_ACCMODE != os.O_RDONLY


_BINLOG_NAME = re.compile(r".+\.\d+", re.DOTALL)


def _check_inside(index: Path, paths: Iterable[Path]) -> None:
    """Check that a purge deletes only binlog files in the index file's directory or below it. ``paths`` are the files
    to delete. Raises SqlError 1375.

    An index file may name files anywhere, and dumps read these files. A purge deletes nothing in another directory,
    because the operator of the master has named only the index file. Symbolic links in a file's directory are followed
    before the comparison. If the binlog file itself is a symbolic link, the purge deletes the link, and its target
    stays.
    """
    if index.is_symlink():
        raise _prohibited(
            f"the index file {index} is a symbolic link; start the master with {index.resolve()} instead"
        )
    directory = index.parent.resolve()
    for path in paths:
        where = path.parent.resolve()
        if not where.is_relative_to(directory):
            raise _prohibited(
                f"{path.name} is in {where}, outside of the index file's directory {directory}; purge it on the server"
            )
        if not _BINLOG_NAME.fullmatch(path.name):
            raise _prohibited(f"{path.name} is no name of a binlog file; correct the index file {index}")
        if path.exists() and not stat.S_ISREG(path.stat().st_mode):
            raise _prohibited(f"{path} is no file; correct the index file {index}")


def _prohibited(why: str) -> SqlError:
    return SqlError(1375, "HY000", f"Server configuration does not permit binlog purge: {why}")


log = logger("dumpfilter.master")

_LOOK_SECONDS = 60.0
"""The interval between two checks for expired files, seconds."""


class StoreExpiry:
    """The removal of the old files of a store (received binlog set). One thread calls :meth:`run` regularly.

    A file may be removed if its last write is at least ``seconds`` ago. The oldest files may also be removed while all
    files together have more than ``nbytes`` bytes.

    A file stays while a slave needs it. A slave that is not connected is considered only if it was seen within the time
    of ``--keep-slaves``. The log warns once of a slave that keeps files from expiry.
    """

    def __init__(
        self, service: DumpFilterService, *, seconds: float = math.inf, nbytes: float = math.inf
    ) -> None:
        self._service = service
        self._seconds, self._nbytes = seconds, nbytes
        self._looked_at = 0.0
        self._warned: set[SlaveIdentity] = set()
        """The slaves that keep files from expiry, which the log has named."""
        self._failed = ""

    def run(self) -> list[str]:
        """Remove the expired files of the store (received binlog set) that no slave needs, if the last check is at
        least a minute ago. Return the names of the removed files. Without any limit nothing is removed.
        """
        is_off = self._seconds == self._nbytes == math.inf
        if is_off or time.monotonic() - self._looked_at < _LOOK_SECONDS:
            return []
        self._looked_at = time.monotonic()
        return self.look()

    def look(self) -> list[str]:
        """Remove the expired files of the store (received binlog set) that no slave needs, without regard to the time
        of the last check. Return the names of the removed files. If an error occurs, log it and return an empty list.
        """
        binlogs = self._service.store.binlogs
        try:
            binlogs.refresh()
            names = list(binlogs.names)
            wanted = self._beyond(names)
            kept, holders = self._held(names, wanted)
            self._warn(names[kept:wanted], holders)
            if not kept:
                return []
            gone, _ = purge(binlogs, to=names[kept], is_own=True)
        except (OSError, BinlogError, SqlError) as error:
            if str(error) != self._failed:
                self._failed = str(error)
                log.error(
                    "store not expired",
                    reason=printable(str(error)),
                    hint="the master goes on, and tries again each minute",
                )
            return []
        self._failed = ""
        self._service.store.forget_files(gone)
        # An operator may have purged the same files meanwhile.
        if gone:
            log.info("store expired", first=gone[0], last=gone[-1], files=len(gone))
        return gone

    def _beyond(self, names: list[str]) -> int:
        """Return how many of the oldest files are older than the limit on age, or exceed the limit on the total size.
        ``names`` are all files of the store, oldest first. The newest file never counts.
        """
        found = [self._service.store.binlogs.path(name).stat() for name in names]
        total = sum(file.st_size for file in found)
        oldest = time.time() - self._seconds
        for number, file in enumerate(found[:-1]):
            if file.st_mtime >= oldest and total <= self._nbytes:
                return number
            total -= file.st_size
        return len(names) - 1

    def _held(self, names: list[str], wanted: int) -> tuple[int, list[KnownSlave]]:
        """Find the slaves that keep old files from being removed. ``names`` are all files, oldest first, of which the
        ``wanted`` oldest shall be removed. Return how many files from the oldest on no slave needs, and the slaves that
        need one of the ``wanted`` files.
        """
        places = {name: number for number, name in enumerate(names)}
        oldest = time.time() - self._service.known_slaves.keep_seconds
        holders = [
            slave
            for slave in self._service.known_slaves.all()
            if slave.presence is not Presence.FINISHED
            and places.get(slave.file, wanted) < wanted
            and (slave.presence is Presence.CONNECTED or slave.last_seen_at > oldest)
        ]
        return min((places[slave.file] for slave in holders), default=wanted), holders

    def _warn(self, files: list[str], holders: list[KnownSlave]) -> None:
        before, self._warned = self._warned, {slave.peer.identity for slave in holders}
        for slave in holders:
            if slave.peer.identity in before:
                continue
            log.warning(
                "store not expired because of a slave",
                **slave.peer.fields,
                state=slave.presence.value,
                file=printable(slave.file),
                held_files=len(files),
                hint="the files go once the slave has got past them, or is gone for --keep-slaves and cannot go on; "
                "start it, raise --keep-slaves, or say UNREGISTER REPLICA",
            )
