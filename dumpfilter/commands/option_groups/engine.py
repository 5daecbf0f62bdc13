"""The common options of the jobs ``split``, ``bandwidth`` and ``simulate``: how to read the binlogs, and which engine
runs the tasks (threads of this process, or Spark).
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Literal

from dumpfilter.base.errors import OptionError
from dumpfilter.base.options.settings import Settings, setting

if TYPE_CHECKING:
    from rich.console import Console

    from dumpfilter.spark_jobs.engines import Runner

PANEL = "Spark (--engine spark)"

Engine = Literal["local", "spark"]


class JobReadOptions(Settings):
    """The options for reading a binlog set in a job such as ``split`` or ``bandwidth``.

    They tell how to treat damaged files and checksums, and how many bytes one parallel task reads.
    """

    on_corrupt: Literal["stop", "skip"] = "stop"
    """A damaged file: stop ends the job, skip reads the file up to the damage and warns of the rest."""
    range_size: int = setting(32, min=1)
    """The part of a file that one task takes, MiB."""
    verify_checksum: bool = True
    """Verify the events' checksums."""

    @property
    def range_bytes(self) -> int:
        """The number of bytes of a binlog file that one parallel task of a job reads (``--range-size``)."""
        return self.range_size << 20


class EngineOptions(Settings, panel=PANEL):
    """The options of the engine that runs a job such as ``split`` or ``bandwidth``: threads of this process, or Spark
    with its settings.
    """

    engine: Engine | None = setting(None, show_default="spark", rich_help_panel=None)
    """The place of the work: local is threads of this process, spark is Apache Spark, which needs Java 17 or newer."""
    spark_master: str = setting("local[*]", metavar="URL")
    """Spark master: local[N] (N cores of this machine) or spark://host:port."""
    driver_memory: str = setting("1g", metavar="SIZE")
    """Memory of Spark's Java process here."""
    executor_memory: str = setting("1g", metavar="SIZE")
    """Memory of each worker's Java process, on a cluster."""
    environment: str | None = setting(None, metavar="FILE")
    """The archive of the Python that the workers of a cluster run. docs/cluster.md shows how to pack it."""
    conf: list[str] | None = setting(None, metavar="NAME=VALUE", show_default=False)
    """A setting of Spark, such as spark.executorEnv.NAME=VALUE, a worker's variable. Repeatable."""

    def runner(self, progress: Console, *, default: Engine) -> AbstractContextManager[Runner]:
        """Return the runner of the job's tasks, as a context manager that stops Spark at its end.

        ``default`` is the engine if the user named none. ``progress`` is the console for the progress bar. Raises
        OptionError for an option of Spark with the local engine, and SparkMissing when Spark cannot start here.
        """
        if (self.engine or default) == "spark":
            from dumpfilter.spark_jobs.spark.context import SparkSettings
            from dumpfilter.spark_jobs.spark.jobs import spark_runner

            memory = self.driver_memory, self.executor_memory
            settings = SparkSettings(self.spark_master, *memory, self.environment, tuple(self.conf or ()))
            return spark_runner(settings, progress)
        for name, field in type(self).model_fields.items():
            if name != "engine" and (getattr(self, name) or None) != field.default:
                name = f"--{name.replace('_', '-')}"
                raise OptionError(f"{name} is an option of Spark, and the work runs here: add --engine spark")
        from dumpfilter.spark_jobs.engines import ThreadRunner

        return nullcontext(ThreadRunner(console=progress))


class LocalEngineOptions(EngineOptions):
    """The options of the engine (threads of this process, or Spark) for commands that use threads by default."""

    engine: Engine | None = setting(None, show_default="local", rich_help_panel=None)
    """The place of the work: local is threads of this process, spark is Apache Spark, which needs Java 17 or newer."""
