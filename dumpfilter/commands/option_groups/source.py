"""The options that name a slave's masters, and say how the slave connects to them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dumpfilter.commands.option_groups.addresses import parse_masters
from dumpfilter.commands.option_groups.passwords import SOURCE_VARIABLE, read_password
from dumpfilter.commands.option_groups.source_tls import PANEL, SourceTlsOptions
from dumpfilter.errors import OptionError
from dumpfilter.options.defaults import CONNECT_RETRY, FIRST_EVENT, NET_TIMEOUT
from dumpfilter.options.settings import Settings, setting

if TYPE_CHECKING:
    from dumpfilter.commands.option_groups.slave import OriginOptions
    from dumpfilter.slave.state.source_info import SourceInfo


class SourceOptions(Settings, panel=PANEL):
    """The options of a slave's masters: addresses, login, timeouts, and the position at which replication begins."""

    master: list[str] | None = setting(None, metavar="[CHANNEL=]HOST:PORT")
    """Address of the master; with a name before it, of that channel's. Repeatable. Without it the channels are those
    that were configured before, or by statements."""
    channel: str = ""
    """The channel of a --master without a name; empty is the default one."""
    auto_position: bool = False
    """Go on by GTID set at the start and at another master."""
    start_file: str = ""
    """Binlog to begin with the first time. Without it the oldest."""
    start_position: int = setting(FIRST_EVENT, min=FIRST_EVENT)
    """Offset in --start-file to begin at the first time, bytes."""
    source_user: str = ""
    """The user to register as, where the master has a list of users."""
    source_password_file: Path | None = None
    """A file whose first line is the user's password. Without it the password is that of the environment variable
    DUMPFILTER_SOURCE_PASSWORD."""
    connect_retry: float = setting(CONNECT_RETRY, min=0.05)
    """Longest wait between two attempts to connect, seconds."""
    retry_count: int = setting(86_400, min=0)
    """Give up after so many failed attempts in a row, also with --once; 0: never."""
    replica_net_timeout: float = setting(NET_TIMEOUT, min=0.1)
    """Seconds of silence after which the connection counts as lost."""
    heartbeat_period: float | None = setting(None, min=0.001, show_default=False)
    """Seconds of silence after which the master sends a heartbeat. Without it half of --replica-net-timeout (30)."""

    def check(self) -> None:
        """Check that the options fit together. Raises OptionError, as for ``--start-position`` without a file."""
        if self.start_position != FIRST_EVENT and not self.start_file:
            raise OptionError("--start-position needs --start-file")
        if self.heartbeat_period is not None and self.heartbeat_period >= self.replica_net_timeout:
            raise OptionError(
                f"--heartbeat-period={self.heartbeat_period:g}: an idle connection would count as lost; choose a "
                f"period below --replica-net-timeout={self.replica_net_timeout:g}"
            )

    def infos(self, origin: OriginOptions, tls: SourceTlsOptions) -> list[SourceInfo]:
        """Return the configuration of one replication channel for each ``--master``. Raises OptionError."""
        from dumpfilter.slave.state.source_info import SourceInfo

        password = read_password(self.source_password_file, SOURCE_VARIABLE) if self.source_user else ""
        period = self.replica_net_timeout / 2 if self.heartbeat_period is None else self.heartbeat_period
        return [
            SourceInfo(
                channel=channel,
                host=host,
                port=port,
                user=self.source_user,
                password=password,
                auto_position=self.auto_position,
                log_file=self.start_file,
                log_pos=self.start_position,
                connect_retry=self.connect_retry,
                retry_count=self.retry_count,
                heartbeat_period=period,
                ignore_server_ids=origin.ignore_server_ids or [],
                do_domain_ids=origin.do_domain_ids or [],
                ignore_domain_ids=origin.ignore_domain_ids or [],
                **tls.members(),
                filter_on=origin.filter_on.name,  # type: ignore[arg-type]  # pydantic checks it
            )
            for channel, host, port in parse_masters(self.master or [], self.channel)
        ]
