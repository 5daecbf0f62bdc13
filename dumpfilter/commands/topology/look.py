"""The verbs ``status`` and ``report`` of ``dumpfilter topology``."""

from __future__ import annotations

import typer

from dumpfilter.base.options.settings import Settings, setting
from dumpfilter.commands.topology.options import JsonOption, TopologyOptions


class WatchOption(Settings):
    """The option of a status that is shown again and again."""

    watch: float | None = setting(None, min=0.1, metavar="SECONDS")
    """Show the status again after so many seconds, until Ctrl-C."""


def status_command(place: TopologyOptions, output: JsonOption, given: WatchOption) -> None:
    """Show each node's position, lag, rate and problems, and each link's state.

    With --json also the ports, accounts, addresses and directories.

    Exit codes: 0 good. 4 a node has a problem. 3 no topology is up.

    Examples:

        dumpfilter topology status

        dumpfilter topology status --json | jq -r .nodes.web.url
    """
    from dumpfilter.commands.topology.tables import status_view
    from dumpfilter.commands.topology.views import watch_status

    if given.watch is not None and not output.as_json:
        watch_status(lambda: place.ask("status"), given.watch)
        return
    status = place.ask("status")
    output.print(status, status_view)
    if status["problems"]:
        raise typer.Exit(4)


def report_command(place: TopologyOptions, output: JsonOption) -> None:
    """Show what went over each link, what the filters saved, and how far each node lagged.

    Examples:

        dumpfilter topology report

        dumpfilter topology report --json > report.json
    """
    from dumpfilter.commands.topology.views import report_view

    output.print(place.ask("report"), report_view)
