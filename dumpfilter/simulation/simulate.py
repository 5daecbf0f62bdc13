"""The simulation of a topology under several settings, such as different rates of its links.

The module also searches for the slowest rate, or the longest delay, with which the lag of a node stays within a limit.
Further functions parse the options that name settings, searches and binlogs: ``--sweep``, ``--scale-load``,
``--variant``, ``--find`` and ``--binlog``.
"""

from __future__ import annotations

import bisect
import functools
import gc
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from dumpfilter.base.errors import OptionError
from dumpfilter.base.options.values import did_you_mean, parse_rate, parse_time
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
    at_node,
    outcomes_of,
    run_of,
    travel,
    without_delay,
    without_rate,
)
from dumpfilter.simulation.plan import Clock, Plan, PlannedNode, SetTraffic
from dumpfilter.simulation.results import (
    SIMULATED,
    Basis,
    Found,
    Method,
    Results,
    Run,
    Setting,
    SourceFigures,
    Variant,
)
from dumpfilter.topology.model import Topology

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
    """The options of a simulation: the settings (such as rates of links) to simulate, and the searches to run."""

    settings: tuple[Setting, ...] = (Setting(variant=Variant.MASTER),)
    limit: int = 1_000_000
    """The limit of the lag, microseconds. Runs count the time above it, and searches look for values with which
    the lag is at most the limit.
    """
    applier: Hop | None = None
    """The speed at which each node applies transactions, as a hop. None: applying takes no time."""
    seed: int = 0
    searches: tuple[Search, ...] = ()


@dataclass(frozen=True)
class Search:
    """The request to find the slowest rate, or the longest delay, of links with which a node's lag stays within the
    limit.

    The search gives one answer for each group of equal nodes that receive transactions over a varied link.
    """

    what: str
    """The varied property, ``rate`` or ``delay``."""
    setting: Setting
    """The setting in which the search varies the rate or the delay."""


def simulate(
    plan: Plan,
    traffics: Mapping[str, SetTraffic],
    options: Options,
    run: Runner = lambda function, items: list(map(function, items)),
    *,
    speeds: Mapping[str, float | None] | None = None,
) -> Results:
    """Simulate a topology (``plan``) under each setting of ``options``, run the searches, and return the results.

    Parameters:
        traffics: for each origin (a node that writes binlogs) by name, its transactions, with their commit times and
            their bytes under each filter of the plan.
        run: a function that calls another function for each item of a list, maybe in parallel.
        speeds: for each origin by name, the factor by which the replay of its binlog is faster than the original
            commits. The factor None commits all transactions at the start of the run. An origin without an entry has
            the factor 1.
    """
    speeds = speeds or {}
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
    found = tuple(one for search in options.searches for one in simulation.search(search))
    return Results(
        name=plan.name,
        sources=tuple(_source(name, traffics[name]) for name in plan.origins if name in traffics),
        topology=plan.topology,
        limit=options.limit,
        runs=runs,
        found=found,
        warnings=tuple(f"{name}: {text}" for name, one in traffics.items() for text in _warnings(one)),
    )


