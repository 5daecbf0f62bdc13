"""The ports of a slave's channels, as options name them."""

from __future__ import annotations

from dumpfilter.errors import OptionError

_MOST_PORT = 65535


def parse_ports(texts: list[str], option: str) -> dict[str, int]:
    """Return the port of each channel, from texts such as ``m1=3310``. Raises OptionError, which names ``option``.

    >>> parse_ports(["3309", "m1=3310"], "--replica-port")
    {'': 3309, 'm1': 3310}
    """
    ports: dict[str, int] = {}
    for text in texts:
        channel, _, port = text.rpartition("=")
        if not port.isascii() or not port.isdigit() or int(port) > _MOST_PORT:
            raise OptionError(f"{option}={text}: give a port from 0 to {_MOST_PORT}, or CHANNEL=PORT")
        if channel in ports:
            raise OptionError(f"{option}={text}: channel {channel!r} has two ports: keep one")
        ports[channel] = int(port)
    return ports
