from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dumpfilter.simulation.flow import (
    GAP_BYTES,
    NEVER,
    PACKET_BYTES,
    Down,
    Form,
    Hop,
    Polls,
    Route,
    Schedule,
    content,
    cross,
    curves_of,
    dropped_before,
)
from dumpfilter.simulation.lag import Window
from dumpfilter.simulation.plan import Sender
from tests.simulation.sets import SECOND, flows_of, group_of, outcome_of, traffic

MILLISECOND = 1_000_000
"""The nanoseconds of a millisecond."""
KILOBYTE_IN_8_MS = 1_000_000
"""A rate at which 1000 bytes take 8 ms."""


def test_the_forms_in_which_transactions_cross_a_link() -> None:
    given = traffic([0, 1, 2, 3, 4], [100, 200, 300, 400, 500], [[1, 4]], stand_in=50)
    assert content(given, Form.EVENTS, None).bytes.tolist() == [100, 200, 300, 400, 500]
    assert content(given, Form.EVENTS, 0).transaction.tolist() == [1, 4]
    assert content(given, Form.PACKETS, 0).bytes.tolist() == [200 + 2 * PACKET_BYTES, 500 + 2 * PACKET_BYTES]
    with_stand_ins = content(given, Form.STAND_INS, 0)
    stand_in = 50 + 3 * PACKET_BYTES
    assert with_stand_ins.bytes.tolist() == [stand_in, 210, stand_in, stand_in, 510]
    assert with_stand_ins.counts is not None
    assert with_stand_ins.counts.tolist() == [False, True, False, False, True]
    joined = content(traffic([0] * 5, [100] * 5, [[1, 4]], stand_in=50, joined=True), Form.STAND_INS, 0)
    assert joined.transaction.tolist() == [0, 1, 3, 4]


def test_one_stand_in_serves_dropped_transactions_that_the_master_sees_together() -> None:
    """MariaDB's stand-ins for a live source: one for each dropped commit, and one for those of an outage."""
    given = traffic([second * SECOND for second in range(8)], [100] * 8, [[0, 7]], stand_in=50, joined=True)
    for downs, expected in (((), 8), ((Down(1_500_000_000, 4_000_000_000, 4_500_000_000),), 6)):
        hop = Hop(KILOBYTE_IN_8_MS, downs=downs, sender=Sender.RECEIVER, form=Form.STAND_INS, filter=0)
        departing, _ = Schedule(given).passed((hop,))
        assert len(departing.content.transaction) == expected


def test_stand_ins_that_an_outage_lost_on_their_way_are_made_again_together() -> None:
    given = traffic([0, SECOND, 2 * SECOND, 9 * SECOND], [100] * 4, [[3]], stand_in=50, joined=True)
    # The stand-ins for the transactions at 1 and 2 s are under way for 1.5 s when the link goes down.
    down = Down(2_200_000_000, 4_000_000_000, 5_000_000_000)
    for delay, expected in ((0, [0, 1, 2, 3]), (1_500_000_000, [0, 2, 3])):
        hop = Hop(delay=delay, downs=(down,), sender=Sender.RECEIVER, form=Form.STAND_INS, filter=0)
        assert Schedule(given).departing((hop,)).content.transaction.tolist() == expected


def test_a_slave_makes_the_stand_ins_of_what_its_master_dropped() -> None:
    given = replace(traffic([0] * 3, [100] * 3, [[0, 1], [0]], stand_in=52), gap_stand_in_bytes=50)
    way = (Hop(filter=0), Hop(sender=Sender.SLAVE, form=Form.STAND_INS, filter=1))
    assert Schedule(given).departing(way).content.bytes.tolist() == [110, 52 + 15, 50 + 15]


def test_a_link_over_which_no_transaction_comes_has_the_bytes_of_other_events() -> None:
    given = traffic([0], [1000], [[]], stand_in=50)
    empty = given.sent(0)._replace(outside=(183, 2))
    given = replace(given, sent=lambda number: empty)
    for form, expected in ((Form.EVENTS, 183), (Form.PACKETS, 193), (Form.STAND_INS, 193 + 65)):
        outcome = outcome_of([Route("m", (Hop(form=form, filter=0),))], {"m": Schedule(given)}, limit=0)
        assert (outcome.links[0].bytes, outcome.links[0].transactions) == (expected, 0)


