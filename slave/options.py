"""The options of a slave, of each of its channels, and of its ports for other slaves and replicas.

The options of a channel are for the command line and for CHANGE REPLICATION SOURCE TO.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from dumpfilter.base.errors import OptionError
from dumpfilter.base.options.settings import Settings, setting
from dumpfilter.base.options.values import CONNECT_RETRY, FIRST_EVENT, NET_TIMEOUT, SYNC_EVENTS, whole_number

MASTER_PANEL = "Master"
REPLICAS_PANEL = "Real replicas"
SOURCE_VARIABLE = "DUMPFILTER_SOURCE_PASSWORD"
_FILTER_PANEL = "Filter"
_RELAY_PANEL = "Relay log"
_SERVE_PANEL = "Slaves of this slave"

MOST_PORT = 65535

MOST_TIMEOUT = 4_294_967
"""The longest ``--replica-net-timeout``, seconds: 49 days. A request to a master has 32 bits for the milliseconds."""


class TlsOptions(Settings, panel=MASTER_PANEL):
    """The options that say whether a slave uses TLS, and how far the slave verifies the master's certificate."""

    ssl: bool | None = setting(None, "--source-ssl/--no-source-ssl", show_default=False)
    """Connect to the master with TLS. The default is yes if one of the files below is given."""
    ssl_ca: str = setting("", "--source-ssl-ca", metavar="FILE")
    """The CA that must have signed the master's certificate, PEM. Without it the connection is encrypted, and the
    certificate is not verified."""
    ssl_cert: str = setting("", "--source-ssl-cert", metavar="FILE")
    """This slave's certificate, PEM, for a master that demands one."""
    ssl_key: str = setting("", "--source-ssl-key", metavar="FILE")
    """The private key of --source-ssl-cert, PEM."""
    ssl_verify_server_cert: bool | None = setting(
        None, "--source-ssl-verify-server-cert/--no-source-ssl-verify-server-cert", show_default=False
    )
    """Demand that the master's certificate names the host in --master. The default is yes with --source-ssl-ca."""

    def members(self) -> dict[str, Any]:
        """Return the values of the TLS options by the names of the fields of :class:`SourceInfo`, which is a channel's
        configuration. Raises OptionError for options that contradict each other.
        """
        is_any_file = bool(self.ssl_ca or self.ssl_cert or self.ssl_key)
        if self.ssl is False and is_any_file:
            raise OptionError(
                "--no-source-ssl contradicts --source-ssl-ca, --source-ssl-cert and --source-ssl-key: leave out one "
                "or the others"
            )
        if self.ssl_verify_server_cert and not self.ssl_ca:
            raise OptionError(
                "--source-ssl-verify-server-cert needs --source-ssl-ca, the CA of the master's certificate"
            )
        return {**self.model_dump(), "ssl": is_any_file if self.ssl is None else self.ssl}


class SourceOptions(Settings, panel=MASTER_PANEL):
    """The options of a slave's masters: login, timeouts, the position at which replication begins, and whether the
    master, the slave or both apply the filter.

    CHANGE REPLICATION SOURCE TO has the same options.
    """

    auto_position: bool = False
    """Begin the first dump, and the first from another master, after the GTIDs that the slave has."""
    log_file: str = setting("", "--start-file")
    """Binlog file at which the first dump begins. Default: the oldest file."""
    log_pos: int = setting(FIRST_EVENT, "--start-position", min=FIRST_EVENT)
    """Byte offset in --start-file at which the first dump begins."""
    user: str = setting("", "--source-user")
    """The user to register as, where the master has a list of users."""
    connect_retry: float = setting(CONNECT_RETRY, min=0.05)
    """Longest wait between two attempts to connect, seconds."""
    retry_count: int = setting(86_400, min=0)
    """Give up after so many failed attempts in a row, also with --once; 0: never."""
    heartbeat_period: float | None = setting(None, min=0.001, show_default=False)
    """Seconds of silence after which the master sends a heartbeat. Without it half of --replica-net-timeout (30)."""
    filter_on: Literal["both", "master", "slave"] = setting("both", rich_help_panel=_FILTER_PANEL)
    """both: the master filters, and the slave filters again. master: the slave filters statements again, but no rows.
    slave: the master sends everything, and the slave filters.
    """
    ignore_server_ids: list[int] = setting([], metavar="ID", rich_help_panel=_FILTER_PANEL)
    """Drop transactions that this server wrote. Repeatable."""
    do_domain_ids: list[int] = setting([], metavar="ID", rich_help_panel=_FILTER_PANEL)
    """MariaDB: drop transactions of all domains but this one. Repeatable."""
    ignore_domain_ids: list[int] = setting([], metavar="ID", rich_help_panel=_FILTER_PANEL)
    """MariaDB: drop transactions of this domain. Repeatable."""

    def members(self) -> dict[str, Any]:
        """Return the values of the options of a slave's masters, such as the login and the start position. The keys are
        the names of the fields of :class:`SourceInfo`, which is a channel's configuration.

        Raises OptionError for options that contradict each other.
        """
        if self.log_pos != FIRST_EVENT and not self.log_file:
            raise OptionError("--start-position needs --start-file")
        return self.model_dump() | {"filter_on": self.filter_on.upper()}


