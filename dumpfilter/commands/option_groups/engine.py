"""The options that the jobs ``split``, ``bandwidth`` and ``simulate`` have in common: how a job reads the binlogs, and
the engine that runs its tasks."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dumpfilter.commands.option_groups.group import OptionGroup
from dumpfilter.errors import OptionError

if TYPE_CHECKING:
    from rich.console import Console

    from dumpfilter.spark_jobs.engines.runner import Runner

PANEL = "Spark (--engine spark)"

Engine = Literal["local", "spark"]

_HELP = "Where the work runs: local is threads of this process, spark is Apache Spark, which needs Java 17 or newer."

_SparkFirst = Annotated[Engine | None, typer.Option(help=_HELP, show_default="spark")]
_LocalFirst = Annotated[Engine | None, typer.Option(help=_HELP, show_default="local")]


@dataclass(frozen=True)
class JobReadOptions(OptionGroup):
    """The options for reading the binlog set in a job."""

    on_corrupt: Annotated[
        Literal["stop", "skip"],
        typer.Option(
            help="A damaged file: stop ends the job, skip reads the file up to the damage and warns of the rest."
        ),
    ] = "stop"
    range_size: Annotated[int, typer.Option(help="How much of a file one task takes, MiB.", min=1)] = 32
    verify_checksum: Annotated[bool, typer.Option(help="Verify the events' checksums.")] = True

    @property
    def range_bytes(self) -> int:
        """The size of the part of a binlog file that one task works on, bytes."""
        return self.range_size << 20


@dataclass(frozen=True)
class EngineOptions(OptionGroup):
    """The options of the engine that runs a job: its kind, and for Spark the address of its master, its memory, and the
    workers' archive."""

    engine: _SparkFirst = None
    spark_master: Annotated[
        str,
        typer.Option(
            "--spark-master",
            help="Spark master: local[N] (N cores of this machine) or spark://host:port.",
            metavar="URL",
            rich_help_panel=PANEL,
        ),
    ] = "local[*]"
    driver_memory: Annotated[
        str,
        typer.Option(help="Memory of Spark's Java process here.", metavar="SIZE", rich_help_panel=PANEL),
    ] = "1g"
    executor_memory: Annotated[
        str,
        typer.Option(
            help="Memory of each worker's Java process, on a cluster.", metavar="SIZE", rich_help_panel=PANEL
        ),
    ] = "1g"
    environment: Annotated[
        str | None,
        typer.Option(
            help="The archive that the workers of a cluster run. dumpfilter package-environment makes it.",
            metavar="FILE",
            rich_help_panel=PANEL,
        ),
    ] = None
    conf: Annotated[
        list[str] | None,
        typer.Option(
            help="A setting of Spark, such as spark.executorEnv.NAME=VALUE, a worker's variable. Repeatable.",
            metavar="NAME=VALUE",
            rich_help_panel=PANEL,
            show_default=False,
        ),
    ] = None

    def runner(self, progress: Console, *, default: Engine) -> AbstractContextManager[Runner]:
        """Return what runs the job's tasks, as a context manager that ends Spark.

        ``default`` is the engine that runs the job if the user named none. ``progress`` shows the progress. Raises
        OptionError for an option of Spark with the local engine, and SparkMissing when Spark cannot start here.
        """
        if (self.engine or default) == "spark":
            from dumpfilter.spark_jobs.spark.context import SparkSettings
            from dumpfilter.spark_jobs.spark.jobs import spark_runner

            memory = self.driver_memory, self.executor_memory
            settings = SparkSettings(self.spark_master, *memory, self.environment, tuple(self.conf or ()))
            return spark_runner(settings, progress)
        for option in fields(self):
            value = getattr(self, option.name) or None
            if option.name != "engine" and value != option.default:
                name = f"--{option.name.replace('_', '-')}"
                raise OptionError(f"{name} is an option of Spark, and the work runs here: add --engine spark")
        from dumpfilter.spark_jobs.engines.threads import ThreadRunner

        return nullcontext(ThreadRunner(console=progress))


@dataclass(frozen=True)
class LocalEngineOptions(EngineOptions):
    """The options of the engine that runs a job of a command which is local by default."""

    engine: _LocalFirst = None
