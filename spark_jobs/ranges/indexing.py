"""Indexing a binlog set, the first step of every job. Each file is a task."""

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
"""The treatment of a damaged file: stop the job, or skip the file from the damage on and warn."""


@dataclass(frozen=True)
class ReadOptions:
    """The options for reading a binlog set. Sizes are in bytes. ``verify`` checks the events' checksums."""

    on_corrupt: OnCorrupt = "stop"
    verify: bool = True
    range_size: int = RANGE_SIZE
    block_size: int = BLOCK_SIZE

    @property
    def verify_ranges(self) -> bool:
        """True when the tasks that read the ranges verify checksums. With ``on_corrupt="skip"`` the index pass
        verifies checksums instead, since the ranges must end before the damage."""
        return self.verify and self.on_corrupt == "stop"


@dataclass(frozen=True)
class IndexedSet:
    """The files and ranges of a binlog set, in order."""

    files: tuple[FileIndex, ...]
    ranges: tuple[Range, ...]
    unknown_xa: int = 0
    """The number of XA transactions that end in the set and were prepared before the set."""
    subjects: frozenset[Subject] = frozenset()
    """All subjects of the set if ``unknown_xa`` is not 0; otherwise empty."""

    @property
    def family(self) -> Family:
        """The family of the server that wrote the newest file."""
        return self.newest.family

    @property
    def names(self) -> NameRules:
        """The rules by which the server that wrote the newest file compares names."""
        return self.newest.names

    @property
    def newest(self) -> FormatDescription:
        """The newest file's format description."""
        found = next(one for one in reversed(self.files) if one.format_description)
        return FormatDescription.parse(found.format_description, file=found.name)

    @property
    def first_time(self) -> int | None:
        """The time at which the set's first transaction began, Unix seconds; None without a transaction."""
        return min((one.first_time for one in self.files if one.first_time is not None), default=None)

    @property
    def last_time(self) -> int | None:
        """The time at which the set's last transaction began, Unix seconds; None without a transaction."""
        return max((one.last_time for one in self.files if one.last_time is not None), default=None)

    @property
    def nbytes(self) -> int:
        """The size of all ranges, bytes."""
        return sum(one.end - one.start for one in self.ranges)

    def warnings(self) -> list[str]:
        """Return a warning for each damaged file."""
        return [
            f"{one.damage.file}: skipped {skipped_part(one.damage.position)}: {one.damage.reason}"
            for one in self.files
            if one.damage is not None
        ]

    def told_of_xa(self, where: str) -> list[str]:
        """Return a warning about XA transactions that end in the set and were prepared before it.

        ``where`` completes the sentence "the XA COMMIT or XA ROLLBACK is …".
        """
        if not self.unknown_xa:
            return []
        end = "transactions end" if self.unknown_xa > 1 else "transaction ends"
        return [
            f"{self.unknown_xa} XA {end} here without having begun here: the XA COMMIT or XA ROLLBACK is {where}"
        ]


def skipped_part(position: int | None) -> str:
    """Return a phrase for the part of a damaged file that is skipped. ``position`` is the damage; None skips the
    whole file."""
    return "all of it" if position is None else f"from {position} on"


def index_set(source: str | Path | Sequence[str | Path], run: Runner, options: ReadOptions) -> IndexedSet:
    """Index a binlog set. Raises BinlogError with file and position."""
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
