"""The results of the bandwidth job: the model of its JSON, its Parquet tables, and its report.

All bytes are bytes of events with headers and checksums, as the gRPC dump sends them in ``Chunk.events``. All times
are Unix seconds.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Figures(_Model):
    """An amount of traffic."""

    bytes: int
    events: int
    transactions: int
    """Transactions with at least one event in this traffic."""


class Peak(_Model):
    """The time bucket with the most traffic."""

    start: int
    """The beginning of the bucket, Unix seconds."""
    bytes: int
    """Bytes in the whole time bucket."""
    bytes_per_second: float


class RuleSaving(_Model):
    """The effect of one rule of a slave's filter, with all other rules in force."""

    rule: str
    """The rule as an option: ``--replicate-do-db=shop``."""
    bytes_without: int
    """Bytes that the master would send to the slave if the filter did not have this rule."""
    saving: int
    """``bytes_without`` minus the bytes that the master sends. Negative if the rule admits events."""


class TableShare(_Model):
    """The part of a table in a slave's traffic."""

    table: str
    """The :attr:`TableFigures.name` of the table."""
    bytes: int


class SlaveFigures(_Model):
    """The figures of one slave over the whole binlog."""

    name: str
    server_id: int | None
    semantics: str
    """The semantics of the slave's filter, ``classic`` or ``effective``."""
    rules: tuple[str, ...]
    no_filter: Figures
    """The traffic that a slave without rules is sent, and applies."""
    applied: Figures
    """The traffic that the slave's SQL thread executes. With the filter on the slave, the master still sends
    ``no_filter``."""
    master_side: Figures
    """The traffic that the gRPC dump sends with the filter on the master, to the byte."""
    undecided_events: int
    """Events in ``master_side`` that are undecided. The slave's own filter decides about them."""
    compressed_no_filter: int
    """The bytes of ``no_filter`` as zstd (level 3, chunks of 256 KiB), estimated by the ratio of
    compressed samples."""
    compressed: int
    """The bytes of ``master_side`` as zstd, estimated in the same way as ``compressed_no_filter``."""
    split: int
    """The bytes of events in those per-schema binlogs that hold any event that this slave applies."""
    split_sets: tuple[str, ...]
    """The names of the schemas of those binlogs; "@rest" for the binlog of events without a schema."""
    peak_no_filter: Peak | None
    peak: Peak | None
    """The peak of the slave's traffic with the filter on the master."""
    rule_savings: tuple[RuleSaving, ...]
    tables: tuple[TableShare, ...]
    """All tables in ``master_side``, the largest first."""
    cpu_seconds: float
    """CPU seconds of the master for deciding and copying this slave's stream, estimated from timed samples."""


class TableFigures(_Model):
    """The traffic of a table in the source, or of a kind of traffic that belongs to no single table."""

    name: str
    """``schema.table``, ``schema (statements)``, ``(several tables)``, or ``(no table)``. Names are unique."""
    database: str | None
    table: str | None
    bytes: int
    events: int
    transactions: int


class Series(_Model):
    """Bytes over time, with one entry for each bucket of :attr:`Results.bucket_starts`."""

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
    last_time: int | None


class SkippedFile(_Model):
    """A damaged file that was skipped, or whose rest was skipped (``--on-corrupt skip``)."""

    file: str
    position: int | None
    """The position from which on the file was skipped; None for the whole file."""
    reason: str


class MasterCost(_Model):
    """CPU seconds of the master for this binlog, on one core of the machine of this run."""

    scan_seconds: float
    """Reading, verifying and indexing the binlog, once for all slaves."""
    decide_seconds: float
    """Deciding for all slaves, the sum of :attr:`SlaveFigures.cpu_seconds`."""
    unfiltered_seconds: float
    """Copying the stream for as many slaves without a filter."""


class Results(_Model):
    """All results of a job. ``format`` is raised when the meaning of a field changes."""

    format: int = 1
    source: SourceFigures
    bucket_seconds: int
    bucket_starts: tuple[int, ...]
    """The beginnings of the time buckets, Unix seconds, ascending. Buckets without traffic are left out."""
    slaves: tuple[SlaveFigures, ...]
    tables: tuple[TableFigures, ...]
    """The figures of all tables, the largest first."""
    series: Series
    cost: MasterCost
    skipped: tuple[SkippedFile, ...] = ()
    warnings: tuple[str, ...] = ()
