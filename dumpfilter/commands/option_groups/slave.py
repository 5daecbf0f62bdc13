"""The options of a slave that apply to all of its replication channels."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from dumpfilter.commands.option_groups.group import OptionGroup
from dumpfilter.commands.option_groups.rules import PANEL as FILTER_PANEL
from dumpfilter.options.defaults import SYNC_EVENTS

_RELAY_PANEL = "Relay log"


class FilterSide(enum.StrEnum):
    """The values of ``--filter-on``, which says whether master, slave or both apply the slave's filter."""

    BOTH = "both"
    MASTER = "master"
    SLAVE = "slave"


def _ids(name: str, help: str) -> Any:
    return typer.Option(f"--{name}", help=help + " Repeatable.", metavar="ID", rich_help_panel=FILTER_PANEL)


@dataclass(frozen=True)
class OriginOptions(OptionGroup):
    """The options that say which side filters, and which server ids and domain ids a slave wants transactions from."""

    filter_on: Annotated[
        FilterSide,
        typer.Option(
            help="both: the master filters, the slave again. master: the slave trusts it with rows. slave: the "
            "master sends everything, the slave filters.",
            rich_help_panel=FILTER_PANEL,
        ),
    ] = FilterSide.BOTH
    ignore_server_ids: Annotated[
        list[int] | None, _ids("ignore-server-ids", "Drop transactions that this server wrote.")
    ] = None
    do_domain_ids: Annotated[
        list[int] | None, _ids("do-domain-ids", "MariaDB: drop transactions of all domains but this one.")
    ] = None
    ignore_domain_ids: Annotated[
        list[int] | None, _ids("ignore-domain-ids", "MariaDB: drop transactions of this domain.")
    ] = None
    replicate_same_server_id: Annotated[
        bool,
        typer.Option(
            "--replicate-same-server-id",
            help="Apply transactions with this slave's own server id, which came back in a circle of servers.",
            rich_help_panel=FILTER_PANEL,
        ),
    ] = False


@dataclass(frozen=True)
class RelayOptions(OptionGroup):
    """The options of a slave's relay logs, and of its entry in the master's SHOW REPLICAS."""

    relay_dir: Annotated[
        Path, typer.Option(help="Where relay logs and state are kept; one directory for each slave.")
    ]
    server_id: Annotated[int, typer.Option(help="The slave's server_id, 1 to 4294967295.")]
    report_host: Annotated[str, typer.Option(help="The host under which SHOW REPLICAS lists the slave.")] = ""
    report_port: Annotated[
        int, typer.Option(help="The port under which SHOW REPLICAS lists the slave.", min=0, max=65535)
    ] = 0
    once: Annotated[bool, typer.Option("--once", help="Stop at the end of the newest binlog.")] = False
    skip_replica_start: Annotated[
        bool, typer.Option("--skip-replica-start", help="Wait for START REPLICA on the console.")
    ] = False
    io_thread_only: Annotated[
        bool, typer.Option("--io-thread-only", help="Fetch relay logs and apply nothing.")
    ] = False
    chunk_size: Annotated[
        int,
        typer.Option(
            help="Bytes of events in a message; 0 leaves it to the master.",
            min=0,
            rich_help_panel=_RELAY_PANEL,
        ),
    ] = 0
    sync_relay_log: Annotated[
        int,
        typer.Option(
            help="Synchronize the relay log to the disk after so many events; 0: never.",
            min=0,
            rich_help_panel=_RELAY_PANEL,
        ),
    ] = SYNC_EVENTS
    sync_master_info: Annotated[
        int,
        typer.Option(
            help="Synchronize master.info to the disk after so many events; 0: never.",
            min=0,
            rich_help_panel=_RELAY_PANEL,
        ),
    ] = SYNC_EVENTS
    relay_log_expire_seconds: Annotated[
        float,
        typer.Option(
            help="Remove a relay log file that was complete for so long, and that neither the applier nor a connected "
            "replica needs; 0: keep all.",
            min=0,
            rich_help_panel=_RELAY_PANEL,
        ),
    ] = 0
