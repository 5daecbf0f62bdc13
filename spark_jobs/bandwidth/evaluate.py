"""The computation of each slave's traffic from measurements, without reading the binlogs again.

The measurements hold a tally: bytes and events counted by the condition under which a filter sends them. One row of
the tally is a unit: the traffic with one condition, one origin and one time bucket. A slave's traffic is a sum over
the units that its filter sends.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from dumpfilter.analyse.by_heading import Headings, HeadingSums, OverTimeOptions, over_time
from dumpfilter.analyse.report.measures import Audience, Division, OverTime
from dumpfilter.analyse.traffic.facts import Facts, Mask, SubjectFlags
from dumpfilter.base.errors import OptionError
from dumpfilter.base.printable import replace_invalid_utf8
from dumpfilter.binlog.format import Family
from dumpfilter.dump.packets.stand_ins import EVENTS
from dumpfilter.filter.base import OriginFilter
from dumpfilter.filter.flags import FILTER_BINLOG_SEND_F
from dumpfilter.index.subjects import numbers_on_tables
from dumpfilter.spark_jobs.bandwidth.measured_set import Asked, Measured
from dumpfilter.spark_jobs.bandwidth.results import (
    PACKET_BYTES,
    Figures,
    Peak,
    RealReplica,
    RuleSaving,
    SlaveFigures,
    TableFigures,
    TableShare,
)
from dumpfilter.spark_jobs.split.ownership import REST, decode_name, encoded_schemas

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

Verdicts = tuple[SubjectFlags | None, int]
"""A filter's verdicts about all tables and statements as bits (None: no rules), and its index among the measured
filters.
"""

ALL: Verdicts = None, 0
"""The verdicts of a filter without rules."""

_PACKETS_OF_COMPRESSED = 2
"""The number of events in a compressed transaction: Gtid and Transaction_payload."""

_MOST_NAMES_OVER_TIME = 50
"""The maximum number of schemas, and of tables, in the results' bytes over time."""


