"""The verb ``link`` of ``dumpfilter topology``."""

from __future__ import annotations

from typing import Any

from dumpfilter.base.errors import OptionError
from dumpfilter.base.options.settings import setting
from dumpfilter.base.options.units import parse_rate, parse_size, parse_time
from dumpfilter.commands.topology.options import JsonOption, TopologyOptions


class LinkSettings(TopologyOptions):
    """A link, and its changes."""

    link: str = setting(metavar="SOURCE:TARGET", is_argument=True)
    """The link, such as m:web."""
    rate: str = setting("", metavar="RATE")
    """Bits per second, such as 2mbit; none: without a limit."""
    delay: str = setting("", metavar="TIME")
    """The delay one way, such as 50ms."""
    jitter: str = setting("", metavar="TIME")
    """The largest change of the delay."""
    plain: bool = False
    """No rate, no delay, no jitter."""
    cut: bool = False
    """Reset all connections, and refuse new ones."""
    silence: bool = False
    """Let no byte pass, and reset no connection."""
    cut_after: str = setting("", metavar="SIZE")
    """Cut after so many more bytes, such as 64K, have reached the target."""
    duration: str = setting("", "--for", metavar="TIME")
    """End the cut or silence by itself after this time."""
    heal: bool = False
    """End a cut, a silence or an outage."""

    def fault(self) -> tuple[str | None, list[float | None]]:
        """Return the fault, or the end of a fault, with its arguments. Raises OptionError."""
        faults = {
            "--cut": self.cut,
            "--silence": self.silence,
            "--cut-after": bool(self.cut_after),
            "--heal": self.heal,
        }
        given = [option for option, is_given in faults.items() if is_given]
        if len(given) > 1:
            raise OptionError(f"{given[0]} stands beside {given[1]}; give one of them")
        if self.duration and given in ([], ["--heal"]):
            raise OptionError("--for goes with --cut, --silence or --cut-after; give one of them")
        arguments: list[float | None] = (
            [] if self.heal else [parse_time(self.duration) if self.duration else None]
        )
        if self.cut_after:
            arguments.insert(0, parse_size(self.cut_after, option="--cut-after"))
        return given[0].removeprefix("--").replace("-", "_") if given else None, arguments

    def shape(self) -> dict[str, Any]:
        """Return the changes of the link's shape. Raises OptionError."""
        if self.plain and (self.rate or self.delay or self.jitter):
            raise OptionError("--plain stands beside --rate, --delay or --jitter; give one of them")
        if self.plain:
            return {"rate": None, "delay": 0.0, "jitter": 0.0}
        shape: dict[str, Any] = {}
        if self.rate:
            shape["rate"] = None if self.rate == "none" else parse_rate(self.rate)
        for name, time in (("delay", self.delay), ("jitter", self.jitter)):
            if time:
                shape[name] = parse_time(time)
        return shape


def link_command(given: LinkSettings, output: JsonOption) -> None:
    """Show a link, or change, cut or heal it.

    Each direction has the rate and the delay to itself.

    Examples:

        dumpfilter topology link m:web

        dumpfilter topology link m:web --rate 512kbit --delay 50ms

        dumpfilter topology link m:web --cut --for 10s

        dumpfilter topology link m:web --heal --plain
    """
    from dumpfilter.commands.topology.tables import links_table

    fault, arguments = given.fault()
    status = given.ask("link", link=given.link, shape=given.shape(), fault=fault, arguments=arguments)
    output.print(status, lambda one: links_table([one]), indent=None)
