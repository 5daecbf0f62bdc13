"""The data model of the bandwidth job's results, which the JSON file, the Parquet tables and the report show.

Bytes are bytes of events with headers and checksums, as the gRPC dump sends them in ``Chunk.events``. Times are Unix
seconds. The functions compute sums over all slaves, the traffic and price of a month, and remarks about these
figures.
"""

from __future__ import annotations

from collections.abc import Sequence

from dumpfilter.analyse.lint.findings import listed
from dumpfilter.analyse.report.measures import Audience, Model, OverTime
from dumpfilter.analyse.report.parquet import UnixTime
from dumpfilter.analyse.report.text import (
    GIGABYTE,
    bytes_of_month,
    human_bytes,
    human_percent,
    remark_on_month,
    share,
)
from dumpfilter.base.printable import visible
from dumpfilter.spark_jobs.ranges import Damage

PACKET_BYTES = 5
"""The bytes that MySQL's replication protocol puts before each event: the packet header and the status byte. Events
of 16 MiB or more have 4 more bytes per 16 MiB, which the figures ignore.
"""


class Figures(Model):
    """An amount of binlog traffic: bytes, events and transactions."""

    bytes: int
    """Bytes of this traffic."""
    events: int
    """Number of this traffic's events."""
    transactions: int
    """Number of transactions in this traffic."""


class Ways(Model):
    """The bytes of the same traffic in four cases: without filter and compression, with the filter on the master, with
    compression, and with both.

    The figures with compression are estimates for zstd. The traffic to real replicas is compressed transaction by
    transaction, and that to slaves of dumpfilter in blocks of 256 KiB.
    """

    no_filter: int
    """Bytes without filter and compression."""
    filter: int
    """Bytes with the filter on the master."""
    compression: int
    """Bytes with compression, without a filter."""
    both: int
    """Bytes with filter and compression."""


class Savings(Model):
    """The bytes that the filter, compression, and both together save, compared with traffic that is neither filtered
    nor compressed.
    """

    filter: int
    compression: int
    both: int


class Prices(Model):
    """The price of a month's binlog traffic, in the currency of ``--price``: sent without a filter, with the filter on
    the master, with compression, and with both.
    """

    no_filter: float
    """Price without filter and compression."""
    filter: float
    """Price with the filter on the master."""
    compression: float
    """Price with compression, without a filter."""
    both: float
    """Price with filter and compression."""


class Month(Model):
    """The traffic of a month of 730 hours, extrapolated from the time span of the binlogs without long pauses, and the
    price of this traffic.
    """

    bytes: Ways
    """The bytes of a month's traffic, without and with filter and compression."""
    price: Prices | None = None
    """The price of a month's traffic, without and with filter and compression; None without ``--price``."""


class Totals(Model):
    """The bytes that all slaves together receive and save, without the slaves whose filters pass nothing.

    Such filters probably have misspelled rules, and would otherwise count as the largest saving.
    """

    slaves: int
    """The number of slaves that the sums include."""
    slaves_left_out: int = 0
    """The number of slaves that the sums leave out, because their filters pass nothing."""
    bytes: Ways
    """The bytes that all slaves receive, counted as for real replicas or as for dumpfilter slaves
    (:attr:`Results.audience`).
    """
    saved: Savings
    of_slaves: Ways
    """The bytes that the slaves receive as dumpfilter slaves, over gRPC."""
    of_replicas: Ways | None
    """The bytes that the slaves would receive as real replicas, in MySQL's protocol. None if this figure is missing for
    any slave.
    """
    stand_ins: int = 0
    """The number of stand-ins (empty transactions in place of dropped ones) for real replicas."""
    stand_in_bytes: int = 0
    is_upper_bound: bool = False
    """Whether the bytes in ``of_replicas`` are upper bounds."""
    split: int
    """The bytes that all slaves together would read after a split by schema (sum of :attr:`SlaveFigures.split`)."""
    month: Month | None = None
    """The extrapolation to a month. None if the binlogs span too little time."""


