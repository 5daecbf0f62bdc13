"""The options that name slaves with their filters, for commands that compute what each slave would receive."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dumpfilter.commands.option_groups.group import OptionGroup

if TYPE_CHECKING:
    from dumpfilter.topology.slaves_file import SlaveDefinition


@dataclass(frozen=True)
class SlaveSetOptions(OptionGroup):
    """The slaves of files, and those that the command line describes."""

    slaves: Annotated[
        list[Path] | None,
        typer.Option(
            help="Slaves and their filters: a TOML file, or a replica's own my.cnf. Repeatable.",
            metavar="FILE",
            show_default=False,
        ),
    ] = None
    slave: Annotated[
        list[str] | None,
        typer.Option(
            help="What if: a slave and its filter. Beside --slaves, or instead of it. Repeatable.",
            metavar="NAME:OPTIONS",
            show_default=False,
        ),
    ] = None

    @property
    def is_what_if(self) -> bool:
        """Whether the command line describes a slave. Such a question deserves an answer at once."""
        return bool(self.slave)

    def definitions(self) -> list[SlaveDefinition]:
        """Return the slaves. Raises OptionError."""
        from dumpfilter.topology.slave_options import slaves_of

        return slaves_of(self.slaves or [], self.slave or [])
