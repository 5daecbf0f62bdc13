"""The verbs ``status`` and ``report`` of ``dumpfilter topology``."""

from __future__ import annotations

from typing import Annotated

import typer

from dumpfilter.commands.topology.options import DIRECTORY, Directory, Json, ask


def status_command(
    directory: Directory = DIRECTORY,
    json: Json = False,
    watch: Annotated[
        float | None,
        typer.Option(
            help="Show the status again after so many seconds, until Ctrl-C.", min=0.1, metavar="SECONDS"
        ),
    ] = None,
) -> None:
    """Show each node's position, lag, rate and problems, and each link's state.

    With --json also the ports, accounts, addresses and directories.

    Exit codes: 0 good. 4 a node has a problem. 3 no topology is up.

    Examples:

        dumpfilter topology status

        dumpfilter topology status --json | jq -r .nodes.web.url
    """
    from rich.console import Console

    from dumpfilter.commands.topology.tables import status_view
    from dumpfilter.commands.topology.views import watch_status
    from dumpfilter.report.terminal import print_json

    if watch is not None and not json:
        watch_status(lambda: ask(directory, "status"), watch)
        return
    status = ask(directory, "status")
    if json:
        print_json(status)
    else:
        Console(highlight=False).print(status_view(status))
    if status["problems"]:
        raise typer.Exit(4)


def report_command(directory: Directory = DIRECTORY, json: Json = False) -> None:
    """Show what went over each link, what the filters saved, and how far each node lagged.

    Examples:

        dumpfilter topology report

        dumpfilter topology report --json > report.json
    """
    from rich.console import Console

    from dumpfilter.commands.topology.views import report_view
    from dumpfilter.report.terminal import print_json

    report = ask(directory, "report")
    if json:
        print_json(report)
    else:
        Console(highlight=False).print(report_view(report))
