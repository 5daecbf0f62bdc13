"""The verbs ``wait`` and ``check`` of ``dumpfilter topology``."""

from __future__ import annotations

from typing import Annotated

import typer

from dumpfilter.commands.topology.options import DIRECTORY, Directory, Timeout, ask, complete_node
from dumpfilter.options.units import parse_time

RunningOnly = Annotated[
    bool, typer.Option("--running-only", help="Leave out nodes that were stopped or killed, or have failed.")
]


def wait_command(
    node: Annotated[
        str,
        typer.Argument(
            help="The name of a node. Without it all nodes are waited for.",
            metavar="[NODE]",
            autocompletion=complete_node,
        ),
    ] = "",
    directory: Directory = DIRECTORY,
    timeout: Timeout = "30s",
    done: Annotated[
        bool,
        typer.Option("--done", help="First wait until recordings and workloads have written everything."),
    ] = False,
    running_only: RunningOnly = False,
) -> None:
    """Wait until a node, or every node, has caught up with what its sources have written by now.

    Exit codes: 0 caught up. 4 not in time. 3 no topology is up, or a node
    does not run.

    Examples:

        dumpfilter topology wait

        dumpfilter topology wait web --timeout 5m
    """
    seconds = parse_time(timeout)
    if done:
        ask(directory, "wait done", timeout=seconds)
    ask(directory, "wait", node=node, timeout=seconds, running_only=running_only)


def check_command(
    directory: Directory = DIRECTORY, timeout: Timeout = "30s", running_only: RunningOnly = False
) -> None:
    """Check the law: each node has what its sources and filters say.

    First wait until all have caught up.

    Slaves of dumpfilter are compared with a slave that received everything
    and filters for itself. Real servers are compared table by table, with
    CHECKSUM TABLE.

    Exit codes: 0 equal. 4 a difference, which the error names, or not in time.
    3 no topology is up, or a node does not run.

    Example:

        dumpfilter topology check --timeout 2m
    """
    ask(directory, "check", timeout=parse_time(timeout), running_only=running_only)
    typer.echo("every node has the data, positions and GTIDs that its sources and filters say")
