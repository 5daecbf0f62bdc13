"""The simulation of a topology under several settings, such as different rates of its links.

The module also searches for the slowest rate, or the longest delay, with which the lag of a node stays within a limit.
"""

from __future__ import annotations

import bisect
import functools
import gc
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from dumpfilter.base.printable import replace_invalid_utf8
from dumpfilter.index.time_spans import active_seconds, spans_of
from dumpfilter.simulation._hop import LANES
from dumpfilter.simulation.flow import (
    Flow,
    Group,
    Hop,
    Outcome,
    Route,
    Router,
    Schedule,
    all_but_rate,
    at_node,
    outcomes_of,
    run_of,
    travel,
    without_delay,
)
from dumpfilter.simulation.plan import Clock, Plan, PlannedNode, SetTraffic
from dumpfilter.simulation.results import Basis, Found, Method, Results, Run, Setting, SourceFigures, Variant

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


@dataclass(frozen=True)
class Options:
    """The options of a simulation: the settings (such as rates of links) to simulate, and the searches to run. A search
    looks for a rate or delay of links with which the lag is at most :attr:`limit`.
    """

    settings: tuple[Setting, ...] = (Setting(variant=Variant.MASTER),)
    limit: int = 1_000_000
    """The limit of the lag, microseconds. Runs count the time above it, and searches look for values with which
    the lag is at most the limit.
    """
    applier: Hop | None = None
    """The speed at which each node applies transactions, as a :class:`Hop` (simulated link). None: applying takes no
    time.
    """
    seed: int = 0
    searches: tuple[Search, ...] = ()


@dataclass(frozen=True)
class Search:
    """The request to find the slowest rate, or the longest delay, of links with which a node's lag stays within
    :attr:`Options.limit`.

    The search gives one answer for each group of equal nodes that receive transactions over a link whose rate or delay
    it varies. Equal nodes have equal links and filters on the way to them.
    """

    what: str
    """The varied property, ``rate`` or ``delay``."""
    setting: Setting
    """The parameters of the simulated runs, such as the pace of commits. Each run of the search has another rate or
    delay of links.
    """


def simulate(
    plan: Plan,
    traffics: Mapping[str, SetTraffic],
    options: Options,
    run: Runner = lambda function, items: list(map(function, items)),
    *,
    speeds: Mapping[str, float | None] = {},
) -> Results:
    """Simulate a topology (``plan``) under each setting of ``options``, such as a rate of links, and return lag and
    traffic of the nodes. Also run the searches of ``options``, each for the slowest rate or the longest delay with
    which a node's lag stays within the limit.

    Parameters:
        traffics: for each origin (a node that writes binlogs) by name, its transactions, with their commit times and
            their bytes under each filter of the plan.
        run: a function that calls another function for each item of a list, maybe in parallel.
        speeds: for each origin by name, the factor by which the replay of its binlog is faster than the original
            commits. The factor None commits all transactions at the start of the run. An origin without an entry has
            the factor 1.
    """
    loads = {setting.load for setting in options.settings} | {each.setting.load for each in options.searches}
    schedules = {
        load: {
            name: Schedule(one, load * (speeds.get(name, 1.0) or math.inf)) for name, one in traffics.items()
        }
        for load in loads
    }
    simulation = _Simulation(plan, options, run, schedules, Router(plan, options.applier, options.seed))
    # Collections of garbage would walk again and again through the figures of thousands of nodes.
    is_collecting = gc.isenabled()
    gc.disable()
    try:
        runs = simulation.runs(options.settings)
    finally:
        if is_collecting:
            gc.enable()
    return Results(
        name=plan.name,
        sources=tuple(source_figures(name, traffics[name]) for name in plan.origins if name in traffics),
        topology=plan.topology,
        limit=options.limit,
        runs=runs,
        found=tuple(one for search in options.searches for one in simulation.search(search)),
        warnings=tuple(f"{name}: {text}" for name, one in traffics.items() for text in _warnings(one)),
    )


_KEPT = 4
"""The number of nodes of a run whose received transactions are cached, for the plots of nodes with the same links."""
_Family = tuple[float, tuple[Route, ...]]
"""A load (factor of the pace of commits), and the routes of nodes with equal arrivals, apart from the delay of the last
link.
"""
_Task = tuple[float, list[tuple[tuple[Route, ...], list[Group]]]]
"""A load (factor of the pace of commits), and the routes that are computed together, each with the groups of nodes that
have these routes.
"""


