"""The simulation of a plan under several settings, and the search for the slowest rate or longest delay that keeps a
lag limit.
"""

from __future__ import annotations

import bisect
import functools
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np

from dumpfilter.base.printable import replace_invalid_utf8
from dumpfilter.index.time_spans import active_seconds, spans_of
from dumpfilter.simulation.evaluate import Schedule, evaluate, flows_of, without_delay
from dumpfilter.simulation.flow import (
    Group,
    Outcome,
    curves_of,
    link_figures,
    node_figures,
    series_of,
    window_of,
)
from dumpfilter.simulation.hop import Hop
from dumpfilter.simulation.lag import Lag, Window
from dumpfilter.simulation.plan import Plan, PlannedNode
from dumpfilter.simulation.results import (
    Basis,
    Found,
    LinkFigures,
    Method,
    NodeFigures,
    Results,
    Run,
    Series,
    Setting,
    SourceFigures,
    Variant,
)
from dumpfilter.simulation.route import Route, Router, scaled
from dumpfilter.simulation.traffic import Clock, SetTraffic

MOST_SERIES = 24
"""The maximum number of nodes with a series (figures over time) in a run. The nodes with the greatest lag are chosen.
"""
_SECOND = 1_000_000
"""The number of microseconds in a second."""

_TRIED = (
    *range(1000),
    *(number * 10**power for power in range(1, 10) for number in range(100, 1000)),
    10**12,
)
"""The values that a search tries, ascending: numbers with at most three significant digits. Rates are in bits per
second, delays in microseconds.
"""
MOST_DELAY = 10**10
"""The longest delay that a search tries, microseconds."""
_RATES = _TRIED[1:]
"""The rates that a search tries, from too slow ones to fast enough ones."""
_DELAYS = tuple(value for value in reversed(_TRIED) if value <= MOST_DELAY)
"""The delays that a search tries, from too long ones to short enough ones."""

Runner = Callable[[Callable[[Any], Any], Sequence[Any]], list[Any]]
"""A parallel map: calls a function for each item, maybe in parallel, and returns the results in the items' order."""


