"""The options that bound what a master spends on its slaves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from dumpfilter.commands.option_groups.group import OptionGroup
from dumpfilter.master.limits import MAX_DUMPS

PANEL = "Limits"


@dataclass(frozen=True)
class LimitOptions(OptionGroup):
    """The bounds on a master's memory and threads that an operator may want to change."""

    cache_size: Annotated[
        int, typer.Option(help="Memory for the index of scanned binlogs, MiB.", min=1, rich_help_panel=PANEL)
    ] = 32
    max_transaction: Annotated[
        int,
        typer.Option(
            help="Filter compressed transactions of up to this size, MiB before compression. Larger ones are sent "
            "whole, and counted as undecided.",
            min=1,
            rich_help_panel=PANEL,
        ),
    ] = 512
    max_dumps: Annotated[
        int,
        typer.Option(
            help="The most slaves that can receive events at once. Each takes two threads of the master.",
            min=1,
            rich_help_panel=PANEL,
        ),
    ] = MAX_DUMPS
