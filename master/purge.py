"""The statement PURGE BINARY LOGS: the oldest files of a set are removed from its index file, and then deleted."""

from __future__ import annotations

import itertools
import os
import re
import stat
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from dumpfilter.base.errors import BinlogError, OutputError
from dumpfilter.console.sql.result import Note
from dumpfilter.console.sql.server_errors import (
    ER_UNKNOWN_TARGET_BINLOG,
    ER_WARN_PURGE_LOG_IS_ACTIVE,
    SqlError,
)
from dumpfilter.index.fileset import BinlogSet, gtid_index_of
from dumpfilter.index.index_file import INDEX_CHANGES, take_out
from dumpfilter.master.identity import keep_uuid

_EPOCH = 1970
"""The year before which no file was written."""

_PROCESSES = Path("/proc")


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
    with a warning, as in ``MYSQL_BIN_LOG::purge_logs``. With ``is_own`` this process writes the set, which it receives
    from a server, and no other process needs to be looked for. A new index file replaces the old one before any file is
    deleted. Therefore a crash leaves a valid set, at worst with files that the index no longer names. A file's GTID
    index is deleted with the file.

    Raises SqlError. 1373: the set has no file ``to``. 1375: a server is writing the set, or the set has no index file.
    1375, too: a file to delete stands outside of the index file's directory, or is no binlog file. 1377: the system
    refused, for example because of missing permissions, or the index file has just changed. An error before the
    replacement of the index changes nothing.
    """
    index = binlogs.index
    if index is None:
        raise _prohibited("the set is served file by file, without an index")
    with _failures():
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
    return going, notes + warnings


@contextmanager
def _failures() -> Iterator[None]:
    """Raise SqlError 1377 when the ``with`` block raises an error of the operating system or of the binlog set."""
    try:
        yield
    except (OSError, OutputError, BinlogError) as error:
        raise SqlError(1377, "HY000", f"Fatal error during log purge: {error}") from error


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
    for process in _PROCESSES.glob("[0-9]*"):
        if int(process.name) == os.getpid():
            continue
        try:
            descriptors = os.listdir(process / "fd")
        except OSError:
            continue
        for number in descriptors:
            try:
                found = os.stat(process / "fd" / number)
                if (found.st_dev, found.st_ino) == (wanted.st_dev, wanted.st_ino) and _writes(
                    process, number
                ):
                    return int(process.name)
            except OSError:
                # The process closed the file descriptor after the directory was listed.
                continue
    return None


def _writes(process: Path, number: str) -> bool:
    for line in (process / "fdinfo" / number).read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "flags":
            return int(value, 8) & os.O_ACCMODE != os.O_RDONLY
    return False


_BINLOG_NAME = re.compile(r".+\.\d+", re.DOTALL)


def _check_inside(index: Path, paths: Iterable[Path]) -> None:
    """Check that a purge deletes only binlog files in the index file's directory or below it. Raises SqlError 1375.

    An index file may name files anywhere, and dumps read these files. But the operator of the master has named only the
    index file, so that a purge deletes nothing in another directory. Symbolic links in a file's directory are followed
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
