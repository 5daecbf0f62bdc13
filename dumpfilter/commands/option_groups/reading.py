"""The options for how a master reads its binlogs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from dumpfilter.commands.option_groups.group import OptionGroup


@dataclass(frozen=True)
class ReadingOptions(OptionGroup):
    """The options for the checks and the splits with which a master reads its binlogs."""

    verify_checksum: Annotated[
        bool, typer.Option(help="Verify the events' checksums on reading (source_verify_checksum).")
    ] = True
    split: Annotated[
        list[Path] | None,
        typer.Option(
            help="A directory that dumpfilter split wrote of this set: slaves whose filter is that of a named binlog "
            "in it are dumped to from there (docs/master.md). Repeatable.",
            metavar="DIRECTORY",
        ),
    ] = None

    @property
    def splits(self) -> Sequence[Path]:
        """The directories with splits."""
        return self.split or ()
