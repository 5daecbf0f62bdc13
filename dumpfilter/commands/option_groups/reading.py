"""The options for how a master reads its binlogs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from dumpfilter.commands.option_groups.group import OptionGroup


@dataclass(frozen=True)
class ReadingOptions(OptionGroup):
    """The options for the checks with which a master reads its binlogs."""

    verify_checksum: Annotated[
        bool, typer.Option(help="Verify the events' checksums on reading (source_verify_checksum).")
    ] = True
