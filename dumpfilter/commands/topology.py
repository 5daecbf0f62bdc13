r"""Run a topology of sources, slaves, and links with limited rate and delay, and query it (docs/topology.md).

Example:

    dumpfilter topology up "m >> web\[do-db=shop_00]"
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
import shlex
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from dumpfilter.base.compiler import notice
from dumpfilter.base.endings import endings_interrupt, ignore_endings
from dumpfilter.base.errors import OptionError
from dumpfilter.base.options.settings import Settings, setting, with_settings
from dumpfilter.base.options.values import parse_rate, parse_size, parse_time
from dumpfilter.base.printable import for_terminal
from dumpfilter.commands.option_groups import JsonOption
from dumpfilter.commands.simulate import SimulationOutput
from dumpfilter.commands.sql import SqlSettings
from dumpfilter.commands.sub_command import CommandGroup, SubCommand

if TYPE_CHECKING:
    from rich.console import RenderableType

    from dumpfilter.topology.model import Topology

RUNNING = "A running topology"
NODES = "Its nodes and links"

_MOST_ERRORS = 1 << 20
"""The maximum number of bytes that are read from the error output of a topology's background process."""
_POLL_SECONDS = 0.02

topology_app = typer.Typer(
    cls=CommandGroup,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
)

Command = Callable[..., None]


def verb(panel: str | None = None) -> Callable[[Command], Command]:
    """Return a decorator that makes the function ``NAME_command`` the sub-command ``dumpfilter topology NAME``.

    ``panel`` is the heading of the sub-command in ``--help``, which lists sub-commands in the order of their
    definitions.
    """

    def add(command: Command) -> Command:
        name = command.__name__.removesuffix("_command")
        topology_app.command(name, cls=SubCommand, rich_help_panel=panel)(with_settings(command))
        return command

    return add


DIRECTORY = Path("dumpfilter-topology")
"""The directory of a topology if the user gives no ``--directory``."""


class TopologyOptions(Settings):
    """The option that names the directory of a running topology (a set of sources, masters and slaves for tests)."""

    directory: Path = setting(DIRECTORY, "--directory", "-d", envvar="DUMPFILTER_TOPOLOGY", metavar="DIR")
    """The directory of the topology. It has the topology's files, and the socket for the other commands."""

    def ask(self, verb: str, **arguments: Any) -> Any:
        """Call a method of the running topology in the directory that the option names, and return the method's result.

        ``verb`` is the method's name, such as ``status``. ``arguments`` are its arguments, and the name of the ``node``
        or ``link`` whose method is called. Raises NotUp if no topology runs there, and ControlFailed if the method
        raises an error.
        """
        from dumpfilter.testbed.directory import ask

        return ask(self.directory, verb, **arguments)


def _show(output: JsonOption, told: Any, view: Callable[[Any], RenderableType]) -> None:
    """Print ``told``, the result of a call to a running topology, as JSON or as the tables that ``view`` makes."""
    from dumpfilter.analyse.report.terminal import output_console

    output.show(told, lambda: output_console().print(view(told)))


class NodeOptions(TopologyOptions):
    """The directory of a running topology, and the argument that names one of its nodes. A node is a server, a master,
    a slave, a recording (replayed binlogs) or a workload (generated binlogs).
    """

    node: str = setting(metavar="NODE", is_argument=True)
    """The name of the node."""


class TopologyArgument(Settings):
    """The argument that names a topology (sources, masters, slaves and links), as a TOML file or a short string."""

    topology: str = setting(metavar="TOPOLOGY", is_argument=True)
    """A TOML file, or a short string such as 'm >> web'."""


class UpSettings(Settings):
    """The options that only ``dumpfilter topology up`` has, such as running in the background and keeping the
    directory.
    """

    detach: bool = False
    """Run in the background, and return when everything runs."""
    timeout: float = setting("60s", parse=parse_time, metavar="TIME")
    """The time limit for the start of each node, such as 2m."""
    keep: bool = False
    """Leave the directory with logs and data after the end."""


@verb()
def up_command(named: TopologyArgument, place: TopologyOptions, given: UpSettings) -> None:
    r"""Start a topology: its servers, masters, slaves and links.

    In the foreground a live table shows each node's position, lag and
    savings, until Ctrl-C. Then everything ends, and the report is printed.
    Ctrl-C and kill leave no process. They remove the directory if up made
    it, and otherwise leave the logs. With --keep all files stay. After
    kill -9 the next up or down cleans.

    Examples:

        dumpfilter topology up fan-out.toml

        dumpfilter topology up "m >> web\[do-db=shop_00, rate=2mbit]; m >> hr"

        dumpfilter topology up --detach \
            "m\[server=mariadb] >> f >> r\[server=mariadb]"
    """
    from dumpfilter.topology import topology_from

    read = topology_from(named.topology)
    if given.detach:
        _start_detached(named.topology, place.directory, given)
    else:
        _run_in_foreground(read, place.directory, given)


