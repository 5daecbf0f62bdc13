"""The options of a console's port, which master and slave have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dumpfilter.commands.passwords import CONSOLE_VARIABLE

PANEL = "Console"

ConsolePort = Annotated[
    int | None,
    typer.Option(
        help="Port for MySQL clients; 0 takes a free one. Without it there is no console.",
        min=0,
        max=65535,
        rich_help_panel=PANEL,
    ),
]
ConsolePortFile = Annotated[
    Path | None,
    typer.Option(help="Write the console's port to this file once it answers.", rich_help_panel=PANEL),
]
ConsolePasswordFile = Annotated[
    Path | None,
    typer.Option(
        help=f"A file whose first line is the console user's password; else {CONSOLE_VARIABLE} of the environment.",
        rich_help_panel=PANEL,
    ),
]
TlsCert = Annotated[
    Path | None,
    typer.Option(
        help="The console's certificate, PEM, and after it those of its issuers. Without it one is made.",
        metavar="FILE",
        rich_help_panel=PANEL,
    ),
]
TlsKey = Annotated[
    Path | None,
    typer.Option(help="The certificate's private key, PEM.", metavar="FILE", rich_help_panel=PANEL),
]
TlsCa = Annotated[
    Path | None,
    typer.Option(
        help="A client of the console that shows a certificate must have one signed by this CA, PEM.",
        metavar="FILE",
        rich_help_panel=PANEL,
    ),
]
