"""The verbs of ``dumpfilter topology`` that ask or change a running topology."""

from __future__ import annotations

import sys
import time
from typing import Any

import typer

from dumpfilter.base.errors import OptionError
from dumpfilter.base.options.near import did_you_mean
from dumpfilter.base.options.settings import Settings, setting
from dumpfilter.base.options.units import parse_rate, parse_size, parse_time
from dumpfilter.base.printable import for_terminal
from dumpfilter.commands.sql import print_results
from dumpfilter.commands.topology.options import (
    NODES,
    RUNNING,
    JsonOption,
    NodeOptions,
    TopologyOptions,
    complete_node,
    verb,
)
from dumpfilter.console.rendering import Format

_FOLLOW_SECONDS = 0.2
"""The time between two looks at a log that is followed, seconds."""


class WatchOption(Settings):
    """The option ``--watch`` of a status, which shows the status again at an interval."""

    watch: float | None = setting(None, min=0.1, max=86_400, metavar="SECONDS")
    """Show the status again after so many seconds, until Ctrl-C."""


@verb(RUNNING)
def status_command(place: TopologyOptions, output: JsonOption, given: WatchOption) -> None:
    """Show each node's position, lag, rate and problems, and each link's state.

    A node is a server, master or slave of the running topology, and a link is the network connection of two nodes. With
    --json also the ports, accounts, addresses and directories.

    Exit codes: 0 good. 4 a node has a problem. 3 no topology is up.

    Examples:

        dumpfilter topology status

        dumpfilter topology status --json | jq -r .nodes.web.url
    """
    from dumpfilter.commands.topology.views import status_view, watch_status

    if given.watch is not None and not output.as_json:
        watch_status(lambda: place.ask("status"), given.watch)
        return
    status = place.ask("status")
    output.print(status, status_view)
    if status["problems"]:
        raise typer.Exit(4)


class WaitOptions(TopologyOptions):
    """The options for waiting until nodes have caught up: the time limit, and whether only running nodes count."""

    timeout: str = setting("30s", metavar="TIME")
    """The longest wait, such as 30s or 5m."""
    running_only: bool = False
    """Leave out nodes that were stopped or killed, or have failed."""

    @property
    def limits(self) -> dict[str, float | bool]:
        """The limit of a wait in seconds (key ``timeout``), and whether only running nodes count (``running_only``)."""
        return {"timeout": parse_time(self.timeout, option="--timeout"), "running_only": self.running_only}


class WaitSettings(WaitOptions):
    """The options of ``dumpfilter topology wait``: the node, the time limit, and whether recordings must be written to
    their end first.
    """

    node: str = setting("", metavar="[NODE]", autocompletion=complete_node, is_argument=True)
    """The name of a node. Without it all nodes are waited for."""
    done: bool = False
    """First wait until recordings and workloads have written everything."""


@verb(RUNNING)
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


@verb(RUNNING)
def check_command(given: WaitOptions) -> None:
    """Check that each node has the data, positions and GTIDs that its sources and filters require.

    First wait until all nodes have caught up.

    Slaves of dumpfilter are compared with a slave that received everything and filters for itself. Real servers are
    compared table by table, with CHECKSUM TABLE.

    Exit codes: 0 equal. 4 a difference, which the error names, or not in time. 3 no topology is up, or a node does not
    run.

    Example:

        dumpfilter topology check --timeout 2m
    """
    given.ask("check", **given.limits)
    typer.echo("every node has the data, positions and GTIDs that its sources and filters say")


@verb(RUNNING)
def report_command(place: TopologyOptions, output: JsonOption) -> None:
    """Show the bytes that went over each link, the bytes that filters saved, and the lag of each node.

    A link is the network connection of two nodes of the running topology.

    Examples:

        dumpfilter topology report

        dumpfilter topology report --json > report.json
    """
    from dumpfilter.commands.topology.views import report_view

    output.print(place.ask("report"), report_view)


