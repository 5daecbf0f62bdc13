"""Checks whether a server can listen on an address, with the reasons against it as texts for users."""

from __future__ import annotations

import contextlib
import errno
import os
import socket

from dumpfilter.base.errors import OptionError, PortTaken

PORT_TAKEN = "another program listens on the port already"
"""The reason for a port that is in use."""

_REASONS = {
    errno.EADDRINUSE: PORT_TAKEN,
    errno.EADDRNOTAVAIL: "the address is not this machine's",
    errno.EACCES: "ports below 1024 need root",
}


_BACKLOG = 128
_LACKING = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT})
"""The errors for an address that this machine does not have."""


CANNOT_LISTEN = (OSError, OverflowError, UnicodeError)
"""The errors that the attempt to listen on an address raises, also for a wrong port or a wrong name of a host."""


def reason_not_to_listen(error: Exception) -> str:
    """Return why a server cannot listen on an address, as a text for users without names of functions and files.

    ``error`` is the exception that the attempt to listen has raised.
    """
    if not isinstance(error, OSError):
        return str(error)
    known = _REASONS.get(error.errno or 0)
    if known is not None:
        return known
    # The numbers of socket.gaierror are not those of the system's errors.
    if isinstance(error, socket.gaierror) or not error.errno or error.errno < 0:
        return error.strerror or str(error)
    return os.strerror(error.errno)


def listening_error(text: str, reason: str) -> OptionError:
    """Return an error with the message ``text`` about an address on which a server cannot listen.

    The error is PortTaken if another program listens on the port (``reason`` is PORT_TAKEN), otherwise OptionError.
    """
    return PortTaken(text) if reason == PORT_TAKEN else OptionError(text)


def listening_socket(
    cannot: str, host: str, port: int, cure: str = "choose another port or address"
) -> socket.socket:
    """Return a socket that listens on an address.

    ``cannot`` begins the text of an error, as in "the console cannot listen on", and ``cure`` ends it. Raises
    OptionError, such as PortTaken, if the address cannot be listened on.
    """
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except CANNOT_LISTEN as error:
        reason = reason_not_to_listen(error)
        raise listening_error(f"{cannot} {host}:{port}: {reason}; {cure}", reason) from error


def why_not(host: str, port: int) -> str | None:
    """Return the reason why no server can listen on a TCP address now, as a text for users. Return None if one can.

    ``host`` is an address or a name. With port 0 only the host is tried. A name may have addresses that this machine
    lacks, such as ::1 where IPv6 is off. One address that a server can listen on is enough.
    """
    bare = host.removeprefix("[").removesuffix("]")
    try:
        found = socket.getaddrinfo(bare or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except CANNOT_LISTEN as error:
        return reason_not_to_listen(error)
    lacking: list[OSError] = []
    for family, kind, protocol, _, address in found:
        try:
            _try(socket.socket(family, kind, protocol), address)
        except OverflowError as error:
            return str(error)
        except OSError as error:
            if error.errno not in _LACKING:
                return reason_not_to_listen(error)
            lacking.append(error)
    return reason_not_to_listen(lacking[0]) if len(lacking) == len(found) else None


def _try(trial: socket.socket, address: tuple[object, ...]) -> None:
    """Listen on ``address`` with the socket ``trial``, and close it. Raises OSError, and OverflowError for a wrong port
    number.
    """
    with contextlib.closing(trial):
        # Without this option a port would count as taken for a minute after its server has ended.
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if trial.family == socket.AF_INET6:
            trial.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        trial.bind(address)
        trial.listen(1)
