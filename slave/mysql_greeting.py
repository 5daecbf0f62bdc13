"""A check whether a MySQL or MariaDB server answers at an address where a slave expects a dumpfilter master.

A MySQL server speaks first. It greets each connection with a packet of protocol version 10 (Protocol::HandshakeV10 of
MySQL's client/server protocol). A gRPC server never begins with such bytes.
"""

from __future__ import annotations

import socket
import time

from dumpfilter.base.printable import printable

_SECONDS = 2.0
"""The longest wait for a connection, and for the whole greeting, seconds. Servers send it at once."""

_HEADER = 4
"""The length of a packet's header, bytes: three bytes of length, and the packet's number, which is 0 in a greeting."""

_PROTOCOL = 10
_ERROR = 0xFF
_MOST = 128
"""The largest number of bytes of a packet that are read. The version is at the beginning of a greeting."""


def mysql_version(host: str, port: int) -> str | None:
    """Connect to an address, and return the version in the greeting of a MySQL or MariaDB server. Return None if no
    such server answers.

    The version is "of unknown version" if the server greets with an error, for example because it blocks this host.
    """
    try:
        with socket.create_connection((host, port), timeout=_SECONDS) as connection:
            deadline = time.monotonic() + _SECONDS
            header = _read(connection, _HEADER, deadline)
            # A gRPC server also speaks first, with other bytes, and then waits for the client.
            if header[_HEADER - 1 :] != b"\0":
                return None
            length = min(int.from_bytes(header[:-1], "little"), _MOST)
            return version_in(header + _read(connection, length, deadline))
    except (OSError, ValueError, OverflowError):
        return None


def _read(connection: socket.socket, size: int, deadline: float) -> bytes:
    """Return the next ``size`` bytes, or fewer at the end of the connection. Raises TimeoutError at ``deadline``."""
    found = b""
    while len(found) < size:
        # A peer that sends byte by byte must not hold up STOP REPLICA.
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        connection.settimeout(left)
        more = connection.recv(size - len(found))
        if not more:
            break
        found += more
    return found


def version_in(greeting: bytes) -> str | None:
    """Return the server's version in ``greeting``, the first packet of MySQL's protocol. Return None for all other
    bytes.

    The version is "of unknown version" for an error packet.
    """
    if len(greeting) <= _HEADER or greeting[_HEADER - 1] != 0:
        return None
    length = int.from_bytes(greeting[: _HEADER - 1], "little")
    if greeting[_HEADER] == _ERROR and length > 2:
        return "of unknown version"
    version, end, _ = greeting[_HEADER + 1 :].partition(b"\0")
    if greeting[_HEADER] != _PROTOCOL or not end or length < len(version) + 2:
        return None
    # MariaDB puts 5.5.5- before its version, for old replicas of MySQL.
    return printable(version.decode("utf-8", "replace").removeprefix("5.5.5-"))
