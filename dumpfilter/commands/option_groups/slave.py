"""The options of a slave that apply to all of its replication channels."""

from __future__ import annotations

import enum
from pathlib import Path

from dumpfilter.commands.option_groups.rules import PANEL as FILTER_PANEL
from dumpfilter.options.defaults import SYNC_EVENTS
from dumpfilter.options.settings import Settings, setting

_RELAY_PANEL = "Relay log"


class FilterSide(enum.StrEnum):
    """The values of ``--filter-on``, which says whether master, slave or both apply the slave's filter."""

    BOTH = "both"
    MASTER = "master"
    SLAVE = "slave"


class OriginOptions(Settings, panel=FILTER_PANEL):
    """The options that say which side filters, and which server ids and domain ids a slave wants transactions from."""

    filter_on: FilterSide = FilterSide.BOTH
    """both: the master filters, the slave again. master: the slave trusts it with rows. slave: the master sends
    everything, the slave filters."""
    ignore_server_ids: list[int] | None = setting(None, metavar="ID")
    """Drop transactions that this server wrote. Repeatable."""
    do_domain_ids: list[int] | None = setting(None, metavar="ID")
    """MariaDB: drop transactions of all domains but this one. Repeatable."""
    ignore_domain_ids: list[int] | None = setting(None, metavar="ID")
    """MariaDB: drop transactions of this domain. Repeatable."""
    replicate_same_server_id: bool = False
    """Apply transactions with this slave's own server id, which came back in a circle of servers."""


class RelayOptions(Settings):
    """The options of a slave's relay logs, and of its entry in the master's SHOW REPLICAS."""

    relay_dir: Path
    """The directory of relay logs and state, one for each slave."""
    server_id: int
    """The slave's server_id, 1 to 4294967295."""
    report_host: str = ""
    """The host under which SHOW REPLICAS lists the slave."""
    report_port: int = setting(0, min=0, max=65535)
    """The port under which SHOW REPLICAS lists the slave."""
    once: bool = False
    """Stop at the end of the newest binlog."""
    skip_replica_start: bool = False
    """Wait for START REPLICA on the console."""
    io_thread_only: bool = False
    """Fetch relay logs and apply nothing."""
    chunk_size: int = setting(0, min=0, rich_help_panel=_RELAY_PANEL)
    """Bytes of events in a message; 0 leaves it to the master."""
    sync_relay_log: int = setting(SYNC_EVENTS, min=0, rich_help_panel=_RELAY_PANEL)
    """Synchronize the relay log to the disk after so many events; 0: never."""
    sync_master_info: int = setting(SYNC_EVENTS, min=0, rich_help_panel=_RELAY_PANEL)
    """Synchronize master.info to the disk after so many events; 0: never."""
    relay_log_expire_seconds: float = setting(0, min=0, rich_help_panel=_RELAY_PANEL)
    """Remove a relay log file that was complete for so long, and that neither the applier nor a connected replica
    needs; 0: keep all."""