class SlaveOptions(Settings):
    """The options that all channels of a slave share. An option that a MySQL server has, too, has the server's name."""

    relay_dir: Path
    """The directory of relay logs and state, one for each slave."""
    server_id: int
    """The slave's server_id, 1 to 4294967295."""
    report_host: str = ""
    """The host under which SHOW REPLICAS lists the slave."""
    report_port: int = setting(0, min=0, max=MOST_PORT)
    """The port under which SHOW REPLICAS lists the slave."""
    once: bool = False
    """Stop at the end of the newest binlog."""
    skip_replica_start: bool = False
    """Start no threads until START REPLICA on the console."""
    io_thread_only: bool = False
    """Fetch relay logs and apply nothing."""
    chunk_size: int = setting(0, min=0, max=2**32 - 1, rich_help_panel=_RELAY_PANEL)
    """Bytes of events in a message; 0 leaves it to the master."""
    sync_relay_log: int = setting(SYNC_EVENTS, min=0, rich_help_panel=_RELAY_PANEL)
    """Synchronize the relay log and master.info to the disk after so many events; 0: never."""
    relay_log_expire_seconds: float = setting(0.0, min=0, rich_help_panel=_RELAY_PANEL)
    """Remove a relay log file that was complete for so long, and that neither the applier nor a connected replica
    needs; 0: keep all."""
    net_timeout: float = setting(
        NET_TIMEOUT, "--replica-net-timeout", min=0.1, max=MOST_TIMEOUT, rich_help_panel=MASTER_PANEL
    )
    """Seconds without a message after which the connection to the master counts as lost."""
    plain_password: bool = setting(False, "--source-plain-password", rich_help_panel=MASTER_PANEL)
    """Send the password to a master on another machine even without TLS."""
    replicate_same_server_id: bool = setting(
        False, "--replicate-same-server-id", rich_help_panel=_FILTER_PANEL
    )
    """Apply transactions with this slave's own server id, which came back in a circle of servers."""
    lower_case_table_names: int = setting(0, is_option=False)
    """The way to compare names (``--lower-case-table-names``), an option of the filter."""
    alone: bool = setting(False, is_option=False)
    """Whether an error in one thread of a channel leaves the other thread running, as in a server.

    Otherwise an error of the applier stops the I/O thread. After the end of the I/O thread the applier then applies the
    received transactions and ends.
    """

    def check(self) -> None:
        """Raise OptionError unless the server id is a possible ``--server-id``, from 1 to 4294967295."""
        if not 1 <= self.server_id <= 0xFFFFFFFF:
            raise OptionError(f"--server-id={self.server_id}: give a number from 1 to 4294967295")


class EdgeOptions(Settings, panel=REPLICAS_PANEL):
    """The ports at which a slave serves its relay logs to other slaves and to real replicas, and their accounts."""

    serve_port: list[str] | None = setting(None, metavar="[CHANNEL=]PORT", rich_help_panel=_SERVE_PANEL)
    """Port for other slaves of dumpfilter, which get what this slave has received; with a name before it, what that
    channel has received. 0 takes a free port. Repeatable."""
    serve_host: str = setting("127.0.0.1", rich_help_panel=_SERVE_PANEL)
    """Address to listen on for slaves."""
    serve_port_file: Path | None = setting(None, rich_help_panel=_SERVE_PANEL)
    """Write the first port for slaves to this file once they can connect."""

    replica_port: list[str] | None = setting(None, metavar="[CHANNEL=]PORT")
    """Port for MySQL and MariaDB replicas, which get what the slave has received; with a name before it, what that
    channel has received. 0 takes a free port. Repeatable."""
    replica_host: str = "127.0.0.1"
    """Address to listen on for replicas."""
    replica_port_file: Path | None = None
    """Write the first port for replicas to this file once they can connect."""
    config: Path | None = None
    """A TOML file. Its replica tables name the users and filters of replicas, its user tables the users of slaves
    (docs/edge.md)."""

    def check(self) -> None:
        """Raise OptionError for an option that has no effect, because the port to which it belongs is not given."""
        if not self.serve_port:
            self.refuse(["serve_port_file"], "needs --serve-port")
        if not self.replica_port:
            self.refuse(["replica_port_file"], "needs --replica-port")
        if not (self.serve_port or self.replica_port):
            self.refuse(["config"], "has the users of --serve-port and --replica-port: give one of them, too")


def values_of_channels(texts: Sequence[str] | None, option: str) -> dict[str, str]:
    """Return the value of each channel by the channel's name, from arguments of an option such as ``m1=3310``. An
    argument without ``=`` belongs to the default channel. ``texts`` is None if the option was not given.

    Raises OptionError, whose text names ``option``, for an invalid channel name and for two values of one channel.
    Channels have lower-case names, as on a server.
    """
    # Help texts need this module, and no filter.
    from dumpfilter.filter.channels import GROUP_REPLICATION_CHANNELS, fold_channel, is_channel_name

    values: dict[str, str] = {}
    for text in texts or []:
        name, _, value = text.rpartition("=")
        channel = fold_channel(name)
        if channel in GROUP_REPLICATION_CHANNELS or not is_channel_name(channel):
            raise OptionError(f"{option}={text}: no channel can have the name {channel!r}")
        if channel in values:
            raise OptionError(
                f"{option}={text}: there is another one for channel {channel!r}; give each a name"
            )
        values[channel] = value
    return values


def parse_ports(texts: list[str] | None, option: str) -> dict[str, int]:
    """Return the TCP port of each channel by the channel's name, from arguments of an option such as ``m1=3310``. An
    argument without ``=`` belongs to the default channel.

    Raises OptionError, which names ``option``, for an invalid port or channel, and for two ports of one channel.

    >>> parse_ports(["3309", "m1=3310"], "--replica-port")
    {'': 3309, 'm1': 3310}
    """
    ports: dict[str, int] = {}
    for channel, text in values_of_channels(texts, option).items():
        port = whole_number(text)
        if port is None or port > MOST_PORT:
            named = f"{channel}={text}" if channel else text
            raise OptionError(f"{option}={named}: give a port from 0 to {MOST_PORT}, or CHANNEL=PORT")
        ports[channel] = port
    return ports
