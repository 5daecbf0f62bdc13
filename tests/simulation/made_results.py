"""Results for tests of the page: usual ones, hostile names, thousands of slaves, nothing at all, and a measurement."""

from __future__ import annotations

import functools

import numpy as np

from dumpfilter.simulation.plan import (
    Channel,
    FilterKey,
    Leg,
    Plan,
    PlannedNode,
    Retries,
    Sender,
    SetTraffic,
    plan_topology,
)
from dumpfilter.simulation.results import Method, Results, Setting, Variant
from dumpfilter.simulation.simulate import Options, Search, simulate
from dumpfilter.topology import parse_string
from dumpfilter.topology.links.shape import LinkShape
from tests.simulation.sets import SECOND, traffic

HOSTILE = "<img src=x onerror=window.pwned=1>$x_1$\u202e{{7*7}}"


def _traffic(filters: int, n: int = 2000) -> SetTraffic:
    random = np.random.default_rng(3)
    times = np.sort(random.integers(0, 120 * SECOND, n)).tolist()
    sizes = random.integers(300, 9000, n).tolist()
    chosen = [np.flatnonzero(random.random(n) < 1 / (2 + k % 5)).tolist() for k in range(filters)]
    return traffic(times, sizes, chosen, stand_in=60)


@functools.cache
def usual() -> Results:
    """Return the results of a fan-out and a chain with all variants, a sweep, two loads, an outage and a search."""
    plan = plan_topology(
        parse_string(
            "m >> web[do-db=a, rate=500kbit, delay=50ms, jitter=5ms, down=20s-40s] ; m >> hr[do-db=b, rate=2mbit] "
            ">> far-away-from-here[rate=100kbit] ; m >> all[rate=400kbit]"
        )
    )
    settings = [Setting(variant=variant, load=load) for variant in Variant for load in (1.0, 2.0)]
    settings += [
        Setting(variant=variant, rate=rate)
        for rate in (250_000, 500_000, 1_000_000, 2_000_000)
        for variant in (Variant.NONE, Variant.MASTER)
    ]
    searches = tuple(Search(what, Setting(variant=Variant.MASTER)) for what in ("rate", "delay"))
    options = Options(tuple(settings), 5 * SECOND, searches=searches)
    return simulate(plan, {plan.origins[0]: _traffic(len(plan.filters))}, options)


@functools.cache
def measured() -> Results:
    """Return results with measured runs beside the simulated ones."""
    given = usual()
    plain = [
        run
        for run in given.runs
        if run.setting in (Setting(variant=Variant.NONE), Setting(variant=Variant.MASTER))
    ]
    twice = [
        run.model_copy(update={"method": Method.MEASURED, "repetition": repetition})
        for run in plain
        for repetition in (1, 2)
    ]
    return given.model_copy(
        update={"runs": (*plain, *twice), "found": (), "command": "dumpfilter topology run"}
    )


@functools.cache
def regrouped() -> Results:
    """Return the results of two slaves that are equal without filters, and differ with the filter on the master."""
    link = "rate=400kbit, down=20s-40s"
    plan = plan_topology(parse_string(f"m >> a[do-db=a, {link}] ; m >> b[do-db=b, {link}]"))
    settings = tuple(Setting(variant=variant) for variant in (Variant.NONE, Variant.MASTER))
    return simulate(plan, {plan.origins[0]: _traffic(len(plan.filters))}, Options(settings))


@functools.cache
def hostile() -> Results:
    """Return results in which every name is hostile."""
    names = [f"{HOSTILE}{k}" for k in range(3)]
    return _slaves(names, name=HOSTILE)


@functools.cache
def many() -> Results:
    """Return the results of a thousand slaves with different links."""
    return _slaves([f"slave-{k:04}" for k in range(1000)], name="many")


@functools.cache
def empty() -> Results:
    """Return the results of a binlog without transactions."""
    plan = plan_topology(parse_string("m >> web"))
    settings = tuple(Setting(variant=variant) for variant in (Variant.NONE, Variant.MASTER))
    return simulate(plan, {plan.origins[0]: traffic([], [])}, Options(settings))


def _slaves(names: list[str], *, name: str) -> Results:
    key = FilterKey((("replicate-do-db=a",),))
    nodes = []
    for k, each in enumerate(names):
        leg = Leg(
            "master",
            each,
            LinkShape(300_000 + 1000 * (k % 50)),
            True,
            Sender.FILES,
            key,
            FilterKey(()),
            Retries(),
        )
        nodes.append(PlannedNode(each, (Channel("master", "master", (leg,), key),)))
    plan = Plan(name, ("master",), tuple(nodes))
    settings = tuple(Setting(variant=variant) for variant in (Variant.NONE, Variant.MASTER))
    found = simulate(plan, {"master": _traffic(1, 400)}, Options(settings))
    return found.model_copy(update={"warnings": (f"a warning about {names[0]}",)})


CASES = {"usual": usual, "measured": measured, "hostile": hostile, "many": many, "empty": empty}
