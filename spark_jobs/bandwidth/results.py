"""What the bandwidth job finds out: the model behind its JSON, its Parquet tables and its report.

All bytes are bytes of events (headers and checksums included), as the gRPC dump sends them in ``Chunk.events``; all
times are Unix seconds, UTC.
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
    """Of which at least one event is in it."""


class Peak(_Model):
    """The busiest bucket."""

    start: int
    """Unix seconds."""
    bytes: int
    """In the whole bucket."""
    bytes_per_second: float


class RuleSaving(_Model):
    """What one rule of a slave's filter does, all its others staying."""

    rule: str
    """As an option: ``--replicate-do-db=shop``."""
    bytes_without: int
    """What the slave would be sent with the filter on the master and without this rule."""
    saving: int
    """``bytes_without`` less what it is sent; negative where the rule lets in what would be kept out."""


class TableShare(_Model):
    """A part of a slave's traffic."""

    table: str
    """Its :attr:`TableFigures.name`."""
    bytes: int


class SlaveFigures(_Model):
    """One slave, over the whole binlog."""

    name: str
    server_id: int | None
    semantics: str
    """``classic`` or ``effective``."""
    rules: tuple[str, ...]
    no_filter: Figures
    """What it is sent, and applies, without any rule."""
    applied: Figures
    """What its SQL thread executes with its filter; with the filter on the slave ``no_filter`` is still sent."""
    master_side: Figures
    """What it is sent with its filter on the master: what the gRPC dump sends, to the byte."""
    undecided_events: int
    """Of ``master_side``: sent because the master cannot tell (the slave's own filter decides)."""
    compressed_no_filter: int
    """Bytes, an estimate: the whole stream with zstd (level 3, 256 KiB chunks), by the ratio measured on samples."""
    compressed: int
    """Bytes, an estimate: ``master_side`` with zstd, likewise."""
    split: int
    """Bytes: the events of all per-schema binlogs that hold anything this slave applies."""
    split_sets: tuple[str, ...]
    """Those binlogs' schemas, by name; "@rest" for what belongs to no schema."""
    peak_no_filter: Peak | None
    peak: Peak | None
    """With the filter on the master."""
    rule_savings: tuple[RuleSaving, ...]
    tables: tuple[TableShare, ...]
    """All tables it is sent anything of (filter on the master), the heaviest first."""
    cpu_seconds: float
    """Of the master, for deciding and cutting this slave's stream; an estimate from timed samples."""


class TableFigures(_Model):
    """What a table (or a kind of traffic that is no single table's) weighs in the source."""

    name: str
    """``schema.table``; ``schema (statements)``; ``(several tables)``; ``(no table)``. Unique."""
    database: str | None
    table: str | None
    bytes: int
    events: int
    transactions: int


class Series(_Model):
    """Bytes over time, one entry a bucket of :attr:`Results.bucket_starts`."""

    no_filter: tuple[int, ...]
    """The binlog once: what each slave without a filter is sent."""
    slaves: dict[str, tuple[int, ...]]
    """By slave's name: with its filter on the master."""


class SourceFigures(_Model):
    """What was read."""

    files: tuple[str, ...]
    bytes: int
    """Of the files."""
    events: int
    transactions: int
    family: str
    """``mysql`` or ``mariadb``."""
    server_version: str
    first_time: int | None
    last_time: int | None


class SkippedFile(_Model):
    """A file, or the rest of one, that could not be read and was passed over (``--on-corrupt skip``)."""

    file: str
    position: int | None
    """From where on it was passed over; None: all of it."""
    reason: str


class MasterCost(_Model):
    """CPU seconds of the master for this binlog, measured in this run on this machine (one core's)."""

    scan_seconds: float
    """Reading, verifying and indexing it once, for all slaves together."""
    decide_seconds: float
    """Deciding for all slaves (the sum of :attr:`SlaveFigures.cpu_seconds`)."""
    unfiltered_seconds: float
    """What cutting and copying the same stream for as many slaves without a filter costs."""


class Results(_Model):
    """Everything. ``format`` counts up when a field changes its meaning."""

    format: int = 1
    source: SourceFigures
    bucket_seconds: int
    bucket_starts: tuple[int, ...]
    """Unix seconds, ascending; buckets without traffic are left out."""
    slaves: tuple[SlaveFigures, ...]
    tables: tuple[TableFigures, ...]
    """The heaviest first."""
    series: Series
    cost: MasterCost
    skipped: tuple[SkippedFile, ...] = ()
    warnings: tuple[str, ...] = ()