@dataclass(frozen=True)
class _Simulation:
    plan: Plan
    options: Options
    run: Runner
    schedules: Mapping[float, Mapping[str, Schedule]]
    """For each load, the schedule (commit times) of each origin by name."""
    router: Router

    def runs(self, settings: Sequence[Setting]) -> tuple[Run, ...]:
        """Simulate the topology under each of ``settings`` (parameters of a run). Return one result for each setting,
        in the same order.

        The nodes of all settings are computed together, so that the traffic of each filter is looked up once. Nodes
        that differ only in the delay of their last link are computed once.
        """
        groups = [self._groups(self.plan.nodes, setting) for setting in settings]
        outcome = self._outcomes(chain.from_iterable(groups))

        def run_with(each: Sequence[Group]) -> Run:
            basis = Basis.APPLIED if self.options.applier else Basis.RECEIVED
            outcomes = [outcome[group] for group in each]
            # Nodes that differ in the delay of their link only share the link's load.
            flows_of = functools.lru_cache(_KEPT)(self._flows_of)
            return run_of(
                each,
                outcomes,
                lambda group: flows_of(*self._family(group)),
                method=Method.SIMULATED,
                basis=basis,
            )

        return tuple(self.run(run_with, groups))

    def _outcomes(self, groups: Iterable[Group]) -> dict[Group, Outcome]:
        """Return the lag and traffic of each group of equal nodes, by group. Groups with equal traffic are computed one
        after another, because only the latest arrival times at nodes are cached.
        """
        alike: dict[tuple[float, object], dict[tuple[Route, ...], list[Group]]] = {}
        for group in groups:
            load, routes = self._family(group)
            alike.setdefault((load, all_but_rate(routes)), {}).setdefault(routes, []).append(group)
        families = [(load, list(one.items())) for (load, _), one in alike.items()]
        families.sort(key=lambda one: _traffic_of(one[0], one[1][0][0]))
        tasks = [
            (load, one[start : start + LANES])
            for load, one in families
            for start in range(0, len(one), LANES)
        ]

        def outcomes(task: _Task) -> list[tuple[Group, Outcome]]:
            load, alike = task
            flows = self._flows(load, [routes for routes, _ in alike])
            return [
                each
                for (_, family), of_family in zip(alike, flows, strict=True)
                for each in zip(family, outcomes_of(family, of_family, limit=self.options.limit), strict=True)
            ]

        return dict(chain.from_iterable(self.run(outcomes, tasks)))

    def _family(self, group: Group) -> _Family:
        """Return the load (factor of the pace of commits) and the routes (sequences of links) of a group of equal
        nodes. Groups with an equal result are computed together. If several of the topology's filters pass the same
        events, the routes get the first one of these filters, so that more results are equal.
        """
        schedules = self.schedules[group.setting.load]
        firsts = [schedules[route.origin].traffic.first_equal for route in group.routes]
        return group.setting.load, tuple(
            route._replace(
                hops=tuple(hop._replace(filter=first.get(hop.filter, hop.filter)) for hop in route.hops)
            )
            for route, first in zip(group.routes, firsts, strict=True)
        )

    def _flows(self, load: float, alike: Sequence[tuple[Route, ...]]) -> list[tuple[Flow, ...]]:
        """Return for the routes to each of several nodes a tuple with one :class:`Flow` for each route, in the same
        order. A route has the links from one origin to a node, and its Flow the transactions that arrive over these
        links.

        ``load`` is the factor of the pace of commits. ``alike`` has the routes to each node. They may differ from the
        routes to another node only in the rate of each route's last link.
        """
        schedules = self.schedules[load]
        columns = (travel(routes, schedules[routes[0].origin]) for routes in zip(*alike, strict=True))
        return list(zip(*columns, strict=True))

    def _flows_of(self, load: float, routes: tuple[Route, ...]) -> tuple[Flow, ...]:
        return self._flows(load, [routes])[0]

    def search(self, search: Search) -> list[Found]:
        """Search for the slowest rate, or the longest delay, of links with which a node's lag stays within
        :attr:`Options.limit`.

        Return the found value, and the greatest lag with it, for each group of equal nodes (nodes with equal links and
        filters on the way to them). If the search varies one link only, nodes that receive nothing over this link are
        left out.
        """
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
        """Search by bisection for the slowest rate, or the longest delay, of links with which the lag of ``node`` stays
        within :attr:`Options.limit`.

        Return the found rate (bits per second) or delay (microseconds), and the node's greatest lag with it,
        microseconds. Both are None if no value keeps the lag within this limit. Only values with at most three
        significant digits are tried.
        """

        @functools.cache
        def worst_with(value: int) -> float:
            (group,) = self._groups([node], search.setting.model_copy(update={search.what: value}))
            arrived = at_node(group, self._flows_of(*self._family(group)))
            if len(arrived.missing):
                return math.inf
            return int(arrived.lags.max()) + group.delay if len(arrived.lags) else 0

        values = _RATES if search.what == "rate" else _DELAYS
        number = bisect.bisect_left(values, True, key=lambda value: worst_with(value) <= self.options.limit)
        return (values[number], int(worst_with(values[number]))) if number < len(values) else (None, None)

    def _groups(self, nodes: Iterable[PlannedNode], setting: Setting) -> list[Group]:
        found: dict[tuple[tuple[Route, ...], int], list[PlannedNode]] = {}
        for node in nodes:
            found.setdefault(without_delay(self.router.routes(node, setting)), []).append(node)
        return [Group(setting, routes, tuple(each), delay) for (routes, delay), each in found.items()]


def _traffic_of(load: float, routes: Iterable[Route]) -> str:
    """Return a text that is equal for nodes with equal traffic: equal pace of commits, binlogs, encodings and filters.
    Sorting by this text brings such nodes together.

    ``load`` is the factor of the pace of commits, and ``routes`` are the sequences of links to the node.
    """
    return str((load, [(route.origin, hop.form, hop.filter) for route in routes for hop in route.hops]))


def source_figures(name: str, traffic: SetTraffic) -> SourceFigures:
    """Return the figures of the binlog set ``traffic``, which the node ``name`` wrote. They are the set's files, bytes,
    transactions, server version and time span.
    """
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
