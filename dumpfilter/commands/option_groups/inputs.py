"""The inputs of commands: the binlog set (files or a running server's address), and the slaves with their filters.

For jobs such as ``split`` and ``bandwidth``, also the engine that runs the tasks (threads of this process, or Spark).
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from dumpfilter.base.errors import OptionError
from dumpfilter.base.options.settings import Settings, setting, until_end_of_command

if TYPE_CHECKING:
    from rich.console import Console

    from dumpfilter.index.fileset import BinlogSet
    from dumpfilter.spark_jobs.engines import Runner
    from dumpfilter.topology.slaves_file import SlaveDefinition

PANEL = "Spark (--engine spark)"

Engine = Literal["local", "spark"]


class OptionalBinlogArguments(Settings):
    """The arguments that name a binlog set, for a command that can also run without one."""

    binlogs: list[str] | None = setting(None, metavar="BINLOGS", is_argument=True)
    """The binlog set: its index file, its directory, or the files one by one, also as s3a:, hdfs: and file:
    addresses; or a running server, mysql://USER@HOST:PORT/ (docs/receiving.md); or --statement."""
    store: Path | None = setting(None, metavar="DIRECTORY")
    """Keep what is fetched from a mysql:// address in this directory, and go on there the next time. Without it the
    files are temporary."""

    def source(self) -> list[str]:
        """Return the paths of the binlog set that the command line names, as an argument for ``BinlogSet.open``. The
        binlog of a running server is fetched first.
        """
        return fetched(self.binlogs or [], self.store)

    def open(self) -> BinlogSet:
        """Return the binlog set that the command line names. The binlog of a running server is fetched first."""
        from dumpfilter.index.fileset import BinlogSet

        return BinlogSet.open(self.source())


class BinlogArguments(OptionalBinlogArguments):
    """The binlog set that a command reads. It may be on a remote file system, or be fetched from a running server."""

    binlogs: list[str] = setting(metavar="BINLOGS", show_default=False, is_argument=True)
    """The binlog set: its index file, its directory, or the files one by one, also as s3a:, hdfs: and file:
    addresses; or a running server, mysql://USER@HOST:PORT/ (docs/receiving.md)."""


class VerifyOptions(Settings):
    """The option that says whether a command verifies event checksums while it reads a binlog set."""

    verify_checksum: bool = True
    """Verify the events' checksums."""


class SlaveSetOptions(Settings):
    """The options that describe slaves with their filters, in files (``--slaves``) or on the command line
    (``--slave``).
    """

    slaves: list[Path] | None = setting(None, metavar="FILE", show_default=False)
    """Slaves and their filters: a TOML file, or a replica's own my.cnf. Repeatable."""
    slave: list[str] | None = setting(None, metavar="NAME:OPTIONS", show_default=False)
    """A slave and its filter, for example to try out a filter. Can be combined with --slaves. Repeatable."""

    def definitions(self) -> list[SlaveDefinition]:
        """Return the names and filters of the slaves that ``--slaves`` and ``--slave`` describe. Raises OptionError."""
        from dumpfilter.topology.slaves_file import slaves_of

        return slaves_of(self.slaves or [], self.slave or [])


def fetched(binlogs: list[str], store: Path | None) -> list[str]:
    """Return the paths of a binlog set. If ``binlogs`` is a running server's address, its binlog is fetched first.

    The files are kept in ``store``. With None they are temporary, until the end of the command. Raises OptionError.
    """
    from dumpfilter.receiver.url import is_source_url, parse_source_url

    addresses = [each for each in binlogs if is_source_url(each)]
    if not addresses:
        if store is not None:
            raise OptionError("--store goes with the address of a server, mysql://…")
        return binlogs
    url = parse_source_url(addresses[0])
    if len(binlogs) > 1:
        raise OptionError(f"{url}: name one server, and no files beside it")
    from rich.console import Console

    from dumpfilter.commands.reception import fetch

    directory = store or until_end_of_command(tempfile.TemporaryDirectory(prefix="dumpfilter-fetch-"))
    sync = "none" if store is None else "interval"
    fetch(url, Path(directory), sync, Console(stderr=True, highlight=False))
    return [str(directory)]


class JobReadOptions(Settings):
    """The options for reading a binlog set in a job such as ``split`` or ``bandwidth``.

    They tell how to treat damaged files and checksums, and how many bytes one parallel task reads.
    """

    on_corrupt: Literal["stop", "skip"] = "stop"
    """A damaged file: stop ends the job, skip reads the file up to the damage and warns of the rest."""
    range_size: int = setting(32, min=1)
    """The size of the part of a file that one task reads, MiB."""
    verify_checksum: bool = True
    """Verify the events' checksums."""

    @property
    def read_options(self) -> dict[str, Any]:
        """The values of these options as keyword arguments for ``ReadOptions``, with which a job reads binlogs."""
        return {
            "on_corrupt": self.on_corrupt,
            "verify": self.verify_checksum,
            "range_size": self.range_size << 20,
        }


class EngineOptions(Settings, panel=PANEL):
    """The options of the engine that runs a job such as ``split`` or ``bandwidth``: threads of this process, or Spark
    with its settings.
    """

    engine: Engine | None = setting(None, show_default="spark", rich_help_panel=None)
    """The engine that runs the job: local uses threads of this process, spark uses Apache Spark, which needs Java 17 or
    newer.
    """
    spark_master: str = setting("local[*]", metavar="URL")
    """Spark master: local[N] (N cores of this machine) or spark://host:port."""
    driver_memory: str = setting("1g", metavar="SIZE")
    """Memory of Spark's Java process on this machine (the driver)."""
    executor_memory: str = setting("1g", metavar="SIZE")
    """Memory of each worker's Java process, on a cluster."""
    environment: str | None = setting(None, metavar="FILE")
    """The archive of the Python environment that the workers of a cluster run. docs/cluster.md shows how to make it."""
    conf: list[str] | None = setting(None, metavar="NAME=VALUE", show_default=False)
    """A setting of Spark, such as spark.executorEnv.NAME=VALUE, a worker's variable. Repeatable."""

    def runner(self, progress: Console, *, default: Engine) -> AbstractContextManager[Runner]:
        """Return the object that runs the parallel tasks of a job, on threads or on Spark. It is a context manager that
        stops Spark at its end.

        ``default`` is the engine (threads or Spark) if the user named none. ``progress`` is the console for the
        progress bar. Raises OptionError for an option of Spark with the local engine, and SparkMissing when Spark
        cannot start here.
        """
        if (self.engine or default) == "spark":
            from dumpfilter.spark_jobs.spark import SparkSettings, spark_runner

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
    """The engine that runs the job: local uses threads of this process, spark uses Apache Spark, which needs Java 17 or
    newer.
    """


@contextmanager
def telling_interruption(progress: Console, output: Path) -> Iterator[None]:
    """Print on the console ``progress`` at Ctrl-C that the directory ``output`` is unchanged, and raise
    KeyboardInterrupt again.

    The body of the ``with`` statement must leave ``output`` unchanged until its end.
    """
    try:
        yield
    except KeyboardInterrupt:
        progress.print(
            f"dumpfilter: interrupted; {output} is as before", markup=False, highlight=False, soft_wrap=True
        )
        raise
