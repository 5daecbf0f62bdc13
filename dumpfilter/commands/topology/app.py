"""The verbs of ``dumpfilter topology``, in the order of its ``--help``."""

from __future__ import annotations

import typer

from dumpfilter.commands.sub_command import CommandGroup, SubCommand
from dumpfilter.commands.topology.link import link_command
from dumpfilter.commands.topology.look import report_command, status_command
from dumpfilter.commands.topology.nodes import (
    hold_command,
    kill_command,
    restart_command,
    start_command,
    stop_command,
)
from dumpfilter.commands.topology.run import run_command
from dumpfilter.commands.topology.show import show_command
from dumpfilter.commands.topology.talk import logs_command, sql_command
from dumpfilter.commands.topology.up import down_command, up_command
from dumpfilter.commands.topology.wait import check_command, wait_command

_RUNNING = "A running topology"
_NODES = "Its nodes and links"

topology_app = typer.Typer(
    cls=CommandGroup,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    epilog='Begin with: dumpfilter topology up "m >> web\\[do-db=shop_00]" (docs/topology.md)',
)
topology_app.command("up", cls=SubCommand)(up_command)
topology_app.command("down", cls=SubCommand)(down_command)
topology_app.command("show", cls=SubCommand)(show_command)
topology_app.command("run", cls=SubCommand)(run_command)
topology_app.command("status", cls=SubCommand, rich_help_panel=_RUNNING)(status_command)
topology_app.command("wait", cls=SubCommand, rich_help_panel=_RUNNING)(wait_command)
topology_app.command("check", cls=SubCommand, rich_help_panel=_RUNNING)(check_command)
topology_app.command("report", cls=SubCommand, rich_help_panel=_RUNNING)(report_command)
topology_app.command("link", cls=SubCommand, rich_help_panel=_NODES)(link_command)
topology_app.command("kill", cls=SubCommand, rich_help_panel=_NODES)(kill_command)
topology_app.command("stop", cls=SubCommand, rich_help_panel=_NODES)(stop_command)
topology_app.command("start", cls=SubCommand, rich_help_panel=_NODES)(start_command)
topology_app.command("restart", cls=SubCommand, rich_help_panel=_NODES)(restart_command)
topology_app.command("hold", cls=SubCommand, rich_help_panel=_NODES)(hold_command)
topology_app.command("sql", cls=SubCommand, rich_help_panel=_NODES)(sql_command)
topology_app.command("logs", cls=SubCommand, rich_help_panel=_NODES)(logs_command)
