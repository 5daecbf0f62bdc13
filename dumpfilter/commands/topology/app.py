"""The verbs of ``dumpfilter topology``, in the order of its ``--help``."""

from __future__ import annotations

from collections.abc import Callable

import typer

from dumpfilter.base.options.settings import with_settings
from dumpfilter.commands.sub_command import CommandGroup, SubCommand
from dumpfilter.commands.topology.ask import (
    check_command,
    hold_command,
    kill_command,
    link_command,
    logs_command,
    report_command,
    restart_command,
    sql_command,
    start_command,
    status_command,
    stop_command,
    wait_command,
)
from dumpfilter.commands.topology.start import down_command, run_command, show_command, up_command

_RUNNING = "A running topology"
_NODES = "Its nodes and links"

topology_app = typer.Typer(
    cls=CommandGroup,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    epilog='Begin with: dumpfilter topology up "m >> web\\[do-db=shop_00]" (docs/topology.md)',
)
_VERBS: tuple[tuple[str | None, tuple[Callable[..., None], ...]], ...] = (
    (None, (up_command, down_command, show_command, run_command)),
    (_RUNNING, (status_command, wait_command, check_command, report_command)),
    (
        _NODES,
        (
            *(link_command, kill_command, stop_command, start_command, restart_command),
            *(hold_command, sql_command, logs_command),
        ),
    ),
)
for panel, commands in _VERBS:
    for command in commands:
        name = command.__name__.removesuffix("_command")
        topology_app.command(name, cls=SubCommand, rich_help_panel=panel)(with_settings(command))
