"""The tasks that read the binlogs for a simulation. Each counts the transactions of some ranges for all filters."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass

from dumpfilter.analyse.traffic.transactions import (
    GivenFilter,
    Pattern,
    TransactionTally,
    TransactionTraffic,
    Verdicts,
    join,
)
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.index.fileset import open_file
from dumpfilter.index.subjects import Subjects
from dumpfilter.spark_jobs.ranges.range_index import ReadRanges, state_of_thread
from dumpfilter.spark_jobs.ranges.ranges import Range
from dumpfilter.spark_jobs.samples import Samples
from dumpfilter.spark_jobs.simulation.samples import take_samples
from dumpfilter.spark_jobs.split.ownership import encoded_schemas


@dataclass(frozen=True)
class Counted:
    """The traffic of consecutive ranges by transaction."""

    traffic: TransactionTraffic
    samples: Samples
    subjects: frozenset[Pattern]
    """The filters that send each table or statement, and the schemas to which it belongs. Equal ones are listed once.

    A process lists only those that it has not yet listed.
    """


@dataclass(frozen=True, kw_only=True)
class CountRanges(ReadRanges):
    """A picklable task that counts the transactions of some ranges for all filters."""

    job: str
    filters: tuple[GivenFilter, ...]
    compressed: bool = False
    """Whether to take samples of the schemas as zstd."""
    split: bool = False
    """Whether to keep events that no filter is sent, because a split by schema sends them."""

    def __call__(self, ranges: Iterable[Range]) -> Counted:
        """Read the ranges and return their traffic. Raises BinlogError with file and position."""
        subjects, sources, tally = state_of_thread(self.job, self._state)
        samples = Samples()
        parts = []
        for wanted in ranges:
            with open_file(wanted.path) as file:
                for number, block in enumerate(self.blocks(file, wanted, subjects, sources)):
                    tally.add(block.segment, block.data, block.segment.start, file.read)
                    if self.compressed and not number:
                        take_samples(samples, block, subjects, encoded_schemas, wanted.number)
            parts.append(tally.take(wanted.file))
        return Counted(
            join(parts or [tally.take()]),
            samples,
            tally.new_subjects() if self.split else frozenset(),
        )

    def _state(self) -> tuple[Subjects, SourceNumbers, TransactionTally]:
        with _lock:
            if self.job not in _verdicts:
                _verdicts.clear()
                _verdicts[self.job] = Verdicts([one for one, _ in self.filters])
            verdicts = _verdicts[self.job]
        subjects, sources = Subjects(), SourceNumbers()
        tally = TransactionTally(
            subjects,
            sources,
            filters=self.filters,
            verdicts=verdicts,
            schemas_of=encoded_schemas if self.compressed or self.split else None,
            keep_all=self.split,
        )
        return subjects, sources, tally


_verdicts: dict[str, Verdicts] = {}
"""The verdicts of the filters of the last job, which all threads of the process share."""
_lock = threading.Lock()
