"""The verb ``link`` of ``dumpfilter topology``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from dumpfilter.commands.topology.options import DIRECTORY, Directory, Json, ask
from dumpfilter.errors import OptionError
from dumpfilter.options.units import parse_rate, parse_size, parse_time


def link_command(
    link: Annotated[str, typer.Argument(help="The link, such as m:web.", metavar="SOURCE:TARGET")],
    directory: Directory = DIRECTORY,
    rate: Annotated[
        str, typer.Option(help="Bits per second, such as 2mbit; none: without a limit.", metavar="RATE")
    ] = "",
    delay: Annotated[str, typer.Option(help="The delay one way, such as 50ms.", metavar="TIME")] = "",
    jitter: Annotated[str, typer.Option(help="The largest change of the delay.", metavar="TIME")] = "",
    plain: Annotated[bool, typer.Option("--plain", help="No rate, no delay, no jitter.")] = False,
    cut: Annotated[bool, typer.Option("--cut", help="Reset all connections, and refuse new ones.")] = False,
    silence: Annotated[
        bool, typer.Option("--silence", help="Let no byte pass, and reset no connection.")
    ] = False,
    cut_after: Annotated[
        str,
        typer.Option(
            help="Cut after so many more bytes, such as 64K, have reached the target.", metavar="SIZE"
        ),
    ] = "",
    duration: Annotated[
        str, typer.Option("--for", help="End the cut or silence by itself after this time.", metavar="TIME")
    ] = "",
    heal: Annotated[bool, typer.Option("--heal", help="End a cut, a silence or an outage.")] = False,
    json: Json = False,
) -> None:
    """Show a link, or change, cut or heal it.

    Each direction has the rate and the delay to itself.

    Examples:

        dumpfilter topology link m:web

        dumpfilter topology link m:web --rate 512kbit --delay 50ms

        dumpfilter topology link m:web --cut --for 10s

        dumpfilter topology link m:web --heal --plain
    """
    from dumpfilter.report.terminal import print_json

    faults = {"--cut": cut, "--silence": silence, "--cut-after": bool(cut_after), "--heal": heal}
    given = [option for option, is_given in faults.items() if is_given]
    if len(given) > 1:
        raise OptionError(f"{given[0]} stands beside {given[1]}; give one of them")
    if duration and given in ([], ["--heal"]):
        raise OptionError("--for goes with --cut, --silence or --cut-after; give one of them")
    if plain and (rate or delay or jitter):
        raise OptionError("--plain stands beside --rate, --delay or --jitter; give one of them")
    shape = _shape(rate, delay, jitter, plain=plain)
    arguments: list[float | None] = [] if heal else [parse_time(duration) if duration else None]
    if cut_after:
        arguments.insert(0, parse_size(cut_after, option="--cut-after"))
    fault = given[0].removeprefix("--").replace("-", "_") if given else None
    status = ask(directory, "link", link=link, shape=shape, fault=fault, arguments=arguments)
    if json:
        print_json(status, indent=None)
        return
    from rich.console import Console

    from dumpfilter.commands.topology.tables import links_table

    Console(highlight=False).print(links_table([status]))


def _shape(rate: str, delay: str, jitter: str, *, plain: bool) -> dict[str, Any]:
    """Return the changes of a link's shape. Raises OptionError."""
    if plain:
        return {"rate": None, "delay": 0.0, "jitter": 0.0}
    shape: dict[str, Any] = {}
    if rate:
        shape["rate"] = None if rate == "none" else parse_rate(rate)
    if delay:
        shape["delay"] = parse_time(delay)
    if jitter:
        shape["jitter"] = parse_time(jitter)
    return shape