def _run_in_foreground(topology: Topology, directory: Path, given: UpSettings) -> None:
    """Start a topology, run it until Ctrl-C or ``dumpfilter topology down``, and print the report of bytes and lags.
    ``directory`` is for the topology's files, such as logs, and ``given`` has the command's options.
    """
    from dumpfilter.analyse.report.terminal import output_console
    from dumpfilter.testbed import up
    from dumpfilter.testbed.directory import ControlServer
    from dumpfilter.testbed.views import report_view, status_view, watch_status

    console = output_console()
    with (
        up(topology, directory, keep=given.keep, timeout=given.timeout, is_command=True) as bed,
        ControlServer(bed),
    ):
        # Ctrl-C and `dumpfilter topology down` are how people end a topology, so they are no failure.
        with contextlib.suppress(KeyboardInterrupt, SystemExit):
            if console.is_terminal:
                watch_status(console, bed.status)
            console.print(status_view(bed.status().as_dict()))
            typer.echo(f"{bed.topology.name} is up in {bed.directory}")
            # Ctrl-C, and the SIGTERM of `dumpfilter topology down`, interrupt the wait.
            threading.Event().wait()
        ignore_endings()
        report = bed.report()
        bed.down()
    console.print(report_view(report))


def _start_detached(topology: str, directory: Path, given: UpSettings) -> None:
    """Start a topology in a background process, and return when all nodes run.

    ``topology`` is a short string such as ``m >> web``, or the path of a TOML file. Raises DumpfilterError with the
    text and exit code of a background process that fails.
    """
    from dumpfilter.testbed import NotUp
    from dumpfilter.testbed.directory import ControlFailed, ask

    command = [sys.executable, "-m", "dumpfilter", "topology", "up", topology]
    command += [f"--directory={directory}", f"--timeout={given.timeout}s", *["--keep"] * given.keep]
    null, is_up, tell_once = subprocess.DEVNULL, False, functools.cache(notice.tell)
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(command, stdin=null, stdout=null, stderr=errors, start_new_session=True)
        try:
            while not is_up:
                code = process.poll()
                text = os.pread(errors.fileno(), _MOST_ERRORS, 0).decode(errors="replace").strip()
                if code is not None:
                    told = text.removeprefix("dumpfilter: ") or f"the start ended with code {code}"
                    raise ControlFailed(told, abs(code) or 1)
                if notice.TEXT in text:
                    tell_once()
                time.sleep(_POLL_SECONDS)
                with contextlib.suppress(NotUp):
                    # An earlier topology may still run in the directory.
                    is_up = ask(directory, "pid") == process.pid
        except (KeyboardInterrupt, SystemExit):
            process.terminate()
            process.wait()
            raise
    is_default = directory == Path(os.environ.get("DUMPFILTER_TOPOLOGY") or DIRECTORY)
    down = "dumpfilter topology down" + ("" if is_default else f" -d {shlex.quote(str(directory))}")
    typer.echo(f"up in {directory}; {down} ends it")


@verb()
def down_command(place: TopologyOptions) -> None:
    """End a topology that runs in the background or in another terminal.

    After kill -9 of the topology's process, down removes the directory with everything in it.

    Example:

        dumpfilter topology down
    """
    from dumpfilter.testbed.directory import down

    down(place.directory)


@verb()
def show_command(named: TopologyArgument) -> None:
    r"""Check a topology and print it in TOML, with the nodes that its notation leaves out.

    Nothing is started. In the short string "m >> web", for example, the generated workload that m reads is left out.

    Examples:

        dumpfilter topology show fan-out.toml

        dumpfilter topology show "m >> web\[do-db=shop]; m >> hr >> hr2" \
            > topology.toml
    """
    from dumpfilter.topology import to_toml, topology_from

    typer.echo(to_toml(topology_from(named.topology)), nl=False)


class RunSettings(SimulationOutput):
    """The options of ``dumpfilter topology run``: the file that describes the experiment (a measured run of a
    topology), the output directory, and the form of the results.
    """

    experiment: Path = setting(metavar="EXPERIMENT.toml", is_argument=True)
    """The experiment, a TOML file (docs/topology.md)."""
    output: Path = Path("experiment")
    """Directory for report.html and results.json."""


