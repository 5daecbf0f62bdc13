"""The verbs of ``dumpfilter topology``, and the options that they share."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from dumpfilter.base.errors import DumpfilterError
from dumpfilter.base.options.settings import Settings, setting, with_settings
from dumpfilter.commands.sub_command import CommandGroup, SubCommand

if TYPE_CHECKING:
    from rich.console import RenderableType

RUNNING = "A running topology"
NODES = "Its nodes and links"

topology_app = typer.Typer(
    cls=CommandGroup,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    epilog='Begin with: dumpfilter topology up "m >> web\\[do-db=shop_00]" (docs/topology.md)',
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
"""The directory of a topology whose user names none."""


class TopologyOptions(Settings):
    """The option that names the directory of a running topology (a set of sources, masters and slaves for tests)."""

    directory: Path = setting(DIRECTORY, "--directory", "-d", envvar="DUMPFILTER_TOPOLOGY", metavar="DIR")
    """The directory of the topology: its files, and the socket for the other verbs."""

    def ask(self, verb: str, **arguments: Any) -> Any:
        """Send a command to the topology that runs in the directory, and return its answer.

        ``verb`` is the command's name, such as ``status``. Raises DumpfilterError, such as NotUp if none runs.
        """
        from dumpfilter.testbed.control import Control

        return Control(self.directory).ask(verb, **arguments)


class JsonOption(Settings):
    """The option ``--json``, for output that programs read."""

    as_json: bool = setting(False, "--json")
    """Print JSON instead of tables."""

    def print(self, told: Any, view: Callable[[Any], RenderableType], *, indent: int | None = 1) -> None:
        """Print a topology's answer ``told``: as JSON with ``--json``, otherwise as the tables that ``view`` makes.

        ``indent`` is the indentation of the JSON; with None the JSON is one line.
        """
        from rich.console import Console

        from dumpfilter.analyse.report.terminal import print_json

        if self.as_json:
            print_json(told, indent=indent)
        else:
            Console(highlight=False).print(view(told))


def complete_node(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the names of a topology's nodes that begin with ``incomplete``, for the completion of a shell.

    The topology is the one in the directory that the command line names. The result is empty after an error, since the
    shell would print the error's text.
    """
    nodes: list[str] = []
    with contextlib.suppress(DumpfilterError, OSError):
        nodes = sorted(
            TopologyOptions(directory=ctx.params.get("directory") or DIRECTORY).ask("status")["nodes"]
        )
    return [name for name in nodes if name.startswith(incomplete)]


class NodeOptions(TopologyOptions):
    """The options that name a node (server, master, slave or recording) of a running topology."""

    node: str = setting(metavar="NODE", autocompletion=complete_node, is_argument=True)
    """The name of the node."""
