"""The data model of the bandwidth job's results. The JSON file, the Parquet tables and the report all show this data.

All bytes are bytes of events with headers and checksums, as the gRPC dump sends them in ``Chunk.events``. All times
are Unix seconds.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from dumpfilter.report.audience import Audience
from dumpfilter.report.parquet import UnixTime
from dumpfilter.report.periods import Division

PACKET_BYTES = 5
"""The bytes that MySQL's protocol puts before each event: the packet's header, and a byte that says that all is well.
An event of 16 MiB or more has 4 further bytes for each 16 MiB, which the figures leave out."""


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Figures(_Model):
    """An amount of binlog traffic: bytes, events and transactions."""

    bytes: int
    """Bytes of events."""
    events: int
    """The number of events."""
    transactions: int
    """The number of transactions that have at least one event in this traffic."""


class Ways(_Model):
    """The bytes of the same traffic, sent in four ways. ``compression`` and ``both`` are estimates for zstd.

    The traffic to real replicas is compressed transaction by transaction, and that to slaves of dumpfilter in blocks
    of 256 KiB.
    """

    no_filter: int
    """Everything, as it is."""
    filter: int
    """The filter on the master alone."""
    compression: int
    """Compression alone, without a filter."""
    both: int
    """The filter on the master, and compression of what the master sends."""


class Savings(_Model):
    """The bytes that each way saves against traffic without filter and without compression (:class:`Ways`)."""

    filter: int
    compression: int
    both: int


class Prices(_Model):
    """The price of the same traffic, sent in four ways (:class:`Ways`), in the currency of ``--price``."""

    no_filter: float
    """Everything, as it is."""
    filter: float
    """The filter on the master alone."""
    compression: float
    """Compression alone, without a filter."""
    both: float
    """The filter on the master, and compression of what the master sends."""


class Month(_Model):
    """The traffic of a month of 730 hours, extrapolated from the active time of the binlogs."""

    bytes: Ways
    """The traffic in bytes."""
    price: Prices | None = None
    """The price of these bytes; None without ``--price``."""


class Totals(_Model):
    """The sums of the figures of all slaves to which something passes.

    A slave with :attr:`SlaveFigures.nothing_passes` is left out, since a broken rule would be the largest saving.
    """

    slaves: int
    """The number of slaves in the sums."""
    slaves_left_out: int = 0
    """The number of slaves that the sums leave out."""
    bytes: Ways
    """The sums for the readers whom the report is for (:attr:`Results.audience`)."""
    saved: Savings
    of_slaves: Ways
    """The sums for slaves of dumpfilter."""
    of_replicas: Ways | None
    """The sums for real replicas; None if a slave has no such figure."""
    stand_ins: int = 0
    """The stand-ins for real replicas."""
    stand_in_bytes: int = 0
    is_upper_bound: bool = False
    """Whether real replicas receive at most the bytes of ``of_replicas``, and perhaps less."""
    split: int
    """The sum of :attr:`SlaveFigures.split`."""
    month: Month | None = None
    """None if the binlogs span too little time."""


class Peak(_Model):
    """The time bucket in which a slave receives the most traffic."""

    start: UnixTime
    """The beginning of the bucket."""
    bytes: int
    """The bytes that the slave receives in the whole time bucket."""
    bytes_per_second: float
    """The bytes a second in the bucket."""


class RuleSaving(_Model):
    """The bytes that one rule of a slave's filter saves, while all other rules stay in force.

    They are bytes for the readers whom the report is for.
    """

    rule: str
    """The rule as an option: ``--replicate-do-db=shop``."""
    bytes_without: int
    """Bytes that the master would send to the slave if the filter did not have this rule."""
    saving: int
    """The bytes that the master does not send because of the rule. Negative if the rule lets the master send events
    that it would drop without the rule."""


class TableShare(_Model):
    """The traffic of one database table that one slave receives."""

    table: str
    """The name of the table or of the kind of traffic, equal to a ``name`` of ``tables``."""
    bytes: int
    """Bytes with the filter on the master."""


class RealReplica(_Model):
    """The bytes that a real MySQL or MariaDB replica with the same rules receives, in MySQL's own protocol.

    They include the 5 bytes that the protocol puts before each event. A real replica receives the transactions of all
    servers and domains, and ignores some of them itself.
    """

    bytes: int
    """The bytes that the master's port for real replicas sends: the events that pass, and the stand-ins.

    For MariaDB this is an upper bound, as ``bytes_gtid`` is.
    """
    bytes_gtid: int
    """The bytes of the stand-ins' events. A stand-in leaves the replica with the GTID of a dropped transaction.

    For MariaDB this is an upper bound, for binlogs that are already written. Each run of dropped transactions between
    two sent ones has a stand-in for each of its domains. A replica that waits at the end of the binlog can get one for
    each dropped transaction.
    """
    stand_ins: int
    """The number of stand-ins. A stand-in is three events for MySQL, and two for MariaDB. For MariaDB the number is an
    upper bound."""
    bytes_from_source: int
    """The bytes that the source's own server sends: all events."""
    compressed: int = 0
    """An estimate of ``bytes`` with each transaction compressed alone (zstd, level 3), as
    ``binlog_transaction_compression`` does."""
    compressed_from_source: int = 0
    """An estimate of ``bytes_from_source``, compressed in the same way."""
    is_upper_bound: bool = False
    """Whether the replica receives at most ``bytes``, and perhaps less: with stand-ins over binlogs of MariaDB."""