@verb()
def run_command(given: RunSettings) -> None:
    r"""Run an experiment for real, and measure lag and bytes.

    An experiment compares variants, such as a filter on the master and a filter on the slave. Each variant runs with
    real processes over links with limited rate and delay. The HTML page in the directory ``--output`` shows a
    simulation beside each measurement. Ctrl-C ends everything, and writes nothing.

    Examples:

        dumpfilter topology run tokyo.toml

        dumpfilter topology run tokyo.toml --output tokyo --overwrite
    """
    from rich.console import Console

    from dumpfilter.analyse.report.output import check_output
    from dumpfilter.simulation.output import show_results
    from dumpfilter.testbed.experiment import load_experiment, run_experiment

    read = load_experiment(given.experiment)
    check_output(given.output, overwrite=given.overwrite)
    progress = Console(stderr=True, highlight=False)
    with endings_interrupt(), progress.status(read.name) as line:
        tell = line.update if progress.is_terminal else progress.print
        results = run_experiment(read, tell)
    show_results(results, given.output, progress, page=given.report, json=given.as_json)


@verb(RUNNING)
def status_command(place: TopologyOptions, output: JsonOption) -> None:
    """Show each node's position, lag, rate and problems, and each link's state.

    A node is a server, master or slave of the running topology, and a link is the network connection of two nodes. With
    --json also the ports, accounts, addresses and directories.

    Exit codes: 0 good. 4 a node has a problem, such as an ended process or a stopped replication thread. 3 no topology
    is up.

    Examples:

        dumpfilter topology status

        dumpfilter topology status --json | jq -r .nodes.web.url
    """
    from dumpfilter.testbed.views import status_view

    status = place.ask("status")
    _show(output, status, status_view)
    if status["problems"]:
        raise typer.Exit(4)


class WaitOptions(TopologyOptions):
    """The options for waiting until the nodes of a running topology (servers, masters and slaves for tests) have caught
    up with their sources. They are the time limit, and whether only running nodes count.
    """

    timeout: float = setting("30s", parse=parse_time, metavar="TIME")
    """The time limit of the wait, such as 30s or 5m."""
    running_only: bool = False
    """Leave out nodes that were stopped or killed, or have failed."""


class WaitSettings(WaitOptions):
    """The options of ``dumpfilter topology wait``: the node (server, master or slave) that must catch up, the time
    limit, and whether recordings (replayed binlogs) and generated binlogs must be written to their end first.
    """

    node: str = setting("", metavar="[NODE]", is_argument=True)
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
    given.refuse(["running_only"] if given.node else [], "is a choice among all nodes; leave it or NODE out")
    if given.done:
        given.ask("wait_done", timeout=given.timeout)
    which = {"node": given.node} if given.node else {"running_only": given.running_only}
    given.ask("wait_caught_up", timeout=given.timeout, **which)


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
    given.ask("check", timeout=given.timeout, running_only=given.running_only)
    typer.echo("every node has the data, positions and GTIDs that its sources and filters say")


@verb(RUNNING)
def report_command(place: TopologyOptions, output: JsonOption) -> None:
    """Show the bytes that went over each link, the bytes that filters saved, and the lag of each node.

    A link is the network connection of two nodes of the running topology.

    Examples:

        dumpfilter topology report

        dumpfilter topology report --json > report.json
    """
    from dumpfilter.testbed.views import report_view

    _show(output, place.ask("report"), report_view)


def _parse_rate(text: str, *, option: str) -> float:
    return math.inf if text == "none" else parse_rate(text, option=option)


class LinkSettings(TopologyOptions):
    """The options of ``dumpfilter topology link``: a link (network connection of two nodes) and its changes."""

    link: str = setting(metavar="SOURCE:TARGET", is_argument=True)
    """The link, such as m:web."""
    rate: int | float | None = setting(None, parse=_parse_rate, metavar="RATE")
    """Bits per second, such as 2mbit; none: without a limit."""
    delay: float | None = setting(None, parse=parse_time, metavar="TIME")
    """The delay one way, such as 50ms."""
    jitter: float | None = setting(None, parse=parse_time, metavar="TIME")
    """The largest random change of the delay."""
    cut: bool = False
    """Reset all connections of the link, and refuse new ones."""
    silence: bool = False
    """Let no byte pass, but keep the connections open."""
    cut_after: int | None = setting(None, parse=parse_size, metavar="SIZE")
    """Cut after so many more bytes, such as 64K, have reached the target."""
    duration: float | None = setting(None, "--for", parse=parse_time, metavar="TIME")
    """End the cut or silence by itself after this time."""
    heal: bool = False
    """End a cut, a silence or an outage."""

    def requests(self) -> list[tuple[str, dict[str, Any]]]:
        """Return the changes that the options ask for, as calls to make on the link. A call is a pair of a method's
        name and its keyword arguments, such as ``("cut", {"seconds": 10.0})``. Without changes the list is empty.

        The method ``set`` changes the rate (bits per second; None: unlimited), the delay and the jitter (seconds). The
        others are ``cut``, ``silence``, ``cut_after`` (``nbytes`` in bytes) and ``heal``. Their ``seconds`` come from
        ``--for``.

        Raises OptionError for options that exclude each other, and for ``--for`` without a cut or silence.
        """
        is_given = {"cut": self.cut, "silence": self.silence, "cut_after": self.cut_after, "heal": self.heal}
        faults = [name for name, value in is_given.items() if value is not None and value is not False]
        if len(faults) > 1:
            one, other = map(self.option_of, faults[:2])
            raise OptionError(f"{one} stands beside {other}; give one of them")
        if self.duration is not None and faults in ([], ["heal"]):
            raise OptionError("--for goes with --cut, --silence or --cut-after; give one of them")
        shape = _not_none(rate=self.rate, delay=self.delay, jitter=self.jitter)
        if shape.get("rate") == math.inf:
            shape["rate"] = None
        changes = [("set", shape)] if shape else []
        return changes + [(name, _not_none(nbytes=self.cut_after, seconds=self.duration)) for name in faults]


