"""The base classes of sub-commands and groups of them. They print ``--help`` and configure the log."""

from __future__ import annotations

import os
import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from dumpfilter.base import logs
from dumpfilter.base.errors import OptionError
from dumpfilter.base.printable import escape_invalid_utf8

at_end = ExitStack()
"""A stack of context managers that are open until the running command ends. One of them is a temporary directory."""


class HelpPage:
    """A mixin for commands and groups of commands whose ``--help`` prints the page of
    :mod:`dumpfilter.commands.help_page` instead of Typer's.
    """

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help page of the command in ``ctx`` to ``formatter``, whose text the parser library prints."""
        # Typer styles its texts whatever this variable says (https://no-color.org).
        if os.environ.get("NO_COLOR"):
            ctx.color = False
        from dumpfilter.commands.help_page import WIDEST, help_lines

        width = min(shutil.get_terminal_size().columns, WIDEST)
        formatter.write("\n".join(help_lines(ctx.command, ctx, width)))


class SubCommand(HelpPage, TyperCommand):
    """A sub-command of ``dumpfilter``, as a command of Typer that prints the project's own help page and configures the
    log.
    """

    def invoke(self, ctx: Any) -> Any:
        """Configure the log and run the command. At the end the context managers of :data:`at_end` are closed.

        The lowest level of the log is ``info`` for a command that has log options itself, otherwise ``warning``.

        Raises OptionError for an option whose value must be a local path, and is an address such as ``s3a://…``, and
        for one whose value is no path and not UTF-8. Raises BadParameter for an empty name of a file.
        """
        # Options of the command win over those before its name.
        given = ctx.find_root().params | {name: one for name, one in ctx.params.items() if one is not None}
        quiet = "warning" if "log_level" not in ctx.params else "info"
        logs.configure(
            logs.Format(given.get("log_format") or "text"), logs.Level(given.get("log_level") or quiet)
        )
        parameter: Any
        for parameter in self.params:
            value = ctx.params.get(parameter.name or "")
            for one in value if isinstance(value, list) else [value]:
                if isinstance(one, Path) and ":/" in str(one):
                    _check_path(parameter.opts[0], one)
                elif one == "" and parameter.metavar == "FILE":
                    if ctx.get_parameter_source(parameter.name).name != "DEFAULT":
                        raise typer.BadParameter("the value is empty; name a file", ctx, parameter)
                elif isinstance(one, str) and parameter.param_type_name == "option":
                    _check_utf_8(parameter.opts[0], one)
        with at_end:
            return super().invoke(ctx)


class CommandGroup(HelpPage, TyperGroup):
    """A group of sub-commands, such as ``dumpfilter`` itself, with the ``--help`` page of :class:`HelpPage`."""

    def help_of(self, ctx: Any, name: str) -> tuple[str, str]:
        """Return two texts about the command ``name`` for ``--help``: the heading of its group of commands, and its
        description.
        """
        command: Any = self.get_command(ctx, name)
        return command.rich_help_panel or "Commands", command.help or ""


def _check_path(name: str, path: Path) -> None:
    """Raise OptionError if ``path``, the value of the option ``name``, is an address such as s3a: instead of a local
    path.
    """
    from dumpfilter.index.addresses import is_uri, not_here

    if is_uri(str(path)):
        # A path has no empty part, so that the second slash of the address is lost.
        raise OptionError(f"{name} {not_here(str(path).replace(':/', '://', 1))}")


def _check_utf_8(name: str, value: str) -> None:
    """Raise OptionError if ``value``, the value of the option ``name``, has bytes that are not UTF-8.

    Python decodes such bytes to lone surrogates, which no name of a server has, and which gRPC and JSON refuse.
    """
    try:
        value.encode()
    except UnicodeEncodeError:
        shown = f"{name}={escape_invalid_utf8(value)}"
        raise OptionError(
            f"{shown}: the value is not UTF-8; save the option file as UTF-8, or type in UTF-8"
        ) from None
