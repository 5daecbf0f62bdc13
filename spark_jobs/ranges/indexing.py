"""The index of a binlog set, the first step of every Spark job.

One Spark task for each file divides the file into ranges, which are consecutive transactions for one later task.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Literal, Protocol

from dumpfilter.binlog.format import Family, FormatDescription, NameRules
from dumpfilter.errors import BinlogMissing
from dumpfilter.index.addresses import local_bytes
from dumpfilter.index.fileset import BinlogSet
from dumpfilter.index.subjects import Subject
from dumpfilter.index.time_spans import TimeSpans, joined
from dumpfilter.spark_jobs.engines.runner import Amount, Runner
from dumpfilter.spark_jobs.ranges.range_index import (
    RANGE_SIZE,
    FileIndex,
    XaLook,
    follow_xa,
    index_file,
    look_for_xa,
    ranges_of,
)
from dumpfilter.spark_jobs.ranges.ranges import BLOCK_SIZE, Range, amount_of

NONE_KNOWN: Mapping[int, FileIndex] = MappingProxyType({})
"""An empty mapping that cannot be changed, for a set without known files."""

OnCorrupt = Literal["stop", "skip"]
"""The treatment of a damaged file. ``stop`` ends the job with an error. ``skip`` leaves out the file from the damage
on, with a warning."""


@dataclass(frozen=True)
class ReadOptions:
    """The options for reading a binlog set in a Spark job. Sizes are in bytes."""

    on_corrupt: OnCorrupt = "stop"
    verify: bool = True
    """Whether the events' checksums are checked."""
    range_size: int = RANGE_SIZE
    """The target size of a range, which is the part of a file that one Spark task works on."""
    block_size: int = BLOCK_SIZE
    """The number of bytes of a range that a task reads and scans at a time."""

    @property
    def verify_ranges(self) -> bool:
        """True if the tasks that read the ranges check the checksums.

        With ``on_corrupt="skip"`` the checksums are checked earlier, when each file is divided into ranges, since the
        ranges must end before the damage.
        """
        return self.verify and self.on_corrupt == "stop"


@dataclass(frozen=True)
class IndexedSet:
    """The files of a binlog set and the ranges into which they are divided, in the order of the set.

    A range is consecutive transactions of one file that one Spark task works on.
    """

    files: tuple[FileIndex, ...]
    ranges: tuple[Range, ...]
    unknown_xa: int = 0
    """The number of XA transactions that are committed or rolled back in the set and were prepared before the set.
    Their tables are unknown."""
    subjects: frozenset[Subject] = frozenset()
    """All tables and statements of the set if ``unknown_xa`` is not 0; otherwise empty.

    The end of an XA transaction with unknown tables goes to every output that the set's tables and statements have.
    """

    @property
    def has_xa(self) -> bool:
        """True if a file has an XA COMMIT or XA ROLLBACK of a prepared transaction."""
        return any(one.has_xa for one in self.files)

    @property
    def family(self) -> Family:
        """The family (MySQL or MariaDB) of the server that wrote the newest file."""
        return self.newest.family

    @property
    def names(self) -> NameRules:
        """The rules by which the server that wrote the newest file compares the names of databases and tables."""
        return self.newest.names

    @property
    def newest(self) -> FormatDescription:
        """The format description event of the newest file that could be read."""
        found = next(one for one in reversed(self.files) if one.format_description)
        return FormatDescription.parse(found.format_description, file=found.name)

    @property
    def times(self) -> TimeSpans:
        """The spans of time in which the set's transactions have events, in ascending order."""
        return joined(one.times for one in self.files)

    @property
    def nbytes(self) -> int:
        """The total size of all ranges, bytes."""
        return sum(one.end - one.start for one in self.ranges)

    def warnings(self) -> list[str]:
        """Return a warning for each damaged file, which says which part of the file is skipped and why."""
        return [
            f"{one.damage.file}: skipped {skipped_part(one.damage)}: {one.damage.reason}"
            for one in self.files
            if one.damage is not None
        ]

    def told_of_xa(self, where: str) -> list[str]:
        """Return a warning about XA transactions that end in the set and were prepared before the set, if there are
        any.

        ``where`` says what the job does with their ends. It completes the sentence "the XA COMMIT or XA ROLLBACK is …",
        for example with "in every binlog".
        """
        if not self.unknown_xa:
            return []
        end = "transactions end" if self.unknown_xa > 1 else "transaction ends"
        return [
            f"{self.unknown_xa} XA {end} here without having begun here: the XA COMMIT or XA ROLLBACK is {where}"
        ]