class Peak(Model):
    """The time bucket in which a slave receives the most traffic, with the bytes and the mean rate in this bucket."""

    start: UnixTime
    """Start of the time interval (bucket) with the most traffic."""
    bytes: int
    """Bytes in the time interval (bucket) with the most traffic."""
    bytes_per_second: float
    """Bytes a second in the time interval (bucket) with the most traffic."""


class RuleSaving(Model):
    """The bytes that one rule of a slave's filter saves, while all other rules stay in force.

    The report counts bytes for one kind of reader, real replicas or dumpfilter slaves.
    """

    rule: str
    """The rule as an option: ``--replicate-do-db=shop``."""
    bytes_without: int
    """Bytes that the master would send without this rule."""
    saving: int
    """Bytes that the rule saves. Negative if the rule admits events."""


class TableShare(Model):
    """The bytes of one database table's events that one slave receives with its filter on the master."""

    table: str
    """The table: a ``name`` in the results' ``tables``."""
    bytes: int
    """Bytes of the table's events that the slave receives."""


class RealReplica(Model):
    """The bytes that a real MySQL or MariaDB replica with the same rules receives, in MySQL's own protocol.

    They include the 5 bytes that the protocol puts before each event. A real replica receives the transactions of all
    servers and domains, and ignores some of them itself.

    A stand-in is an empty transaction that carries a dropped transaction's GTID. For MariaDB the figures count one
    stand-in for each domain of a run of dropped transactions, the most that a replica gets while it catches up. A
    replica that follows live commits can get one for each dropped transaction.
    """

    bytes: int
    """Bytes of the events that pass the filter, and of stand-ins (empty transactions for dropped ones)."""
    bytes_gtid: int
    """Bytes of the stand-ins (empty transactions for dropped ones)."""
    stand_ins: int
    """Number of stand-ins (empty transactions for dropped ones)."""
    bytes_from_source: int
    """Bytes of all events, as the source itself sends them to a replica."""
    compressed: int = 0
    """An estimate of ``bytes`` with each transaction compressed by zstd (level 3), as
    ``binlog_transaction_compression`` does.
    """
    compressed_from_source: int = 0
    """An estimate of ``bytes_from_source`` with each transaction compressed by zstd (level 3)."""
    is_upper_bound: bool = False
    """Whether these figures are upper bounds, as for MariaDB."""


class SlaveFigures(Model):
    """The traffic of one slave over the whole binlog set: unfiltered, filtered on the master, compressed, after a split
    by schema, and sent to a real replica.
    """

    name: str
    """The slave's name."""
    server_id: int | None
    """The slave's server id; None if the slaves file has none."""
    semantics: str
    """``classic`` for the servers' ``--replicate-*`` rules, ``effective`` for those of WL#2516."""
    rules: tuple[str, ...]
    """The slave's filter rules, as options."""
    no_filter: Figures
    """Traffic without a filter."""
    master_side: Figures
    """Exact traffic with the filter on the master.

    If only the slave filters, the master sends ``no_filter``, and the slave applies this traffic.
    """
    real_replica: RealReplica | None
    """A real replica's traffic. None for a filter over binlogs of MySQL without GTIDs, because a real replica of MySQL
    that is sent filtered events needs GTIDs.
    """
    undecided_events: int
    """Events in ``master_side`` that the master sends because only the slave can decide."""
    compressed_no_filter: int
    """Bytes of ``no_filter`` as zstd (level 3, chunks of 256 KiB), estimated from samples."""
    compressed: int
    """Bytes of ``master_side`` as zstd, estimated like ``compressed_no_filter``."""
    split: int
    """The bytes that the slave would read after a split by schema: the whole binlog of each schema that it needs."""
    split_sets: tuple[str, ...]
    """The schemas whose binlogs the slave needs after a split by schema. "@rest" is the binlog of events without a
    schema.
    """
    peak_no_filter: Peak | None
    """The peak without a filter. None without traffic, or if no event has a timestamp."""
    peak: Peak | None
    """The peak with the filter. None without traffic, or if no event has a timestamp."""
    rule_savings: tuple[RuleSaving, ...]
    tables: tuple[TableShare, ...]
    """The traffic of each database table that the slave receives with its filter on the master, the largest first."""
    nothing_passes: bool = False
    """Whether the filter drops every row and every statement on a table."""
    warnings: tuple[str, ...] = ()
    """Warnings about the slave's filter."""
    month: Month | None = None
    """A month's traffic. None if the binlogs span too little time."""


