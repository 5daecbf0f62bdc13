"""The settings of a listening port of a master or slave, as the command line gives them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dumpfilter.base import files

# At run time this import would load a large package that an endpoint without TLS does not need.
if TYPE_CHECKING:
    from dumpfilter.base.security.tls import TlsSource


@dataclass(frozen=True)
class Endpoint:
    """The address on which a server listens, its TLS settings, and the file to which its port is written."""

    host: str = "127.0.0.1"
    port: int = 0
    """The TCP port. With 0 the operating system chooses a free port."""
    port_file: Path | None = None
    """The file into which the port is written once clients can connect. Scripts can wait for this file."""
    tls: TlsSource | None = None
    """The port's certificate and key. Without them the console and the replication port make a certificate."""
    ca: Path | None = None
    """The CA that must have signed a client's certificate, for a port that makes its own certificate."""
    insecure: bool = False
    """Whether other machines may connect without TLS, and without a password or certificate."""

    def write_port(self, port: int) -> None:
        """Write the port to ``port_file``, for scripts that wait for the server. Without such a file do nothing. Raises
        OutputError.
        """
        if self.port_file is not None:
            # The file appears in one step, so that a waiting script never reads half a number.
            files.replace(self.port_file, f"{port}\n".encode(), synced=False, mode=0o666)
