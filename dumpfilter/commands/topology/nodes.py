"""The verbs ``kill``, ``stop``, ``start``, ``restart`` and ``hold`` of ``dumpfilter topology``."""

from __future__ import annotations

import typer

from dumpfilter.base.options.settings import setting
from dumpfilter.base.options.units import parse_time
from dumpfilter.commands.topology.options import NodeOptions


def kill_command(given: NodeOptions) -> None:
    """Kill a node's process with SIGKILL, as a crash would.

    Example:

        dumpfilter topology kill web
    """
    _act("kill", given)


def stop_command(given: NodeOptions) -> None:
    """End a node's process in order. A recording or a workload pauses.

    Example:

        dumpfilter topology stop m
    """
    _act("stop", given)


def start_command(given: NodeOptions) -> None:
    """Start a killed or stopped node again, with its files and its ports.

    Example:

        dumpfilter topology start web
    """
    _act("start", given)


def restart_command(given: NodeOptions) -> None:
    """Stop a node and start it again.

    Example:

        dumpfilter topology restart web
    """
    _act("restart", given)


class HoldSettings(NodeOptions):
    """A node, and its delay."""

    behind: str = setting(metavar="TIME", is_argument=True)
    """The delay, such as 3s. 0s ends it."""


def hold_command(given: HoldSettings) -> None:
    """Hold a node's data a time behind its sources.

    A real replica uses its own delayed replication. A slave's links get a
    longer delay.

    Example:

        dumpfilter topology hold web 3s
    """
    given.ask("hold behind", node=given.node, seconds=parse_time(given.behind))


def _act(action: str, given: NodeOptions) -> None:
    status = given.ask("act", node=given.node, action=action)
    typer.echo(f"{given.node}: {status['state']}")
