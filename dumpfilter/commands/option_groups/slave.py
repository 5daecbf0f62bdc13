"""The options of the command ``slave`` alone: the masters' addresses, and the summary at the end."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from dumpfilter.base.errors import OptionError
from dumpfilter.base.options.settings import Settings, setting
from dumpfilter.commands.option_groups.logins import SOURCE_VARIABLE, parse_masters, read_password
from dumpfilter.slave.options import MASTER_PANEL, SourceOptions, TlsOptions

if TYPE_CHECKING:
    from dumpfilter.slave.state.infos import SourceInfo


class MasterOptions(Settings, panel=MASTER_PANEL):
    """The addresses of a slave's masters, one for each channel, and the password there."""

    master: list[str] | None = setting(None, metavar="[CHANNEL=]HOST:PORT")
    """Address of the master; with a name before it, of that channel's. Repeatable. Without it the channels are those
    that were configured before, or by statements."""
    channel: str = ""
    """The channel of a --master without a name; empty is the default one."""
    source_password_file: Path | None = None
    """A file whose first line is the user's password. Without it the password is that of the environment variable
    DUMPFILTER_SOURCE_PASSWORD."""

    def infos(self, source: SourceOptions, tls: TlsOptions, net_timeout: float) -> list[SourceInfo]:
        """Return the configuration of one replication channel for each ``--master``. Raises OptionError.

        ``net_timeout`` is ``--replica-net-timeout``, by which an idle connection must not count as lost.
        """
        from dumpfilter.slave.state.infos import SourceInfo

        period = net_timeout / 2 if source.heartbeat_period is None else source.heartbeat_period
        if period >= net_timeout:
            raise OptionError(
                f"--heartbeat-period={period:g}: an idle connection would count as lost; choose a period below "
                f"--replica-net-timeout={net_timeout:g}"
            )
        password = read_password(self.source_password_file, SOURCE_VARIABLE) if source.user else ""
        members = source.members() | tls.members() | {"password": password, "heartbeat_period": period}
        return [
            SourceInfo(channel=channel, host=host, port=port, **members)
            for channel, host, port in parse_masters(self.master or [], self.channel)
        ]


class SummaryOptions(Settings):
    """The summary of the target that a slave prints at the end."""

    summary: Literal["table", "json", "none"] = "table"
    """The form of the summary at the end."""
    summary_file: Path | None = None
    """Write the summary to this file instead of standard output."""