class Evaluate:
    """Computes how many bytes each slave would receive, from measurements of the binlogs. Calling an instance with a
    slave returns the slave's figures.

    Parameters:
        measured: the measured counts of bytes and events.
        verdicts: for each filter its verdicts (send, drop or undecided) about all tables and statements, and its index
            among the measured filters.
        family: the kind of server that wrote the binlogs, ``mysql`` or ``mariadb``.
        audience: the readers for whom bytes are counted. None: real replicas, unless filtering needs GTIDs that the
            binlogs lack.

    Raises OptionError for the audience of real replicas if they cannot be filtered.

    Counts that all filters treat alike are merged first, so the cost per slave does not depend on the size of the
    binlogs.
    """

    def __init__(
        self,
        measured: Measured,
        verdicts: Sequence[Verdicts],
        family: Family,
        audience: Audience | None = None,
    ) -> None:
        tallied = self.tallied = measured.tallied.folded([flags for flags, _ in verdicts])
        self._is_mariadb = family == "mariadb"
        self._events_of_stand_in = EVENTS[family]
        self._has_gtids = family != "mysql" or bool(tallied.stand_ins.any()) or not tallied.transactions.any()
        can_filter = self._has_gtids or all(flags is None for flags, _ in verdicts)
        if audience is Audience.REPLICAS and not can_filter:
            raise OptionError(
                "--for replicas: the binlogs have no GTIDs, which a real replica of MySQL behind a filter needs; "
                "use --for slaves"
            )
        self.audience = (audience or Audience.REPLICAS) if can_filter else Audience.SLAVES
        """The readers for whom bytes are counted."""
        self._verdicts = verdicts
        self._on_tables = np.array(numbers_on_tables(tallied.subjects), np.int64)
        self._schema_bytes = measured.schema_bytes
        self._factor = measured.transaction_factor
        self.buckets: Ints = np.unique(tallied.bucket[tallied.bucket > 0])
        """The time buckets with traffic, ascending, as Unix seconds divided by the bucket length."""
        self.headings = Headings(tallied)
        self._ratios = np.full(len(tallied.conditions), measured.ratio())
        """For each condition of the tally, the expected zstd compression ratio of its events, from samples of their
        schema.
        """
        schemas = [encoded_schemas(subject) for subject in tallied.subjects]
        for condition, number in enumerate(tallied.subject_of_condition.tolist()):
            if number >= 0 and len(schemas[number]) == 1:
                self._ratios[condition] = measured.ratio(schemas[number][0])

    @property
    def everything(self) -> Mask:
        """For each row of measured counts, whether a slave without a filter receives the row's traffic, as a Boolean
        array.

        One row has the bytes and events that filters send under one condition (such as "this table is sent") in one
        time bucket.
        """
        return self.tallied.sent(None)

    def tables(self) -> tuple[TableFigures, ...]:
        """Return the bytes, events and transactions of each table in the binlogs before any filter, in descending order
        of bytes.
        """
        mask, tallied = self.everything, self.tallied
        columns = (
            self.headings.sums(column, mask).tolist()
            for column in (tallied.bytes, tallied.events, tallied.transactions)
        )
        found = [
            TableFigures(
                name=one.name,
                database=one.database,
                table=one.table,
                bytes=nbytes,
                events=events,
                transactions=transactions,
            )
            for one, nbytes, events, transactions in zip(self.headings.all, *columns, strict=True)
            if events
        ]
        return tuple(sorted(found, key=lambda one: (-one.bytes, one.name)))

    def over_time(self) -> tuple[OverTime, ...]:
        """Return the bytes over time before any filter, first divided by schema, then divided by table. All but the
        largest 50 schemas or tables are merged under the name ``others``.
        """
        mask, tallied = self.everything, self.tallied
        found = HeadingSums(
            tallied.bucket_seconds,
            self.headings.all,
            self.headings.of_unit[mask],
            tallied.bucket[mask],
            np.repeat(tallied.bytes[mask, None], 3, axis=1),
        )
        return tuple(over_time(found, OverTimeOptions(by), _MOST_NAMES_OVER_TIME) for by in Division)

    def series(self, values: Floats) -> Ints:
        """Return the sum of ``values`` in each time bucket of ``self.buckets``, as int64.

        ``values`` has a number of bytes for each row of the measured counts. Each row belongs to one time bucket.
        Events without a timestamp count in the first bucket. Without buckets the result is empty.
        """
        if not len(self.buckets):
            return np.zeros(0, np.int64)
        return np.rint(np.bincount(self._place, weights=values, minlength=len(self.buckets))).astype(np.int64)

    @cached_property
    def _place(self) -> Ints:
        """For each unit (row of the tally), the index of its time bucket in ``buckets``."""
        return np.clip(np.searchsorted(self.buckets, self.tallied.bucket), 0, len(self.buckets) - 1)

    def received(self, verdicts: Verdicts = ALL, origin: OriginFilter | None = None) -> Floats:
        """Return the bytes that one reader of the binlog receives, divided as the measured counts are: one number for
        each of their rows.

        A row has the traffic under one condition (such as "this table is sent") in one time bucket. The reader is a
        real replica or a dumpfilter slave, as ``self.audience`` says. A real replica receives empty transactions for
        dropped GTIDs, which are included.

        ``verdicts`` are those of the reader's filter, and ``origin`` has the server ids and domain ids that the reader
        accepts (None: all). A real replica receives all in any case.
        """
        tallied, (flags, number) = self.tallied, verdicts
        if self.audience is Audience.SLAVES:
            return np.where(tallied.sent(flags, origin, number), tallied.bytes, 0).astype(np.float64)
        sent = tallied.sent(flags, None, number)
        stand_ins = tallied.stand_in_bytes + PACKET_BYTES * self._events_of_stand_in * tallied.stand_ins
        # MariaDB has one stand-in for a run of dropped transactions. The bytes are spread over all of them.
        needed = tallied.stand_ins_for(flags, number).number / max(int(tallied.stand_ins[~sent].sum()), 1)
        return np.where(sent, tallied.bytes + PACKET_BYTES * tallied.events, needed * stand_ins)

    def __call__(self, asked: Asked) -> tuple[SlaveFigures, tuple[int, ...]]:
        """Return the traffic of one slave, and the bytes that it receives in each time bucket."""
        tallied, definition = self.tallied, asked.definition
        origin, verdicts = definition.origin, self._verdicts[asked.number]
        flags, number = verdicts
        everything, sent = tallied.sent(None, origin), tallied.sent(flags, origin, number)
        of_tables = zip(self.headings.names, self.headings.sums(tallied.bytes, sent).tolist(), strict=True)
        of_time, whole_of_time = (self.series(self.received(one, origin)) for one in (verdicts, ALL))
        sets = self._sets(flags)
        now, *without = (self._bytes(self._verdicts[k], origin) for k in (asked.number, *asked.without))
        made = SlaveFigures(
            name=definition.name,
            server_id=definition.server_id,
            semantics=definition.semantics.value,
            rules=definition.rules,
            no_filter=_figures(tallied, everything),
            master_side=_figures(tallied, sent),
            real_replica=self._real_replica(verdicts),
            undecided_events=int(tallied.undecided[sent & tallied.unsure(flags)].sum()),
            compressed_no_filter=self._compressed(everything),
            compressed=self._compressed(sent),
            split=sum(self._schema_bytes[name] for name in sets),
            split_sets=tuple(
                REST if name == REST else replace_invalid_utf8(decode_name(name)) for name in sets
            ),
            peak_no_filter=self._peak(whole_of_time),
            peak=self._peak(of_time),
            rule_savings=tuple(
                RuleSaving(rule=rule, bytes_without=nbytes, saving=nbytes - now)
                for rule, nbytes in zip(definition.rules, without, strict=True)
            ),
            tables=tuple(
                TableShare(table=name, bytes=nbytes)
                for name, nbytes in sorted(of_tables, key=lambda item: (-item[1], item[0]))
                if nbytes
            ),
            nothing_passes=nothing_passes(flags, self._on_tables),
        )
        return made, tuple(of_time.tolist())

    def _bytes(self, verdicts: Verdicts, origin: OriginFilter | None) -> int:
        """Return the bytes that one reader receives, a real replica or a dumpfilter slave as ``audience`` says."""
        replica = self._real_replica(verdicts) if self.audience is Audience.REPLICAS else None
        if replica is not None:
            return replica.bytes
        flags, number = verdicts
        return int(self.tallied.bytes[self.tallied.sent(flags, origin, number)].sum())

    def _real_replica(self, verdicts: Verdicts) -> RealReplica | None:
        flags, number = verdicts
        if flags is not None and not self._has_gtids:
            return None
        tallied = self.tallied
        passing = tallied.sent(flags, None, number)
        stand_ins = tallied.stand_ins_for(flags, number)
        of_stand_ins = stand_ins.nbytes + PACKET_BYTES * self._events_of_stand_in * stand_ins.number
        nbytes, compressed = self._in_packets(passing)
        from_source, compressed_from_source = self._from_source
        return RealReplica(
            bytes=nbytes + of_stand_ins,
            compressed=compressed + of_stand_ins,
            compressed_from_source=compressed_from_source,
            bytes_gtid=stand_ins.nbytes,
            stand_ins=stand_ins.number,
            bytes_from_source=from_source,
            is_upper_bound=self._is_mariadb and stand_ins.number > 0,
        )

    @cached_property
    def _from_source(self) -> tuple[int, int]:
        return self._in_packets(self.everything)

    def _in_packets(self, mask: Mask) -> tuple[int, int]:
        """Return two numbers of bytes in MySQL's protocol for the units in ``mask``: uncompressed, and estimated
        with each transaction compressed separately.
        """
        tallied = self.tallied
        nbytes, events = tallied.bytes[mask], tallied.events[mask]
        ratios = np.minimum(self._factor * self._ratios[tallied.condition[mask]], 1)
        packets = _PACKETS_OF_COMPRESSED * tallied.transactions[mask]
        return (
            int((nbytes + PACKET_BYTES * events).sum()),
            round(float((nbytes * ratios + PACKET_BYTES * packets).sum())),
        )

    def _peak(self, series: Ints) -> Peak | None:
        if not len(series) or not series.any():
            return None
        k, seconds = int(np.argmax(series)), self.tallied.bucket_seconds
        nbytes = int(series[k])
        return Peak(start=int(self.buckets[k]) * seconds, bytes=nbytes, bytes_per_second=nbytes / seconds)

    def _sets(self, flags: SubjectFlags | None) -> list[str]:
        """Return the encoded names of the schemas whose binlogs the slave would need after a split by schema."""
        needed: set[str] = set()
        for number, subject in enumerate(self.tallied.subjects):
            if flags is None or flags[number] & FILTER_BINLOG_SEND_F:
                needed.update(encoded_schemas(subject) or (REST,))
        if flags is None:
            needed.update(self._schema_bytes)
        return sorted(needed & self._schema_bytes.keys())

    def _compressed(self, mask: Mask) -> int:
        tallied = self.tallied
        return round(float((tallied.bytes[mask] * self._ratios[tallied.condition[mask]]).sum()))


def nothing_passes(flags: SubjectFlags | None, on_tables: Ints) -> bool:
    """Tell whether a filter drops all rows and all statements on tables, although the binlogs contain some. The
    filter's rules are then probably misspelled.

    ``flags`` has the filter's verdicts about each table and statement, as bits (None: no rules, so everything passes).
    ``on_tables`` has the indexes in ``flags`` of the tables and of the statements on tables, from
    :func:`numbers_on_tables`.
    """
    return flags is not None and len(on_tables) > 0 and not (flags[on_tables] & FILTER_BINLOG_SEND_F).any()


def _figures(tallied: Facts, mask: Mask) -> Figures:
    return Figures(
        bytes=int(tallied.bytes[mask].sum()),
        events=int(tallied.events[mask].sum()),
        transactions=int(tallied.transactions[mask].sum()),
    )
