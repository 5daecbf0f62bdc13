"""The stream of events that a slave with a given filter would be sent, for programs that print binlogs."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple, Unpack

import numpy as np
import numpy.typing as npt

from dumpfilter.binlog import roles as R
from dumpfilter.binlog.format import FormatDescription
from dumpfilter.dump.chunk import ChunkPlan, Counts, render
from dumpfilter.dump.set_pass import PassOptions, SetPass
from dumpfilter.filter.base import ReplicationFilter
from dumpfilter.filter.flags import FILTER_BINLOG_SEND_F, FILTER_UNDECIDED_F
from dumpfilter.index.fileset import BinlogSet

SIZE_AT = 9
"""The offset of an event's size in its header."""


class KeptEvents(NamedTuple):
    """Consecutive events of one binlog file, with their bytes as a slave would be sent them."""

    file: str
    fd: FormatDescription
    """The content of the format description event by which the events must be read. For a format description event it
    is the event's own content.
    """
    data: npt.NDArray[np.uint8]
    """The bytes of the events. Event k has ``size[k]`` bytes from ``start[k]`` on."""
    start: npt.NDArray[np.int64]
    size: npt.NDArray[np.int64]
    offset: npt.NDArray[np.int64]
    """The byte offsets in ``file`` at which the original events begin."""
    undecided: bool = False
    """Whether the events are a single statement that the filter cannot decide."""

    def part(self, first: int, last: int) -> KeptEvents:
        """Return the events from number ``first`` up to, but without, ``last``."""
        if last - first == self.start.size:
            return self
        begin = self.start[first]
        return self._replace(
            data=self.data[begin : self.start[last - 1] + self.size[last - 1]],
            start=self.start[first:last] - begin,
            size=self.size[first:last],
            offset=self.offset[first:last],
        )


class PassedStatement(NamedTuple):
    """A Query event (or another event with a statement's text) that a slave would not be sent."""

    file: str
    fd: FormatDescription
    offset: int
    event: bytes
    passes: bool
    """Whether the filter passes the statement. Then only the selection of transactions by position, time or GTID
    leaves the statement out.
    """


def kept_pieces(
    binlogs: BinlogSet,
    rules: ReplicationFilter,
    *,
    counts: Counts | None = None,
    left_out: Callable[[PassedStatement], None] | None = None,
    **options: Unpack[PassOptions],
) -> Iterator[KeptEvents]:
    """Yield the events of a binlog set that a slave with this filter would be sent, in runs of consecutive events of
    one file. Each file begins with its format description event, which is yielded alone.

    The Gap events of a relay log (notes about dropped transactions) are yielded, too, for people who read the log.

    Raises BinlogError where a file is damaged.

    Parameters:
        rules: the slave's filter.
        counts: receives the numbers of events and bytes that were read, sent and dropped.
        left_out: called for each statement that is not yielded, between the events that precede and follow the
            statement in the binlog. With this function, each yielded statement is a run by itself.
        options: which events of the set are read, and further filters (:class:`~dumpfilter.dump.set_pass.PassOptions`).
    """
    one = SetPass(binlogs, rules, options, sends_gaps=True)
    for file, segments in one.files():
        yield one_event(file.name, file.format_description, 4, file.format_description.raw)
        for segment, plans, reader in segments:
            fd = segment.format_description
            # A chunk is as large as a segment, so that there is one plan.
            (plan,) = plans
            if counts is not None:
                counts.add(plan.counts)
            kept = _events(plan, render(plan, reader.data, reader.data_offset, file.read, fd), fd)
            if left_out is None:
                if kept.start.size:
                    yield kept
                continue
            statements = np.flatnonzero((segment.role & R.ROLE_MASK == R.STATEMENT) & (segment.subject >= 0))
            flags = one.flags.array()[segment.subject[statements]]
            offsets = segment.offset[statements]
            undecided = set(offsets[flags & FILTER_UNDECIDED_F != 0].tolist())
            passed = deque(
                PassedStatement(segment.file, fd, at, file.read(at, size), passes)
                for at, size, passes, is_kept in zip(
                    offsets.tolist(),
                    segment.size[statements].tolist(),
                    (flags & FILTER_BINLOG_SEND_F != 0).tolist(),
                    np.isin(offsets, kept.offset).tolist(),
                    strict=True,
                )
                if not is_kept
            )
            begins, ends = (np.searchsorted(kept.offset, offsets, side) for side in ("left", "right"))
            bounds = np.unique(np.concatenate(([0], begins, ends, [kept.start.size]))).tolist()
            for first, last in itertools.pairwise(bounds):
                offset = int(kept.offset[first])
                while passed and passed[0].offset < offset:
                    left_out(passed.popleft())
                yield kept.part(first, last)._replace(undecided=offset in undecided)
            for statement in passed:
                left_out(statement)


def one_event(file: str, fd: FormatDescription, offset: int, event: bytes) -> KeptEvents:
    """Return a single event as a :class:`KeptEvents`. ``fd`` is the format description event of the binlog file
    ``file``, and ``offset`` is the byte offset in the file at which the original event begins.
    """
    start, size, place = (np.array([one], np.int64) for one in (0, len(event), offset))
    return KeptEvents(file, fd, np.frombuffer(event, np.uint8), start, size, place)


def _events(plan: ChunkPlan, data: bytes, fd: FormatDescription) -> KeptEvents:
    start, size, offset = [], [], []
    at = 0
    for place, length, _ in plan.ranges.tolist():
        end = at + length
        while at < end:
            one = int.from_bytes(data[at + SIZE_AT : at + SIZE_AT + 4], "little")
            start.append(at)
            size.append(one)
            offset.append(place)
            at += one
            place += one
    starts, sizes, offsets = (np.array(column, np.int64) for column in (start, size, offset))
    return KeptEvents(plan.file, fd, np.frombuffer(data, np.uint8), starts, sizes, offsets)
