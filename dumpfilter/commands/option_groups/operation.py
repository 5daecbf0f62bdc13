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
    keep_slaves: Annotated[
        str,
        typer.Option(
            help="Time for which a slave that is gone counts as missing in the status, the metrics and the alerts, "
            "such as 12h or 7d.",
            metavar="TIME",
            rich_help_panel=PANEL,
        ),
    ] = "7d"
    drain_seconds: Annotated[
        float,
        typer.Option(
            help="At SIGTERM, wait so long for running dumps to end between two transactions; 0 ends them at once.",
            min=0,
            rich_help_panel=PANEL,
        ),
    ] = 10.0

    @property
    def keep_seconds(self) -> float:
        """The time of ``--keep-slaves``, seconds. Raises OptionError."""
        from dumpfilter.errors import OptionError
        from dumpfilter.topology.units import parse_time

        try:
            return parse_time(self.keep_slaves)
        except OptionError as error:
            raise OptionError(f"--keep-slaves: {error}") from None
