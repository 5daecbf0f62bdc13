"""The verbs ``up`` and ``down`` of ``dumpfilter topology``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dumpfilter.commands.topology.options import DIRECTORY, Directory
from dumpfilter.commands.topology.show import Topology

Keep = Annotated[bool, typer.Option("--keep", help="Leave the directory with logs and data after the end.")]


def up_command(
    topology: Topology,
    directory: Directory = DIRECTORY,
    detach: Annotated[
        bool, typer.Option("--detach", help="Run in the background, and return when everything runs.")
    ] = False,
    timeout: Annotated[
        str, typer.Option(help="The longest start of one node, such as 2m.", metavar="TIME")
    ] = "60s",
    keep: Keep = False,
    table: Annotated[bool, typer.Option(help="Show a live table on a terminal.")] = True,
) -> None:
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
    from dumpfilter.commands.topology.detached import start_detached
    from dumpfilter.commands.topology.foreground import run_in_foreground
    from dumpfilter.options.units import parse_time
    from dumpfilter.topology import topology_from

    read = topology_from(topology)
    seconds = parse_time(timeout)
    if detach:
        start_detached(topology, directory, timeout=timeout, keep=keep)
    else:
        run_in_foreground(read, directory, timeout=seconds, keep=keep, table=table)


def down_command(directory: Directory = DIRECTORY) -> None:
    """End a topology that runs in the background or in another terminal.

    After kill -9 of the topology's process, down removes its files.

    Example:

        dumpfilter topology down
    """
    from dumpfilter.commands.topology.detached import end_topology

    end_topology(Path(directory))
