"""The sub-commands of ``dumpfilter``, each of which is imported only when it is used."""

from __future__ import annotations

import ast
import importlib
import inspect
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from dumpfilter.commands.sub_command import CommandGroup, SubCommand

NAMES = (
    "master",
    "slave",
    "fetch",
    "split",
    "manifest",
    "purge",
    "bandwidth",
    "suggest",
    "simulate",
    "inspect",
    "generate",
    "binlog",
    "export",
    "explain",
    "lint",
    "status",
    "sql",
    "password-hash",
    "systemd-unit",
    "demo",
    "topology",
)
"""The sub-commands in the order of ``--help``. Each has a module of its name in ``dumpfilter.commands``, with a
function ``NAME_command``.
"""


class Dumpfilter(CommandGroup):
    """The top-level command ``dumpfilter``. The module of a sub-command is imported when the sub-command is first
    used.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands: dict[str, Any] = dict.fromkeys(NAMES)

    def get_command(self, ctx: Any, name: str) -> Any:
        """Return the sub-command ``name``, or None if there is no such command."""
        del ctx
        if self.commands.get(name) is None and name in NAMES:
            self.commands[name] = _made(name)
        return self.commands.get(name)

    def help_of(self, ctx: Any, name: str) -> tuple[str, str]:
        """Return two texts about the command ``name`` for ``--help``: the heading of its group of commands, and its
        description.

        The command's module is not imported. The description is the docstring of the command's function, and is empty
        without a docstring.
        """
        del ctx
        module = find_spec(_module(name))
        assert module is not None
        assert module.origin is not None
        wanted = f"{name.replace('-', '_')}_command"
        tree = ast.parse(Path(module.origin).read_text("utf-8"))
        functions = (one for one in tree.body if isinstance(one, ast.FunctionDef) and one.name == wanted)
        return "Commands", ast.get_docstring(next(functions, tree)) or ""


def _module(name: str) -> str:
    return f"dumpfilter.commands.{name.replace('-', '_')}"


def _made(name: str) -> Any:
    from typer.main import get_command, get_command_from_info
    from typer.models import CommandInfo

    from dumpfilter.base.options.settings import with_settings
    from dumpfilter.commands.option_groups.option_files import WITH_OPTION_FILES, OptionFileCommand

    module = importlib.import_module(_module(name))
    if name == "topology":
        group = get_command(module.topology_app)
        group.name, group.help = name, inspect.getdoc(module)
        return group
    function = getattr(module, f"{name.replace('-', '_')}_command")
    info = CommandInfo(
        name,
        cls=OptionFileCommand if name in WITH_OPTION_FILES else SubCommand,
        callback=with_settings(function),
        help=inspect.getdoc(function),
    )
    return get_command_from_info(info, pretty_exceptions_short=True, rich_markup_mode="rich")
