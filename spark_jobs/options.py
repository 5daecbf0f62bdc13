"""The options of jobs that read a binlog set: how to read it, the options of each job, and those of Spark.

The module needs neither numpy nor Spark, so that ``--help`` answers at once.
"""

from __future__ import annotations

from functools import partial
from typing import Literal

from dumpfilter.analyse.report.measures import Audience
from dumpfilter.base.options.settings import Settings, setting
from dumpfilter.base.options.values import parse_mebibytes, parse_size

SPARK_PANEL = "Spark (--engine spark)"

RANGE_SIZE = 32 << 20
"""The default target size of a range (the part of a file that one task reads), bytes. A range ends with the transaction
by which it reaches this size, so it may be larger.
"""

BLOCK_SIZE = 4 << 20
"""The number of bytes that a task reads and scans at a time: 4 MiB, which mostly stay in the CPU's cache."""

MOST_UNITS = 4_000_000
"""The limit of the rows of traffic counts that the driver holds, from all tasks together. A row takes 72 bytes. Each
row counts the traffic under one condition (such as "this table is sent"), from one server, in one time bucket.
"""


class ReadOptions(Settings):
    """The options with which a job reads a binlog set: treatment of damage, checksums, and sizes in bytes."""

    on_corrupt: Literal["stop", "skip"] = "stop"
    """A damaged file: stop ends the job, skip reads the file up to the damage and warns of the rest."""
    range_size: int = setting(RANGE_SIZE >> 20, parse=parse_mebibytes, min=1)
    """The size of the part of a file that one task reads, MiB."""
    verify: bool = setting(True, "--verify-checksum/--no-verify-checksum")
    """Verify the events' checksums."""
    block_size: int = setting(BLOCK_SIZE, is_option=False)
    """The number of bytes of a range that a task reads and scans at a time."""


class BandwidthOptions(ReadOptions):
    """The options of a bandwidth job, which computes the bytes that a master would send to each slave."""

    bucket_seconds: int | None = setting(None, "--bucket", min=1, show_default=False)
    """Length of a time bucket, seconds. Bytes are summed for each bucket, and a peak is the busiest one. Default: about
    a minute.
    """
    price_per_gb: float | None = setting(None, "--price", min=0, metavar="PER_GB", show_default=False)
    """Price of a GB (10^9 bytes). The results then show the price of a month's traffic."""
    audience: Audience | None = setting(None, "--for", show_default=False)
    """The readers whose bytes are counted: real replicas, or slaves of dumpfilter. Default: replicas, unless
    a slave has rules and the binlogs are MySQL's without GTIDs.
    """
    most_units: int = setting(MOST_UNITS, is_option=False)
    """The number of units (rows of traffic counts) above which tasks merge counts that all filters treat alike.

    This keeps the results that are sent to the driver small, but every process must then evaluate every filter. Such
    measurements are valid only for filters with equal verdicts.
    """

    @property
    def key(self) -> tuple[object, ...]:
        """The values of the options that change measurements. Measurements of an earlier run can be reused only if its
        key is equal.
        """
        return self.bucket_seconds, self.on_corrupt, self.verify, self.range_size, self.block_size


class SplitSettings(ReadOptions):
    """The options of a split, which divides a binlog set into several, besides the binlogs to write."""

    max_binlog_size: int = setting("1G", parse=partial(parse_size, least=4096), metavar="SIZE")
    """Size at which a file ends after its transaction."""
    spanning: Literal["part", "refuse"] = "part"
    """A transaction with events for several binlogs: part writes to each binlog the events that belong to it, refuse
    ends the split with an error.
    """
    block_size: int = setting(16 << 20, is_option=False)
    """The number of bytes of a range that a task reads and scans at a time. A split has a fixed cost per block for each
    output (binlog set that it writes). From 32 MiB on, malloc would request new memory from the kernel each time.
    """
    overwrite: bool = False
    """Replace another split in the directory."""


class SuggestOptions(ReadOptions):
    """The options of a search for filter rules that save traffic."""

    range_size: int = setting(RANGE_SIZE, is_option=False)
    keep: list[str] = setting([], metavar="PATTERN", show_default=False)
    """Suggest no rule that drops a table matching this LIKE pattern for db.table. Repeatable."""
    most_rules: int = setting(3, "--rules", min=1, max=20)
    """The most rules to suggest for a slave."""


class SparkSettings(Settings, panel=SPARK_PANEL):
    """The options for the start of Spark. If spark-submit started the process, its own options count instead."""

    master: str = setting("local[*]", "--spark-master", metavar="URL")
    """Spark master: local[N] (N cores of this machine) or spark://host:port."""
    driver_memory: int = setting("1g", parse=partial(parse_size, least=1 << 20), metavar="SIZE")
    """Memory of Spark's Java process on this machine (the driver)."""
    executor_memory: int = setting("1g", parse=partial(parse_size, least=1 << 20), metavar="SIZE")
    """Memory of each worker's Java process, on a cluster."""
    environment: str | None = setting(None, metavar="FILE")
    """The archive of the Python environment that the workers of a cluster run. docs/cluster.md shows how to make it."""
    conf: list[str] = setting([], metavar="NAME=VALUE", show_default=False)
    """A setting of Spark, such as spark.executorEnv.NAME=VALUE, a worker's variable. Repeatable."""
