"""The options that say which scenarios a simulation computes: variants, sweeps, loads, searches and appliers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dumpfilter.base.options.settings import Settings, setting
from dumpfilter.commands.completion import complete_variant

if TYPE_CHECKING:
    from dumpfilter.simulation.simulate import Options

PANEL = "Scenarios"


class ScenarioOptions(Settings, panel=PANEL):
    """The options that say which scenarios a simulation computes."""

    variant: list[str] | None = setting(
        None, metavar="NAME", show_default=False, autocompletion=complete_variant
    )
    """A way to bring the binlog to the slaves: no-filter, filter-on-slave, filter-on-master, no-filter-zstd,
    filter-on-master-zstd, split, real-replica. Without the option all of them, and for sweeps and searches
    no-filter and filter-on-master."""
    sweep: list[str] | None = setting(None, metavar="WHAT=VALUES", show_default=False)
    """Simulate links with each of some rates or delays: rate=512kbit,1mbit or m:web.delay=0s,50ms."""
    scale_load: str = setting("1", metavar="FACTORS")
    """Multiply the pace of transactions."""
    find: list[str] | None = setting(None, metavar="WHAT", show_default=False)
    """Find the slowest rate, or the longest delay, with which no transaction lags more than --lag: rate, delay or
    m:web.rate."""
    lag: str = setting("1s", metavar="TIME")
    """The limit of the lag."""
    apply_rate: str | None = setting(None, metavar="RATE", show_default=False)
    """The rate at which slaves apply events. The lag then lasts until a transaction is applied."""
    apply_time: str = setting("0s", metavar="TIME")
    """The time to apply a transaction, besides the time for its bytes."""
    seed: int = setting(1, min=0)
    """The seed of the links' jitter."""

    def options(self, links: Sequence[str]) -> Options:
        """Return the options of the simulation. ``links`` has the names of all links. Raises OptionError."""
        from dumpfilter.base.options.units import parse_rate, parse_time
        from dumpfilter.simulation import wishes
        from dumpfilter.simulation.hop import Hop
        from dumpfilter.simulation.results import SIMULATED, Variant
        from dumpfilter.simulation.simulate import Options

        chosen = wishes.parse_variants(self.variant or ())
        varied = chosen or (Variant.NONE, Variant.MASTER)
        loads = wishes.parse_loads(self.scale_load)
        sweeps = [wishes.parse_sweep(text, links) for text in self.sweep or ()]
        settings = [*wishes.settings_of(chosen or SIMULATED, loads, [])]
        if sweeps:
            settings += wishes.settings_of(varied, loads, sweeps)
        rate = None if self.apply_rate is None else parse_rate(self.apply_rate, option="--apply-rate")
        fixed = round(parse_time(self.apply_time, option="--apply-time") * 1e9)
        applier = Hop(rate, fixed=fixed) if rate is not None or fixed else None
        return Options(
            tuple(dict.fromkeys(settings)),
            round(parse_time(self.lag, option="--lag") * 1e6),
            applier,
            self.seed,
            wishes.searches_of(self.find or (), varied, loads, links),
        )
