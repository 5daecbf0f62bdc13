"""Small traffic for tests: transactions with given times and sizes, and filters that send some of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from dumpfilter.analyse.traffic.facts import Ints
from dumpfilter.analyse.traffic.transactions import Sent
from dumpfilter.simulation.flow import Flow, Group, Outcome, Route, Schedule, outcomes_of, travel
from dumpfilter.simulation.plan import (
    Channel,
    Clock,
    FilterKey,
    Leg,
    PlannedNode,
    Retries,
    Sender,
    SetTraffic,
)
from dumpfilter.simulation.results import Setting, Variant
from dumpfilter.topology.links.shape import PLAIN

SECOND = 1_000_000


def sent(numbers: Sequence[int], sizes: Sequence[int]) -> Sent:
    """Return what a filter sends: the transactions with these numbers and sizes, two events each."""
    size = np.array(sizes, np.int64)
    return Sent(np.array(numbers, np.int64), size, np.full(len(size), 2, np.int64))


def traffic(
    times: Sequence[int],
    sizes: Sequence[int],
    filters: Sequence[Sequence[int]] = (),
    *,
    stand_in: int = 0,
    joined: bool = False,
) -> SetTraffic:
    """Return a binlog set whose filters send the transactions with the given numbers."""
    n = len(times)
    everything = sent(range(n), sizes)
    filtered = [sent(numbers, [sizes[k] for k in numbers]) for numbers in filters]
    ends: Ints = np.cumsum(np.array(sizes, np.int64))
    return SetTraffic(
        time=np.array(times, np.int64) + 10**15,
        clock=Clock.MICROSECONDS,
        end=ends,
        file=np.zeros(n, np.int64),
        files=("binlog.000001",),
        sent=lambda number: everything if number is None else filtered[number],
        stand_in_bytes=np.full(n, stand_in, np.int64),
        stand_in_events=3 if stand_in else 0,
        stand_ins_joined=joined,
        nbytes=sum(sizes),
    )


def group_of(routes: Sequence[Route], delay: int = 0, *, shared: bool = False) -> Group:
    """Return a group of one node, ``web``, that reads each route over a link of its own, or all over one (``shared``).

    ``delay`` is the delay that the routes do not contain, microseconds.
    """
    key = FilterKey(())
    names = ["s0" if shared else f"s{k}" for k in range(len(routes))]
    channels = [
        Channel(
            name,
            route.origin,
            (Leg(name, "web", PLAIN, True, Sender.FILES, key, key, Retries()),),
            key,
        )
        for name, route in zip(names, routes, strict=True)
    ]
    setting = Setting(variant=Variant.MASTER)
    return Group(setting, tuple(routes), (PlannedNode("web", tuple(channels)),), delay)


def outcome_of(
    routes: Sequence[Route], schedules: Mapping[str, Schedule], *, limit: int, shared: bool = False
) -> Outcome:
    """Return the figures of a node with these routes."""
    group = group_of(routes, shared=shared)
    (outcome,) = outcomes_of([group], flows_of(routes, schedules), limit=limit)
    return outcome


def flows_of(routes: Sequence[Route], schedules: Mapping[str, Schedule]) -> list[Flow]:
    """Simulate each of the routes, and return its arrivals and bytes."""
    return [travel([route], schedules[route.origin])[0] for route in routes]