_KEPT = 4
"""The number of nodes of a run whose arrivals are cached for plots of nodes with the same links."""
_Family = tuple[float, tuple[Route, ...]]
"""A load, and the routes of nodes with equal arrivals, apart from the delay of the last link."""
_Task = tuple[float, list[tuple[tuple[Route, ...], list[Group]]]]
"""A load, and the groups of nodes with each of some routes that are computed together."""


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
        after another, so that the caches of arrival times are used.
        """
        alike: dict[_Family, dict[tuple[Route, ...], list[Group]]] = {}
        for group in groups:
            load, routes = self._family(group)
            alike.setdefault((load, without_rate(routes)), {}).setdefault(routes, []).append(group)
        tasks = [
            (load, list(one.items())[start : start + LANES])
            for (load, routes), one in sorted(alike.items(), key=lambda one: _traffic_of(*one[0]))
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
        """Return the load and the routes of a group, with the first of all filters that pass the same events in place
        of each filter.
        """
        schedules = self.schedules[group.setting.load]
        return group.setting.load, tuple(
            route._replace(
                hops=tuple(
                    hop._replace(filter=schedules[route.origin].traffic.first_like(hop.filter))
                    for hop in route.hops
                )
            )
            for route in group.routes
        )

    def _flows(self, load: float, alike: Sequence[tuple[Route, ...]]) -> list[tuple[Flow, ...]]:
        """Return for the routes to each of several nodes a tuple with one :class:`Flow` for each route, in the same
        order. A route has the links from one origin to a node, and its Flow the transactions that arrive over these
        links.

        The nodes must have routes that differ only in the rate of each route's last link.
        """
        schedules = self.schedules[load]
        columns = (travel(routes, schedules[routes[0].origin]) for routes in zip(*alike, strict=True))
        return list(zip(*columns, strict=True))

    def _flows_of(self, load: float, routes: tuple[Route, ...]) -> tuple[Flow, ...]:
        return self._flows(load, [routes])[0]

    def search(self, search: Search) -> list[Found]:
        """Search for the slowest rate, or the longest delay, of links with which a node's lag stays within the limit.

        Return one answer for each group of equal nodes. If the search varies one link only, nodes that receive nothing
        over this link are left out.
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
        within the limit.

        Return the found rate (bits per second) or delay (microseconds), and the node's greatest lag with it,
        microseconds. Both are None if no value keeps the lag within the limit. Only values with at most three
        significant digits are tried.
        """

        @functools.cache
        def worst_with(value: int) -> float:
            (group,) = self._groups([node], search.setting.model_copy(update={search.what: value}))
            arrived = at_node(group, self._flows_of(*self._family(group)))
            if arrived.missing:
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
    """Return a text that is equal for nodes with equal traffic: equal pace of commits, binlogs, encodings and
    filters.
    """
    return str((load, [(route.origin, hop.form, hop.filter) for route in routes for hop in route.hops]))


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


_WORDS = ("rate", "delay")
MOST_LOAD = 1_000_000


class Sweep(NamedTuple):
    """A value of the option ``--sweep``: a rate or delay of links, with several values. The simulation makes one run
    for each.
    """

    what: str
    """The varied property, ``rate`` or ``delay``."""
    link: str | None
    """The name of the link that is varied. None: all links."""
    values: tuple[int, ...]
    """The rates in bits per second, or the delays in microseconds."""


def parse_sweep(text: str, links: Sequence[str]) -> Sweep:
    """Parse a value of ``--sweep``: a property of links and the values to simulate one after another, such as
    ``rate=1mbit,2mbit``.

    A link's name may precede the property, as in ``m:web.delay=0s,50ms``. ``links`` has the names of all links. Raises
    OptionError for an unknown link or a bad value.

    >>> parse_sweep("m:web.rate=1mbit,2mbit", ["m:web"])
    Sweep(what='rate', link='m:web', values=(1000000, 2000000))
    """
    key, equals, values = text.partition("=")
    if not equals or not values.strip():
        raise OptionError(f"--sweep {text!r}: write what to vary and its values, such as rate=512kbit,1mbit")
    what, link = _what("--sweep", key, links)
    try:
        found = tuple(
            parse_rate(value) if what == "rate" else round(parse_time(value) * 1e6)
            for value in values.split(",")
        )
    except OptionError as error:
        raise OptionError(f"--sweep {text!r}: {error}") from None
    return Sweep(what, link, tuple(dict.fromkeys(found)))


def parse_variants(names: Iterable[str]) -> tuple[Variant, ...]:
    """Return the variants (ways to bring the binlog to the slaves, such as ``filter-on-master``) with these names.

    Duplicates are removed. Raises OptionError for a name that is unknown or that only experiments support.
    """
    known = [variant.value for variant in SIMULATED]
    for name in names:
        if name not in known:
            near = did_you_mean(name, known) or f"; it is one of {', '.join(known)}"
            raise OptionError(f"--variant {name!r}: there is no such variant{near}")
    return tuple(dict.fromkeys(map(Variant, names)))


def parse_loads(text: str) -> tuple[float, ...]:
    """Return the load factors in a text such as ``1,2,5``, without duplicates.

    A factor of 2 makes commits twice as frequent. Raises OptionError for a factor that is no number, is not greater
    than 0, or is greater than :data:`MOST_LOAD`.

    >>> parse_loads("1,2.5")
    (1.0, 2.5)
    """
    try:
        loads = tuple(dict.fromkeys(float(part) for part in text.split(",")))
    except ValueError:
        loads = (0.0,)
    if not all(0 < load <= MOST_LOAD for load in loads):
        raise OptionError(f"--scale-load {text!r}: write factors greater than 0, such as 1,2,5")
    return loads


def settings_of(
    variants: Sequence[Variant], loads: Sequence[float], sweeps: Sequence[Sweep] = ()
) -> tuple[Setting, ...]:
    """Return the parameters of each run to simulate: all combinations of variants, loads and values of sweeps.

    A variant is a way to bring the binlog to the slaves. A load is a factor of the pace of commits. A sweep has several
    rates or delays of links. Without a sweep the links are unchanged. Raises OptionError if two sweeps vary the same
    property, or if a sweep of the rate and a sweep of the delay are about different links.
    """
    if len({sweep.link for sweep in sweeps}) > 1 or len({sweep.what for sweep in sweeps}) < len(sweeps):
        raise OptionError("--sweep: vary one rate and one delay at most, both of one link or of all links")
    link = sweeps[0].link if sweeps else None
    return tuple(
        Setting(variant=variant, load=load, link=link, **dict(values))
        for values in itertools.product(*([(one.what, value) for value in one.values] for one in sweeps))
        for load in loads
        for variant in variants
    )


def searches_of(
    texts: Iterable[str], variants: Sequence[Variant], loads: Sequence[float], links: Sequence[str]
) -> tuple[Search, ...]:
    """Return the searches for a limiting rate or delay that the values of ``--find`` ask for, such as ``m:web.delay``.

    There is one search for each value, load (factor of the pace of commits) and variant (way to bring the binlog to the
    slaves). ``links`` has the names of all links. Raises OptionError for an unknown link or property.
    """
    return tuple(
        Search(what, Setting(variant=variant, load=load, link=link))
        for what, link in (_what("--find", text, links) for text in texts)
        for load in loads
        for variant in variants
    )


def _what(option: str, key: str, links: Sequence[str]) -> tuple[str, str | None]:
    link, dot, what = key.strip().rpartition(".")
    if what not in _WORDS:
        raise OptionError(f"{option} {key!r}: {what!r} is neither rate nor delay{did_you_mean(what, _WORDS)}")
    if dot and link not in links:
        raise OptionError(f"{option} {key!r}: there is no link {link!r}{did_you_mean(link, links)}")
    return what, link or None


def binlog_sets(plan: Plan, topology: Topology | None, binlogs: Sequence[str]) -> dict[str, str]:
    """Return the path of the binlog set of each origin (a node of the topology that writes binlogs), by its name.

    ``binlogs`` are the values of ``--binlog``. ``m=bin.index`` is the set of the origin ``m``, or of the origin that
    the node ``m`` reads from. ``bin.index`` alone is for a plan with one origin. An origin that is a recording (binlogs
    that a server wrote earlier) has its set in the topology, and a value of ``--binlog`` replaces that set.

    Raises OptionError for an origin without a set, for an unknown name, and for a set without a name if the plan has
    several origins.
    """
    names = {origin: origin for origin in plan.origins}
    found: dict[str, str] = {}
    if topology is not None:
        for origin in plan.origins:
            node = topology[origin]
            if node.binlogs:
                found[origin] = str(node.binlogs)
            # A workload or recording is often known by the name of the master that reads it.
            for reader in topology.readers[origin]:
                names.setdefault(reader.name, origin)
    for text in binlogs:
        name, equals, path = text.partition("=")
        # A path or an address can have an equals sign, and the name of a node has no slash.
        if not equals or "/" in name:
            if len(plan.origins) > 1:
                origins = ", ".join(plan.origins)
                raise OptionError(
                    f"--binlog {text}: the topology has several origins ({origins}); write NODE={text}"
                )
            name, path = plan.origins[0], text
        if name not in names:
            raise OptionError(
                f"--binlog {text}: there is no origin {name!r}{did_you_mean(name, sorted(names))}"
            )
        found[names[name]] = path
    for origin in plan.origins:
        if origin not in found:
            option = "--binlog SET" if len(plan.origins) == 1 else f"--binlog {origin}=SET"
            raise OptionError(f"the binlog set of {origin} is missing; give it with {option}")
    return found
