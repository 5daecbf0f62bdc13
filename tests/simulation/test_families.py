"""Nodes that are computed together have the figures that they have alone."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dumpfilter.analyse.traffic.facts import Ints
from dumpfilter.analyse.traffic.transactions import Sent
from dumpfilter.simulation import lag
from dumpfilter.simulation.flow import (
    MICROSECOND,
    Down,
    Form,
    Hop,
    Route,
    Schedule,
    outcomes_of,
    without_delay,
)
from dumpfilter.simulation.plan import Clock, SetTraffic
from tests.simulation.sets import flows_of, group_of, outcome_of


def _sent(numbers: list[int], sizes: list[int]) -> Sent:
    size = np.array([sizes[k] for k in numbers], np.int64)
    return Sent(np.array(numbers, np.int64), size, np.full(len(numbers), 3, np.int64))


@st.composite
def traffics(draw: st.DrawFn) -> SetTraffic:
    n = draw(st.integers(1, 25))
    time = np.cumsum(draw(st.lists(st.integers(0, 50_000), min_size=n, max_size=n)), dtype=np.int64)
    sizes = draw(st.lists(st.integers(1, 300_000), min_size=n, max_size=n))
    chosen = sorted(draw(st.sets(st.integers(0, n - 1))))
    everything, filtered = _sent(list(range(n)), sizes), _sent(chosen, sizes)
    none = np.zeros(n, np.int64)
    return SetTraffic(
        time,
        Clock.MICROSECONDS,
        none,
        none,
        ("a",),
        lambda number: everything if number is None else filtered,
        stand_in_bytes=np.full(n, 100, np.int64),
        stand_in_events=3,
    )


DELAYS = st.integers(0, 200_000).map(lambda delay: delay * MICROSECOND)
RATES = st.sampled_from([None, 999_983, 8_000_000, 10**9])


@st.composite
def hops(draw: st.DrawFn) -> Hop:
    plain = Hop(
        draw(RATES),
        draw(DELAYS),
        message=draw(st.sampled_from([0, 1 << 18])),
        message_overhead=150,
        form=draw(st.sampled_from([Form.EVENTS, Form.STAND_INS])),
        filter=draw(st.sampled_from([None, 0])),
    )
    jittery, cut = plain._replace(jitter=3_000_000), plain._replace(downs=(Down(10**7, 10**8, 2 * 10**8),))
    return draw(st.sampled_from([plain, plain, jittery, cut]))


@st.composite
def routes(draw: st.DrawFn) -> Route:
    return Route(
        "m",
        tuple(draw(st.lists(hops(), min_size=1, max_size=2))),
        draw(st.sampled_from([None, Hop(4_000_000, fixed=50_000)])),
    )


@given(traffics(), st.lists(st.lists(routes(), min_size=1, max_size=2), min_size=1, max_size=8), st.data())
def test_nodes_that_differ_in_a_delay_have_the_outcomes_that_each_has_alone(
    traffic: SetTraffic, nodes: list[list[Route]], data: st.DataObject
) -> None:
    limit = data.draw(st.integers(0, 400_000))
    # Copies that differ only in the delay of their last hop.
    for node in nodes[:4]:
        *before, last = node[-1].hops
        nodes.append([*node[:-1], node[-1]._replace(hops=(*before, last._replace(delay=data.draw(DELAYS))))])
    together: dict[tuple[Route, ...], list[tuple[int, int]]] = {}
    for number, each in enumerate(nodes):
        alike, delay = without_delay(tuple(each))
        together.setdefault(alike, []).append((number, delay))
    for alike, members in together.items():
        groups = [group_of(alike, delay) for _, delay in members]
        outcomes = outcomes_of(groups, flows_of(alike, {"m": Schedule(traffic)}), limit=limit)
        for (number, _), outcome in zip(members, outcomes, strict=True):
            assert outcome == outcome_of(nodes[number], {"m": Schedule(traffic)}, limit=limit)


def test_slaves_that_differ_in_their_delays_are_computed_together() -> None:
    nodes = [(Route("m", (Hop(10**6, delay * MICROSECOND, filter=0),)),) for delay in range(9)]
    assert {without_delay(each)[0] for each in nodes} == {nodes[0]}
    assert [without_delay(each)[1] for each in nodes] == list(range(9))


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 25)), min_size=1, max_size=30), st.data())
def test_times_above_many_limits_are_those_above_each(
    steps: list[tuple[int, int]], data: st.DataObject
) -> None:
    committed: Ints = np.cumsum([gap for gap, _ in steps], dtype=np.int64)
    lags = np.maximum.accumulate(committed + np.array([wait for _, wait in steps], np.int64)) - committed
    delays = data.draw(st.lists(st.integers(0, 40), min_size=1, max_size=6))
    limit = data.draw(st.integers(0, 30))
    found = lag.measure(committed, lags, delays, limit)
    assert [[one] for one in found] == [lag.measure(committed, lags + delay, (0,), limit) for delay in delays]
