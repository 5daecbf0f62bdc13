"""The options that say which scenarios a simulation computes: variants, sweeps, loads, searches and appliers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from dumpfilter.commands.completion import complete_variant
from dumpfilter.commands.option_groups.group import OptionGroup
from dumpfilter.errors import OptionError

if TYPE_CHECKING:
    from dumpfilter.simulation.simulate import Options

PANEL = "Scenarios"

T = TypeVar("T")


@dataclass(frozen=True)
class ScenarioOptions(OptionGroup):
    """The options that say which scenarios a simulation computes."""

    variant: Annotated[
        list[str] | None,
        typer.Option(
            help="A way to bring the binlog to the slaves: no-filter, filter-on-slave, filter-on-master, "
            "no-filter-zstd, filter-on-master-zstd, split, real-replica. Without the option all of them, and for "
            "sweeps and searches no-filter and filter-on-master.",
            metavar="NAME",
            show_default=False,
            rich_help_panel=PANEL,
            autocompletion=complete_variant,
        ),
    ] = None
    sweep: Annotated[
        list[str] | None,
        typer.Option(
            help="Simulate links with each of some rates or delays: rate=512kbit,1mbit or m:web.delay=0s,50ms.",
            metavar="WHAT=VALUES",
            show_default=False,
            rich_help_panel=PANEL,
        ),
    ] = None
    scale_load: Annotated[
        str,
        typer.Option(help="Multiply the pace of transactions.", metavar="FACTORS", rich_help_panel=PANEL),
    ] = "1"
    find: Annotated[
        list[str] | None,
        typer.Option(
            help="Find the slowest rate, or the longest delay, with which no transaction lags more than --lag: rate, "
            "delay or m:web.rate.",
            metavar="WHAT",
            show_default=False,
            rich_help_panel=PANEL,
        ),
    ] = None
    lag: Annotated[str, typer.Option(help="The limit of the lag.", metavar="TIME", rich_help_panel=PANEL)] = (
        "1s"
    )
    apply_rate: Annotated[
        str | None,
        typer.Option(
            help="The rate at which slaves apply events. The lag then lasts until a transaction is applied.",
            metavar="RATE",
            show_default=False,
            rich_help_panel=PANEL,
        ),
    ] = None
    apply_time: Annotated[
        str,
        typer.Option(
            help="The time to apply a transaction, besides the time for its bytes.",
            metavar="TIME",
            rich_help_panel=PANEL,
        ),
    ] = "0s"
    seed: Annotated[
        int, typer.Option(help="The seed of the links' jitter.", min=0, rich_help_panel=PANEL)
    ] = 1

    def options(self, links: Sequence[str]) -> Options:
        """Return the options of the simulation. ``links`` has the names of all links. Raises OptionError."""
        from dumpfilter.simulation.results import Variant
        from dumpfilter.simulation.route import Appliers
        from dumpfilter.simulation.simulate import Options
        from dumpfilter.simulation.wishes import (
            parse_loads,
            parse_sweep,
            parse_variants,
            searches_of,
            settings_of,
        )
        from dumpfilter.topology.units import parse_rate, parse_time

        chosen = parse_variants(self.variant or ())
        varied = chosen or (Variant.NONE, Variant.MASTER)
        loads = parse_loads(self.scale_load)
        sweeps = [parse_sweep(text, links) for text in self.sweep or ()]
        settings = [*settings_of(chosen or tuple(Variant), loads, [])]
        if sweeps:
            settings += settings_of(varied, loads, sweeps)
        rate = None if self.apply_rate is None else _parsed("--apply-rate", parse_rate, self.apply_rate)
        return Options(
            tuple(dict.fromkeys(settings)),
            round(_parsed("--lag", parse_time, self.lag) * 1e6),
            Appliers(rate, round(_parsed("--apply-time", parse_time, self.apply_time) * 1e9)),
            self.seed,
            searches_of(self.find or (), varied, loads, links),
        )


def _parsed(option: str, parse: Callable[[str], T], text: str) -> T:
    try:
        return parse(text)
    except OptionError as error:
        raise OptionError(f"{option}: {error}") from None
