"""``dumpfilter master``: serves a binlog set to slaves, filtered for each."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Annotated

import typer

from dumpfilter.commands.console_options import (
    PANEL,
    ConsolePasswordFile,
    ConsolePort,
    ConsolePortFile,
    TlsCa,
    TlsCert,
    TlsKey,
)
from dumpfilter.commands.option_files import DefaultsExtraFile, DefaultsFile
from dumpfilter.commands.passwords import CONSOLE_VARIABLE, read_password


class Semantics(enum.StrEnum):
    """How the binlog's rules are read."""

    SERVER = "server"
    WORKLOG = "worklog"
    EFFECTIVE = "effective"


def _write_option(name: str, metavar: str = "DB", more: str = "") -> object:
    return typer.Option(
        f"--{name}",
        help=f"Serve as though the binlog had been written with this option.{more} Repeatable.",
        metavar=metavar,
        rich_help_panel="Write side",
    )


def master_command(
    binlogs: Annotated[
        list[Path],
        typer.Argument(
            metavar="BINLOGS...",
            help="The binlog set: its index file, its directory, or the files one by one.",
        ),
    ],
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(help="Port to listen on; 0 takes a free one.", min=0, max=65535)
    ] = 3307,
    port_file: Annotated[
        Path | None, typer.Option(help="Write the port to this file once the master serves.")
    ] = None,
    verify_checksum: Annotated[
        bool, typer.Option(help="Verify the events' checksums on reading (source_verify_checksum).")
    ] = True,
    cache_size: Annotated[
        int, typer.Option(help="Memory for the index of scanned binlogs, MiB.", min=1)
    ] = 32,
    config: Annotated[
        Path | None,
        typer.Option(
            help="A TOML file with the users, of replication and of the console, and the filters imposed on slaves "
            "(docs/master.md).",
        ),
    ] = None,
    console_port: ConsolePort = None,
    console_port_file: ConsolePortFile = None,
    console_user: Annotated[
        str | None,
        typer.Option(
            help="A user of the console, besides those of --config (root where there is none); on this machine "
            "alone it needs no password.",
            rich_help_panel=PANEL,
        ),
    ] = None,
    console_password_file: ConsolePasswordFile = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    tls_ca: TlsCa = None,
    do_db: Annotated[list[str] | None, _write_option("binlog-do-db")] = None,
    ignore_db: Annotated[list[str] | None, _write_option("binlog-ignore-db")] = None,
    do: Annotated[
        list[str] | None, _write_option("binlog-do", "RULE", " Effective semantics: DO='db.table'.")
    ] = None,
    ignore: Annotated[
        list[str] | None, _write_option("binlog-ignore", "RULE", " Effective semantics: IGNORE='db.table'.")
    ] = None,
    binlog_filter_semantics: Annotated[
        Semantics,
        typer.Option(
            help="Statements without a current database, under any rule: server: as the binlog's server does "
            "(MySQL writes them; in MariaDB they are in no database). worklog: not written. effective: "
            "--binlog-do and --binlog-ignore, by what is changed, instead.",
            rich_help_panel="Write side",
        ),
    ] = Semantics.SERVER,
    lower_case_table_names: Annotated[
        int,
        typer.Option(
            help="How the write side's names compare: 0 as they are, 1 and 2 without case.",
            min=0,
            max=2,
            rich_help_panel="Write side",
        ),
    ] = 0,
    split: Annotated[
        list[Path] | None,
        typer.Option(
            help="A directory that dumpfilter split wrote of this set: slaves whose filter is that of a named binlog "
            "in it are dumped to from there (docs/master.md). Repeatable.",
            metavar="DIRECTORY",
        ),
    ] = None,
    defaults_file: DefaultsFile = None,  # these two are for OptionFileCommand
    defaults_extra_file: DefaultsExtraFile = None,
) -> None:
    """Serve a binlog set to slaves over gRPC, filtered for each.

    The last file may still be growing: what a server writes to it is followed, and so is rotation.

    Example:

        dumpfilter master /var/lib/mysql/binlog.index --port 3307

        dumpfilter master /var/lib/mysql/binlog.index --binlog-ignore-db=scratch

        dumpfilter master /var/lib/mysql/binlog.index --config master.toml --console-port 3308
    """
    from dumpfilter.filter import WriteRuleKind, WriteSemantics
    from dumpfilter.filter.rules import EffectiveRuleKind, make_rules
    from dumpfilter.master.command import run_master
    from dumpfilter.security.tls import TlsFiles

    run_master(
        binlogs[0] if len(binlogs) == 1 else list(binlogs),
        host=host,
        port=port,
        port_file=port_file,
        config_file=config,
        console_port=console_port,
        console_port_file=console_port_file,
        console_user=console_user,
        console_password=read_password(console_password_file, CONSOLE_VARIABLE),
        tls_files=TlsFiles(tls_cert, tls_key, tls_ca),
        verify=verify_checksum,
        cache_bytes=cache_size << 20,
        write_rules=tuple(
            make_rules(
                {
                    WriteRuleKind.DO_DB: do_db,
                    WriteRuleKind.IGNORE_DB: ignore_db,
                    EffectiveRuleKind.DO: do,
                    EffectiveRuleKind.IGNORE: ignore,
                }
            )
        ),
        write_semantics=WriteSemantics(binlog_filter_semantics.value),
        lower_case_table_names=lower_case_table_names,
        splits=split or (),
    )
