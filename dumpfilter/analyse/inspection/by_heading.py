"""Counters of the events and bytes of a binlog set by period of time and by heading.

A heading is the name under which reports count bytes: a table, a schema's statements, several tables, or no table.
The memory is bounded for any number of tables and timestamps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from dumpfilter.analyse.inspection.flat_events import FlatEvents
from dumpfilter.analyse.report.headings import Heading, Headings
from dumpfilter.analyse.report.periods import PERIODS, Division, OverTime, Period, wider
from dumpfilter.analyse.traffic.facts import Ints, added_up
from dumpfilter.analyse.traffic.facts import sums as sums_of
from dumpfilter.analyse.traffic.tally import Tally
from dumpfilter.binlog import roles as R
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.dump.chunk import ReadAt
from dumpfilter.index.segment import Segment
from dumpfilter.index.subjects import Subjects

MOST_SUMS = 1 << 16
"""The maximum number of sums (one for each heading and period with traffic). Beyond this limit, the periods are made
longer.
"""

_MOST_CONDITIONS = 1 << 16
"""The maximum number of distinct conditions (sets of tables) in one :class:`Tally`. Beyond this limit a new tally
replaces it, to bound the memory.
"""

_SEGMENTS = 16
"""The number of segments (at most 4 MiB of events each) after which the tallies' counts are merged into the sums."""


class Volume(NamedTuple):
    """A number of events and their bytes."""

    events: int
    bytes: int
    """The bytes in the binlog files. An event inside a compressed transaction counts with its share of the
    compressed bytes.
    """
    bytes_uncompressed: int
    """The bytes that the events take without compression."""

    def plus(self, other: Volume) -> Volume:
        return Volume(*(a + b for a, b in zip(self, other, strict=True)))

    def minus(self, other: Volume) -> Volume:
        return Volume(*(a - b for a, b in zip(self, other, strict=True)))


NOTHING = Volume(0, 0, 0)