def test_a_receiving_master_reports_dropped_commits_together() -> None:
    """At most 20 ms after the first of them, with the next one that is sent, or in the second half of this time."""
    given = traffic([0, 5_000, 8_000, 30_000, 42_000, 80_000, 99_000, 200_000], [10] * 8, [[2]])
    way = Hop(64_000_000_000, message=4096, sender=Sender.RECEIVER, filter=0)
    reported = Schedule(given)._seen((), way.sender, 0) // MILLISECOND
    assert reported.tolist() == [8, 8, 8, 42, 42, 99, 99, 220]


def test_a_transaction_counts_once_and_stand_ins_do_not_count() -> None:
    given = traffic([0, SECOND, 2 * SECOND], [1000] * 3, [[1]], stand_in=50)
    route = Route("m", (Hop(KILOBYTE_IN_8_MS, form=Form.STAND_INS, filter=0),))
    outcome = outcome_of([route], {"m": Schedule(given)}, limit=SECOND)
    assert outcome.nodes[0].transactions == 1
    assert outcome.nodes[0].lag.worst == 8 * (1000 + 2 * PACKET_BYTES)
    assert outcome.links[0].bytes == 1010 + 2 * (50 + 3 * PACKET_BYTES)


def test_a_chain_passes_on_what_has_arrived() -> None:
    given = traffic([0, 0], [1000, 1000], [[0, 1], [1]])
    first = Hop(KILOBYTE_IN_8_MS, delay=5 * MILLISECOND, filter=0)
    second = Hop(2 * KILOBYTE_IN_8_MS, filter=1)
    outcome = outcome_of([Route("m", (first, second))], {"m": Schedule(given)}, limit=0)
    assert outcome.nodes[0].transactions == 1
    # The second link also tells that the first transaction was dropped.
    assert outcome.nodes[0].lag.worst == (8 + 8 + 5 + 4) * 1000 + GAP_BYTES * 4
    assert outcome.links[0].bytes == 1000, "a node counts the bytes of its own link"


def test_what_a_replica_was_not_sent_reaches_it_with_the_transaction_before() -> None:
    """A dropped transaction without a GTID has no stand-in."""
    given = traffic([0, SECOND, 2 * SECOND, 3 * SECOND], [10] * 4, [[1, 3]], stand_in=50)
    given = replace(given, stand_in_bytes=np.zeros(4, np.int64))
    hop = Hop(sender=Sender.FILES, form=Form.STAND_INS, filter=0)
    assert Schedule(given).reached((hop,)).tolist() == [-1, 10**9, 10**9, 3 * 10**9]


