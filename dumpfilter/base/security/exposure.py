"""The rule for servers that other machines can reach: such a server needs TLS and a login, unless the user gives
``--insecure``.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Sequence
from typing import NamedTuple

from dumpfilter.base.errors import OptionError


class Lack(NamedTuple):
    """A protection that a listening server does not have, such as TLS, and the options that would add it."""

    what: str
    """The missing protection, as ``without TLS``."""
    cure: str
    """The options to give, as ``give --tls-cert and --tls-key``."""


class Exposed(OptionError):
    """The error for a server that other machines could reach, although the server lacks a protection."""


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
    return all(_is_loopback_address(str(address[0])) for *_, address in found)


def _is_loopback_address(address: str) -> bool:
    parsed = ipaddress.ip_address(address)
    # Before Python 3.13, is_loopback is False for ::ffff:127.0.0.1.
    mapped = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
    return (mapped or parsed).is_loopback


def check_listener(
    server: str, option: str, host: str, lacks: Sequence[Lack], *, insecure: bool, permit: str = "--insecure"
) -> str | None:
    """Check that a server may listen on ``host``. Return a warning if only ``--insecure`` permits the address;
    otherwise None.

    ``server`` names the server in texts, as "the master". ``option`` is the option that names ``host``. ``lacks`` are
    the protections that the server lacks. ``insecure`` is whether the user accepts that, with the option ``permit``.
    Raises Exposed, whose text names the options that add the protections.
    """
    if not lacks or is_loopback(host):
        return None
    missing = " and ".join(lack.what for lack in lacks)
    cures = "; ".join(lack.cure for lack in lacks)
    if insecure:
        return (
            f"INSECURE: {server} listens on {host} {missing}, so that every machine on the network can use it. "
            f"Instead of {permit}: {cures}"
        )
    raise Exposed(
        f"{option}={host}: {server} would serve other machines {missing}: {cures}; or listen on 127.0.0.1, or accept "
        f"the danger with {permit}"
    )