@dataclass(frozen=True)
class HeadingSums:
    """Sums of events, bytes and transactions, one for each period of time and each heading with traffic in this period.

    A heading is the name under which reports count bytes, such as a table or a schema's statements. The sums are stored
    as columns: arrays with one entry for each sum.
    """

    seconds: int
    """The length of a period, seconds."""
    headings: list[Heading]
    heading: Ints
    """For each sum, the index of its heading in ``headings``."""
    period: Ints
    """For each sum, its period as Unix seconds divided by ``seconds``. Period 0 holds the events without a timestamp.
    """
    volume: Ints
    """For each sum, its events, bytes, uncompressed bytes and transactions: an array of shape (n, 4)."""

    def by_heading(self) -> dict[Heading, Volume]:
        """Return the events and bytes of each heading (a table, a schema's statements …), summed over all periods of
        time.
        """
        totals = np.zeros((len(self.headings), 4), np.int64)
        np.add.at(totals, self.heading, self.volume)
        return {one: Volume(*row[:3]) for one, row in zip(self.headings, totals.tolist(), strict=True)}

    def in_periods(self, seconds: int) -> HeadingSums:
        """Return the sums of events, bytes and transactions merged into longer periods of time, of ``seconds`` each.

        ``seconds`` must be a multiple of the current period's length.
        """
        return _summed(replace(self, seconds=seconds, period=self.period // (seconds // self.seconds)))

    def in_few(self, most: int) -> HeadingSums:
        """Return the sums of events, bytes and transactions merged into longer periods of time, so that at most
        ``most`` periods contain events.
        """
        found = self
        while len(np.unique(found.period)) > most:
            found = found.in_periods(wider(found.seconds))
        return found


class ByHeading:
    """Counts the events of a binlog set by period of time and by heading (a table, a schema's statements …).

    The set is read in segments, which are consecutive events of one file, at most 4 MiB. ``period`` is the length of
    a period, seconds. With None, periods start at one second and become longer so that at most :data:`MOST_SUMS` sums
    are kept.
    """

    def __init__(self, subjects: Subjects, sources: SourceNumbers, period: int | None = None) -> None:
        self._subjects, self._sources = subjects, sources
        self._numbers: dict[Heading, int] = {}
        nothing = np.zeros(0, np.int64)
        self._found = HeadingSums(period or PERIODS[0], [], nothing, nothing, np.zeros((0, 4), np.int64))
        self._stored = self._new_tally()
        self._saved: Tally | None = None
        """A second tally, for the bytes that compression saves. None until the first compressed event."""
        self._segments = 0

    def _new_tally(self) -> Tally:
        return Tally(self._subjects, self._sources, filters=(), bucket_seconds=self._found.seconds)

    def add(self, segment: Segment, flat: FlatEvents, read: ReadAt) -> None:
        """Count the events of the next segment (consecutive events of one file).

        ``flat`` has the same events, but with each compressed transaction replaced by the events inside it. ``read``
        reads bytes of the segment's file.
        """
        saved = flat.size - flat.stored
        if self._saved is None and saved.any():
            self._saved = self._stored.beside()
        self._stored.add(_flat_segment(segment, flat, flat.stored), read)
        if self._saved is not None:
            self._saved.add(_flat_segment(segment, flat, saved), read)
        self._segments += 1
        if self._segments % _SEGMENTS == 0:
            self._take()
            if not segment.open and self._stored.conditions_count > _MOST_CONDITIONS:
                self._stored = self._new_tally()
                self._saved = self._saved and self._new_tally()

    def sums(self) -> HeadingSums:
        """Return the sums of events, bytes and transactions by period of time and by heading (a table, a schema's
        statements …), over all segments that were added so far.
        """
        self._take()
        return self._found

    def _take(self) -> None:
        parts = [self._found]
        for tally, column in ((self._stored, 1), (self._saved, 2)):
            if tally is None:
                continue
            tallied = tally.take()
            headings = Headings(tallied)
            number = np.array([self._numbers.setdefault(one, len(self._numbers)) for one in headings.all])
            volume = np.zeros((len(tallied.bytes), 4), np.int64)
            volume[:, column:3] = tallied.bytes[:, None]
            if column == 1:
                volume[:, 0], volume[:, 3] = tallied.events, tallied.transactions
            period = tallied.bucket * tallied.bucket_seconds // self._found.seconds
            parts.append(HeadingSums(self._found.seconds, [], number[headings.of_unit], period, volume))
        heading, period, volume = (
            np.concatenate([getattr(one, name) for one in parts]) for name in ("heading", "period", "volume")
        )
        found = _summed(HeadingSums(self._found.seconds, list(self._numbers), heading, period, volume))
        while len(found.heading) > MOST_SUMS and len(np.unique(found.period)) > 1:
            found = found.in_periods(wider(found.seconds))
        self._found = found


def _summed(parts: HeadingSums) -> HeadingSums:
    """Merge the sums that have equal heading and period."""
    rows = added_up(np.column_stack([parts.heading, parts.period, parts.volume]), keys=2)
    return replace(parts, heading=rows[:, 0], period=rows[:, 1], volume=rows[:, 2:])


def _flat_segment(segment: Segment, flat: FlatEvents, size: Ints) -> Segment:
    """Return a copy of ``segment`` in which the events inside compressed transactions replace their
    Transaction_payload events. ``size`` has the size to count for each event.
    """
    role = flat.role.copy()
    last = (
        np.append(np.flatnonzero(np.diff(flat.event)), len(flat.event) - 1) if len(flat.event) else flat.event
    )
    # A compressed transaction that is not opened has no tables.
    role[role == R.PAYLOAD] = R.KEEP
    role[last] |= segment.role & np.uint8(R.ENDS)
    return replace(
        segment,
        offset=segment.offset[flat.event],
        size=size,
        time=segment.time[flat.event],
        type=flat.type,
        role=role,
        subject=flat.subject,
        txn_event=np.append(flat.first_of_transaction, len(flat.event)),
        payloads={},
    )


MOST_RATES = 2048
"""The maximum number of periods in :func:`rates`."""


class Rate(NamedTuple):
    """The bytes and transactions of a binlog set in one period of time."""

    start: int | None
    """The beginning of the period, Unix seconds; None for transactions before the first timestamp."""
    bytes: int
    """The bytes of the events in the binlog."""
    transactions: int


class Rates(NamedTuple):
    """The bytes and transactions of a binlog set over time, for a chart."""

    bucket_seconds: int = 1
    """The length of a period, seconds. It is chosen so that at most MOST_RATES periods have traffic."""
    buckets: Sequence[Rate] = ()
    """The periods with traffic, in order of time. A transaction counts at its last event's timestamp."""


def rates(sums: HeadingSums) -> Rates:
    """Return the bytes and transactions in each period of time, from sums that are also divided by table (``sums``).

    Periods are made longer if more than MOST_RATES of them contain events.
    """
    sums = sums.in_few(MOST_RATES)
    periods, which = np.unique(sums.period, return_inverse=True)
    columns = (sums_of(which, sums.volume[:, k], len(periods)).tolist() for k in (1, 3))
    starts = [period * sums.seconds or None for period in periods.tolist()]
    return Rates(sums.seconds, [Rate(*each) for each in zip(starts, *columns, strict=True)])


MOST_PERIODS = 32
"""The maximum number of periods with traffic, unless the user chooses the period's length."""


@dataclass(frozen=True)
class OverTimeOptions:
    """The options for a report of a binlog set's bytes over time.

    ``by`` divides the bytes by schema or by table. ``period`` is the length of a period in seconds. With None, the
    length depends on how many periods have traffic.
    """

    by: Division
    period: int | None = None


OTHERS = "others"
"""The name under which :func:`over_time` merges all but the largest schemas or tables."""


def over_time(sums: HeadingSums, options: OverTimeOptions, most: int | None = None) -> OverTime:
    """Return the bytes of a binlog set in each period of time, divided by schema or table (``options.by``).

    All but the ``most`` largest schemas or tables are merged under the name :data:`OTHERS` (None: all have their own).
    Without ``options.period``, the length of a period is chosen so that at most MOST_PERIODS periods have traffic.
    """
    if options.period is None:
        sums = sums.in_few(MOST_PERIODS)
    labels = [one.name if options.by is Division.TABLE else one.labels[0] for one in sums.headings]
    numbers: dict[str, int] = {}
    of_heading = np.array([numbers.setdefault(label, len(numbers)) for label in labels], np.int64)
    label = of_heading[sums.heading]
    totals = zip(sums_of(label, sums.volume[:, 1], len(numbers)).tolist(), numbers, strict=True)
    names = tuple(name for total, name in sorted(totals, key=lambda item: (-item[0], item[1])) if total)
    kept = dict.fromkeys(names[:most])
    shown = [name if name in kept else OTHERS for name in numbers]
    rows = added_up(np.column_stack([sums.period, label, sums.volume[:, 1]]), keys=2)
    nothing = {OTHERS: 0} if len(names) > len(kept) else {}
    periods: dict[int, Counter[str]] = {}
    for period, number, nbytes in rows[rows[:, 2] != 0].tolist():
        periods.setdefault(period * sums.seconds, Counter(nothing))[shown[number]] += nbytes
    return OverTime(
        by=options.by,
        period_seconds=sums.seconds,
        names=tuple(kept),
        periods=tuple(Period(start=start, bytes=dict(sizes)) for start, sizes in periods.items()),
    )
