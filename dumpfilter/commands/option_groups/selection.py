"""The options that select transactions by position, time or GTID, spelled as in mysqlbinlog and mariadb-binlog."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from dumpfilter.commands.option_groups.group import OptionGroup


def _select(help: str, metavar: str) -> Any:
    return typer.Option(help=help, metavar=metavar, rich_help_panel="Selection")


@dataclass(frozen=True)
class SelectionOptions(OptionGroup):
    """The positions, times and GTIDs between which a command reads a binlog set. An empty text sets no limit.

    The values are not parsed here, because their syntax depends on whether MySQL or MariaDB wrote the binlog.
    """

    start_position: Annotated[
        str,
        _select(
            "Begin in the first file at this place, where a transaction begins; of MariaDB also after these GTIDs.",
            "BYTES|GTIDS",
        ),
    ] = ""
    stop_position: Annotated[
        str,
        _select(
            "Stop in the last file before the transaction at this place; of MariaDB also: up to these GTIDs.",
            "BYTES|GTIDS",
        ),
    ] = ""
    start_datetime: Annotated[
        str, _select("Begin with the first transaction at or after this local time.", "DATETIME")
    ] = ""
    stop_datetime: Annotated[
        str, _select("Stop before the first transaction at or after this local time.", "DATETIME")
    ] = ""
    include_gtids: Annotated[str, _select("Only transactions with these GTIDs.", "GTIDS")] = ""
    exclude_gtids: Annotated[str, _select("No transactions with these GTIDs.", "GTIDS")] = ""