class LinkSettings(TopologyOptions):
    """The options of ``dumpfilter topology link``: a link (network connection of two nodes) and its changes."""

    link: str = setting(metavar="SOURCE:TARGET", is_argument=True)
    """The link, such as m:web."""
    rate: str = setting("", metavar="RATE")
    """Bits per second, such as 2mbit; none: without a limit."""
    delay: str = setting("", metavar="TIME")
    """The delay one way, such as 50ms."""
    jitter: str = setting("", metavar="TIME")
    """The largest change of the delay."""
    plain: bool = False
    """No rate, no delay, no jitter."""
    cut: bool = False
    """Reset all connections, and refuse new ones."""
    silence: bool = False
    """Let no byte pass, and reset no connection."""
    cut_after: str = setting("", metavar="SIZE")
    """Cut after so many more bytes, such as 64K, have reached the target."""
    duration: str = setting("", "--for", metavar="TIME")
    """End the cut or silence by itself after this time."""
    heal: bool = False
    """End a cut, a silence or an outage."""

    def fault(self) -> tuple[str | None, list[float | None]]:
        """Return the name of the network fault that the options ask for (None: no fault), and the fault's arguments.

        The name is ``cut`` (reset connections), ``silence`` (let no byte pass), ``cut_after`` (cut after some bytes) or
        ``heal`` (end a fault). The arguments are the bytes of ``cut_after``, if given, and the duration in seconds
        (None: until healed). ``heal`` has none. Raises OptionError for options that exclude each other.
        """
        given = [name for name in ("cut", "silence", "cut_after", "heal") if getattr(self, name)]
        options = [f"--{name.replace('_', '-')}" for name in given]
        if len(given) > 1:
            raise OptionError(f"{options[0]} stands beside {options[1]}; give one of them")
        if self.duration and given in ([], ["heal"]):
            raise OptionError("--for goes with --cut, --silence or --cut-after; give one of them")
        arguments: list[float | None] = []
        if self.cut_after:
            arguments.append(parse_size(self.cut_after, option="--cut-after"))
        if not self.heal:
            arguments.append(parse_time(self.duration, option="--for") if self.duration else None)
        return given[0] if given else None, arguments

    def shape(self) -> dict[str, Any]:
        """Return the new rate and delay of the link, with the keys ``rate``, ``delay`` and ``jitter`` as far as the
        options give them.

        Rates are in bits per second (None: unlimited), times in seconds. Raises OptionError for options that exclude
        each other.
        """
        given = {name: text for name in ("rate", "delay", "jitter") if (text := getattr(self, name))}
        if self.plain and given:
            raise OptionError("--plain stands beside --rate, --delay or --jitter; give one of them")
        if self.plain:
            return {"rate": None, "delay": 0.0, "jitter": 0.0}
        return {
            name: (parse_rate if name == "rate" else parse_time)(text, option=f"--{name}")
            if (name, text) != ("rate", "none")
            else None
            for name, text in given.items()
        }


@verb(NODES)
def link_command(given: LinkSettings, output: JsonOption) -> None:
    """Show a link (the network connection of two nodes), or change, cut or heal it.

    The rate and the delay apply to each direction separately.

    Examples:

        dumpfilter topology link m:web

        dumpfilter topology link m:web --rate 512kbit --delay 50ms

        dumpfilter topology link m:web --cut --for 10s

        dumpfilter topology link m:web --heal --plain
    """
    from dumpfilter.commands.topology.views import links_table

    fault, arguments = given.fault()
    status = given.ask("link", link=given.link, shape=given.shape(), fault=fault, arguments=arguments)
    output.print(status, lambda one: links_table([one]), indent=None)


@verb(NODES)
def kill_command(given: NodeOptions) -> None:
    """Kill a node's process with SIGKILL, as a crash would.

    A recording or a generated workload is a node without a process. Such a node stops writing its binlog until it is
    started again.

    Example:

        dumpfilter topology kill web
    """
    _act("kill", given)


