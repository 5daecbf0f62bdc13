"""The options that name a slave's masters, and say how the slave connects to them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dumpfilter.commands.option_groups.addresses import parse_masters
from dumpfilter.commands.option_groups.group import OptionGroup
from dumpfilter.commands.option_groups.passwords import SOURCE_VARIABLE, read_password
from dumpfilter.errors import OptionError
from dumpfilter.options.defaults import CONNECT_RETRY, FIRST_EVENT, HEARTBEAT_PERIOD, NET_TIMEOUT

if TYPE_CHECKING:
    from dumpfilter.commands.option_groups.slave import OriginOptions
    from dumpfilter.slave.state.source_info import SourceInfo

PANEL = "Master"


def _option(help: str, **more: Any) -> Any:
    return typer.Option(help=help, rich_help_panel=PANEL, **more)


@dataclass(frozen=True)
class SourceOptions(OptionGroup):
    """The options of a slave's masters: addresses, login, timeouts, and the position at which replication begins."""

    master: Annotated[
        list[str] | None,
        _option(
            "Address of the master; with a name before it, of that channel's. Repeatable. Without it the "
            "channels are those that were configured before, or by statements.",
            metavar="[CHANNEL=]HOST:PORT",
        ),
    ] = None
    channel: Annotated[
        str, _option("The channel of a --master without a name; empty is the default one.")
    ] = ""
    auto_position: Annotated[
        bool,
        typer.Option(
            "--auto-position",
            help="Go on by GTID set at the start and at another master.",
            rich_help_panel=PANEL,
        ),
    ] = False
    start_file: Annotated[str, _option("Binlog to begin with the first time. Without it the oldest.")] = ""
    start_position: Annotated[
        int,
        _option("Offset in --start-file to begin at the first time, bytes.", min=FIRST_EVENT),
    ] = FIRST_EVENT
    source_user: Annotated[str, _option("The user to register as, where the master has a list of users.")] = (
        ""
    )
    source_password_file: Annotated[
        Path | None,
        _option(
            "A file whose first line is the user's password. Without it the password is that of the environment "
            f"variable {SOURCE_VARIABLE}."
        ),
    ] = None
    source_plain_password: Annotated[
        bool,
        typer.Option(
            "--source-plain-password",
            help="Send the password to a master on another machine even without TLS.",
            rich_help_panel=PANEL,
        ),
    ] = False
    source_ssl: Annotated[
        bool | None,
        _option(
            "Connect to the master with TLS. The default is yes if one of the files below is given.",
            show_default=False,
        ),
    ] = None
    source_ssl_ca: Annotated[
        str,
        _option(
            "The CA that must have signed the master's certificate, PEM. Without it the connection is encrypted, and "
            "the certificate is not verified.",
            metavar="FILE",
        ),
    ] = ""
    source_ssl_cert: Annotated[
        str, _option("This slave's certificate, PEM, for a master that demands one.", metavar="FILE")
    ] = ""
    source_ssl_key: Annotated[str, _option("The private key of --source-ssl-cert, PEM.", metavar="FILE")] = ""
    source_ssl_verify_server_cert: Annotated[
        bool | None,
        _option(
            "Demand that the master's certificate names the host in --master. The default is yes with "
            "--source-ssl-ca.",
            show_default=False,
        ),
    ] = None
    connect_retry: Annotated[
        float, _option("Longest wait between two attempts to connect, seconds.", min=0.05)
    ] = CONNECT_RETRY
    retry_count: Annotated[
        int, _option("Give up after so many failed attempts in a row; 0: never.", min=0)
    ] = 86_400
    replica_net_timeout: Annotated[
        float, _option("Seconds of silence after which the connection counts as lost.", min=0.1)
    ] = NET_TIMEOUT
    heartbeat_period: Annotated[
        float | None,
        _option(
            "Seconds of silence after which the master sends a heartbeat. Without it half of --replica-net-timeout "
            f"({HEARTBEAT_PERIOD:g}).",
            min=0.001,
            show_default=False,
        ),
    ] = None

    def check(self) -> None:
        """Check that the options fit together. Raises OptionError, as for ``--start-position`` without a file."""
        if self.start_position != FIRST_EVENT and not self.start_file:
            raise OptionError("--start-position needs --start-file")
        if self.source_ssl is False and (self.source_ssl_ca or self.source_ssl_cert or self.source_ssl_key):
            raise OptionError(
                "--no-source-ssl contradicts --source-ssl-ca, --source-ssl-cert and --source-ssl-key: leave it out, or "
                "them"
            )
        if self.source_ssl_verify_server_cert and not self.source_ssl_ca:
            raise OptionError(
                "--source-ssl-verify-server-cert needs --source-ssl-ca, the CA of the master's certificate"
            )
        if self.heartbeat_period is not None and self.heartbeat_period >= self.replica_net_timeout:
            raise OptionError(
                f"--heartbeat-period={self.heartbeat_period:g}: an idle connection would count as lost; choose a "
                f"period below --replica-net-timeout={self.replica_net_timeout:g}"
            )

    def infos(self, origin: OriginOptions) -> list[SourceInfo]:
        """Return the configuration of one replication channel for each ``--master``. Raises OptionError."""
        from dumpfilter.slave.state.source_info import SourceInfo

        files = self.source_ssl_ca or self.source_ssl_cert or self.source_ssl_key
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
                ssl=bool(files) if self.source_ssl is None else self.source_ssl,
                ssl_ca=self.source_ssl_ca,
                ssl_cert=self.source_ssl_cert,
                ssl_key=self.source_ssl_key,
                ssl_verify_server_cert=self.source_ssl_verify_server_cert,
                filter_on=origin.filter_on.name,  # type: ignore[arg-type]  # pydantic checks it
            )
            for channel, host, port in parse_masters(self.master or [], self.channel)
        ]
