"""The verbs ``kill``, ``stop``, ``start``, ``restart`` and ``hold`` of ``dumpfilter topology``."""

from __future__ import annotations

from typing import Annotated

import typer

from dumpfilter.commands.topology.options import DIRECTORY, Directory, NodeName, ask
from dumpfilter.options.units import parse_time


def kill_command(node: NodeName, directory: Directory = DIRECTORY) -> None:
    """Kill a node's process with SIGKILL, as a crash would.

    Example:

        dumpfilter topology kill web
    """
    _act("kill", node, directory)


def stop_command(node: NodeName, directory: Directory = DIRECTORY) -> None:
    """End a node's process in order. A recording or a workload pauses.

    Example:

        dumpfilter topology stop m
    """
    _act("stop", node, directory)


def start_command(node: NodeName, directory: Directory = DIRECTORY) -> None:
    """Start a killed or stopped node again, with its files and its ports.

    Example:

        dumpfilter topology start web
    """
    _act("start", node, directory)


def restart_command(node: NodeName, directory: Directory = DIRECTORY) -> None:
    """Stop a node and start it again.

    Example:

        dumpfilter topology restart web
    """
    _act("restart", node, directory)


def hold_command(
    node: NodeName,
    behind: Annotated[str, typer.Argument(help="The delay, such as 3s. 0s ends it.", metavar="TIME")],
    directory: Directory = DIRECTORY,
) -> None:
    """Hold a node's data a time behind its sources.

    A real replica uses its own delayed replication. A slave's links get a
    longer delay.

    Example:

        dumpfilter topology hold web 3s
    """
    ask(directory, "hold behind", node=node, seconds=parse_time(behind))


def _act(action: str, node: str, directory: Directory) -> None:
    status = ask(directory, "act", node=node, action=action)
    typer.echo(f"{node}: {status['state']}")
