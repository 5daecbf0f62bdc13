"""The options that the verbs of ``dumpfilter topology`` share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

DIRECTORY = Path("dumpfilter-topology")
"""The directory of a topology whose user names none."""

WAIT = 30.0
"""The default limit of a wait, seconds."""

Directory = Annotated[
    Path,
    typer.Option(
        "--directory",
        "-d",
        envvar="DUMPFILTER_TOPOLOGY",
        help="The directory of the topology: its files, and the socket for the other verbs.",
        metavar="DIR",
    ),
]
Timeout = Annotated[str, typer.Option(help="The longest wait, such as 30s or 5m.", metavar="TIME")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
NodeName = Annotated[str, typer.Argument(help="The name of the node.", metavar="NODE")]