class TableFigures(Model):
    """The traffic of one table in the binlogs before any filter, or traffic that belongs to no single table, such as
    statements on a schema.
    """

    name: str
    """``schema.table``, ``schema (statements)``, ``(several tables)``, or ``(no table)``. Names are unique."""
    database: str | None
    """The schema; None if the traffic belongs to no single schema."""
    table: str | None
    """The table; None if the traffic belongs to no single table."""
    bytes: int
    """Bytes of the table's events in the binlog, before any filter."""
    events: int
    """Number of the table's events in the binlog."""
    transactions: int
    """Number of transactions with events of the table."""


class Series(Model):
    """Bytes of traffic over time. Each tuple has one entry for each time bucket of :attr:`Results.bucket_starts`."""

    no_filter: tuple[int, ...]
    """The traffic of a slave without a filter."""
    slaves: dict[str, tuple[int, ...]]
    """The traffic of each slave with its filter on the master, by the slave's name."""
    of_origins: dict[str, tuple[int, ...]]
    """The traffic without a filter of each slave that ignores servers or domains of the binlogs, by name."""

    def unfiltered(self, name: str) -> tuple[int, ...]:
        """Return the traffic of the slave ``name`` without its filter, and without the transactions it ignores."""
        return self.of_origins.get(name, self.no_filter)


class SourceFigures(Model):
    """The binlog set that the job read: its files, size, server and time span."""

    files: tuple[str, ...]
    bytes: int
    """The total size of the files."""
    events: int
    transactions: int
    family: str
    """The family of the server that wrote the binlogs, ``mysql`` or ``mariadb``."""
    server_version: str
    first_time: int | None
    """The smallest timestamp of an event in a transaction, Unix seconds; None if no event has a timestamp."""
    last_time: int | None
    """The largest timestamp of an event in a transaction, Unix seconds; None if no event has a timestamp."""
    active_seconds: int
    """The seconds from ``first_time`` to ``last_time``, without pauses of more than a day in which no event was
    written. Averages are bytes divided by these seconds. It is 0 if all events have the same time."""


class Results(Model):
    """All results of a bandwidth job, which computes the bytes that a master would send to each slave. The version
    number ``format`` grows when a release changes the meaning of a field.
    """

    format: int = 2
    audience: Audience = Audience.SLAVES
    """The kind of readers (real replicas or dumpfilter slaves) for which sums, monthly traffic, series, peaks and
    savings of rules are computed.
    """
    source: SourceFigures
    bucket_seconds: int
    bucket_starts: tuple[int, ...]
    """The beginnings of the time buckets, Unix seconds, ascending. Buckets without traffic are left out."""
    slaves: tuple[SlaveFigures, ...]
    totals: Totals
    price_per_gb: float | None = None
    """The price of a gigabyte (10^9 bytes) of traffic, as ``--price`` gives it."""
    measured_at: int = 0
    """The time at which the binlogs were read, Unix seconds. Later runs may use the measurements of an earlier one."""
    remarks: tuple[str, ...] = ()
    """Sentences about the figures for people, for example that compression alone saves more than the filters."""
    tables: tuple[TableFigures, ...]
    """The figures of all tables, the largest first."""
    series: Series
    over_time: tuple[OverTime, ...] = ()
    """The bytes over time, by schema and by table. All but the largest are merged under the name ``others``."""
    skipped: tuple[Damage, ...] = ()
    """The damaged files that were skipped, or whose rest was skipped (``--on-corrupt skip``)."""
    warnings: tuple[str, ...] = ()