def _not_none(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


@verb(NODES)
def link_command(given: LinkSettings, output: JsonOption) -> None:
    """Show a link (the network connection of two nodes), or change, cut or heal it.

    The rate and the delay apply to each direction separately.

    Examples:

        dumpfilter topology link m:web

        dumpfilter topology link m:web --rate 512kbit --delay 50ms

        dumpfilter topology link m:web --cut --for 10s

        dumpfilter topology link m:web --heal --rate none --delay 0s
    """
    from dumpfilter.testbed.views import links_table

    for method, arguments in given.requests():
        given.ask(method, link=given.link, **arguments)
    _show(output, given.ask("status", link=given.link), lambda link: links_table([link]))


@verb(NODES)
def kill_command(given: NodeOptions) -> None:
    """Kill a node's process with SIGKILL, as a crash would.

    A recording (replayed binlogs) or a workload (generated binlogs) is a node without a process. Such a node stops
    writing its binlog until it is started again.

    Example:

        dumpfilter topology kill web
    """
    _act("kill", given)


@verb(NODES)
def stop_command(given: NodeOptions) -> None:
    """Stop a node's process with its regular shutdown.

    A recording (replayed binlogs) or a workload (generated binlogs) is a node without a process. Such a node stops
    writing its binlog until it is started again.

    Example:

        dumpfilter topology stop m
    """
    _act("stop", given)


@verb(NODES)
def start_command(given: NodeOptions) -> None:
    """Start a killed or stopped node again, with its files and its ports.

    A recording (replayed binlogs) or a workload (generated binlogs) goes on writing its binlog where it stopped.

    Example:

        dumpfilter topology start web
    """
    _act("start", given)


@verb(NODES)
def restart_command(given: NodeOptions) -> None:
    """Stop a node of the running topology, such as a server, master or slave, and start it again.

    Example:

        dumpfilter topology restart web
    """
    _act("restart", given)


class HoldSettings(NodeOptions):
    """The options of ``dumpfilter topology hold``, which delays replication: a node (server or slave), and the time by
    which it stays behind its sources.
    """

    behind: str = setting(metavar="TIME", is_argument=True)
    """The time by which the node's data stay behind its sources, such as 3s. 0s ends the delay."""


@verb(NODES)
def hold_command(given: HoldSettings) -> None:
    """Keep a node's data a given time behind its sources.

    A node that is a real replica uses its own delayed replication, which rounds the time up to whole seconds. For a
    slave of dumpfilter, the links (network connections) to the slave get a longer delay. A time of 0s ends the delay.

    Example:

        dumpfilter topology hold web 3s
    """
    given.ask("hold_behind", node=given.node, seconds=parse_time(given.behind))


def _act(action: str, given: NodeOptions) -> None:
    given.ask(action, node=given.node)
    typer.echo(f"{given.node}: {given.ask('status', node=given.node)['state']}")


@verb(NODES)
def sql_command(asked: NodeOptions, given: SqlSettings) -> None:
    r"""Run statements on a real server, or on the console of a master or slave.

    The script ends at the first error, with exit code 1.

    Examples:

        dumpfilter topology sql web -e 'SHOW REPLICA STATUS\G'

        dumpfilter topology sql m < schema.sql
    """
    from dumpfilter.console.client import console_login

    found = asked.ask("status", node=asked.node)
    port = found["ports"].get("sql")
    if port is None:
        raise OptionError(f"{asked.node}: a {found['kind']} has no port for SQL; ask one of its readers")
    login = console_login("127.0.0.1", port, found["user"], found["password"])
    given.run(login, asked.node)


@verb(NODES)
def logs_command(given: NodeOptions) -> None:
    """Print a node's log, which is the file logs/NODE.log in the directory of the topology.

    Example:

        dumpfilter topology logs web
    """
    text = given.ask("logs", node=given.node)
    typer.echo(for_terminal(text) if sys.stdout.isatty() else text, nl=False)