def test_what_never_arrives_is_missing_at_all_nodes_behind() -> None:
    given = {"m": Schedule(traffic([0, SECOND, 4 * SECOND], [1000] * 3))}
    down = Hop(downs=(Down(SECOND * 1000 // 2, NEVER, NEVER),))
    routes = [Route("m", (down, Hop()))]
    outcome = outcome_of(routes, given, limit=SECOND)
    assert (outcome.nodes[0].transactions, outcome.nodes[0].missing) == (1, 2)
    assert outcome.links[0].bytes == 1000
    # The second transaction is missing from its commit to the last commit.
    assert (outcome.nodes[0].lag.worst, outcome.nodes[0].lag.above) == (3 * SECOND, 2 * SECOND)
    assert outcome.duration == 4 * SECOND
    curves = curves_of([(group_of(routes), flows_of(routes, given))], Window(SECOND, 5))
    assert curves.lag == {"web": (0, SECOND, 2 * SECOND, 3 * SECOND, 0)}


def test_a_node_whose_link_never_comes_up_is_behind_by_all_its_transactions() -> None:
    given = {"m": Schedule(traffic([0, SECOND, 4 * SECOND], [1000] * 3))}
    down = Hop(downs=(Down(0, NEVER, NEVER),))
    (node,) = outcome_of([Route("m", (down,))], given, limit=SECOND).nodes
    assert (node.transactions, node.missing) == (0, 3)
    assert (node.lag.p50, node.lag.worst, node.lag.above) == (3 * SECOND, 4 * SECOND, 3 * SECOND)


def test_what_never_arrives_on_one_way_has_the_lag_of_the_other_way() -> None:
    given = {"m": Schedule(traffic([0, SECOND], [1000, 1000]))}
    down = Route("m", (Hop(downs=(Down(SECOND * 1000 // 2, NEVER, NEVER),)),))
    outcome = outcome_of([down, Route("m", (Hop(delay=5 * SECOND * 1000),))], given, limit=0)
    assert (outcome.nodes[0].transactions, outcome.nodes[0].missing) == (2, 0)
    assert outcome.nodes[0].lag.worst == 5 * SECOND


def test_the_times_of_a_year_are_exact_at_a_load_with_many_digits() -> None:
    year = 365 * 86_400 * SECOND
    given = traffic([0, year // 2, year], [1, 1, 1])
    committed = Schedule(given, 1.234567).committed.tolist()
    assert committed == [time * 1_000_000 // 1_234_567 for time in (0, year // 2, year)]


def test_a_small_load_is_no_standstill() -> None:
    assert Schedule(traffic([0, SECOND], [1, 1]), 1e-7).committed.tolist() == [0, 10_000_000 * SECOND]


def test_two_ways_to_an_origin_bring_a_transaction_once_as_soon_as_the_first_brings_it() -> None:
    given = traffic([0, 0], [1000, 1000], [[0], [0, 1]])
    fast = Route("m", (Hop(delay=MILLISECOND, filter=0),))
    slow = Route("m", (Hop(delay=9 * MILLISECOND, filter=1),))
    outcome = outcome_of([fast, slow], {"m": Schedule(given)}, limit=0)
    assert outcome.nodes[0].transactions == 2
    assert (outcome.nodes[0].lag.p50, outcome.nodes[0].lag.worst) == (1000, 9000)
    assert [node.lag.worst for node in outcome.nodes[1:]] == [1000, 9000]


def test_two_origins_of_one_source_share_a_link() -> None:
    given = {"m": Schedule(traffic([0, 10], [100, 100])), "n": Schedule(traffic([0], [1000]))}
    downs = (Down(5_000, 20_000, 30_000),)
    routes = [Route(name, (Hop(message=2048, downs=downs),)) for name in "mn"]
    outcome = outcome_of(routes, given, limit=0, shared=True)
    (link,) = outcome.links
    assert (link.bytes, link.transactions, link.messages, link.overhead) == (1200, 3, 3, 3 * 93)
    assert [outage.catch_up for outage in link.outages] == [10]
    assert [node.bytes for node in outcome.nodes] == [1200, 200, 1000]
    curves = curves_of([(group_of(routes, shared=True), flows_of(routes, given))], Window(1000, 1))
    assert curves.offered == curves.carried == {"s0:web": (1200,)}


def test_a_node_with_two_origins_is_above_the_limit_when_one_of_them_is() -> None:
    given = {"m": Schedule(traffic([0], [1])), "n": Schedule(traffic([0, 30_000], [1, 1]))}
    routes = [
        Route("m", (Hop(delay=20 * MILLISECOND),)),
        Route("n", (Hop(delay=15 * MILLISECOND),)),
    ]
    outcome = outcome_of(routes, given, limit=5_000)
    # From 5 to 20 ms for both origins, and from 35 to 45 ms for the second one.
    assert outcome.nodes[0].lag.above == 25_000
    assert outcome.nodes[0].transactions == 3


def test_applying_takes_its_time_and_only_for_what_passes() -> None:
    given = traffic([0, 0, 0], [1000] * 3, [[0, 2]])
    route = Route("m", (Hop(),), Hop(KILOBYTE_IN_8_MS, fixed=MILLISECOND, filter=0))
    outcome = outcome_of([route], {"m": Schedule(given)}, limit=0)
    assert (outcome.nodes[0].lag.p50, outcome.nodes[0].lag.worst, outcome.nodes[0].transactions) == (
        9000,
        18_000,
        3,
    )


@given(
    st.lists(st.integers(0, 3 * SECOND), min_size=1, max_size=20),
    st.sampled_from([0.5, 1.0, 2.0, 5.0]),
    st.booleans(),
)
def test_curves_have_all_bytes_and_the_worst_lag(gaps: list[int], load: float, messages: bool) -> None:
    given = traffic(np.cumsum(gaps).tolist(), [1000] * len(gaps))
    hop = Hop(20_000, delay=MILLISECOND, message=1 << 18 if messages else 0)
    route = Route("m", (hop,))
    schedules = {"m": Schedule(given, load)}
    outcome = outcome_of([route], schedules, limit=0)
    window = Window(SECOND, outcome.duration // SECOND + 1)
    curves = curves_of([(group_of([route]), flows_of([route], schedules))], window)
    carried = curves.carried["s0:web"]
    assert sum(curves.offered["s0:web"]) == sum(carried) == outcome.links[0].bytes
    assert max(curves.lag["web"]) == outcome.nodes[0].lag.worst
    # A second carries what the rate allows, and the transaction under way at its end.
    assert max(carried) <= 20_000 // 8 + 1


def test_curves_show_bytes_when_they_are_ready_and_when_they_leave() -> None:
    route, schedules = Route("m", (Hop(8000),)), {"m": Schedule(traffic([0, 2 * SECOND], [1000, 1000]))}
    # Each transaction takes a second.
    window = Window(SECOND // 2, 7)
    curves = curves_of([(group_of([route]), flows_of([route], schedules))], window)
    assert curves.offered["s0:web"] == (1000, 0, 0, 0, 1000, 0, 0)
    assert curves.carried["s0:web"] == (500, 500, 0, 0, 500, 500, 0)


def test_a_recording_that_is_there_at_once_has_no_times() -> None:
    assert Schedule(traffic([5, 9], [1, 1]), math.inf).committed.tolist() == [0, 0]
    assert Schedule(traffic([5, 9], [1, 1]), 0.5).committed.tolist() == [0, 8]


@pytest.mark.parametrize(
    ("interval", "received"), [(1_000_000_000, 10_025_000_000), (10_000_000, 175_000_000)]
)
def test_what_tells_of_dropped_transactions_is_sent_when_they_are_seen(interval: int, received: int) -> None:
    """A line of 8,000 bytes per second has 15 ms for each of 10 messages of 120 bytes, and 25 ms for the last one."""
    seen = np.arange(11, dtype=np.int64) * interval
    dropped = dropped_before(np.array([10]), Polls.of(seen), 120)
    hop = Hop(rate=64_000, message=4096, message_overhead=120)
    crossed = cross(seen[10:], np.array([80]), hop, dropped)
    assert crossed.received.tolist() == [received]
    assert crossed.told == 10 * 120


def test_a_transaction_waits_for_the_last_report_before_it() -> None:
    """The report of 15 ms begins 5 ms before the transaction of 25 ms is found."""
    seen = np.array([0, SECOND, SECOND + 5_000], np.int64) * 1000
    dropped = dropped_before(np.array([2]), Polls.of(seen), 120)
    hop = Hop(rate=64_000, message=4096, message_overhead=120)
    assert cross(seen[2:], np.array([80]), hop, dropped).received.tolist() == [1_040_000_000]


def test_the_third_tier_hears_of_what_was_dropped_for_the_second() -> None:
    """A chunk without events takes 16 ms on a line, and the transaction behind it 12.875 ms."""
    given = traffic([0, SECOND], [10, 10], [[1]])
    first = Hop(64_000, delay=5 * MILLISECOND, message=4096, sender=Sender.SLAVE, filter=0)
    schedule = Schedule(given)
    reached = schedule.reached((first,))
    assert reached.tolist() == [16 * MILLISECOND + 5 * MILLISECOND, 10**9 + 12_875_000 + 5 * MILLISECOND]
    outcome = outcome_of([Route("m", (first, first))], {"m": schedule}, limit=0)
    assert outcome.links[0].overhead == 2 * 93 + 35


def test_each_report_takes_its_time_from_when_it_is_made() -> None:
    given = traffic([0, SECOND, 2 * SECOND], [10] * 3, [[2]])
    hop = Hop(64_000, delay=5 * MILLISECOND, message=4096, sender=Sender.SLAVE, filter=0)
    first, second, _ = Schedule(given).reached((hop,)).tolist()
    assert (first, second) == (21 * MILLISECOND, 10**9 + 21 * MILLISECOND)


def test_dropped_transactions_after_the_last_sent_one_are_reported() -> None:
    hop = Hop(64_000, message=4096, sender=Sender.SLAVE, filter=0)
    for sent in ([], [0]):
        given = traffic([0, SECOND, 2 * SECOND], [10] * 3, [sent])
        outcome = outcome_of([Route("m", (hop,))], {"m": Schedule(given)}, limit=0)
        assert outcome.links[0].overhead == 3 * 93 + 35 * (3 - len(sent))


def test_a_transaction_that_is_dropped_beside_the_first_sent_one_is_known_with_it() -> None:
    first = Hop(64_000, delay=5 * MILLISECOND, message=4096, sender=Sender.SLAVE, filter=0)
    reached = Schedule(traffic([0, 0], [10, 10], [[1]])).reached((first,))
    assert reached[0] == reached[1] > first.delay


def test_messages_are_larger_after_an_outage_before_which_the_line_carried_much() -> None:
    arrived, sizes = np.array([0, 10**10]), np.array([100_000, 100_000])
    hop = Hop(80_000, message=2048, most_message=1 << 20, downs=(Down(9 * 10**9, 10**10, 10**10),))
    # The line carried 10,000 bytes per second, so that messages have 4 KiB. The rest of the first transaction is less.
    assert cross(arrived, sizes, hop).messages == 3 + -(-100_000 // 4096)
