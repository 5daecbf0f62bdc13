"""The events and bytes of a binlog set by heading and period of time.

A heading is the name under which reports count bytes: a table, the statements of a schema, several tables, or no table.
All reports of a binlog set use the same headings, so that their sums agree. The counting replaces each compressed
transaction by the events inside it. The memory is bounded for any number of tables and timestamps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from dumpfilter.analyse.report.measures import PERIODS, Division, OverTime, Period, wider
from dumpfilter.analyse.traffic.facts import Facts, Ints, Mask, added_up
from dumpfilter.analyse.traffic.facts import sums as sums_of
from dumpfilter.analyse.traffic.tally import Tally
from dumpfilter.base.printable import replace_invalid_utf8
from dumpfilter.binlog import roles as R
from dumpfilter.binlog.compression import uncompressed_sizes
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.dump.chunk import ReadAt
from dumpfilter.index.opened import OpenedEvents
from dumpfilter.index.segment import Segment
from dumpfilter.index.subjects import Subject, Subjects, TableSubject

STATEMENTS = "(statements)"
"""The text in the column of table names for a row that counts the statements of a schema."""
SEVERAL = "(several tables)"
"""The name under which reports count events that belong to more than one table or schema."""
NO_TABLE = "(no table)"
"""The name under which reports count events that belong to no table and no schema."""


class Heading(NamedTuple):
    """A name under which a report counts bytes: a table, the statements of a schema, several tables, or no table."""

    database: str | None
    table: str | None
    """The table's name. None for a schema's statements, and for events of several tables or of none."""
    name: str
    """The displayed name: ``schema.table``, ``schema (statements)``, :data:`SEVERAL` or :data:`NO_TABLE`."""

    @property
    def labels(self) -> tuple[str, str]:
        """The texts that name this heading (such as a table, or a schema's statements) in a report: one for the column
        "schema", and one for the column "table".
        """
        if self.database is None:
            return self.name, ""
        return self.database, STATEMENTS if self.table is None else self.table


def heading_of(subject: Subject) -> Heading:
    """Return the name under which reports count the events of a subject (a table, or a statement with its tables).

    A statement counts for its schema, not for the tables that it changes. A statement that changes several schemas
    counts for :data:`SEVERAL`, and a statement that changes none for :data:`NO_TABLE`.
    """
    schemas = [replace_invalid_utf8(schema) for schema in subject.schemas()]
    if isinstance(subject, TableSubject):
        database, table = replace_invalid_utf8(subject.database), replace_invalid_utf8(subject.table)
        return Heading(database, table, f"{database}.{table}")
    if len(schemas) == 1:
        return Heading(schemas[0], None, f"{schemas[0]} {STATEMENTS}")
    return Heading(None, None, SEVERAL if schemas else NO_TABLE)


class Headings:
    """An assignment of traffic counts to headings, the names under which reports count bytes: a table, the statements
    of a schema, several tables, or no table.

    ``tallied`` has rows of counts. A row counts the events of one period of time that the same filters send. If a
    transaction changes a single table, all its events count for this table. In other transactions, rows and table maps
    count for their table, and statements for their schema. All other events count for several tables or no table.
    """

    def __init__(self, tallied: Facts) -> None:
        conditions = tallied.conditions
        subject = tallied.subject_of_condition
        numbers = {Heading(None, None, SEVERAL): 0, Heading(None, None, NO_TABLE): 1}
        of_subject = np.array(
            [numbers.setdefault(heading_of(one), len(numbers)) for one in tallied.subjects], np.int64
        )
        of_condition: Ints = np.where(conditions.has_subjects, 0, 1)
        of_condition[subject >= 0] = of_subject[subject[subject >= 0]]
        self.all = list(numbers)
        self.of_unit: Ints = of_condition[tallied.condition]
        """For each row of the counts ``tallied``, the index in ``all`` of the row's heading (the table or other name
        under which reports count the row).
        """

    @property
    def names(self) -> list[str]:
        """The names under which bytes are counted, such as ``shop.orders``, in the order of the sums that :meth:`sums`
        returns.
        """
        return [heading.name for heading in self.all]

    def sums(self, column: Ints, mask: Mask) -> Ints:
        """Return an array of sums of ``column``, one for each heading (a table, a schema's statements …), in the order
        of :attr:`names`.

        ``column`` (such as bytes) and ``mask``, which selects the rows to sum, have one entry for each row of the
        counts that were given to the constructor.
        """
        return sums_of(self.of_unit[mask], column[mask], len(self.all))

    def by_name(self, column: Ints, mask: Mask) -> dict[str, int]:
        """Return the sum of ``column`` for each heading (a table, a schema's statements …), as a mapping from the
        heading's name to the sum. Zeros are left out.

        ``column`` (such as bytes) and ``mask``, which selects the rows to sum, have one entry for each row of the
        counts that were given to the constructor.
        """
        found = Counter[str]()
        # A dot in a name can give two tables one displayed name: `a.b`.`c` and `a`.`b.c`.
        for name, total in zip(self.names, self.sums(column, mask).tolist(), strict=True):
            found[name] += total
        return {name: total for name, total in found.items() if total}


@dataclass(frozen=True)
class FlatEvents:
    """The events of a segment (consecutive events of one file), with offsets and sizes in the file.

    Each compressed transaction (Transaction_payload event) that could be opened is replaced by the events inside it.
    """

    segment: Segment
    """The events. Sizes are those without compression. An event inside a compressed transaction has the offset and time
    of the Transaction_payload event.
    """
    events: OpenedEvents
    row: Ints
    """For each event, its index in :attr:`events`, which also has the Transaction_payload events that were replaced."""
    stored: Ints
    """The bytes that each event takes in the file. An event of a payload has a share of the payload's bytes.

    The shares of a payload's events add up to the payload's size in the file.
    """

    @property
    def is_inside(self) -> Mask:
        """A Boolean array that tells for each event whether it comes from inside a compressed transaction."""
        return self.events.inner[self.row] >= 0


def flat_events(events: OpenedEvents) -> FlatEvents:
    """Return the events of a segment (consecutive events of one file), with each compressed transaction replaced by the
    events inside it.

    A compressed transaction stays one Transaction_payload event if it is empty, damaged or too large to decompress.
    Such a transaction has no tables.
    """
    segment = events.segment
    at = segment.offset - segment.start
    sizes = uncompressed_sizes(events.data, at, segment.size, segment.type, segment.format_description)
    row = np.flatnonzero((events.inner >= 0) | ~np.isin(events.outer, list(events.payloads)))
    event = events.outer[row]
    ends = np.searchsorted(event, np.arange(len(sizes)), "right")
    role = events.column(lambda one: one.role)[row] & np.uint8(R.ROLE_MASK)
    role[role == R.PAYLOAD] = R.KEEP
    role[ends - 1] |= segment.role & np.uint8(R.ENDS)
    flat = replace(
        segment,
        offset=segment.offset[event],
        size=events.column(lambda one: sizes if one is segment else one.size)[row],
        time=segment.time[event],
        type=events.column(lambda one: one.type)[row],
        role=role,
        subject=events.column(lambda one: one.subject)[row],
        txn_event=np.append(0, ends)[segment.txn_event],
        payloads={},
    )
    stored = events.column(lambda one: one.size)
    for number, inner in events.payloads.items():
        stored[events.inside(number)] = _shares(int(segment.size[number]), inner.size)
    return FlatEvents(flat, events, row, stored[row])


def _shares(whole: int, sizes: Ints) -> Ints:
    """Divide ``whole`` bytes (the size of a compressed transaction) in proportion to ``sizes`` (of the events inside
    it). Return integers that add up to exactly ``whole``.
    """
    ends = np.cumsum(sizes)
    total = int(ends[-1])
    # A float holds every product exactly as long as it is below 2**53; beyond that the parts still add up.
    until = np.floor(ends.astype(np.float64) * whole / total).astype(np.int64)
    until[-1] = whole
    parts: Ints = np.diff(until, prepend=0)
    return parts


MOST_SUMS = 1 << 16
"""The maximum number of sums (one for each heading and period with traffic). Beyond this limit, the periods are made
longer.
"""

_MOST_CONDITIONS = 1 << 16
"""The maximum number of distinct conditions in one :class:`Tally` (a counter of traffic). A condition is a set of
tables of which a filter must send one. Beyond this limit a new counter replaces the old one, to bound the memory.
"""

_SEGMENTS = 16
"""The number of segments (parts of binlog files) after which :class:`ByHeading` adds the contents of its counters to
its sums.
"""


class Volume(NamedTuple):
    """A number of events, their bytes in the binlog files, and the bytes that they take without compression."""

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
    """For each sum, the index in ``headings`` of its heading (the table or other name under which reports count)."""
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

    def widened(self) -> HeadingSums:
        """Return the sums of events, bytes and transactions merged into the next longer periods of time, for example
        from 1 second to 5 seconds.
        """
        seconds = wider(self.seconds)
        return _summed(replace(self, seconds=seconds, period=self.period // (seconds // self.seconds)))

    def in_few(self, most: int) -> HeadingSums:
        """Return the sums of events, bytes and transactions merged into longer periods of time, so that at most
        ``most`` periods contain events.
        """
        found = self
        while len(np.unique(found.period)) > most:
            found = found.widened()
        return found


class ByHeading:
    """A counter of the events of a binlog set by period of time and by heading (a table, a schema's statements …).

    The caller adds the set's segments, which are consecutive events of one file. ``subjects`` is the register that
    numbers the set's tables and statements. ``sources`` is the register that numbers its GTID sources (server
    UUIDs, or domains and server ids). ``period`` is the length of a period, seconds. With None, periods start at one
    second and become longer so that at most :data:`MOST_SUMS` sums are kept.
    """

    def __init__(self, subjects: Subjects, sources: SourceNumbers, period: int | None = None) -> None:
        self._subjects, self._sources = subjects, sources
        self._numbers: dict[Heading, int] = {}
        nothing = np.zeros(0, np.int64)
        self._found = HeadingSums(period or PERIODS[0], [], nothing, nothing, np.zeros((0, 4), np.int64))
        self._stored = self._new_tally()
        self._saved: Tally | None = None
        """A second counter, for the bytes that compression saves. None until the first compressed event."""
        self._segments = 0

    def _new_tally(self) -> Tally:
        return Tally(self._subjects, self._sources, filters=(), bucket_seconds=self._found.seconds)

    def add(self, flat: FlatEvents, read: ReadAt) -> None:
        """Count the events of the next segment (consecutive events of one file), with compressed transactions opened.
        ``read`` returns bytes of the segment's file, given their offset and number.
        """
        segment = flat.segment
        saved = segment.size - flat.stored
        if self._saved is None and saved.any():
            self._saved = self._stored.beside()
        self._stored.add(replace(segment, size=flat.stored), read)
        if self._saved is not None:
            self._saved.add(replace(segment, size=saved), read)
        self._segments += 1
        if self._segments % _SEGMENTS == 0:
            self._take()
            if not segment.open and self._stored.conditions_count > _MOST_CONDITIONS:
                self._stored = self._new_tally()
                self._saved = self._saved and self._new_tally()

    def sums(self) -> HeadingSums:
        """Return the sums of events, bytes and transactions by period of time and by heading (a table, a schema's
        statements …), over all events that were added so far.
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
            found = found.widened()
        self._found = found


def _summed(parts: HeadingSums) -> HeadingSums:
    """Return the sums ``parts``, with all entries of equal heading (such as a table) and equal period added up to one
    entry.
    """
    rows = added_up(np.column_stack([parts.heading, parts.period, parts.volume]), keys=2)
    return replace(parts, heading=rows[:, 0], period=rows[:, 1], volume=rows[:, 2:])


MOST_RATES = 2048
"""The maximum number of periods with traffic in the result of :func:`rates`, the data of a chart."""


class Rate(NamedTuple):
    """The bytes and transactions of a binlog set in one period of time."""

    start: int | None
    """The beginning of the period, Unix seconds; None for transactions before the first timestamp."""
    bytes: int
    """The bytes, in the binlog files, of the events in this period."""
    transactions: int


class Rates(NamedTuple):
    """The bytes and transactions of a binlog set in each period of time with traffic, for a chart."""

    bucket_seconds: int = 1
    """The length of a period, seconds. It is chosen so that at most MOST_RATES periods have traffic."""
    buckets: Sequence[Rate] = ()
    """The periods with traffic, in order of time. A transaction counts at its last event's timestamp."""


def rates(sums: HeadingSums) -> Rates:
    """Return the bytes and transactions of a binlog set in each period of time, for a chart. ``sums`` has them for each
    period and each heading (a table, a schema's statements …).

    Periods are made longer than those of ``sums`` if more than MOST_RATES of them contain events.
    """
    sums = sums.in_few(MOST_RATES)
    periods, which = np.unique(sums.period, return_inverse=True)
    columns = (sums_of(which, sums.volume[:, k], len(periods)).tolist() for k in (1, 3))
    starts = [period * sums.seconds or None for period in periods.tolist()]
    return Rates(sums.seconds, [Rate(*each) for each in zip(starts, *columns, strict=True)])


MOST_PERIODS = 32
"""The maximum number of periods with traffic in a report of bytes over time, unless the user chooses the period's
length.
"""


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

    All but the ``most`` largest schemas or tables are merged under the name :data:`OTHERS` (None: nothing is merged).
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
