"""The tasks that read the binlogs for a simulation. Each counts the transactions of some ranges for all filters."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass

from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.index.fileset import open_file
from dumpfilter.index.subjects import Subjects
from dumpfilter.spark_jobs.ranges.range_index import FileIndex
from dumpfilter.spark_jobs.ranges.ranges import BLOCK_SIZE, Range, blocks_of
from dumpfilter.spark_jobs.simulation.samples import Samples
from dumpfilter.spark_jobs.split.ownership import encoded_schemas
from dumpfilter.traffic.transactions import (
    GivenFilter,
    Pattern,
    TransactionTally,
    TransactionTraffic,
    Verdicts,
    join,
)


@dataclass(frozen=True)
class Counted:
    """The traffic of consecutive ranges by transaction."""

    traffic: TransactionTraffic
    samples: Samples
    subjects: frozenset[Pattern]
    """The filters that send each table or statement, and the schemas to which it belongs. Equal ones are listed once.

    A process lists only those that it has not yet listed.
    """


@dataclass(frozen=True)
class CountRanges:
    """A picklable task that counts the transactions of some ranges for all filters."""

    job: str
    files: tuple[FileIndex, ...]
    filters: tuple[GivenFilter, ...]
    compressed: bool = False
    """Whether to take samples of the schemas as zstd."""
    split: bool = False
    """Whether to keep events that no filter is sent, because a split by schema sends them."""
    verify: bool = True
    block_size: int = BLOCK_SIZE

    def __call__(self, ranges: Iterable[Range]) -> Counted:
        """Read the ranges and return their traffic. Raises BinlogError with file and position."""
        state = _thread_state(self)
        samples = Samples()
        parts = []
        for wanted in ranges:
            with open_file(self.files[wanted.file].path) as file:
                first = self.compressed
                for block in blocks_of(
                    file,
                    wanted,
                    state.subjects,
                    state.sources,
                    verify=self.verify,
                    block_size=self.block_size,
                ):
                    state.tally.add(block.segment, block.data, block.segment.start, file.read)
                    if first:
                        samples.take(block, state.subjects, encoded_schemas, wanted.number)
                        first = False
            parts.append(state.tally.take(wanted.file))
        return Counted(
            join(parts or [state.tally.take()]),
            samples,
            state.tally.new_subjects() if self.split else frozenset(),
        )


@dataclass(frozen=True)
class _ThreadState:
    """Objects that the tasks of one thread share, so that conditions are looked up only once."""

    job: str
    subjects: Subjects
    sources: SourceNumbers
    tally: TransactionTally


class _Kept(threading.local):
    state: _ThreadState | None = None


_kept = _Kept()
_verdicts: dict[str, Verdicts] = {}
"""The verdicts of the filters of the last job, which all threads of the process share."""
_lock = threading.Lock()


def _thread_state(task: CountRanges) -> _ThreadState:
    state = _kept.state
    if state is None or state.job != task.job:
        with _lock:
            if task.job not in _verdicts:
                _verdicts.clear()
                _verdicts[task.job] = Verdicts([one for one, _ in task.filters])
            verdicts = _verdicts[task.job]
        subjects, sources = Subjects(), SourceNumbers()
        tally = TransactionTally(
            subjects,
            sources,
            filters=task.filters,
            verdicts=verdicts,
            schemas_of=encoded_schemas if task.compressed or task.split else None,
            keep_all=task.split,
        )
        state = _kept.state = _ThreadState(task.job, subjects, sources, tally)
    return state
