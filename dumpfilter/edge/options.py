"""The options of the ports at which a slave serves its relay logs to other slaves and to real replicas."""

from __future__ import annotations

from pathlib import Path

from dumpfilter.base.errors import OptionError
from dumpfilter.base.options.settings import Settings, setting

REPLICAS_PANEL = "Real replicas"
_SERVE_PANEL = "Slaves of this slave"

_MOST_PORT = 65535


class EdgeOptions(Settings, panel=REPLICAS_PANEL):
    """The ports at which a slave serves its relay logs to other slaves and to real replicas, and their accounts."""

    serve_port: list[str] | None = setting(None, metavar="[CHANNEL=]PORT", rich_help_panel=_SERVE_PANEL)
    """Port for other slaves of dumpfilter, which get what this slave has received; with a name before it, what that
    channel has received. 0 takes a free port. Repeatable."""
    serve_host: str = setting("127.0.0.1", rich_help_panel=_SERVE_PANEL)
    """Address to listen on for slaves."""
    serve_port_file: Path | None = setting(None, rich_help_panel=_SERVE_PANEL)
    """Write the first port for slaves to this file once they can connect."""

    replica_port: list[str] | None = setting(None, metavar="[CHANNEL=]PORT")
    """Port for MySQL and MariaDB replicas, which get what the slave has received; with a name before it, what that
    channel has received. 0 takes a free port. Repeatable."""
    replica_host: str = "127.0.0.1"
    """Address to listen on for replicas."""
    replica_port_file: Path | None = None
    """Write the first port for replicas to this file once they can connect."""
    config: Path | None = None
    """A TOML file. Its replica tables name the users and filters of replicas, its user tables the users of slaves
    (docs/edge.md)."""

    @property
    def slave_ports(self) -> dict[str, int]:
        """The TCP port for slaves by channel name (``--serve-port``). Raises OptionError for an invalid value."""
        return parse_ports(self.serve_port or [], "--serve-port")

    @property
    def replica_ports(self) -> dict[str, int]:
        """The TCP port for replicas by channel name (``--replica-port``). Raises OptionError for an invalid value."""
        return parse_ports(self.replica_port or [], "--replica-port")


def parse_ports(texts: list[str], option: str) -> dict[str, int]:
    """Return the TCP port of each channel, from option values such as ``m1=3310``. A value without ``=`` has the
    channel ``""``.

    Raises OptionError, which names ``option``, for an invalid port and for two ports of one channel.

    Channels have lower-case names, as on a server.

    >>> parse_ports(["3309", "m1=3310"], "--replica-port")
    {'': 3309, 'm1': 3310}
    """
    # Help texts need this module, and no filter.
    from dumpfilter.filter.channels import fold_channel

    ports: dict[str, int] = {}
    for text in texts:
        name, _, port = text.rpartition("=")
        channel = fold_channel(name)
        if not port.isascii() or not port.isdigit() or int(port) > _MOST_PORT:
            raise OptionError(f"{option}={text}: give a port from 0 to {_MOST_PORT}, or CHANNEL=PORT")
        if channel in ports:
            raise OptionError(f"{option}={text}: channel {channel!r} has two ports: keep one")
        ports[channel] = int(port)
    return ports
