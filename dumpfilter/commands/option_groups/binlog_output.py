"""The options for the output of ``dumpfilter binlog``: text for a client program, or a binlog set."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from dumpfilter.commands.option_groups.group import OptionGroup
from dumpfilter.errors import OptionError
from dumpfilter.printing.may_fail import MayFail

PANEL = "Output"


@dataclass(frozen=True)
class BinlogOutputOptions(OptionGroup):
    """The output options of ``dumpfilter binlog``.

    The output is text for a client program or, with ``--raw``, a binlog set in a directory.
    """

    raw: Annotated[
        bool,
        typer.Option(
            "--raw", help="Write a binlog set with its index instead of text.", rich_help_panel=PANEL
        ),
    ] = False
    output: Annotated[
        Path | None,
        typer.Option(
            help="With --raw: directory for the set; made when it does not exist.",
            metavar="DIR",
            rich_help_panel=PANEL,
        ),
    ] = None
    base_name: Annotated[
        str,
        typer.Option(
            help="With --raw: the new files' name without number. Without it the name of the files read.",
            rich_help_panel=PANEL,
        ),
    ] = ""
    overwrite: Annotated[
        bool,
        typer.Option("--overwrite", help="With --raw: replace a set of that name.", rich_help_panel=PANEL),
    ] = False
    binlog_with_tables_info: Annotated[
        bool,
        typer.Option(
            "--binlog-with-tables-info",
            help="With --raw: name the tables in every Query event (WL#40). Servers do not read such files.",
            rich_help_panel=PANEL,
        ),
    ] = False
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

    def check(self) -> None:
        """Check that the options fit together. Raises OptionError, for example for ``--raw`` without ``--output``."""
        if self.raw and self.output is None:
            raise OptionError("--raw: name a directory for the set with --output=DIR")
        for_raw = {
            "--output": self.output is not None,
            "--base-name": bool(self.base_name),
            "--overwrite": self.overwrite,
            "--binlog-with-tables-info": self.binlog_with_tables_info,
        }
        for_text = {
            "--no-skip-gtids": not self.skip_gtids,
            "--may-fail": self.may_fail is not MayFail.SAFE,
            "--local-load": self.local_load is not None,
        }
        for name, given in for_raw.items():
            if given and not self.raw:
                raise OptionError(f"{name} goes with --raw; text goes to standard output")
        for name, given in for_text.items():
            if given and self.raw:
                raise OptionError(f"{name} is about text and does not go with --raw")
