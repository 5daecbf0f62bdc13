"""A check whether a MySQL or MariaDB server answers at an address where a slave expects a dumpfilter master.

A MySQL server speaks first. It greets each connection with a packet of protocol version 10 (Protocol::HandshakeV10 of
MySQL's client/server protocol). A gRPC server never begins with such bytes.
"""

from __future__ import annotations

import re
import socket

from dumpfilter.base.printable import printable

_SECONDS = 2.0
"""The longest wait for a connection, and for the greeting, seconds. Servers send it at once, in one piece."""

_MOST = 128
"""The largest number of bytes of a greeting that are read. The version is at the beginning."""

_GREETING = re.compile(rb"...\0(?:\xff..|\x0a(?P<version>[^\0]*)\0)", re.DOTALL)
"""The beginning of a server's first packet: its length, the packet number 0, and an error or the protocol's version 10
with the server's version.
"""


def mysql_version(host: str, port: int) -> str | None:
    """Connect to an address, and return the version in the greeting of a MySQL or MariaDB server. Return None if no
    such server answers.

    The version is "of unknown version" if the server greets with an error, for example because it blocks this host.
    """
    try:
        with socket.create_connection((host, port), timeout=_SECONDS) as connection:
            # A peer that sends byte by byte must not hold up STOP REPLICA, so there is one read.
            return version_in(connection.recv(_MOST))
    except (OSError, ValueError, OverflowError):
        return None


def version_in(greeting: bytes) -> str | None:
    """Return the server's version in ``greeting``, the first packet of MySQL's protocol. Return None for all other
    bytes.

    The version is "of unknown version" for an error packet.
    """
    found = _GREETING.match(greeting)
    if found is None:
        return None
    if found["version"] is None:
        return "of unknown version"
    # MariaDB puts 5.5.5- before its version, for old replicas of MySQL.
    return printable(found["version"].decode("utf-8", "replace").removeprefix("5.5.5-"))
