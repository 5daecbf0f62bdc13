"""The classes of sub-commands and of their groups: the page of ``--help``, and the log of every command."""

from __future__ import annotations

import sys
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from dumpfilter import logs
from dumpfilter.compiler import notice


class SubCommand(TyperCommand):
    """A sub-command of ``dumpfilter``."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the page of ``--help`` to standard output."""
        del formatter
        _print_page(self, ctx)

    def invoke(self, ctx: Any) -> Any:
        """Configure the log and run the command. A command with options for the log configures it once more."""
        logs.configure_preferred(colors=sys.stderr.isatty())
        notice.on_compilation(_tell_of_compilation)
        return super().invoke(ctx)


class CommandGroup(TyperGroup):
    """A group of sub-commands, such as ``dumpfilter`` itself."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the page of ``--help`` to standard output."""
        del formatter
        _print_page(self, ctx)


def _tell_of_compilation() -> None:
    if logs.is_json():
        import structlog

        structlog.get_logger("dumpfilter").warning("compiling", hint=notice.TEXT)
    else:
        typer.echo(f"dumpfilter: {notice.TEXT}", err=True)


def _print_page(command: TyperCommand | TyperGroup, ctx: Any) -> None:
    # The import takes longer than most commands need to begin.
    from rich.console import Console

    from dumpfilter.commands.help_page import WIDEST, print_help

    print_help(command, ctx, Console(width=min(Console().width, WIDEST), highlight=False))
