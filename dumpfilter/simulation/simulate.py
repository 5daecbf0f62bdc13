"""The simulation of a topology under several settings, such as different rates of its links.

It can also search for the slowest rate, or the longest delay, with which the lag of a node stays within a limit.
"""

from __future__ import annotations

import bisect
import functools
import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain
from typing import Any, TypeVar

import numpy as np

from dumpfilter.base.printable import replace_invalid_utf8
from dumpfilter.index.time_spans import active_seconds, spans_of
from dumpfilter.simulation.evaluate import Schedule, flows_of
from dumpfilter.simulation.flow import (
    Flow,
    Group,
    Outcome,
    at_node,
    curves_of,
    outcomes_of,
    run_of,
    window_of,
)
from dumpfilter.simulation.hop import Hop
from dumpfilter.simulation.plan import Plan, PlannedNode
from dumpfilter.simulation.results import (
    Basis,
    Found,
    Method,
    Results,
    Run,
    Setting,
    SourceFigures,
    Variant,
)
from dumpfilter.simulation.route import Route, Router, scaled, without_delay
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
    """Call ``function`` for each item in this thread, one after another. Return the results in the items' order."""
    return [function(item) for item in items]


@dataclass(frozen=True)
class Options:
    """The options of a simulation: the settings (such as rates of links) to simulate, and the searches to run."""

    settings: tuple[Setting, ...] = (Setting(variant=Variant.MASTER),)
    limit: int = 1_000_000
    """The lag (microseconds) above which time is counted, and which searches must keep."""
    applier: Hop | None = None
    """The speed at which each node applies transactions, as a hop. None: applying takes no time."""
    seed: int = 0
    searches: tuple[Search, ...] = ()


@dataclass(frozen=True)
class Search:
    """The request to find the slowest rate, or the longest delay, of links with which a node's lag stays within the
    limit.

    The search gives one answer for each node.
    """

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
    """Simulate a topology (``plan``) under each setting of ``options``, run the searches, and return the results.

    Parameters:
        traffics: for each origin (a node that writes binlogs) by name, the bytes of its transactions under each filter
            of the plan, in the plan's order.
        run: a function that calls another function for each item of a list, maybe in parallel.
        speeds: the speed factor of each origin's replay; None: all transactions at once. An origin without an entry has
            1.
    """
    speeds = speeds or {}
    loads = {setting.load for setting in options.settings} | {each.setting.load for each in options.searches}
    schedules = {
        load: {name: Schedule(one, _factor(load, speeds.get(name, 1.0))) for name, one in traffics.items()}
        for load in loads
    }
    simulation = _Simulation(plan, options, run, schedules, Router(plan, options.applier, options.seed))
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


@dataclass(frozen=True)
class _Simulation:
    plan: Plan
    options: Options
    run: Runner
    schedules: Mapping[float, Mapping[str, Schedule]]
    """For each load, the schedule (commit times) of each origin by name."""
    router: Router

    def runs(self, settings: Sequence[Setting]) -> tuple[Run, ...]:
        """Return the results of ``settings``, in order.

        The nodes of all settings are computed together, so that the traffic of each filter is looked up once. Groups
        of nodes that differ only in the delay of their last hop are computed once.
        """
        groups = [self._groups(self.plan.nodes, setting) for setting in settings]
        families: dict[tuple[float, tuple[Route, ...]], list[Group]] = {}
        for group in chain.from_iterable(groups):
            families.setdefault((group.setting.load, group.routes), []).append(group)
        outcome = dict(chain.from_iterable(self._ordered(self._outcomes, list(families.values()))))
        windows = [window_of(outcome[group] for group in each) for each in groups]
        chosen = [
            (group, window)
            for each, window in zip(groups, windows, strict=True)
            for group in heapq.nsmallest(MOST_SERIES, each, key=lambda group: _rank(outcome[group]))
        ]
        curves = self._ordered(lambda of: curves_of(of[0], self._flows(of[0]), of[1]), chosen)
        curve = dict(zip((group for group, _ in chosen), curves, strict=True))
        return tuple(
            run_of(
                [outcome[group] for group in each],
                [curve[group] for group in each if group in curve],
                window,
                method=Method.SIMULATED,
                setting=setting,
                basis=Basis.APPLIED if self.options.applier else Basis.RECEIVED,
            )
            for setting, each, window in zip(settings, groups, windows, strict=True)
        )

    def _ordered(self, function: Callable[[Any], _Result], items: Sequence[Sequence[Any]]) -> list[_Result]:
        """Call ``function`` with each item, and return the results in the items' order. Items whose first groups have
        equal traffic are called one after the other, so that caches help.
        """
        order = sorted(range(len(items)), key=lambda k: _traffic_of(items[k][0]))
        found = dict(zip(order, self.run(function, [items[k] for k in order]), strict=True))
        return [found[k] for k in range(len(items))]

    def _outcomes(self, groups: Sequence[Group]) -> list[tuple[Group, Outcome]]:
        outcomes = outcomes_of(groups, self._flows(groups[0]), limit=self.options.limit)
        return list(zip(groups, outcomes, strict=True))

    def _flows(self, group: Group) -> list[Flow]:
        return flows_of(group.routes, self.schedules[group.setting.load])

    def search(self, search: Search) -> list[Found]:
        """Run a search. Return the rate or delay that was found for each group of equal nodes."""
        setting = search.setting
        nodes = [
            node
            for node in self.plan.nodes
            if setting.link is None
            or any(leg.link == setting.link for channel in node.channels for leg in channel.legs)
        ]
        # Nodes that are equal at one value of what is searched are equal at all values.
        groups = self._groups(nodes, setting.model_copy(update={search.what: 1}))
        answers = self.run(lambda group: self._find(group.nodes[0], search), groups)
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

        @functools.cache
        def worst_with(value: int) -> int | None:
            (group,) = self._groups([node], search.setting.model_copy(update={search.what: value}))
            arrived = at_node(group, self._flows(group))
            if arrived.missing:
                return None
            return int((arrived.received + group.delay - arrived.committed).max(initial=0))

        def is_good(value: int) -> bool:
            worst = worst_with(value)
            return worst is not None and worst <= self.options.limit

        values = _RATES if search.what == "rate" else _DELAYS
        number = bisect.bisect_left(values, True, key=is_good)
        return (values[number], worst_with(values[number])) if number < len(values) else (None, None)

    def _groups(self, nodes: Iterable[PlannedNode], setting: Setting) -> list[Group]:
        found: dict[tuple[tuple[Route, ...], int], list[PlannedNode]] = {}
        for node in nodes:
            found.setdefault(without_delay(self.router.routes(node, setting)), []).append(node)
        return [Group(setting, routes, tuple(each), delay) for (routes, delay), each in found.items()]


_Result = TypeVar("_Result")


def _traffic_of(group: Group) -> tuple[object, ...]:
    """Return a sort key that puts groups with equal traffic next to one another."""
    traffic = tuple(
        (route.origin, passage.form.value, -1 if passage.filter is None else passage.filter)
        for route in group.routes
        for passage in reversed(route.passages)
    )
    return traffic, group.setting.load


def _rank(outcome: Outcome) -> tuple[int, str]:
    """Return a sort key that puts groups of nodes with a great lag before others."""
    return -outcome.nodes[0].lag.p99, outcome.nodes[0].name


def _factor(load: float, speed: float | None) -> Fraction | None:
    """Return the factor by which an origin's commit times are compressed: the load times the replay's speed. None:
    all commits at once.
    """
    return None if speed is None else scaled(load) * scaled(speed)


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
