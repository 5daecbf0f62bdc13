"""The common parts of tasks that read ranges of a binlog set, and the state that the tasks of a thread share."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.index.fileset import BinlogFile, open_file
from dumpfilter.index.subjects import Subjects
from dumpfilter.spark_jobs.ranges.range_index import FileIndex
from dumpfilter.spark_jobs.ranges.ranges import BLOCK_SIZE, Block, Range, blocks_of

S = TypeVar("S")


@dataclass(frozen=True, kw_only=True)
class ReadRanges:
    """The base class of picklable tasks that read ranges (parts of binlog files)."""

    files: tuple[FileIndex, ...]
    verify: bool = True
    """Whether the events' checksums are checked."""
    block_size: int = BLOCK_SIZE
    """The number of bytes of a range that a task reads at a time."""

    def open(self, number: int) -> BinlogFile:
        """Open the file with a number."""
        return open_file(self.files[number].path)

    def blocks(
        self, file: BinlogFile, wanted: Range, subjects: Subjects, sources: SourceNumbers
    ) -> Iterator[Block]:
        """Yield the blocks of a range of an open file (:func:`~dumpfilter.spark_jobs.ranges.ranges.blocks_of`)."""
        return blocks_of(file, wanted, subjects, sources, verify=self.verify, block_size=self.block_size)


class _OfThread(threading.local):
    job: object = None
    state: Any = None


_of_thread = _OfThread()


def state_of_thread(job: object, make: Callable[[], S]) -> S:
    """Return the state that all tasks of this thread share for a job, so that each filter is asked once about a table.

    ``make`` makes the state when the thread meets another job. A thread works on one task at a time, so the tasks need
    no lock.
    """
    if _of_thread.job != job:
        _of_thread.job, _of_thread.state = job, make()
    state: S = _of_thread.state
    return state
