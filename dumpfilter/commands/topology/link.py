"""The verb ``link`` of ``dumpfilter topology``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from dumpfilter.commands.topology.options import DIRECTORY, Directory, Json
from dumpfilter.errors import OptionError


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
    cut_after: Annotated[
        str,
        typer.Option(
            help="Cut after so many more bytes, such as 64K, have reached the target.", metavar="SIZE"
        ),
    ] = "",
    heal: Annotated[bool, typer.Option("--heal", help="End a cut.")] = False,
    json: Json = False,
) -> None:
    """Show a link, or change, cut or heal it.

    Each direction has the rate and the delay to itself.

    Examples:

        dumpfilter topology link m:web

        dumpfilter topology link m:web --rate 512kbit --delay 50ms

        dumpfilter topology link m:web --cut

        dumpfilter topology link m:web --heal --plain
    """
    import json as json_module

    from dumpfilter.options.sizes import parse_size
    from dumpfilter.testbed.control import Control

    if cut and heal:
        raise OptionError("--cut stands beside --heal; give one of them")
    if plain and (rate or delay or jitter):
        raise OptionError("--plain stands beside --rate, --delay or --jitter; give one of them")
    after = parse_size(cut_after, option="--cut-after") if cut_after else None
    shape = _shape(rate, delay, jitter, plain=plain)
    status = Control(directory).ask("link", link=link, shape=shape, cut=cut, heal=heal, cut_after=after)
    if json:
        typer.echo(json_module.dumps(status))
        return
    from rich.console import Console

    from dumpfilter.commands.topology.tables import links_table

    Console(highlight=False).print(links_table([status]))


def _shape(rate: str, delay: str, jitter: str, *, plain: bool) -> dict[str, Any]:
    """Return the changes of a link's shape. Raises OptionError."""
    from dumpfilter.topology.units import parse_rate, parse_time

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
