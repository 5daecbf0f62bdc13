"""The options for those who operate a master: its configuration file, and its end."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from dumpfilter.commands.option_groups.group import OptionGroup

PANEL = "Operation"


@dataclass(frozen=True)
class OperationOptions(OptionGroup):
    """The options of a master's configuration file, and of its end."""

    config: Annotated[
        Path | None,
        typer.Option(
            help="A TOML file with the users, of replication and of the console, and the filters imposed on slaves "
            "(docs/master.md).",
        ),
    ] = None

    state_dir: Annotated[
        Path | None,
        typer.Option(
            help="A directory of this master, in which it keeps the slaves' counts and the drains for its next start. "
            "Without it a restart begins with zeros. It may not be the directory of the binlogs.",
            metavar="DIRECTORY",
            rich_help_panel=PANEL,
        ),
    ] = None
    drain_seconds: Annotated[
        float,
        typer.Option(
            help="At SIGTERM, wait so long for running dumps to end between two transactions; 0 ends them at once.",
            min=0,
            rich_help_panel=PANEL,
        ),
    ] = 10.0
