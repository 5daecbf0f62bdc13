"""The options that select transactions by position, time or GTID, spelled as in mysqlbinlog and mariadb-binlog."""

from __future__ import annotations

from dumpfilter.options.settings import Settings, setting


class SelectionOptions(Settings, panel="Selection"):
    """The positions, times and GTIDs between which a command reads a binlog set. An empty text sets no limit.

    The values are not parsed here, because their syntax depends on whether MySQL or MariaDB wrote the binlog.
    """

    start_position: str = setting("", metavar="BYTES|GTIDS")
    """Begin in the first file at this place, where a transaction begins; of MariaDB also after these GTIDs."""
    stop_position: str = setting("", metavar="BYTES|GTIDS")
    """Stop in the last file before the transaction at this place; of MariaDB also: up to these GTIDs."""
    start_datetime: str = setting("", metavar="DATETIME")
    """Begin with the first transaction at or after this local time."""
    stop_datetime: str = setting("", metavar="DATETIME")
    """Stop before the first transaction at or after this local time."""
    include_gtids: str = setting("", metavar="GTIDS")
    """Only transactions with these GTIDs."""
    exclude_gtids: str = setting("", metavar="GTIDS")
    """No transactions with these GTIDs."""
