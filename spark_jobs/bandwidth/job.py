"""The bandwidth job: it computes the traffic of slaves with their filters on the master, and without filters.

One pass over the binlogs serves any number of slaves (:mod:`dumpfilter.analyse.traffic.tally`).

1. The driver divides the files into ranges of complete transactions.
2. Each task measures a group of ranges (:mod:`~dumpfilter.spark_jobs.bandwidth.measured_set`).
3. The driver merges the measurements, and computes each slave's traffic (:class:`Evaluate`).

The measurements can be used for other filters, too, so a later job can start with step 3. The measurements hold a
tally: bytes and events counted by the condition under which a filter sends them, such as "this table is sent". One row
of the tally is a unit: the traffic with one condition, from one origin (server and domain) and in one time bucket. A
slave's traffic is a sum over the units that its filter sends.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from operator import itemgetter
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dumpfilter.analyse.by_heading import Headings, HeadingSums, OverTimeOptions, over_time
from dumpfilter.analyse.lint.findings import Level, listed, warning_line
from dumpfilter.analyse.lint.knowledge import knowledge_of
from dumpfilter.analyse.lint.linting import lint
from dumpfilter.analyse.report.measures import Audience, Division, OverTime
from dumpfilter.analyse.traffic.facts import Facts, Ints, Mask, SubjectFlags, flags_of
from dumpfilter.base.errors import OptionError
from dumpfilter.base.printable import replace_invalid_utf8, visible
from dumpfilter.binlog.format import Family
from dumpfilter.dump.packets.stand_ins import EVENTS, StandIns
from dumpfilter.filter.base import OriginFilter, ReplicationFilter
from dumpfilter.filter.flags import FILTER_BINLOG_SEND_F
from dumpfilter.index.subjects import Subject, numbers_on_tables
from dumpfilter.index.time_spans import active_seconds
from dumpfilter.spark_jobs.bandwidth.measured_set import Asked, Measured, MeasuredSet, ask, measure_set
from dumpfilter.spark_jobs.bandwidth.results import (
    PACKET_BYTES,
    Figures,
    Peak,
    RealReplica,
    Results,
    RuleSaving,
    Series,
    SlaveFigures,
    SourceFigures,
    TableFigures,
    TableShare,
    totals_of,
    with_totals,
)
from dumpfilter.spark_jobs.engines import Runner
from dumpfilter.spark_jobs.options import BandwidthOptions
from dumpfilter.spark_jobs.split.ownership import REST, decode_name, encoded_schemas
from dumpfilter.topology.slaves_file import SlaveDefinition

Floats = npt.NDArray[np.float64]

Verdicts = tuple[SubjectFlags | None, int]
"""A filter's verdicts about all tables and statements, one uint32 of flags (such as FILTER_BINLOG_SEND_F) for each, and
the filter's index among the measured filters. The verdicts are None for a filter without rules.
"""

ALL: Verdicts = None, 0
"""A filter without rules, in the form of :data:`Verdicts`: a pair of its verdicts (None) and its index among the
measured filters.
"""

_PACKETS_OF_COMPRESSED = 2
"""The number of packets that a compressed transaction takes in MySQL's protocol, one for each of its events: Gtid and
Transaction_payload.
"""

_MOST_NAMES_OVER_TIME = 50
"""The maximum number of schemas, and of tables, that have a time series of bytes in the results. The others share one
series.
"""


class Evaluate:
    """A calculator of the bytes that each slave would receive, from measurements of the binlogs. Calling an instance
    with a slave returns the slave's figures.

    Parameters:
        measured: the measured counts of bytes and events.
        verdicts: for each filter its verdicts (send, drop or undecided) about all tables and statements, and its index
            among the measured filters.
        family: the kind of server that wrote the binlogs, ``mysql`` or ``mariadb``.
        audience: the readers for whom bytes are counted: real replicas in MySQL's protocol, or slaves of dumpfilter.
            None: real replicas, unless filtering needs GTIDs that the binlogs lack.

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
        """The expected zstd compression ratio of the events under each condition of the tally (such as "this table is
        sent"), from samples of their schema.
        """
        schemas = [encoded_schemas(subject) for subject in tallied.subjects]
        for condition, number in enumerate(tallied.subject_of_condition.tolist()):
            if number >= 0 and len(schemas[number]) == 1:
                self._ratios[condition] = measured.ratio(schemas[number][0])

    @property
    def everything(self) -> Mask:
        """A Boolean array that tells for each row of the measured counts whether a slave without a filter receives the
        row's traffic.

        A row has the bytes and events that filters send under one condition (such as "this table is sent"), from one
        origin (server and domain), in one time bucket. If a filter drops a part of a compressed transaction, an extra
        row corrects the transaction's counts for this filter. Such rows are False, because a slave without a filter
        receives the whole transaction.
        """
        return self.tallied.sent(None)

    def tables(self) -> tuple[TableFigures, ...]:
        """Return the bytes, events and transactions of each table in the binlogs before any filter, in descending order
        of bytes.
        """
        mask, tallied = self.everything, self.tallied
        sums = [self.headings.sums(getattr(tallied, name), mask).tolist() for name in Figures.model_fields]
        found = []
        for one, *row in zip(self.headings.all, *sums, strict=True):
            figures = dict(zip(Figures.model_fields, row, strict=True))
            if figures["events"]:
                found.append(TableFigures(name=one.name, database=one.database, table=one.table, **figures))
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
        """Return the sum of ``values`` in each time bucket of ``self.buckets``, as int64, for a chart of the traffic
        over time.

        ``values`` has a number of bytes for each row of the measured counts. A row has the traffic under one condition
        (such as "this table is sent"), from one origin, in one time bucket. Events without a timestamp count in the
        first bucket. Without buckets the result is empty.
        """
        if not len(self.buckets):
            return np.zeros(0, np.int64)
        sums = np.bincount(self._place, weights=values, minlength=len(self.buckets))
        # Rounded sums up to each bucket, so that the buckets add up to the reader's total.
        return np.diff(np.rint(np.cumsum(sums)), prepend=0.0).astype(np.int64)

    @cached_property
    def _place(self) -> Ints:
        """An integer array with the time bucket of each row of the measured counts, as an index in ``buckets`` (the
        time buckets with traffic). A row has the traffic under one condition (such as "this table is sent"), from one
        origin, in one time bucket. A row without a timestamp has the index 0.
        """
        return np.clip(np.searchsorted(self.buckets, self.tallied.bucket), 0, len(self.buckets) - 1)

    def received(self, verdicts: Verdicts = ALL, origin: OriginFilter | None = None) -> Floats:
        """Return the bytes that one reader of the binlog receives, as an array with one number for each row of the
        measured counts.

        A row has the traffic under one condition (such as "this table is sent"), from one origin (server and domain),
        in one time bucket. The kind of reader is ``self.audience``: a real replica, or a slave of dumpfilter. The bytes
        of a real replica include the empty transactions that it receives for dropped GTIDs.

        ``verdicts`` are those of the reader's filter, and ``origin`` has the server ids and domain ids that the reader
        accepts (None: all). A real replica receives all in any case.
        """
        tallied, (flags, number) = self.tallied, verdicts
        if self.audience is Audience.SLAVES:
            return np.where(tallied.sent(flags, origin, number), tallied.bytes, 0).astype(np.float64)
        sent = tallied.sent(flags, None, number)
        stand_ins = tallied.stand_in_bytes + PACKET_BYTES * self._events_of_stand_in * tallied.stand_ins
        # MariaDB has one stand-in for a run of dropped transactions. The bytes are spread over all of them.
        share = self._bytes_of(tallied.stand_ins_for(flags, number)) / max(int(stand_ins[~sent].sum()), 1)
        return np.where(sent, tallied.bytes + PACKET_BYTES * tallied.events, share * stand_ins)

    def __call__(self, asked: Asked, warnings: Iterable[str] = ()) -> tuple[SlaveFigures, Ints, Ints]:
        """Return three values: the figures of one slave's traffic, and the bytes that the slave receives in each time
        bucket of ``buckets`` with its filter and without.

        ``asked`` has the slave's definition and the indexes of the filters to evaluate: the slave's filter, and this
        filter without each of its rules. ``warnings`` are texts about the slave's filter, which become part of the
        figures.
        """
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
            warnings=tuple(warnings),
        )
        return made, of_time, whole_of_time

    def _bytes(self, verdicts: Verdicts, origin: OriginFilter | None) -> int:
        """Return the total bytes that one reader with a filter receives. The reader is a real replica or a slave of
        dumpfilter; the attribute ``audience`` tells which.

        ``verdicts`` tell which tables and statements the filter sends. ``origin`` has the server ids and domain ids
        that a slave accepts (None: all).
        """
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
        of_stand_ins = self._bytes_of(stand_ins)
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

    def _bytes_of(self, stand_ins: StandIns) -> int:
        return stand_ins.nbytes + PACKET_BYTES * self._events_of_stand_in * stand_ins.number

    @cached_property
    def _from_source(self) -> tuple[int, int]:
        return self._in_packets(self.everything)

    def _in_packets(self, mask: Mask) -> tuple[int, int]:
        """Return two numbers of bytes that a real replica receives in MySQL's protocol: the uncompressed bytes, and an
        estimate with each transaction compressed separately.

        ``mask`` marks the units (rows of the measured counts) to add up.
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
        """Return the schemas whose binlogs a slave would need if the binlog set were split into one set for each
        schema. The schemas are names encoded for file names, in ascending order.

        ``flags`` has the verdict of the slave's filter about each table and statement, as a uint32 of flags such as
        FILTER_BINLOG_SEND_F (None: no rules).
        """
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

    ``flags`` has the filter's verdict about each table and statement, by number, as a uint32 of flags such as
    FILTER_BINLOG_SEND_F. With None there are no rules, so that everything passes. ``on_tables`` has the numbers of the
    tables and of the statements on tables, from :func:`numbers_on_tables`.
    """
    return flags is not None and len(on_tables) > 0 and not (flags[on_tables] & FILTER_BINLOG_SEND_F).any()


