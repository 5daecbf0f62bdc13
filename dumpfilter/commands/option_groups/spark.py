"""The options that the Spark jobs ``split`` and ``bandwidth`` have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dumpfilter.commands.option_groups.group import OptionGroup

if TYPE_CHECKING:
    from dumpfilter.spark_jobs.spark.context import SparkSettings

PANEL = "Spark"


@dataclass(frozen=True)
class JobReadOptions(OptionGroup):
    """The options for reading the binlog set in a Spark job."""

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
        """The size of the part of a binlog file that one Spark task works on, bytes."""
        return self.range_size << 20


@dataclass(frozen=True)
class SparkOptions(OptionGroup):
    """The options of the Spark that runs a job: the address of its master, its memory, and the workers' archive."""

    master: Annotated[
        str,
        typer.Option(
            "--master",
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

    @property
    def settings(self) -> SparkSettings:
        """The values of these options as the settings with which a Spark job is started."""
        from dumpfilter.spark_jobs.spark.context import SparkSettings

        return SparkSettings(self.master, self.driver_memory, self.executor_memory, self.environment)
