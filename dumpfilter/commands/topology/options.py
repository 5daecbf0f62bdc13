"""The options that the verbs of ``dumpfilter topology`` share."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Annotated, Any

import typer

from dumpfilter.errors import DumpfilterError

DIRECTORY = Path("dumpfilter-topology")
"""The directory of a topology whose user names none."""

WAIT = 30.0
"""The default limit of a wait, seconds."""

Directory = Annotated[
    Path,
    typer.Option(
        "--directory",
        "-d",
        envvar="DUMPFILTER_TOPOLOGY",
        help="The directory of the topology: its files, and the socket for the other verbs.",
        metavar="DIR",
    ),
]
Timeout = Annotated[str, typer.Option(help="The longest wait, such as 30s or 5m.", metavar="TIME")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]


def ask(directory: Path, verb: str, **arguments: Any) -> Any:
    """Ask the topology that runs in a directory, and return the answer. Raises DumpfilterError."""
    from dumpfilter.testbed.control import Control

    return Control(directory).ask(verb, **arguments)


def complete_node(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return names for a shell to complete: the nodes of the topology in the directory that the command line names.

    An error completes nothing, since the shell would print its text.
    """
    nodes: list[str] = []
    with contextlib.suppress(DumpfilterError, OSError):
        nodes = sorted(ask(ctx.params.get("directory") or DIRECTORY, "status")["nodes"])
    return [name for name in nodes if name.startswith(incomplete)]


NodeName = Annotated[
    str, typer.Argument(help="The name of the node.", metavar="NODE", autocompletion=complete_node)
]
