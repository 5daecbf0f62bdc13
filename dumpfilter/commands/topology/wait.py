"""The verbs ``wait`` and ``check`` of ``dumpfilter topology``."""

from __future__ import annotations

import typer

from dumpfilter.base.options.settings import setting
from dumpfilter.base.options.units import parse_time
from dumpfilter.commands.topology.options import TopologyOptions, complete_node


class WaitOptions(TopologyOptions):
    """The limit of a wait, and the nodes that it leaves out."""

    timeout: str = setting("30s", metavar="TIME")
    """The longest wait, such as 30s or 5m."""
    running_only: bool = False
    """Leave out nodes that were stopped or killed, or have failed."""

    @property
    def limits(self) -> dict[str, float | bool]:
        """The options as arguments of the verb."""
        return {"timeout": parse_time(self.timeout), "running_only": self.running_only}


class WaitSettings(WaitOptions):
    """The state that is waited for."""

    node: str = setting("", metavar="[NODE]", autocompletion=complete_node, is_argument=True)
    """The name of a node. Without it all nodes are waited for."""
    done: bool = False
    """First wait until recordings and workloads have written everything."""


def wait_command(given: WaitSettings) -> None:
    """Wait until a node, or every node, has caught up with what its sources have written by now.

    Exit codes: 0 caught up. 4 not in time. 3 no topology is up, or a node
    does not run.

    Examples:

        dumpfilter topology wait

        dumpfilter topology wait web --timeout 5m
    """
    if given.done:
        given.ask("wait done", timeout=given.limits["timeout"])
    given.ask("wait", node=given.node, **given.limits)


def check_command(given: WaitOptions) -> None:
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
    given.ask("check", **given.limits)
    typer.echo("every node has the data, positions and GTIDs that its sources and filters say")
