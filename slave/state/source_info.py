"""The state file ``source.info``: the options that a channel got by CHANGE REPLICATION SOURCE TO.

A server keeps these options in the table ``mysql.slave_master_info``. The file holds no filters. As in a server,
the filters come from the command line or the option file at every start (WL#7057).
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from dumpfilter.base.errors import OptionError
from dumpfilter.base.options.defaults import FIRST_EVENT, HEARTBEAT_PERIOD
from dumpfilter.base.security.client_tls import ClientTls, TlsMode
from dumpfilter.base.state_file import State, StateFile
from dumpfilter.slave.options import SourceOptions, TlsOptions
from dumpfilter.slave.state import FORMAT

NAME = "source.info"


class SourceInfo(SourceOptions, TlsOptions, State):
    """The content of ``source.info``: how one channel connects to its master, and where it begins to read.

    The members are the options of CHANGE REPLICATION SOURCE TO, with the server's defaults where those of the command
    line differ.
    """

    channel: str = ""
    host: str = ""
    port: int = 3306
    password: str = Field(default="", repr=False)
    retry_count: int = 10
    heartbeat_period: float = HEARTBEAT_PERIOD
    ssl: bool = False
    filter_on: Literal["MASTER", "SLAVE", "BOTH"] = "BOTH"  # type: ignore[assignment]  # as the server spells words

    @property
    def address(self) -> str:
        """The master's address as ``host:port``. An IPv6 address gets brackets, as in ``[::1]:3306``."""
        host = f"[{self.host}]" if ":" in self.host and not self.host.startswith("[") else self.host
        return f"{host}:{self.port}"

    @property
    def start_position(self) -> int:
        """The offset at which the channel's first dump begins, bytes. Only with a file it is :attr:`log_pos`."""
        return self.log_pos if self.log_file else FIRST_EVENT

    @property
    def verifies_host(self) -> bool:
        """Whether the master's certificate must name the master's host (``Source_SSL_Verify_Server_Cert``)."""
        return self.tls is not None and self.tls.mode is TlsMode.VERIFY_IDENTITY

    @property
    def tls(self) -> ClientTls | None:
        """The TLS settings of the connection to the master, or None for a connection without TLS."""
        if not self.ssl:
            return None
        if not self.ssl_ca:
            mode = TlsMode.REQUIRED
        else:
            mode = TlsMode.VERIFY_CA if self.ssl_verify_server_cert is False else TlsMode.VERIFY_IDENTITY
        ca, certificate, key = (
            Path(name) if name else None for name in (self.ssl_ca, self.ssl_cert, self.ssl_key)
        )
        return ClientTls(mode, ca, certificate, key, "SOURCE_SSL_CA", "SOURCE_SSL_CERT")

    def check_tls(self) -> None:
        """Raise OptionError for options of TLS that contradict each other. Without TLS they have no effect."""
        if self.ssl and bool(self.ssl_cert) != bool(self.ssl_key):
            given, missing = ("CERT", "KEY") if self.ssl_cert else ("KEY", "CERT")
            raise OptionError(f"SOURCE_SSL_{given} needs SOURCE_SSL_{missing}: give both, or none")
        if self.ssl and self.ssl_verify_server_cert and not self.ssl_ca:
            raise OptionError(
                "SOURCE_SSL_VERIFY_SERVER_CERT=1 needs SOURCE_SSL_CA, the file with the CA of the master's certificate"
            )


def source_info_file(directory: Path) -> StateFile[SourceInfo]:
    """Return the file ``source.info`` of a channel's directory. It holds a password, so only its owner may read it."""
    return StateFile(directory / NAME, SourceInfo, FORMAT, mode=0o600)
