"""The verbs ``sql`` and ``logs`` of ``dumpfilter topology``."""

from __future__ import annotations

import sys
import time
from typing import Any

import typer

from dumpfilter.base.errors import OptionError
from dumpfilter.base.options.near import did_you_mean
from dumpfilter.base.options.settings import setting
from dumpfilter.base.printable import for_terminal
from dumpfilter.commands.sql import print_results
from dumpfilter.commands.topology.options import NodeOptions
from dumpfilter.console.rendering import Format

_FOLLOW_SECONDS = 0.2
"""The time between two looks at a log that is followed, seconds."""


class SqlSettings(NodeOptions):
    """A node, and the statements for it."""

    execute: str | None = setting(None, "--execute", "-e", metavar="SQL")
    """Statements. Without it the standard input has them."""
    form: Format = setting(Format.TABLE, "--format")
    """How results are written."""


class LogSettings(NodeOptions):
    """A node, and the part of its log."""

    lines: int = setting(0, "--lines", "-n", min=0)
    """The last lines only; 0: all."""
    follow: bool = setting(False, "--follow", "-f")
    """Go on until Ctrl-C."""


def sql_command(given: SqlSettings) -> None:
    r"""Run statements on a real server, or on the console of a master or slave.

    The script ends at the first error, with exit code 1.

    Examples:

        dumpfilter topology sql web -e 'SHOW REPLICA STATUS\G'

        dumpfilter topology sql m < schema.sql
    """
    from dumpfilter.console.client import console_login

    nodes: dict[str, dict[str, Any]] = given.ask("status")["nodes"]
    if given.node not in nodes:
        raise OptionError(f"there is no node {given.node!r}{did_you_mean(given.node, nodes)}")
    found = nodes[given.node]
    port = found["ports"].get("sql")
    if port is None:
        raise OptionError(f"{given.node}: a {found['kind']} has no port for SQL; ask one of its readers")
    login = console_login("127.0.0.1", port, found["user"], found["password"])
    script = sys.stdin.read() if given.execute is None else given.execute
    print_results(login, script, given.form, given.node)


def logs_command(given: LogSettings) -> None:
    """Print a node's log.

    Example:

        dumpfilter topology logs web --lines 20 --follow
    """
    begin, lines = 0, given.lines
    while True:
        text = given.ask("logs", node=given.node, begin=begin)
        begin += len(text)
        if lines:
            text, lines = "".join(text.splitlines(keepends=True)[-lines:]), 0
        typer.echo(for_terminal(text) if sys.stdout.isatty() else text, nl=False)
        if not given.follow:
            return
        time.sleep(_FOLLOW_SECONDS)
