"""The pass over the binlogs: a tally from which the traffic of any filter follows, and the parts of compressed
transactions.

The tally does not tell the size of a compressed transaction of which a filter drops a part. The search for rules takes
the part's share of the compressed bytes. The figures of the rules that are suggested come from a second, exact pass.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.filter.base import ReplicationFilter
from dumpfilter.filter.flags import TableFlags
from dumpfilter.filter.origin import OriginFilter
from dumpfilter.index.segment import Segment
from dumpfilter.index.subjects import Subject, Subjects
from dumpfilter.spark_jobs.engines.runner import Runner
from dumpfilter.spark_jobs.ranges.indexing import IndexedSet, ReadOptions
from dumpfilter.spark_jobs.ranges.ranges import Range, amount_of, grouped
from dumpfilter.spark_jobs.ranges.tasks import ReadRanges, state_of_thread
from dumpfilter.traffic.facts import Facts, merge
from dumpfilter.traffic.tally import Tally

GivenFilter = tuple[ReplicationFilter, OriginFilter | None]

_BUCKET_SECONDS = 1 << 40
"""The length of a time bucket, seconds. It is longer than any binlog, because suggestions have no use for times."""

_MOST_MIXES = 20_000
"""The most different sets of tables in compressed transactions whose parts are told apart.

A transaction with another set counts whole as soon as one of its tables is sent.
"""


@dataclass
class Mix:
    """The compressed transactions that change the same tables and statements, added up."""

    stored: int = 0
    """The bytes of the transactions' Transaction_payload events."""
    uncompressed: int = 0
    """The bytes of all events inside, without compression."""
    of_subject: dict[Subject, int] = field(default_factory=dict)
    """The bytes of the events of each table and statement, without compression."""

    def add(self, other: Mix) -> None:
        """Add the bytes of other transactions with the same tables."""
        self.stored += other.stored
        self.uncompressed += other.uncompressed
        for subject, nbytes in other.of_subject.items():
            self.of_subject[subject] = self.of_subject.get(subject, 0) + nbytes


Mixes = dict[frozenset[Subject], Mix]


@dataclass
class Measured:
    """The measurements of a binlog set, or of a part of it."""

    tallied: Facts
    mixes: Mixes = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class MeasureRanges(ReadRanges):
    """A task for threads of this process that tallies some ranges (parts of binlog files).

    Each thread has a tally of its own, so that it asks each filter once about each table. Without ``filters`` the tally
    holds for any filter whose slave wants the ``origins``.
    """

    job: str
    filters: Sequence[GivenFilter]

    def __call__(self, ranges: Iterable[Range]) -> Measured:
        """Read the ranges and return their measurements. Raises BinlogError with file and position."""
        subjects, sources, tally = state_of_thread(self.job, self._state)
        mixes: Mixes = {}
        tally.take()
        for wanted in ranges:
            with self.open(wanted.file) as file:
                for block in self.blocks(file, wanted, subjects, sources):
                    tally.add(block.segment, file.read)
                    _add_mixes(block.segment, subjects, mixes)
        return Measured(tally.take(), mixes)

    def _state(self) -> tuple[Subjects, SourceNumbers, Tally]:
        subjects, sources = Subjects(), SourceNumbers()
        given = [(TableFlags(one, subjects), origin) for one, origin in self.filters]
        return subjects, sources, Tally(subjects, sources, filters=given, bucket_seconds=_BUCKET_SECONDS)


def _add_mixes(segment: Segment, subjects: Subjects, mixes: Mixes) -> None:
    """Add up the parts of the compressed transactions of a segment that change several tables."""
    for event, inner in segment.payloads.items():
        owned = inner.subject >= 0
        numbers = np.unique(inner.subject[owned])
        if len(numbers) < 2:
            continue
        sizes = np.bincount(
            np.searchsorted(numbers, inner.subject[owned]), weights=inner.size[owned], minlength=len(numbers)
        )
        of_subject: dict[Subject, int] = {}
        for number, nbytes in zip(numbers.tolist(), sizes.tolist(), strict=True):
            # The bytes of an XA COMMIT belong to a set of tables, and stay with the whole transaction.
            if subjects.members(number) is None:
                subject = subjects[number]
                of_subject[subject] = of_subject.get(subject, 0) + int(nbytes)
        key = frozenset(of_subject)
        if len(key) > 1 and (key in mixes or len(mixes) < _MOST_MIXES):
            mix = Mix(int(segment.size[event]), int(inner.size.sum()), of_subject)
            mixes.setdefault(key, Mix()).add(mix)


def measure(
    indexed: IndexedSet, filters: Sequence[GivenFilter], run: Runner, options: ReadOptions, label: str
) -> Measured:
    """Tally a binlog set. ``run`` runs the tasks. Raises BinlogError with file and position.

    The result holds for ``filters``, by their numbers. If no filter cuts a compressed transaction, it holds for all
    filters.
    """
    task = MeasureRanges(
        job=uuid.uuid4().hex,
        files=indexed.files,
        filters=filters,
        verify=options.verify_ranges,
        block_size=options.block_size,
    )
    groups = grouped(indexed.ranges, options.range_size)
    parts = run(task, groups, label, amount=amount_of(indexed.ranges)) or [task([])]
    found = Measured(merge([part.tallied for part in parts]))
    for part in parts:
        for key, mix in part.mixes.items():
            found.mixes.setdefault(key, Mix()).add(mix)
    return found


def for_any_filter(tallied: Facts) -> Facts:
    """Return a tally that was given filters without rules only, to be used with any filter.

    A compressed transaction with several tables then counts whole as soon as a filter sends one of the tables.
    """
    return replace(tallied, given_only=False)
