"""Indexing a set: every file a task; what all jobs begin with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from dumpfilter.binlog.format import Family, FormatDescription, NameRules
from dumpfilter.errors import BinlogMissing
from dumpfilter.index.subjects import Subject
from dumpfilter.spark_jobs.ranges.files import find_set
from dumpfilter.spark_jobs.ranges.range_index import (
    RANGE_SIZE,
    FileIndex,
    XaLook,
    follow_xa,
    index_file,
    look_for_xa,
    ranges_of,
)
from dumpfilter.spark_jobs.ranges.ranges import BLOCK_SIZE, Range
from dumpfilter.spark_jobs.spark.jobs import Runner

OnCorrupt = Literal["stop", "skip"]
"""What is done with a damaged file: the job fails, or the file is taken as far as it is whole and that is told."""


@dataclass(frozen=True)
class ReadOptions:
    """How a set is read. Sizes in bytes; ``verify``: the events' checksums."""

    on_corrupt: OnCorrupt = "stop"
    verify: bool = True
    range_size: int = RANGE_SIZE
    block_size: int = BLOCK_SIZE

    @property
    def verify_ranges(self) -> bool:
        """Whether who reads the ranges verifies; else the index pass has, which has to know where damage begins."""
        return self.verify and self.on_corrupt == "stop"


@dataclass(frozen=True)
class IndexedSet:
    """A set's files and their ranges, in order."""

    files: tuple[FileIndex, ...]
    ranges: tuple[Range, ...]
    unknown_xa: int = 0
    """XA transactions that end in it without having begun in it."""
    subjects: frozenset[Subject] = frozenset()
    """All that it holds, where there are any such."""

    @property
    def family(self) -> Family:
        """Of the server that wrote the newest file."""
        return self.newest.family

    @property
    def names(self) -> NameRules:
        """The collation for names of the same server."""
        return self.newest.names

    @property
    def newest(self) -> FormatDescription:
        """The newest file's format description."""
        found = next(one for one in reversed(self.files) if one.format_description)
        return FormatDescription.parse(found.format_description, file=found.name)

    @property
    def first_time(self) -> int | None:
        """When its first transaction began to be written, Unix seconds; None without one."""
        return min((one.first_time for one in self.files if one.first_time is not None), default=None)

    @property
    def last_time(self) -> int | None:
        """The same of its last."""
        return max((one.last_time for one in self.files if one.last_time is not None), default=None)

    @property
    def nbytes(self) -> int:
        """Bytes in the ranges."""
        return sum(one.end - one.start for one in self.ranges)

    def warnings(self) -> list[str]:
        """What is to be told of damage."""
        return [
            f"{one.damage.file}: {passed_over(one.damage.position)} passed over: {one.damage.reason}"
            for one in self.files
            if one.damage is not None
        ]

    def told_of_xa(self, where: str) -> list[str]:
        """What is to be told of ends of XA transactions that did not begin in it; they are ``where``."""
        if not self.unknown_xa:
            return []
        end = "transactions end" if self.unknown_xa > 1 else "transaction ends"
        return [
            f"{self.unknown_xa} XA {end} here without having begun here: the XA COMMIT or XA ROLLBACK is {where}"
        ]


def passed_over(position: int | None) -> str:
    """What of a file was passed over."""
    return "all of it" if position is None else f"from {position} on"


def index_set(source: str | Path | Sequence[str | Path], run: Runner, options: ReadOptions) -> IndexedSet:
    """Index a set. Raises BinlogError with file and position."""
    paths = find_set(str(source) if isinstance(source, str | Path) else [str(one) for one in source])
    index = partial(_index, files=len(paths), options=options)
    files = tuple(run(index, list(enumerate(paths)), "indexing"))
    if not any(one.format_description for one in files):
        damage = files[0].damage
        assert damage is not None
        raise BinlogMissing(f"no file of the set can be read; the first: {damage.reason}", file=damage.file)
    ranges = ranges_of(files)
    if not any(one.has_xa for one in files):
        return IndexedSet(files, tuple(ranges))
    look = partial(_look, paths=tuple(paths), block_size=options.block_size)
    looks = run(look, ranges, "following XA transactions")
    ranges, unknown = follow_xa(ranges, looks)
    everything: frozenset[Subject] = frozenset()
    if unknown:
        everything = everything.union(*(found.subjects for found in looks))
    return IndexedSet(files, tuple(ranges), len(unknown), everything)


def _index(numbered: tuple[int, str], *, files: int, options: ReadOptions) -> FileIndex:
    number, path = numbered
    skip = options.on_corrupt == "skip"
    return index_file(
        number,
        path,
        last=number == files - 1,
        range_size=options.range_size,
        block_size=options.block_size,
        verify=options.verify and skip,
        skip=skip,
    )


def _look(wanted: Range, *, paths: tuple[str, ...], block_size: int) -> XaLook:
    return look_for_xa(paths[wanted.file], wanted, block_size=block_size)