def ways_of(slave: SlaveFigures, audience: Audience) -> Ways:
    """Return the bytes that a slave receives in four cases: without filter and compression, with one of them, and with
    both.

    ``audience`` says in whose protocol the bytes are counted: MySQL's protocol of real replicas, or dumpfilter's
    protocol over gRPC. Without figures for a real replica, the bytes are those of a dumpfilter slave.
    """
    real = slave.real_replica
    if audience is Audience.REPLICAS and real is not None:
        return Ways(
            no_filter=real.bytes_from_source,
            filter=real.bytes,
            compression=real.compressed_from_source,
            both=real.compressed,
        )
    return Ways(
        no_filter=slave.no_filter.bytes,
        filter=slave.master_side.bytes,
        compression=slave.compressed_no_filter,
        both=slave.compressed,
    )


def month_of(bytes: Ways, seconds: int, price_per_gb: float | None = None) -> Month | None:
    """Return the traffic and the price of a month of 730 hours, extrapolated from ``bytes``, the bytes of the same
    traffic with and without filter and compression.

    ``seconds`` is the time in which these bytes were written, without long pauses. Below an hour, return None.
    ``price_per_gb`` is the price of 10^9 bytes; without it the result has no prices.
    """
    found = {name: month for name, nbytes in bytes if (month := bytes_of_month(nbytes, seconds)) is not None}
    if not found:
        return None
    price = None
    if price_per_gb is not None:
        price = Prices(**{name: nbytes / GIGABYTE * price_per_gb for name, nbytes in found.items()})
    return Month(bytes=Ways(**found), price=price)


def counted(slaves: Sequence[SlaveFigures]) -> list[SlaveFigures]:
    """Return the slaves that sums over all slaves include: all except those whose filter drops every row and statement
    on tables.

    A misspelled rule that drops everything would otherwise be the largest saving.
    """
    return [one for one in slaves if not one.nothing_passes]


def totals_of(
    slaves: Sequence[SlaveFigures],
    seconds: int,
    audience: Audience,
    price_per_gb: float | None = None,
) -> Totals:
    """Return the sums of the slaves' traffic, and the extrapolation to a month.

    Slaves whose filters pass nothing are left out. ``seconds`` is the time span of the binlogs without long pauses.
    ``audience`` says whether bytes are those of real replicas or of dumpfilter slaves. ``price_per_gb`` None: no prices
    are computed.
    """
    given = len(slaves)
    slaves = counted(slaves)
    bytes = _sums(slaves, audience)
    replicas = [one.real_replica for one in slaves if one.real_replica is not None]
    return Totals(
        slaves=len(slaves),
        slaves_left_out=given - len(slaves),
        bytes=bytes,
        saved=Savings(
            **{name: bytes.no_filter - getattr(bytes, name) for name in Savings.model_fields},
        ),
        of_slaves=_sums(slaves, Audience.SLAVES),
        of_replicas=_sums(slaves, Audience.REPLICAS) if len(replicas) == len(slaves) else None,
        stand_ins=sum(one.stand_ins for one in replicas),
        stand_in_bytes=sum(one.bytes_gtid for one in replicas),
        is_upper_bound=any(one.is_upper_bound for one in replicas),
        split=sum(one.split for one in slaves),
        month=month_of(bytes, seconds, price_per_gb),
    )


def _sums(slaves: Sequence[SlaveFigures], audience: Audience) -> Ways:
    each = [ways_of(one, audience) for one in slaves]
    return Ways(**{name: sum(getattr(one, name) for one in each) for name in Ways.model_fields})


def with_totals(results: Results, price_per_gb: float | None = None) -> Results:
    """Return a copy of ``results`` with sums, each slave's monthly traffic and price, and remarks for people. All are
    computed from the slaves' traffic in ``results``.

    ``price_per_gb`` is the price of 10^9 bytes. None: no prices are computed.
    """
    seconds = results.source.active_seconds
    slaves = tuple(
        one.model_copy(update={"month": month_of(ways_of(one, results.audience), seconds, price_per_gb)})
        for one in results.slaves
    )
    totals = totals_of(slaves, seconds, results.audience, price_per_gb)
    return results.model_copy(
        update={
            "slaves": slaves,
            "totals": totals,
            "price_per_gb": price_per_gb,
            "remarks": (
                *about_nothing(slaves),
                *_about_readers(totals, results.audience),
                *_about_compression(totals, results),
                *filter(None, [remark_on_month(seconds)]),
            ),
        }
    )