class SlaveFigures(_Model):
    """The traffic of one slave over the whole binlog, under different ways to send it."""

    name: str
    """The slave's name."""
    server_id: int | None
    """The slave's server id; None if the slaves file has none."""
    semantics: str
    """The kind of filter: ``classic`` for the servers' ``--replicate-*`` rules, ``effective`` for the rules of
    WL#2516."""
    rules: tuple[str, ...]
    """The rules as options."""
    no_filter: Figures
    """The traffic that the slave would receive without a filter."""
    master_side: Figures
    """The exact traffic that the master sends to this slave if the master applies the slave's filter.

    If only the slave filters, the master sends ``no_filter``, and the slave applies this traffic.
    """
    real_replica: RealReplica | None
    """The bytes for a real replica with the same rules. None for a filter over binlogs of MySQL without GTIDs, because
    a real replica of MySQL that is sent filtered events needs GTIDs."""
    undecided_events: int
    """The number of events in ``master_side`` about which the master cannot decide. The slave's filter decides."""
    compressed_no_filter: int
    """The bytes of ``no_filter`` as zstd (level 3, chunks of 256 KiB), estimated by the ratio of
    compressed samples."""
    compressed: int
    """The bytes of ``master_side`` as zstd, estimated in the same way as ``compressed_no_filter``."""
    split: int
    """The bytes that the slave would receive if the binlogs were split by schema.

    The slave then needs the whole binlog of every schema from which it applies any event.
    """
    split_sets: tuple[str, ...]
    """The schemas whose binlogs the slave would need after a split by schema. "@rest" is the binlog of events without a
    schema."""
    peak_no_filter: Peak | None
    """The time bucket in which the slave would receive the most bytes without a filter."""
    peak: Peak | None
    """The time bucket in which the slave receives the most bytes, with its filter on the master."""
    rule_savings: tuple[RuleSaving, ...]
    tables: tuple[TableShare, ...]
    """The traffic of each database table that the slave receives with its filter on the master, the largest first."""
    nothing_passes: bool = False
    """Whether the filter drops every row and every statement on a table. A misspelled rule can be the cause."""
    warnings: tuple[str, ...] = ()
    """The warnings of ``Results.warnings`` about this slave's filter, without the slave's name."""
    month: Month | None = None
    """The slave's traffic of a month; None if the binlogs span too little time."""


class TableFigures(_Model):
    """The traffic of a table in the source, or of a kind of traffic that belongs to no single table."""

    name: str
    """``schema.table``, ``schema (statements)``, ``(several tables)``, or ``(no table)``. Names are unique."""
    database: str | None
    """The schema; None for traffic of no single schema."""
    table: str | None
    """The table; None for traffic of no single table."""
    bytes: int
    """Bytes in the binlog, before any filter."""
    events: int
    """Events in the binlog."""
    transactions: int
    """Transactions in the binlog."""


class Series(_Model):
    """Bytes of traffic over time. Each tuple has one entry for each time bucket of :attr:`Results.bucket_starts`."""

    no_filter: tuple[int, ...]
    """The traffic of a slave without a filter."""
    slaves: dict[str, tuple[int, ...]]
    """The traffic of each slave with its filter on the master, by the slave's name."""


class SourceFigures(_Model):
    """The binlog set that was read."""

    files: tuple[str, ...]
    bytes: int
    """The size of all files together."""
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


class SkippedFile(_Model):
    """A damaged file that was skipped, or whose rest was skipped (``--on-corrupt skip``)."""

    file: str
    position: int | None
    """The file offset from which on the job skipped the file; None if it skipped the whole file.

    A damaged transaction is skipped from its beginning on.
    """
    reason: str
    damaged_at: int | None = None
    """The file offset of the damage."""


class Period(_Model):
    """The bytes of a period, by the name of a schema or table."""

    start: int
    """The beginning of the period, Unix seconds."""
    bytes: dict[str, int]


class OverTime(_Model):
    """The bytes of schemas or tables in the binlog in periods of time, before any filter."""

    by: Division
    period_seconds: int
    names: tuple[str, ...]
    """The schemas or tables with most bytes, the largest first. All others are ``others``."""
    periods: tuple[Period, ...]
    """The periods with traffic."""


class Results(_Model):
    """All results of a bandwidth job. The number ``format`` grows when a release changes the meaning of a field."""

    format: int = 2
    audience: Audience = Audience.SLAVES
    """The readers for whom the sums, the traffic of a month, the series, peaks and savings of rules are."""
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
    """The bytes by schema, and by table."""
    skipped: tuple[SkippedFile, ...] = ()
    warnings: tuple[str, ...] = ()
