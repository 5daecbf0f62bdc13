"""The options of ``dumpfilter binlog`` for text as its output."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from dumpfilter.commands.option_groups.group import OptionGroup
from dumpfilter.printing.may_fail import MayFail

PANEL = "Output"


class Base64Output(enum.Enum):
    """The values of ``--base64-output``."""

    AUTO = "auto"
    DECODE_ROWS = "decode-rows"


@dataclass(frozen=True)
class BinlogTextOptions(OptionGroup):
    """The options of ``dumpfilter binlog`` for the text that a client program runs."""

    verbose: Annotated[
        int,
        typer.Option(
            "--verbose",
            "-v",
            count=True,
            metavar="",
            show_default=False,
            help="Print the changed rows as comments (### INSERT INTO …). -vv adds the columns' types.",
            rich_help_panel=PANEL,
        ),
    ] = 0
    base64_output: Annotated[
        Base64Output,
        typer.Option(
            help="'auto' prints the BINLOG statements that repeat the rows. 'decode-rows' leaves them out: with -v for "
            "reading, not for running.",
            rich_help_panel=PANEL,
        ),
    ] = Base64Output.AUTO
    skip_gtids: Annotated[
        bool,
        typer.Option(
            "--skip-gtids/--no-skip-gtids",
            help="Write GTIDs as comments, or as settings, which keep the transactions' GTIDs on the target.",
            rich_help_panel=PANEL,
        ),
    ] = True
    may_fail: Annotated[
        MayFail,
        typer.Option(
            help="Statements that would fail where the text is run, since the filter dropped what they need, or "
            "that the filter cannot decide about. safe: comments where they must fail, IF EXISTS where the binlogs "
            "do not tell. comment: always comments. print: as they are.",
            rich_help_panel=PANEL,
        ),
    ] = MayFail.SAFE
    local_load: Annotated[
        Path | None,
        typer.Option(
            help="Directory for the files of LOAD DATA. Without it a new temporary directory.",
            metavar="DIR",
            rich_help_panel=PANEL,
        ),
    ] = None

    @property
    def given(self) -> list[str]:
        """The names of the options that have another value than the default."""
        values = {
            "--no-skip-gtids": not self.skip_gtids,
            "--verbose": self.verbose > 0,
            "--base64-output": self.base64_output is not Base64Output.AUTO,
            "--may-fail": self.may_fail is not MayFail.SAFE,
            "--local-load": self.local_load is not None,
        }
        return [name for name, given in values.items() if given]