def about_nothing(slaves: Sequence[SlaveFigures]) -> list[str]:
    """Return a list with one remark for the user, which names the slaves whose filters pass nothing, and says that sums
    leave them out. Without such slaves the list is empty.
    """
    names = [one.name for one in slaves if one.nothing_passes]
    if not names:
        return []
    several = len(names) > 1
    told = (
        f"No row and no statement on a table passes the filter{'s' if several else ''} of "
        f"{listed(map(visible, names))}. What "
        f"{'these slaves save' if several else 'this slave saves'} is no gain, unless all is meant to be dropped."
    )
    if len(slaves) > 1:
        told += f" Sums, totals and prices leave {'these slaves' if several else 'this slave'} out."
    return [told]


def _about_readers(totals: Totals, audience: Audience) -> list[str]:
    """Return remarks for the user that compare the filters' savings for real replicas and for dumpfilter slaves.
    ``totals`` has the bytes of all slaves for both kinds of readers. ``audience`` is the kind whose bytes the rest of
    the report shows.
    """
    if totals.of_replicas is None:
        return [
            "The figures are for dumpfilter's own slaves. The binlogs have no GTIDs, which a real replica of MySQL "
            "behind a filter needs."
        ]
    if not totals.of_slaves.no_filter:
        return []
    many, most = totals.slaves > 1, "at most " if totals.is_upper_bound else ""
    readers = {
        Audience.REPLICAS: ("real replicas", "at least " if most else "", totals.of_replicas),
        Audience.SLAVES: ("dumpfilter's own slaves", "", totals.of_slaves),
    }
    (who, bound, ways), (option, (others, other_bound, other_ways)) = (
        readers.pop(audience),
        readers.popitem(),
    )
    saved, other_saved = (
        human_percent(share(each.no_filter - each.filter, each.no_filter)) for each in (ways, other_ways)
    )
    filters = "filters" if many else "filter"
    return [
        f"For {who} the {filters} save{'' if many else 's'} {bound}{saved}. For {others} the {filters} would save "
        f"{other_bound}{other_saved} (--for {option}). MySQL's protocol adds {PACKET_BYTES} bytes to each event, and "
        f"{most}{totals.stand_ins:,} stand-ins ({human_bytes(totals.stand_in_bytes)}) take the place of dropped "
        "transactions, so that a replica has their GTIDs."
    ]


def _about_compression(totals: Totals, results: Results) -> list[str]:
    whole, saved = totals.bytes.no_filter, totals.saved
    if saved.compression > saved.filter:
        who = "the filters" if totals.slaves > 1 else "the filter"
        told = (
            f"Compression alone saves more than {who}: {human_percent(share(saved.compression, whole))} (estimated) "
            f"with zstd {compression_name(results)}, against {human_percent(share(saved.filter, whole))}. "
            f"Both together save {human_percent(share(saved.both, whole))}."
        )
        of_slaves = totals.of_slaves
        if results.audience is Audience.REPLICAS:
            in_blocks = share(of_slaves.no_filter - of_slaves.compression, of_slaves.no_filter)
            told += f" In blocks of 256 KiB, zstd alone would save {human_percent(in_blocks)}."
        return [told]
    return []


def compression_name(results: Results) -> str:
    """Return words for the way of compression on which the estimates are based, for example "in blocks of 256 KiB".

    Traffic to dumpfilter's slaves is compressed in such blocks, and traffic to real replicas transaction by
    transaction.
    """
    if results.audience is Audience.SLAVES:
        return "in blocks of 256 KiB"
    option = ", as binlog_transaction_compression does" if results.source.family == "mysql" else ""
    return f"on each transaction alone{option}"
