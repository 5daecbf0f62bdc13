"""The verbs of ``dumpfilter topology``, in the order of its ``--help``."""

from __future__ import annotations

import typer

from dumpfilter.commands.help_page import HelpfulCommand
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
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Runs a topology of sources, slaves and shaped links, and asks it.",
    epilog='Begin with: dumpfilter topology up "m >> web\\[do-db=shop_00]" (docs/topology.md)',
)
topology_app.command("up", cls=HelpfulCommand)(up_command)
topology_app.command("down", cls=HelpfulCommand)(down_command)
topology_app.command("show", cls=HelpfulCommand)(show_command)
topology_app.command("run", cls=HelpfulCommand)(run_command)
topology_app.command("status", cls=HelpfulCommand, rich_help_panel=_RUNNING)(status_command)
topology_app.command("wait", cls=HelpfulCommand, rich_help_panel=_RUNNING)(wait_command)
topology_app.command("check", cls=HelpfulCommand, rich_help_panel=_RUNNING)(check_command)
topology_app.command("report", cls=HelpfulCommand, rich_help_panel=_RUNNING)(report_command)
topology_app.command("link", cls=HelpfulCommand, rich_help_panel=_NODES)(link_command)
topology_app.command("kill", cls=HelpfulCommand, rich_help_panel=_NODES)(kill_command)
topology_app.command("stop", cls=HelpfulCommand, rich_help_panel=_NODES)(stop_command)
topology_app.command("start", cls=HelpfulCommand, rich_help_panel=_NODES)(start_command)
topology_app.command("restart", cls=HelpfulCommand, rich_help_panel=_NODES)(restart_command)
topology_app.command("hold", cls=HelpfulCommand, rich_help_panel=_NODES)(hold_command)
topology_app.command("sql", cls=HelpfulCommand, rich_help_panel=_NODES)(sql_command)
topology_app.command("logs", cls=HelpfulCommand, rich_help_panel=_NODES)(logs_command)
