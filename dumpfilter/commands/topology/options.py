"""The options that the verbs of ``dumpfilter topology`` share."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from dumpfilter.base.errors import DumpfilterError
from dumpfilter.base.options.settings import Settings, setting

if TYPE_CHECKING:
    from rich.console import RenderableType

DIRECTORY = Path("dumpfilter-topology")
"""The directory of a topology whose user names none."""


class TopologyOptions(Settings):
    """The directory of a running topology."""

    directory: Path = setting(DIRECTORY, "--directory", "-d", envvar="DUMPFILTER_TOPOLOGY", metavar="DIR")
    """The directory of the topology: its files, and the socket for the other verbs."""

    def ask(self, verb: str, **arguments: Any) -> Any:
        """Ask the topology that runs in the directory, and return the answer. Raises DumpfilterError."""
        from dumpfilter.testbed.control import Control

        return Control(self.directory).ask(verb, **arguments)


class JsonOption(Settings):
    """The option for output that programs read."""

    as_json: bool = setting(False, "--json")
    """Print JSON instead of tables."""

    def print(self, told: Any, view: Callable[[Any], RenderableType], *, indent: int | None = 1) -> None:
        """Print what a topology has told as JSON, or as the tables of ``view``. Without ``indent`` JSON is one line."""
        from rich.console import Console

        from dumpfilter.analyse.report.terminal import print_json

        if self.as_json:
            print_json(told, indent=indent)
        else:
            Console(highlight=False).print(view(told))


def complete_node(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return names for a shell to complete: the nodes of the topology in the directory that the command line names.

    An error completes nothing, since the shell would print its text.
    """
    nodes: list[str] = []
    with contextlib.suppress(DumpfilterError, OSError):
        nodes = sorted(
            TopologyOptions(directory=ctx.params.get("directory") or DIRECTORY).ask("status")["nodes"]
        )
    return [name for name in nodes if name.startswith(incomplete)]


class NodeOptions(TopologyOptions):
    """A node of a running topology."""

    node: str = setting(metavar="NODE", autocompletion=complete_node, is_argument=True)
    """The name of the node."""
