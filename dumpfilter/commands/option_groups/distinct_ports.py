"""The check that no two options of a command name the same port."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from dumpfilter.errors import OptionError

_ALL_ADDRESSES = ("0.0.0.0", "::", "[::]", "")
"""The hosts that stand for all addresses of this machine."""


class Listener(NamedTuple):
    """An address on which a command listens."""

    option: str
    host: str
    port: int | None
    """None without the option, and 0 for any free port."""


def check_distinct(listeners: Iterable[Listener]) -> None:
    """Raise OptionError, which names both options, when two of them have the same address.

    >>> check_distinct([Listener("--port", "::1", 3307), Listener("--console-port", "::1", 3308)])
    >>> check_distinct([Listener("--port", "::1", 3307), Listener("--console-port", "::1", 3307)])
    Traceback (most recent call last):
    dumpfilter.errors.OptionError: --port and --console-port are both 3307: give each of them a port of its own
    """
    earlier: list[Listener] = []
    for listener in listeners:
        if not listener.port:
            continue
        for other in earlier:
            hosts = (listener.host, other.host)
            alike = hosts[0] == hosts[1] or any(host in _ALL_ADDRESSES for host in hosts)
            if listener.port == other.port and alike:
                raise OptionError(
                    f"{other.option} and {listener.option} are both {listener.port}: "
                    "give each of them a port of its own"
                )
        earlier.append(listener)
