"""The gRPC connection of a channel to its master, with or without TLS."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import grpc
import structlog

from dumpfilter.base.errors import NotAMaster, OptionError, TlsError
from dumpfilter.base.security.client_tls import TlsMode
from dumpfilter.base.security.exposure import is_loopback
from dumpfilter.slave.mysql_greeting import mysql_version
from dumpfilter.slave.options import SlaveOptions
from dumpfilter.slave.state.infos import SourceInfo
from dumpfilter.slave.tls_trial import agree, speaks_tls
from dumpfilter.v1 import dumpfilter_pb2 as pb

log = structlog.get_logger("dumpfilter.slave")

ROUND_TRIPS = 3
"""The multiple of the option ``net_timeout`` that a slave waits for the first answer on a new connection.

A connection takes two round trips, and ``net_timeout`` must be longer than one.
"""

CHANNEL_OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    # gRPC must not reuse connections or wait between attempts by itself, because the slave's class Backoff decides how
    # long the slave waits before it connects again.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_retries", 0),
)

_NEVER_CONNECTED = ("Connection refused", "DNS", "imeout", "nreachable", "No route")
"""Parts of gRPC's error texts that say that the slave did not reach the master at all."""


@dataclass(frozen=True)
class Source:
    """A channel's master as the I/O thread sees it: the address and options for the connection, and the slave's
    identity and filter for the registration.
    """

    info: SourceInfo
    """The channel's configuration."""
    options: SlaveOptions
    uuid: str = ""
    """The slave's server UUID."""
    secret: bytes = field(default=b"", repr=False)
    """The slave's registration secret. Only a slave with the same secret can replace a registration with this server
    UUID.
    """
    filter: pb.FilterDefinition = field(default_factory=pb.FilterDefinition)
    """The filter that the slave sends to the master when it registers."""


def open_channel(source: Source, stopped: Callable[[], bool]) -> grpc.Channel:
    """Return a gRPC channel to the master, with TLS if the channel's configuration asks for it. The caller closes it.

    ``stopped`` tells whether the slave is stopping, which ends a waiting TLS handshake. Raises TlsError when slave and
    master cannot agree on TLS, NotAMaster when a MySQL server answers, and Unreachable when no master answers the
    handshake. Raises OptionError when a password would be sent unencrypted to another machine.
    """
    patience = ROUND_TRIPS * source.options.net_timeout
    # gRPC calls the limit of an attempt to connect a backoff.
    settings = (*CHANNEL_OPTIONS, ("grpc.min_reconnect_backoff_ms", int(patience * 1000)))
    if source.info.tls is None:
        _refuse_plain_password(source)
        return grpc.insecure_channel(source.info.address, options=settings)
    if source.info.tls.mode is TlsMode.REQUIRED:
        log.warning(
            "the connection is encrypted, but the master's certificate is not verified",
            hint="somebody in between can read and change everything; give SOURCE_SSL_CA (--source-ssl-ca)",
            master=source.info.address,
            channel=source.info.channel,
        )
    try:
        credentials, name = agree(source.info.tls, *source.info.endpoint, stopped, patience)
    except TlsError:
        _refuse_mysql(source)
        raise
    expected = () if name is None else (("grpc.ssl_target_name_override", name),)
    return grpc.secure_channel(source.info.address, credentials, options=(*settings, *expected))


def explain_failure(source: Source, error: grpc.RpcError, stopped: Callable[[], bool]) -> None:
    """Raise the reason why a gRPC call without TLS has failed, if later calls must fail, too. Otherwise return.

    ``error`` is the failure. Raises NotAMaster if a MySQL server answers, and TlsError if the master only accepts TLS.
    ``stopped`` tells whether the slave is stopping, which ends the checks.
    """
    details = error.details() or ""
    if (
        source.info.tls is not None
        or error.code() is not grpc.StatusCode.UNAVAILABLE
        or any(reason in details for reason in _NEVER_CONNECTED)
    ):
        return
    _refuse_mysql(source)
    if not speaks_tls(*source.info.endpoint, stopped):
        return
    raise TlsError(
        f"master {source.info.address}: the master speaks TLS alone: set SOURCE_SSL=1 and SOURCE_SSL_CA "
        "(--source-ssl-ca)"
    ) from error


def _refuse_mysql(source: Source) -> None:
    """Raise NotAMaster if a MySQL or MariaDB server answers at the master's address."""
    version = mysql_version(*source.info.endpoint)
    if version is None:
        return
    family = "MariaDB" if "MariaDB" in version else "MySQL"
    raise NotAMaster(
        f"master {source.info.address}: this is a {family} server ({version}), or a console or replication port of "
        "dumpfilter, and not a dumpfilter master's port for slaves: give the master's --port; for a server start a "
        f"master first (dumpfilter master mysql://USER@{source.info.address}/ --store DIRECTORY)"
    )


def _refuse_plain_password(source: Source) -> None:
    if not source.info.password or source.options.plain_password or is_loopback(source.info.host):
        return
    raise OptionError(
        f"master {source.info.address}: the password of user {source.info.user!r} would travel unencrypted to "
        "another machine: set SOURCE_SSL=1 and SOURCE_SSL_CA (--source-ssl-ca), or allow it with "
        "--source-plain-password"
    )