def _figures(tallied: Facts, mask: Mask) -> Figures:
    return Figures(**{name: int(getattr(tallied, name)[mask].sum()) for name in Figures.model_fields})


_MOST_DECISIONS = 1_000_000
"""The maximum number of decisions (filters times tables and statements) for the check of filters. Further filters are
not checked, to bound the time.
"""


def filter_warnings(
    slaves: Iterable[tuple[str, ReplicationFilter]], subjects: Sequence[Subject], *, is_whole: bool
) -> dict[str, list[str]]:
    """Return the warnings of ``dumpfilter lint`` about slaves' filters. Each warning's text is mapped to the names of
    the slaves whose filters have it.

    Parameters:
        slaves: pairs of a slave's name and filter.
        subjects: the tables and statements of the binlogs.
        is_whole: whether ``subjects`` is complete. If damaged files were skipped, a rule's table may be in them.

    The terminal shows only a few warnings. The first warning about each filter therefore precedes the second one about
    any filter. Lint's first warnings are about names, whose spelling can be the cause of the rest.

    The warnings have no binlog positions, because measurements do not contain any. Filters beyond a limit of
    :data:`_MOST_DECISIONS` are not checked, so they have no warnings.
    """
    # The order of the subjects depends on how the engine divides the binlogs. Warnings name the first ones.
    known = knowledge_of(sorted(subjects, key=repr), is_whole=is_whole)
    alike: dict[tuple[object, ...], tuple[ReplicationFilter, list[str]]] = {}
    for name, one in slaves:
        alike.setdefault((type(one), one.rules, one.names), (one, []))[1].append(name)
    most = max(1, _MOST_DECISIONS // (len(subjects) + 1))
    ranked: list[tuple[int, str, list[str]]] = []
    for one, names in list(alike.values())[:most]:
        warnings = [warning for warning in lint(one, known) if warning.level is Level.WARNING]
        texts = (replace_invalid_utf8(visible(warning_line(warning))) for warning in warnings)
        ranked += [(place, text, names) for place, text in enumerate(texts)]
    found: dict[str, list[str]] = {}
    for _, text, names in sorted(ranked, key=itemgetter(0)):
        found.setdefault(text, []).extend(names)
    return found


def measure_and_evaluate(
    source: str | Path | Sequence[str | Path],
    slaves: Sequence[SlaveDefinition],
    run: Runner,
    options: BandwidthOptions | None = None,
    kept: MeasuredSet | None = None,
) -> tuple[Results, MeasuredSet]:
    """Compute the traffic that each slave would receive from a binlog set, with and without its filter. Return the
    results with the measurements from which they were computed.

    ``source`` is the set's index file, a directory with an index file, or a list of binlog files. A caller can pass the
    measurements to a later call as ``kept``. If they fit, no file is read. ``run`` executes the tasks, in threads or on
    Spark.

    Raises BinlogError with file and position for a damaged binlog. With ``options.on_corrupt="skip"``, the damaged part
    of a file is skipped instead, and the results list it. Raises OptionError without a slave, for a bad rule, or if
    ``options.audience`` is REPLICAS (real MySQL servers) and the binlogs have no GTIDs.
    """
    options = options or BandwidthOptions()
    if not slaves:
        raise OptionError("no slave is given: name at least one with --slaves or --slave")
    measured = measure_set(source, slaves, run, options, kept)
    return evaluate_slaves(measured, slaves, options), measured


def evaluate_slaves(
    measured: MeasuredSet, slaves: Sequence[SlaveDefinition], options: BandwidthOptions | None = None
) -> Results:
    """Compute the traffic of each slave from measurements, without reading the binlogs.

    The measurements must be those of :func:`measure_set` for these slaves. Raises OptionError for a bad rule, or if
    ``options.audience`` is REPLICAS (real MySQL or MariaDB servers) and the binlogs lack the GTIDs that these need.
    """
    options = options or BandwidthOptions()
    indexed, subjects = measured.indexed, measured.measured.tallied.subjects
    asked, distinct = ask(slaves, indexed.newest.names)
    evaluate = Evaluate(
        measured.measured,
        [(flags_of(one, subjects), number) for number, one in enumerate(distinct)],
        indexed.newest.family,
        options.audience,
    )
    warnings = filter_warnings(
        ((one.definition.name, distinct[one.number]) for one in asked),
        subjects,
        is_whole=all(one.damage is None for one in indexed.files),
    )
    of_slave: dict[str, list[str]] = {}
    for text, names in warnings.items():
        for name in names:
            of_slave.setdefault(name, []).append(text)
    found = [evaluate(one, of_slave.get(one.definition.name, ())) for one in asked]
    figures = tuple(one for one, *_ in found)
    no_filter = evaluate.series(evaluate.received())
    seconds = evaluate.tallied.bucket_seconds
    source = _source(measured)
    results = Results(
        source=source,
        bucket_seconds=seconds,
        bucket_starts=tuple((evaluate.buckets * seconds).tolist()),
        slaves=figures,
        audience=evaluate.audience,
        totals=totals_of(figures, source.active_seconds, evaluate.audience),
        measured_at=measured.measured_at,
        tables=evaluate.tables(),
        series=Series(
            no_filter=tuple(no_filter.tolist()),
            slaves={one.name: tuple(series.tolist()) for one, series, _ in found},
            of_origins={
                one.name: tuple(whole.tolist())
                for one, _, whole in found
                if not np.array_equal(whole, no_filter)
            },
        ),
        over_time=evaluate.over_time(),
        skipped=tuple(
            replace(one.damage, file=replace_invalid_utf8(one.damage.file))
            for one in indexed.files
            if one.damage is not None
        ),
        warnings=(
            *indexed.told_of_xa("sent to every slave"),
            *(
                replace_invalid_utf8(
                    f"slave{'s' if len(names) > 1 else ''} {listed(map(visible, names))}: {text}"
                )
                for text, names in warnings.items()
            ),
        ),
    )
    return with_totals(results, options.price_per_gb)


def _source(measured: MeasuredSet) -> SourceFigures:
    indexed, tallied = measured.indexed, measured.measured.tallied
    everything = tallied.sent(None)
    times = indexed.times
    return SourceFigures(
        files=tuple(replace_invalid_utf8(one.name) for one in indexed.files),
        bytes=sum(one.size for one in indexed.files),
        events=int(tallied.events[everything].sum()),
        transactions=int(tallied.transactions[everything].sum()),
        family=indexed.newest.family,
        server_version=replace_invalid_utf8(indexed.newest.server_version),
        first_time=times[0][0] if times else None,
        last_time=times[-1][1] if times else None,
        active_seconds=active_seconds(times),
    )
