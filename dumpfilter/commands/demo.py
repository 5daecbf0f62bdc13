"""The command ``dumpfilter demo``, which shows on one machine what filtering on the master saves.

A master serves a recorded binlog set to slaves with different filters. If MariaDB is installed, a real source and a
real replica repeat this.
"""

from __future__ import annotations

from pathlib import Path

from dumpfilter.base.options.settings import Settings, setting


class DemoSettings(Settings):
    """The options of ``dumpfilter demo``: the binlog set, the output directory, and the parts of the demonstration to
    leave out.
    """

    binlogs: Path | None = setting(None, is_argument=True)
    """A binlog set (index file or directory). Without it the recording of a MySQL server in the package."""
    output: Path = Path("demo")
    """Directory for the split, the report and the servers' logs."""
    split: bool = True
    """End with the split by schema, and the bandwidth report, on Spark or without it on threads."""
    servers: bool = True
    """End with a real MariaDB source and replica, if MariaDB is installed."""


def demo_command(given: DemoSettings) -> None:
    """Run a master, three slaves with filters and one without, then split the binlog by schema and report the
    bandwidth.

    A table shows the bytes saved for each slave and its position. Each slave must end in the state of a slave that
    received everything and filtered for itself.

    At the end a real MariaDB replica reads its filtered binlog from dumpfilter. It must end with the tables of a
    replica that reads from the source and filters for itself.

    Example:

        dumpfilter demo /var/lib/mysql/binlog.index --output /tmp/demo
    """
    from dumpfilter.testbed.demo.run import run_demo

    run_demo(given.binlogs, given.output, split=given.split, servers=given.servers)