def one_by_one(function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
    """Call ``function`` for each item in this thread, and return the results in the items' order."""
    return [function(item) for item in items]


@dataclass(frozen=True)
class Options:
    """The options of a simulation: the settings to run, and the searches for limits."""

    settings: tuple[Setting, ...] = (Setting(variant=Variant.MASTER),)
    limit: int = 1_000_000
    """The lag (microseconds) above which time is counted, and which searches must keep."""
    applier: Hop | None = None
    """The speed at which each node applies transactions, as a hop. None: applying takes no time."""
    seed: int = 0
    searches: tuple[Search, ...] = ()


@dataclass(frozen=True)
class Search:
    """A search for the slowest rate, or the longest delay, with which every node's lag stays within the limit."""

    what: str
    """The varied property, ``rate`` or ``delay``."""
    setting: Setting
    """The setting in which the search varies the rate or the delay."""


def simulate(
    plan: Plan,
    traffics: Mapping[str, SetTraffic],
    options: Options,
    run: Runner = one_by_one,
    *,
    speeds: Mapping[str, float | None] | None = None,
) -> Results:
    """Simulate a plan under each setting of ``options``, run its searches, and return the results.

    Parameters:
        traffics: the traffic of each origin by its name. Each has the plan's filters in their order.
        run: a map over the computations, maybe in parallel.
        speeds: the speed factor of each origin's replay; None: all transactions at once. An origin without an entry
            has 1.
    """
    simulation = _Simulation(plan, traffics, options, run, speeds or {})
    runs = simulation.runs(options.settings)
    found = tuple(one for search in options.searches for one in simulation.search(search))
    return Results(
        name=plan.name,
        sources=tuple(_source(name, traffics[name]) for name in plan.origins if name in traffics),
        nodes=plan.descriptions,
        limit=options.limit,
        runs=runs,
        found=found,
        warnings=tuple(f"{name}: {text}" for name, one in traffics.items() for text in _warnings(one)),
    )


class _Simulation:
    def __init__(
        self,
        plan: Plan,
        traffics: Mapping[str, SetTraffic],
        options: Options,
        run: Runner,
        speeds: Mapping[str, float | None],
    ) -> None:
        self._plan = plan
        self._options = options
        self._run = run
        settings = (*options.settings, *(search.setting for search in options.searches))
        self._schedules = {
            load: {
                name: Schedule(traffic, _factor(load, speeds.get(name, 1.0)))
                for name, traffic in traffics.items()
            }
            for load in {setting.load for setting in settings}
        }
        """For each load, the schedule (commit times) of each origin by name."""
        self._router = Router(plan, options.applier, options.seed)

    def runs(self, settings: Sequence[Setting]) -> tuple[Run, ...]:
        """Return the results of ``settings``, in order.

        The nodes of all settings are computed together, so that the traffic of each filter is looked up once.
        """
        groups = [self._groups(self._plan.nodes, setting) for setting in settings]
        outcomes = self._outcomes(settings, groups)
        windows = [window_of(max(one.duration for one in each)) for each in outcomes]
        chosen = [_worst(*each) for each in zip(groups, outcomes, strict=True)]
        items = [
            (setting.load, groups[n][k].routes, (groups[n][k], windows[n]))
            for n, setting in enumerate(settings)
            for k in chosen[n]
        ]
        curves = iter(self._ordered(self._curves, items))
        return tuple(
            self._figures(
                setting,
                groups[n],
                outcomes[n],
                series_of(windows[n], itertools.islice(curves, len(chosen[n]))),
            )
            for n, setting in enumerate(settings)
        )

    def _outcomes(
        self, settings: Sequence[Setting], groups: Sequence[Sequence[Group]]
    ) -> list[list[Outcome]]:
        """Compute for each setting the outcomes of its groups of equal nodes, in order. Groups that differ only in
        the delay of their last hop are computed once.
        """
        together: dict[tuple[float, tuple[Route, ...]], dict[tuple[int, int], int]] = {}
        for n, setting in enumerate(settings):
            for k, group in enumerate(groups[n]):
                routes, delay = without_delay(group.routes)
                together.setdefault((setting.load, routes), {})[n, k] = delay
        items = [(*alike, tuple(delays.values())) for alike, delays in together.items()]
        found = self._ordered(self._lags, items)
        by_place = {
            place: outcome
            for delays, outcomes in zip(together.values(), found, strict=True)
            for place, outcome in zip(delays, outcomes, strict=True)
        }
        return [[by_place[n, k] for k in range(len(each))] for n, each in enumerate(groups)]

    def _ordered(self, function: Callable[..., _Result], items: Sequence[_Item]) -> list[_Result]:
        """Call ``function`` with the values of each item, and return the results in the items' order. Items with
        equal traffic are called one after the other, so that caches help.
        """
        order = sorted(range(len(items)), key=lambda k: (_traffic_of(items[k][1]), items[k][0]))
        done = self._run(lambda item: function(*item), [items[k] for k in order])
        found = dict(zip(order, done, strict=True))
        return [found[k] for k in range(len(items))]

    def _lags(self, load: float, routes: tuple[Route, ...], delays: tuple[int, ...]) -> list[Outcome]:
        return evaluate(routes, self._schedules[load], limit=self._options.limit, delays=delays)

    def _curves(self, load: float, routes: tuple[Route, ...], of: tuple[Group, Window]) -> Series:
        group, window = of
        return curves_of(group, flows_of(routes, self._schedules[load]), window)

    def _figures(
        self, setting: Setting, groups: Sequence[Group], outcomes: Sequence[Outcome], series: Series
    ) -> Run:
        links: list[LinkFigures] = []
        nodes: list[NodeFigures] = []
        for group, outcome in zip(groups, outcomes, strict=True):
            links += link_figures(group, outcome)
            nodes += node_figures(group, outcome, sum(link.bytes for link in outcome.links))
        return Run(
            method=Method.SIMULATED,
            setting=setting,
            basis=Basis.APPLIED if self._options.applier else Basis.RECEIVED,
            duration=max(outcome.duration for outcome in outcomes),
            links=tuple(links),
            nodes=tuple(nodes),
            series=series,
        )

    def search(self, search: Search) -> list[Found]:
        """Run a search. Return the rate or delay that was found for each group of equal nodes."""
        setting = search.setting
        nodes = [
            node
            for node in self._plan.nodes
            if setting.link is None
            or any(leg.link == setting.link for channel in node.channels for leg in channel.legs)
        ]
        # Nodes that are equal at one value of what is searched are equal at all values.
        groups = self._groups(nodes, _with(setting, search.what, 1))
        answers = self._run(lambda group: self._find(group.nodes[0], search), groups)
        return [
            Found(
                node=group.nodes[0].name,
                count=len(group.nodes),
                variant=setting.variant,
                load=setting.load,
                what=search.what,
                link=setting.link,
                value=value,
                worst=worst,
            )
            for group, (value, worst) in zip(groups, answers, strict=True)
        ]

    def _find(self, node: PlannedNode, search: Search) -> tuple[int | None, int | None]:
        """Search the limiting rate or delay for one node by bisection. Return the value and the worst lag with it,
        or two None if no value keeps the limit.
        """
        limit, schedules = self._options.limit, self._schedules[search.setting.load]

        @functools.cache
        def lag_with(value: int) -> Lag:
            routes = self._router.routes(node, _with(search.setting, search.what, value))
            return evaluate(routes, schedules, limit=limit)[0].lag

        def is_good(value: int) -> bool:
            lag = lag_with(value)
            return not lag.missing and lag.worst <= limit

        values = _RATES if search.what == "rate" else _DELAYS
        number = bisect.bisect_left(values, True, key=is_good)
        return (values[number], lag_with(values[number]).worst) if number < len(values) else (None, None)

    def _groups(self, nodes: Iterable[PlannedNode], setting: Setting) -> list[Group]:
        found: dict[tuple[Route, ...], list[PlannedNode]] = {}
        for node in nodes:
            found.setdefault(self._router.routes(node, setting), []).append(node)
        return [Group(routes, tuple(each)) for routes, each in found.items()]


_Item = tuple[float, tuple[Route, ...], Any]
"""A load, the routes of a group of nodes, and a third argument of the computation: delays, or for curves the group and
a window.
"""

_Result = TypeVar("_Result")


def _traffic_of(routes: tuple[Route, ...]) -> tuple[object, ...]:
    """Return a sort key that puts routes with equal traffic next to one another."""
    return tuple(
        (route.origin, passage.form.value, -1 if passage.filter is None else passage.filter)
        for route in routes
        for passage in reversed(route.passages)
    )


def _factor(load: float, speed: float | None) -> Fraction | None:
    """Return the factor by which an origin's commit times are compressed: the load times the replay's speed. None:
    all commits at once.
    """
    return None if speed is None else scaled(load) * scaled(speed)


def _worst(groups: Sequence[Group], outcomes: Sequence[Outcome]) -> list[int]:
    """Return the indexes of the ``MOST_SERIES`` groups with the greatest lag, ascending. These groups get a series."""
    worst = sorted(range(len(groups)), key=lambda k: (-outcomes[k].lag.p99, groups[k].nodes[0].name))
    return sorted(worst[:MOST_SERIES])


def _with(setting: Setting, what: str, value: int) -> Setting:
    return setting.model_copy(update={what: value})


def _source(name: str, traffic: SetTraffic) -> SourceFigures:
    times = traffic.time
    return SourceFigures(
        node=name,
        files=tuple(replace_invalid_utf8(file) for file in traffic.files),
        bytes=traffic.nbytes,
        transactions=len(traffic),
        family=traffic.family,
        server_version=replace_invalid_utf8(traffic.server_version),
        clock=traffic.clock.value,
        first_time=int(times[0]) if len(times) else None,
        last_time=int(times[-1]) if len(times) else None,
        active_seconds=active_seconds(spans_of((times // _SECOND).astype(np.uint32))),
    )


def _warnings(traffic: SetTraffic) -> Iterable[str]:
    yield from traffic.warnings
    if traffic.clock is Clock.SECONDS and len(traffic):
        yield (
            "the binlog tells the times of commits in whole seconds; the transactions of a second are spread over it, "
            "so that lags below a second are estimates"
        )
