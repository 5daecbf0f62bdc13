from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from dumpfilter.base.errors import OptionError
from dumpfilter.simulation.flow import Hop, window_of
from dumpfilter.simulation.plan import Plan, SetTraffic, plan_topology
from dumpfilter.simulation.results import Found, Results, Setting, Variant
from dumpfilter.simulation.simulate import (
    Options,
    Search,
    simulate,
)
from dumpfilter.topology import parse_string
from tests.simulation.sets import SECOND, traffic


@pytest.fixture(scope="module")
def given() -> SetTraffic:
    """300 transactions in 30 seconds, of which the first filter sends half and the second one a tenth."""
    random = np.random.default_rng(5)
    times = np.sort(random.integers(0, 30 * SECOND, 300)).tolist()
    sizes = random.integers(500, 5000, 300).tolist()
    return traffic(times, sizes, [range(0, 300, 2), range(0, 300, 10)], stand_in=60)


@pytest.fixture(scope="module")
def plan() -> Plan:
    """A chain of two slaves, whose filters are those of ``given``."""
    return plan_topology(
        parse_string("m >> web[do-db=a, rate=300kbit] >> tail[do-db=b, rate=200kbit, delay=50ms]")
    )


def _results(plan: Plan, given: SetTraffic, *settings: Setting, **options: Any) -> Results:
    return simulate(plan, {plan.origins[0]: given}, Options(tuple(settings), **options))


def test_each_variant_sends_its_bytes(plan: Plan, given: SetTraffic) -> None:
    results = _results(
        plan, given, *(Setting(variant=v) for v in (Variant.NONE, Variant.SLAVE, Variant.MASTER))
    )
    none, slave, master = results.runs
    assert [link.bytes for link in none.links] == [given.nbytes] * 2
    assert none.nodes == slave.nodes
    assert [link.bytes for link in master.links] == [
        int(given.sent(number).bytes.sum()) for number in range(2)
    ]
    assert [node.transactions for node in master.nodes] == [150, 30]
    assert master.nodes[0].lag.worst < none.nodes[0].lag.worst


def test_a_filter_on_the_slave_saves_time_to_apply(plan: Plan, given: SetTraffic) -> None:
    settings = [Setting(variant=variant) for variant in (Variant.NONE, Variant.SLAVE)]
    none, slave = _results(plan, given, *settings, applier=Hop(100_000)).runs
    assert slave.nodes[0].lag.worst < none.nodes[0].lag.worst
    assert none.basis.value == "applied"


def test_an_outage_inside_another_one_does_not_take_its_figures(given: SetTraffic) -> None:
    plan = plan_topology(parse_string("m >> web[do-db=a, down=5s-9s, down=7s-8s, down=25s-]"))
    (run,) = _results(plan, given, Setting(variant=Variant.NONE)).runs
    first, last = run.links[0].outages
    assert (first.start, first.end) == (5 * SECOND, 9 * SECOND)
    assert first.catch_up is None, "it cannot catch up for good: the link goes down for ever"
    assert (last.start, last.end, last.catch_up) == (25 * SECOND, None, None)


def test_outages_that_overlap_are_one_as_on_a_link(given: SetTraffic) -> None:
    """The link was up for a simulation when the first of two outages ended."""
    figures = []
    for downs in ("down=5s-9s, down=7s-12s, down=12s-13s", "down=5s-13s"):
        plan = plan_topology(parse_string(f"m >> web[do-db=a, {downs}]"))
        figures.append(_results(plan, given, Setting(variant=Variant.NONE)).runs[0].links)
    assert figures[0] == figures[1]


def _is_good(plan: Plan, given: SetTraffic, found: Found, value: int, limit: int) -> bool:
    changed: dict[str, Any] = {found.what: value}
    setting = Setting(variant=found.variant, load=found.load, link=found.link, **changed)
    run = _results(plan, given, setting, limit=limit).runs[0]
    return next(node.lag.worst for node in run.nodes if node.name == found.node) <= limit


@pytest.mark.parametrize("link", [None, "m:web"])
@pytest.mark.parametrize("what", ["rate", "delay"])
def test_a_search_finds_the_limit_of_a_link(
    plan: Plan, given: SetTraffic, what: str, link: str | None
) -> None:
    limit = 4 * SECOND
    search = Search(what, Setting(variant=Variant.MASTER, link=link))
    results = simulate(plan, {plan.origins[0]: given}, Options((), limit, searches=(search,)))
    assert [one.node for one in results.found] == ["web", "tail"]
    for found in results.found:
        assert found.value is not None
        assert found.worst is not None
        assert found.worst <= limit
        assert _is_good(plan, given, found, found.value, limit)
        worse = int(found.value * (0.98 if what == "rate" else 1.02))
        assert not _is_good(plan, given, found, worse, limit)


