"""The verbs ``up`` and ``down`` of ``dumpfilter topology``."""

from __future__ import annotations

from dumpfilter.base.options.settings import Settings, setting
from dumpfilter.commands.topology.options import TopologyOptions
from dumpfilter.commands.topology.show import TopologyArgument


class UpSettings(Settings):
    """The options of ``dumpfilter topology up`` alone."""

    detach: bool = False
    """Run in the background, and return when everything runs."""
    timeout: str = setting("60s", metavar="TIME")
    """The longest start of one node, such as 2m."""
    keep: bool = False
    """Leave the directory with logs and data after the end."""
    table: bool = True
    """Show a live table on a terminal."""


def up_command(named: TopologyArgument, place: TopologyOptions, given: UpSettings) -> None:
    r"""Start a topology: its servers, masters, slaves and links.

    In the foreground a live table shows each node's position, lag and
    savings, until Ctrl-C. Then everything ends, and the report is printed.
    Ctrl-C and kill leave no process and no file. After kill -9 the next up
    or down cleans.

    Examples:

        dumpfilter topology up fan-out.toml

        dumpfilter topology up "m >> web\[do-db=shop_00, rate=2mbit]; m >> hr"

        dumpfilter topology up --detach \
            "m\[server=mariadb] >> f >> r\[server=mariadb]"
    """
    from dumpfilter.base.options.units import parse_time
    from dumpfilter.commands.topology.detached import start_detached
    from dumpfilter.commands.topology.foreground import run_in_foreground
    from dumpfilter.topology import topology_from

    read = topology_from(named.topology)
    seconds = parse_time(given.timeout)
    if given.detach:
        start_detached(named.topology, place.directory, timeout=given.timeout, keep=given.keep)
    else:
        run_in_foreground(read, place.directory, timeout=seconds, keep=given.keep, table=given.table)


def down_command(place: TopologyOptions) -> None:
    """End a topology that runs in the background or in another terminal.

    After kill -9 of the topology's process, down removes its files.

    Example:

        dumpfilter topology down
    """
    from dumpfilter.commands.topology.detached import end_topology

    end_topology(place.directory)