class SkippedPart(Protocol):
    """The place from which on a file is skipped, and the place of the damage."""

    @property
    def position(self) -> int | None:
        """The offset from which on the file is skipped; None if the whole file is skipped."""

    @property
    def damaged_at(self) -> int | None:
        """The offset of the damage."""


def skipped_part(skipped: SkippedPart) -> str:
    """Return words for the skipped part of a damaged file, for a warning."""
    begin, damaged_at = skipped.position, skipped.damaged_at
    if begin is None:
        return "all of it"
    if damaged_at is None or damaged_at == begin:
        return f"from {begin} on"
    return f"from {begin} on, since the transaction that begins there is damaged at {damaged_at}"


def index_set(source: str | Path | Sequence[str | Path], run: Runner, options: ReadOptions) -> IndexedSet:
    """Divide all files of a binlog set into ranges, with a Spark task for each file.

    If the set has XA transactions, a second step finds those whose XA PREPARE and end are in different ranges.
    ``source`` is the set's index file, a directory with an index file, or a list of binlog files. ``run`` runs the
    tasks. Raises BinlogError with file and position.
    """
    return index_paths(BinlogSet.open(source).addresses, run, options)


def index_paths(
    paths: Sequence[str], run: Runner, options: ReadOptions, known: Mapping[int, FileIndex] = NONE_KNOWN
) -> IndexedSet:
    """Divide files into ranges as :func:`index_set` does, except for the files that are known from an earlier run.

    ``known`` has the index of each known file by its number among ``paths``. A known file gets no ranges. Known files
    must not be given if the set has XA transactions, which reach from one file into another.
    """
    index = partial(index_numbered, files=len(paths), options=options)
    new = [(number, path) for number, path in enumerate(paths) if number not in known]
    amount = Amount("files", local_bytes([path for _, path in new]))
    read = run(index, new, "indexing", amount=amount)
    found = dict(zip((number for number, _ in new), read, strict=True)) | {
        number: replace(one, number=number, bounds=()) for number, one in known.items()
    }
    files = tuple(found[number] for number in range(len(paths)))
    if not any(one.format_description for one in files):
        damage = files[0].damage
        assert damage is not None
        raise BinlogMissing(f"no file of the set can be read; the first: {damage.reason}", file=damage.file)
    ranges = ranges_of(files)
    if known or not any(one.has_xa for one in files):
        return IndexedSet(files, tuple(ranges))
    look = partial(_look, paths=tuple(paths), block_size=options.block_size)
    looks = run(look, ranges, "following XA transactions", amount=amount_of(ranges))
    ranges, unknown = follow_xa(ranges, looks)
    everything: frozenset[Subject] = frozenset()
    if unknown:
        everything = everything.union(*(found.subjects for found in looks))
    return IndexedSet(files, tuple(ranges), len(unknown), everything)


def index_numbered(numbered: tuple[int, str], *, files: int, options: ReadOptions) -> FileIndex:
    """Divide one of a set's ``files`` into ranges, given its number and path, as :func:`index_file` does."""
    number, path = numbered
    skip = options.on_corrupt == "skip"
    return index_file(
        number,
        path,
        last=number == files - 1,
        range_size=options.range_size,
        block_size=options.block_size,
        # Ranges must end before the first event with a wrong checksum. Without skipping, their tasks check checksums.
        verify=options.verify and skip,
        skip=skip,
    )


def _look(wanted: Range, *, paths: tuple[str, ...], block_size: int) -> XaLook:
    return look_for_xa(paths[wanted.file], wanted, block_size=block_size)