def test_a_setting_of_one_link_leaves_the_others(plan: Plan, given: SetTraffic) -> None:
    changed = Setting(
        variant=Variant.MASTER, link=plan.nodes[1].channels[0].legs[-1].link, rate=250_000, delay=7_000
    )
    (run,) = _results(plan, given, changed).runs
    assert [(link.rate, link.delay) for link in run.links] == [(300_000, 0), (250_000, 7_000)]


@pytest.mark.parametrize("load", [1e-9, 1e-6, 1e-3])
def test_commits_of_many_years_are_refused(load: float, plan: Plan) -> None:
    """Their times do not fit into 64 bits. A binlog can begin in 1970, and a load can be small."""
    since_1970 = traffic([SECOND, 1_700_000_000 * SECOND], [100, 100], [[0], [1]])
    with pytest.raises(OptionError, match=f"load × {load:g}: the commits would take over 146 years"):
        _results(plan, since_1970, Setting(variant=Variant.MASTER, load=load))
    (run,) = _results(plan, since_1970, Setting(variant=Variant.MASTER, load=0.5)).runs
    assert [node.missing for node in run.nodes] == [0, 0]


def test_a_search_tells_that_no_rate_is_enough(plan: Plan, given: SetTraffic) -> None:
    search = Search("rate", Setting(variant=Variant.MASTER))
    (web, tail) = simulate(plan, {plan.origins[0]: given}, Options((), 60_000, searches=(search,))).found
    assert web.value is not None
    assert tail.value is None, "its delay of 50 ms and the look of 20 ms are more"


def test_all_ways_to_run_give_the_same_results(plan: Plan, given: SetTraffic) -> None:
    settings = tuple(Setting(variant=variant, load=load) for variant in Variant for load in (1.0, 2.5))
    options = Options(settings, searches=(Search("rate", Setting(variant=Variant.MASTER)),))
    alone = simulate(plan, {plan.origins[0]: given}, options)
    with ThreadPoolExecutor(3) as pool:
        together = simulate(
            plan,
            {plan.origins[0]: given},
            options,
            lambda function, items: list(pool.map(function, items)),
        )
    assert alone == together


def test_equal_slaves_are_computed_once() -> None:
    given = traffic([0, SECOND], [1000, 2000])
    plan = plan_topology(parse_string("m >> a[rate=1mbit] ; m >> b[rate=1mbit] ; m >> c[rate=2mbit]"))
    asked: list[int] = []

    def run(function: Any, items: Any) -> list[Any]:
        asked.append(len(items))
        return [function(item) for item in items]

    results = simulate(plan, {plan.origins[0]: given}, Options(), run)
    assert asked == [1, 1], "two groups that are computed together, and one run"
    assert [(node.name, node.count, node.members) for node in results.runs[0].nodes] == [
        ("a", 2, ("a", "b")),
        ("c", 1, ()),
    ]


def test_an_outage_is_told_with_the_time_to_catch_up(given: SetTraffic) -> None:
    plan = plan_topology(parse_string("m >> a[rate=2mbit, down=10s-15s]"))
    (run,) = _results(plan, given, Setting(variant=Variant.NONE)).runs
    (outage,) = run.links[0].outages
    assert (outage.start, outage.end) == (10 * SECOND, 15 * SECOND)
    assert outage.catch_up is not None
    assert 0 < outage.catch_up < 5 * SECOND
    assert run.nodes[0].lag.worst > 5 * SECOND
    forever = plan_topology(parse_string("m >> a[down=10s-]"))
    (run,) = _results(forever, given, Setting(variant=Variant.NONE)).runs
    assert run.nodes[0].missing + run.nodes[0].transactions == len(given)
    assert run.links[0].outages[0].catch_up is None


@pytest.mark.parametrize("duration", [0, 1, 999, 60_000_000, 86_400_000_000, 10**14])
def test_a_series_has_enough_points_and_not_too_many(duration: int) -> None:
    window = window_of(duration)
    assert window.count <= 400
    assert window.width * (window.count - 1) <= duration < window.width * window.count
