"""The options for the address at which a master waits for slaves."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from dumpfilter.commands.option_groups.group import OptionGroup


@dataclass(frozen=True)
class ListenOptions(OptionGroup):
    """The address at which a master waits for slaves, and the file that tells its port."""

    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1"
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes a free one.", min=0, max=65535)] = 3307
    port_file: Annotated[
        Path | None, typer.Option(help="Write the port to this file once the master serves.")
    ] = None
