"""The verbs ``sql`` and ``logs`` of ``dumpfilter topology``."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from dumpfilter.commands.sql import print_results
from dumpfilter.commands.topology.options import DIRECTORY, Directory, NodeName, ask
from dumpfilter.console.rendering import Format
from dumpfilter.errors import OptionError
from dumpfilter.options.near import did_you_mean
from dumpfilter.printable import for_terminal

_FOLLOW_SECONDS = 0.2
"""The time between two looks at a log that is followed, seconds."""


def sql_command(
    node: NodeName,
    execute: Annotated[
        str | None,
        typer.Option(
            "--execute", "-e", help="Statements. Without it the standard input has them.", metavar="SQL"
        ),
    ] = None,
    directory: Directory = DIRECTORY,
    format_: Annotated[Format, typer.Option("--format", help="How results are written.")] = Format.TABLE,
) -> None:
    r"""Run statements on a real server, or on the console of a master or slave.

    The script ends at the first error, with exit code 1.

    Examples:

        dumpfilter topology sql web -e 'SHOW REPLICA STATUS\G'

        dumpfilter topology sql m < schema.sql
    """
    from dumpfilter.console.client import console_login

    found = _node(directory, node)
    port = found["ports"].get("sql")
    if port is None:
        raise OptionError(f"{node}: a {found['kind']} has no port for SQL; ask one of its readers")
    login = console_login("127.0.0.1", port, found["user"], found["password"])
    script = sys.stdin.read() if execute is None else execute
    print_results(login, script, format_, node)


def logs_command(
    node: NodeName,
    directory: Directory = DIRECTORY,
    lines: Annotated[int, typer.Option("--lines", "-n", help="The last lines only; 0: all.", min=0)] = 0,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until Ctrl-C.")] = False,
) -> None:
    """Print a node's log.

    Example:

        dumpfilter topology logs web --lines 20 --follow
    """
    begin = 0
    while True:
        text = ask(directory, "logs", node=node, begin=begin)
        begin += len(text)
        if lines:
            text, lines = "".join(text.splitlines(keepends=True)[-lines:]), 0
        typer.echo(for_terminal(text) if sys.stdout.isatty() else text, nl=False)
        if not follow:
            return
        time.sleep(_FOLLOW_SECONDS)


def _node(directory: Path, name: str) -> dict[str, Any]:
    """Return the status of a node. Raises OptionError for a node that the topology does not have."""
    nodes: dict[str, dict[str, Any]] = ask(directory, "status")["nodes"]
    if name not in nodes:
        raise OptionError(f"there is no node {name!r}{did_you_mean(name, nodes)}")
    return nodes[name]
