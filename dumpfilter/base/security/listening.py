"""The addresses on which servers listen: the settings of a port, whether a server may listen there, and whether it can.

A server that other machines can reach needs TLS and a login, unless the user gives ``--insecure``.
"""

from __future__ import annotations

import errno
import ipaddress
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dumpfilter.base import files
from dumpfilter.base.errors import OptionError, PortTaken
from dumpfilter.base.logs import logger

# At run time this import would load a large package that an endpoint without TLS does not need.
if TYPE_CHECKING:
    from dumpfilter.base.security.tls import TlsSource

log = logger("dumpfilter.listening")

PORT_TAKEN = "another program listens on the port already"
"""The text of an error that says that another program listens on the port."""

_REASONS = {
    errno.EADDRINUSE: PORT_TAKEN,
    errno.EADDRNOTAVAIL: "the address is not this machine's",
    errno.EACCES: "ports below 1024 need root",
}
_BACKLOG = 128


def listening_socket(
    cannot: str, host: str, port: int, cure: str = "choose another port or address"
) -> socket.socket:
    """Return a socket that listens on an address. A name stands for its IPv4 address.

    ``cannot`` begins the text of an error, as in "the console cannot listen on", and ``cure`` ends it. Raises PortTaken
    if another program listens on the port, and OptionError if the address cannot be listened on for another reason.
    """
    bare = host.removeprefix("[").removesuffix("]")
    try:
        family = socket.AF_INET6 if ":" in bare else socket.AF_INET
        return socket.create_server((bare, port), family=family, backlog=_BACKLOG)
    except (OSError, OverflowError, UnicodeError) as error:
        number = getattr(error, "errno", None)
        text = getattr(error, "strerror", None) or str(error)
        # Python adds a remark in brackets that repeats the address.
        reason = _REASONS.get(number or 0, text.partition(" (while ")[0])
        kind = PortTaken if number == errno.EADDRINUSE else OptionError
        raise kind(f"{cannot} {host_and_port(host, port)}: {reason}; {cure}") from error


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
        OutputError if the file cannot be written.
        """
        if self.port_file is not None:
            # The file appears in one step, so that a waiting script never reads half a number.
            files.replace(self.port_file, f"{port}\n".encode(), synced=False, mode=0o666)

    def check_protection(
        self, server: str, option: str, lacks: Mapping[str, str], *, permit: str = "--insecure"
    ) -> None:
        """Check that a server may listen on the address ``host`` of this endpoint. The server may if it lacks no
        protection, if only this machine can reach ``host``, or if ``insecure`` is set. If only ``insecure`` permits the
        address, log a warning.

        ``server`` names the server in texts, as "the master". ``option`` is the option that names ``host``. ``lacks``
        has the protections that the server lacks, such as ``without TLS``, each with the options that add it.
        ``permit`` is the option that sets ``insecure``. Raises Exposed, whose text names the options, if the server may
        not listen there.
        """
        if not lacks or is_loopback(self.host):
            return
        missing, cures = " and ".join(lacks), "; ".join(lacks.values())
        if not self.insecure:
            raise Exposed(
                f"{option}={self.host}: {server} would serve other machines {missing}: {cures}; or listen on "
                f"127.0.0.1, or accept the danger with {permit}"
            )
        log.warning(
            "insecure",
            reason=f"INSECURE: {server} listens on {self.host} {missing}, so that every machine on the network can "
            f"use it. Instead of {permit}: {cures}",
        )


class Exposed(OptionError):
    """The error for a server that other machines could reach, although the server lacks a protection such as TLS or a
    login.
    """


def host_and_port(host: str, port: int) -> str:
    """Return the text ``host:port`` of an address. An IPv6 address gets brackets.

    >>> host_and_port("db1", 3306), host_and_port("::1", 3306), host_and_port("[::1]", 3306)
    ('db1:3306', '[::1]:3306', '[::1]:3306')
    """
    return f"[{host}]:{port}" if ":" in host and not host.startswith("[") else f"{host}:{port}"


def is_loopback(host: str) -> bool:
    """Tell whether only this machine can reach a server on ``host``, an address or a name.

    A name is loopback if all its addresses are. A name that cannot be resolved is not loopback.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("0.0.0.0"), is_loopback("")
    (True, True, False, False)
    """
    # getaddrinfo takes the empty name for loopback, and a server that listens there takes it for all addresses.
    if not host:
        return False
    try:
        found = socket.getaddrinfo(host.removeprefix("[").removesuffix("]"), None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError, ValueError):
        return False
    addresses = (ipaddress.ip_address(str(address[0])) for *_, address in found)
    # Before Python 3.13, is_loopback is False for ::ffff:127.0.0.1.
    return all((getattr(one, "ipv4_mapped", None) or one).is_loopback for one in addresses)