@verb(NODES)
def stop_command(given: NodeOptions) -> None:
    """Stop a node's process with its regular shutdown.

    A recording or a generated workload is a node without a process. Such a node stops writing its binlog until it is
    started again.

    Example:

        dumpfilter topology stop m
    """
    _act("stop", given)


@verb(NODES)
def start_command(given: NodeOptions) -> None:
    """Start a killed or stopped node again, with its files and its ports.

    A recording or a generated workload goes on writing its binlog where it stopped.

    Example:

        dumpfilter topology start web
    """
    _act("start", given)


@verb(NODES)
def restart_command(given: NodeOptions) -> None:
    """Stop a node and start it again.

    Example:

        dumpfilter topology restart web
    """
    _act("restart", given)


class HoldSettings(NodeOptions):
    """The options of ``dumpfilter topology hold``: a node, and its replication delay."""

    behind: str = setting(metavar="TIME", is_argument=True)
    """The delay, such as 3s. 0s ends it."""


@verb(NODES)
def hold_command(given: HoldSettings) -> None:
    """Hold a node's data a time behind its sources.

    A real replica uses its own delayed replication. For a slave of dumpfilter, the links to the slave get a longer
    delay. A time of 0s ends the delay.

    Example:

        dumpfilter topology hold web 3s
    """
    given.ask("hold behind", node=given.node, seconds=parse_time(given.behind))


def _act(action: str, given: NodeOptions) -> None:
    status = given.ask("act", node=given.node, action=action)
    typer.echo(f"{given.node}: {status['state']}")


class SqlSettings(NodeOptions):
    """The options of ``dumpfilter topology sql``: a node, and the statements to run on it."""

    execute: str | None = setting(None, "--execute", "-e", metavar="SQL")
    """Statements. Without it the standard input has them."""
    form: Format = setting(Format.TABLE, "--format")
    """How results are written."""


class LogSettings(NodeOptions):
    """The options of ``dumpfilter topology logs``: a node, and the part of its log to print."""

    lines: int = setting(0, "--lines", "-n", min=0)
    """The last lines only; 0: all."""
    follow: bool = setting(False, "--follow", "-f")
    """Go on until Ctrl-C."""


@verb(NODES)
def sql_command(given: SqlSettings) -> None:
    r"""Run statements on a real server, or on the console of a master or slave.

    The script ends at the first error, with exit code 1.

    Examples:

        dumpfilter topology sql web -e 'SHOW REPLICA STATUS\G'

        dumpfilter topology sql m < schema.sql
    """
    from dumpfilter.console.client import console_login

    nodes: dict[str, dict[str, Any]] = given.ask("status")["nodes"]
    if given.node not in nodes:
        raise OptionError(f"there is no node {given.node!r}{did_you_mean(given.node, nodes)}")
    found = nodes[given.node]
    port = found["ports"].get("sql")
    if port is None:
        raise OptionError(f"{given.node}: a {found['kind']} has no port for SQL; ask one of its readers")
    login = console_login("127.0.0.1", port, found["user"], found["password"])
    script = sys.stdin.read() if given.execute is None else given.execute
    print_results(login, script, given.form, given.node)


@verb(NODES)
def logs_command(given: LogSettings) -> None:
    """Print a node's log.

    Example:

        dumpfilter topology logs web --lines 20 --follow
    """
    begin, lines = 0, given.lines
    while True:
        text = given.ask("logs", node=given.node, begin=begin)
        begin += len(text)
        if lines:
            text, lines = "".join(text.splitlines(keepends=True)[-lines:]), 0
        typer.echo(for_terminal(text) if sys.stdout.isatty() else text, nl=False)
        if not given.follow:
            return
        time.sleep(_FOLLOW_SECONDS)
