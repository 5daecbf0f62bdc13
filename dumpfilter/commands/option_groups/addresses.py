"""The parsing of the addresses of masters and consoles on the command line."""

from __future__ import annotations

from collections.abc import Sequence

from dumpfilter.errors import OptionError


def parse_address(option: str, value: str) -> tuple[str, int]:
    """Parse the value ``HOST:PORT`` of an option, and return host and port. Raises OptionError for another form.

    >>> parse_address("--slave", "[::1]:3308")
    ('::1', 3308)
    """
    host, colon, port = value.rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 < int(port[:6]) < 65536:
        raise OptionError(f"{option}={value}: it is HOST:PORT")
    return host.strip("[]"), int(port)


def parse_masters(masters: Sequence[str], channel: str) -> list[tuple[str, str, int]]:
    """Parse the values ``[CHANNEL=]HOST:PORT`` of ``--master``, and return channel, host and port of each.

    ``channel`` is the name for a value without one. Raises OptionError for another form, and for two masters of one
    channel.

    >>> parse_masters(["127.0.0.1:3307", "m2=[::1]:3308"], "")
    [('', '127.0.0.1', 3307), ('m2', '::1', 3308)]
    """
    from dumpfilter.filter.channels import GROUP_REPLICATION_CHANNELS, fold_channel, is_channel_name

    found: list[tuple[str, str, int]] = []
    for master in masters:
        name, equals, address = master.rpartition("=")
        host, colon, port = address.rpartition(":")
        if not (colon and host and port.isascii() and port.isdigit() and int(port) <= 65535):
            raise OptionError(f"--master={master}: write [CHANNEL=]HOST:PORT")
        name = fold_channel(name if equals else channel)
        if name in GROUP_REPLICATION_CHANNELS or not is_channel_name(name):
            raise OptionError(f"--master={master}: no channel can have the name {name!r}")
        if any(name == other for other, _, _ in found):
            raise OptionError(
                f"--master={master}: there is another one for channel {name!r}; give each a name"
            )
        found.append((name, host.removeprefix("[").removesuffix("]"), int(port)))
    return found
