"""Opening what jobs read. Another file system comes in here."""

from __future__ import annotations

from pathlib import Path

from dumpfilter.binlog.fileset import BinlogFile, BinlogSet


def open_file(path: str) -> BinlogFile:
    """Open a file of a set, by the path that :func:`find_set` gave. Raises BinlogError."""
    return BinlogFile(Path(path))


def find_set(source: str | list[str]) -> list[str]:
    """The paths of a set's files, in order: of an index file, a directory with one, or files one by one. Raises
    BinlogMissing."""
    binlogs = BinlogSet.open(source)
    return [str(binlogs.path(name).resolve()) for name in binlogs.names]
