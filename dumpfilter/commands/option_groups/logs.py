"""The options for the log of a process that runs long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from dumpfilter.commands.option_groups.group import OptionGroup
from dumpfilter.logs import Format, Level, configure_preferred

PANEL = "Log"


@dataclass(frozen=True)
class LogOptions(OptionGroup):
    """The format of a process's log on standard error, and the least level of its lines."""

    log_format: Annotated[
        Format | None,
        typer.Option(
            help="The form of the log: text for people, or json with one object a line for programs.",
            show_default=Format.TEXT.value,
            rich_help_panel=PANEL,
        ),
    ] = None
    log_level: Annotated[
        Level | None,
        typer.Option(
            help="The least level of the log's lines. Lines of the audit log have no level, and always appear.",
            show_default=Level.INFO.value,
            rich_help_panel=PANEL,
        ),
    ] = None

    def begin(self, *, colors: bool) -> None:
        """Configure the log of this process. ``colors`` says whether text lines may have colors."""
        configure_preferred(self.log_format, self.log_level, otherwise=Level.INFO, colors=colors)
