"""The selection of transactions by position, time and GTID, with the options of ``mysqlbinlog`` such as
``--start-position``.

A selection takes whole transactions only. ``mysqlbinlog`` can cut a transaction in two, and then prints a part that
cannot be replayed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from dumpfilter.base.errors import PositionError
from dumpfilter.binlog import roles as R
from dumpfilter.binlog.gtid import GtidSet
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.dump.exclusion import contained
from dumpfilter.index.fileset import BinlogSet, SegmentReader
from dumpfilter.index.segment import Segment
from dumpfilter.index.subjects import Subjects

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Range:
    """The positions, times and GTIDs of the transactions to take. None stands for no bound.

    Positions are file offsets, bytes. Times are Unix seconds, and the first event of a transaction gives its time.
    """

    start_position: int | None = None
    """The offset in the first file of the first transaction that is taken."""
    stop_position: int | None = None
    """The offset in the last file of the first transaction that is not taken."""
    start_time: int | None = None
    """The selection begins with the first transaction at or after this time."""
    stop_time: int | None = None
    """The selection ends before the first transaction at or after this time."""
    include: GtidSet | None = None
    """Only transactions with these GTIDs are taken. Transactions without a GTID are not taken if this set is given."""
    exclude: GtidSet | None = None
    """Transactions with these GTIDs are not taken."""


def on_boundaries(
    wanted: Range, binlogs: BinlogSet, *, warn: Callable[[str], None] = lambda text: None
) -> Range:
    """Return a copy of ``wanted`` whose positions in the binlog set ``binlogs`` lie between two transactions.

    A stop position inside a transaction moves to the transaction's beginning. An operator often stops before a harmful
    event, for example a DROP TABLE, so the event's whole transaction with its GTID must stay out. ``warn`` receives a
    text about such a stop position, and about a stop position beyond the end of the file. Raises PositionError, with
    the nearest boundaries, for a start position inside a transaction or beyond the end.
    """
    names = binlogs.names
    start, stop = wanted.start_position, wanted.stop_position
    if start is not None:
        before, after = _boundaries(binlogs, names[0], start)
        if before != start and after is None:
            raise PositionError(f"the file ends at {before}", file=names[0], position=start)
        if before != start:
            raise PositionError(
                f"no transaction begins here; the nearest places are {before} and {after}",
                file=names[0],
                position=start,
            )
    if stop is not None:
        before, after = _boundaries(binlogs, names[-1], stop)
        if after is None and before != stop:
            warn(f"{names[-1]}: the file ends at {before}, before the stop position {stop}")
        elif before != stop:
            warn(
                f"{names[-1]}: the stop position {stop} lies inside the transaction from {before} to {after}, "
                "which is left out"
            )
            wanted = replace(wanted, stop_position=before)
    return wanted


def _boundaries(binlogs: BinlogSet, name: str, position: int) -> tuple[int, int | None]:
    """Return the last transaction boundary at or before the byte offset ``position`` in the file ``name``, and the
    first boundary after it. The second is None at the end of the file.
    """
    with binlogs.file(name) as file:
        before = file.first_event
        if position <= before:
            return position, before
        # This pass only looks for transaction boundaries. The later pass over the events verifies checksums and reports
        # damage.
        reader = SegmentReader(file, Subjects(), SourceNumbers(), verify=False, statements=False)
        while (segment := reader.next()) is not None:
            places = segment.boundaries
            at = int(np.searchsorted(places, position, "right"))
            before = int(places[at - 1]) if at else before
            if at < len(places):
                return before, int(places[at])
        return before, None


class Selection:
    """A selection of transactions. It takes a binlog's segments (parts of its files) one after another, and marks the
    transactions that are not selected, so that the dump thread does not send them.

    Parameters:
        wanted: the positions, times and GTIDs of the transactions to take. The positions must lie between two
            transactions (:func:`on_boundaries`).
        sources: the numbers of the binlog set's GTID sources (server UUIDs, or MariaDB's domain and server ids).
        first, last: the names of the set's first and last file.
        whole_files: whether to keep events that belong to no transaction even outside of ``wanted``. A valid binlog
            file needs these events, for example the GTID list and the Rotate at the file's end.
    """

    def __init__(
        self, wanted: Range, sources: SourceNumbers, *, first: str, last: str, whole_files: bool = False
    ) -> None:
        self._wanted = wanted
        self._sources = sources
        self._first, self._last = first, last
        self._whole_files = whole_files
        self._include, self._exclude = wanted.include, wanted.exclude
        self._started = wanted.start_time is None
        self._open_taken = True
        self._past_position = self._past_time = False

    @property
    def done(self) -> bool:
        """Whether the stop position or stop time has been passed, so that no later transaction is taken."""
        return self._past_position or self._past_time

    def apply(self, segment: Segment) -> Segment:
        """Return a copy of a segment (a part of a binlog file) in which the transactions that are not selected are
        marked as dropped.

        The mark is :data:`~dumpfilter.binlog.roles.SKIP` in ``txn_subject``. A marked transaction also loses its GTID,
        so that a dump thread does not report the GTID as executed. Segments must be given in the order of the binlog,
        because times and the stop position depend on earlier segments.
        """
        taken = self._taken(segment)
        if taken.all():
            return segment
        subject, source = segment.txn_subject.copy(), segment.txn_source.copy()
        subject[~taken] = R.SKIP
        source[~taken & (source >= 0)] = -1
        return replace(segment, txn_subject=subject, txn_source=source)

    def _taken(self, segment: Segment) -> Flags:
        wanted = self._wanted
        first_event = segment.txn_event[:-1]
        begins = segment.offset[first_event]
        of_file = segment.txn_source == R.KEPT
        taken = np.ones(len(begins), np.bool_)
        if segment.file == self._first and wanted.start_position is not None:
            taken &= begins >= wanted.start_position
        if segment.file == self._last and wanted.stop_position is not None:
            taken &= begins < wanted.stop_position
            self._past_position |= segment.end >= wanted.stop_position
        if self._whole_files:
            taken |= of_file
        transactions = taken & ~of_file
        transactions[: int(segment.continues)] = False
        if wanted.start_time is not None or wanted.stop_time is not None:
            taken &= of_file | self._in_time(segment.time[first_event].astype(np.int64), transactions)
        taken &= of_file | self._in_gtids(segment)
        if segment.continues:
            taken[0] = self._open_taken
        if segment.open:
            self._open_taken = bool(taken[-1])
        return taken

    def _in_time(self, times: npt.NDArray[np.int64], transactions: Flags) -> Flags:
        taken = np.zeros(len(times), np.bool_)
        if self._past_time:
            return taken
        first, end = 0, len(times)
        if not self._started:
            late = np.flatnonzero(transactions & (times >= (self._wanted.start_time or 0)))
            if not len(late):
                return taken
            first, self._started = int(late[0]), True
        if self._wanted.stop_time is not None:
            late = np.flatnonzero(transactions & (times >= self._wanted.stop_time))
            if len(late):
                end, self._past_time = int(late[0]), True
        taken[first:end] = True
        return taken

    def _in_gtids(self, segment: Segment) -> Flags:
        taken = np.full(len(segment.txn_source), self._include is None)
        for gtids, answer in ((self._include, True), (self._exclude, False)):
            if gtids is not None:
                taken[contained(segment, self._sources, gtids)] = answer
        return taken
