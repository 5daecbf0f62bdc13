from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dumpfilter.dump.stream.pace import message_size
from dumpfilter.simulation._hop import BLOCK, EXACT, LANES, Dropped, Parameters, message_after
from dumpfilter.simulation.flow import (
    GAP_BYTES,
    NEVER,
    Content,
    Departing,
    Down,
    Hop,
    Received,
    cross,
    cross_together,
    nanoseconds_of_a_byte,
    room_for,
    times_of,
)
from dumpfilter.simulation.lag import percentiles_of
from dumpfilter.simulation.plan import Sender
from tests.simulation.reference import receive_times

RATES = st.one_of(st.none(), st.integers(1_000, 10**12), st.sampled_from([512_000, 999_983, 10**9]))
SIZES = st.integers(1, 1 << 34)


@st.composite
def outages(draw: st.DrawFn) -> tuple[Down, ...]:
    times = draw(st.lists(st.integers(0, 10**10), max_size=6, unique=True))
    times = sorted(times)[: len(times) // 2 * 2]
    return tuple(
        Down(start, end, end + draw(st.integers(0, 10**9)))
        for start, end in zip(times[::2], times[1::2], strict=True)
    )


@st.composite
def traffic(draw: st.DrawFn, sizes: st.SearchStrategy[int] = SIZES) -> tuple[list[int], list[int]]:
    gaps = draw(st.lists(st.one_of(st.just(0), st.integers(0, 10**9)), max_size=30))
    return np.cumsum(gaps, dtype=np.int64).tolist(), draw(
        st.lists(sizes, min_size=len(gaps), max_size=len(gaps))
    )


HOPS = st.builds(
    Hop,
    rate=RATES,
    delay=st.integers(0, 10**9),
    downs=outages(),
    message=st.sampled_from([0, 1000, 1 << 18]),
    message_overhead=st.sampled_from([0, 150]),
    ahead=st.sampled_from([0, 5000, 1 << 20]),
    fixed=st.sampled_from([0, 7]),
    **dict.fromkeys(("jitter", "seed", "most_message", "sender"), st.just(0)),
)


def _received(arrived: list[int], sizes: list[int], hop: Hop, dropped: Dropped | None = None) -> list[int]:
    crossed = cross(np.array(arrived, np.int64), np.array(sizes, np.int64), hop, dropped)
    found: list[int] = crossed.received.tolist()
    return found


@given(traffic(st.integers(1, 10**6)), HOPS)
def test_a_hop_is_as_an_event_by_event_simulation_has_it(
    given: tuple[list[int], list[int]], hop: Hop
) -> None:
    assert _received(*given, hop) == receive_times(*given, hop)


@given(traffic(st.integers(1, 10**6)), HOPS, st.data())
def test_reports_about_dropped_transactions_use_the_link(
    given: tuple[list[int], list[int]], hop: Hop, data: st.DataObject
) -> None:
    times = np.array(given[0], np.int64)
    told, empty, ago, span = (
        np.array(
            data.draw(
                st.lists(
                    st.tuples(
                        st.sampled_from([0, 47]),
                        st.integers(0, 3),
                        st.integers(0, 10**9),
                        st.integers(0, 10**9),
                    ),
                    min_size=len(times),
                    max_size=len(times),
                )
            ),
            np.int64,
        )
        .reshape(-1, 4)
        .T.copy()
    )
    dropped = Dropped(told, empty, times - ago - span, times - ago, data.draw(st.sampled_from([0, 128])))
    assert _received(*given, hop, dropped) == receive_times(*given, hop, dropped)


@st.composite
def departing(draw: st.DrawFn) -> Departing:
    arrived, size = (np.array(one, np.int64) for one in draw(traffic(st.integers(1, 10**6))))
    # Reports begin up to 2 s before, and no time is negative.
    arrived += 2 * 10**9
    n = len(arrived)
    given = st.lists(
        st.tuples(st.sampled_from([0, 47]), st.integers(0, 3), st.integers(0, 10**9), st.integers(0, 10**9)),
        min_size=n,
        max_size=n,
    )
    told, empty, ago, span = np.array(draw(given), np.int64).reshape(-1, 4).T.copy()
    dropped = Dropped(told, empty, arrived - ago - span, arrived - ago, draw(st.sampled_from([0, 128])))
    before, room = np.append(0, np.cumsum(size)), room_for(size, 0)
    return Departing(
        Content(np.arange(n), size, None), arrived // 1000, arrived, arrived, dropped, before, room
    )


@given(departing(), HOPS, st.lists(RATES, min_size=2, max_size=LANES))
def test_links_that_are_simulated_together_are_as_each_is_alone(
    given: Departing, hop: Hop, rates: list[int | None]
) -> None:
    hops = [hop._replace(rate=rate, delay=0, fixed=0, downs=()) for rate in rates]
    given = given._replace(room=room_for(given.content.bytes, hop.ahead))
    together = cross_together(given, hops[0], rates)
    alone = [cross(given.seen, given.content.bytes, one, given.dropped) for one in hops]
    assert all(one.came.tolist() == (-(-one.received // 1000)).tolist() for one in alone)
    for received, one in zip(together, alone, strict=True):
        if received is None:
            # A number may be too large for a float, or a lag for 32 bits.
            largest = max(given.content.bytes.tolist(), default=0)
            largest += GAP_BYTES + hop.message_overhead * (1 + largest // max(hop.message, 1))
            numerators, denominators = zip(*map(nanoseconds_of_a_byte, rates), strict=True)
            is_exact = largest * max(numerators) + max(denominators) < EXACT
            assert not is_exact or not len(given.seen) or min(rate or EXACT for rate in rates) < 10**6
        else:
            lags = one.came - given.committed
            percentiles = (*percentiles_of(lags[np.newaxis])[0], lags.max())
            expected = lags.tolist(), one.messages, one.told, percentiles
            assert (received[0].tolist(), *received[1:]) == expected


@pytest.mark.parametrize("message", [0, 2048, 1 << 20])
@pytest.mark.parametrize("ahead", [0, 20_000])
def test_many_transactions_on_links_that_are_simulated_together(message: int, ahead: int) -> None:
    # Messages with more transactions than a block, and more blocks than the ring of departures holds.
    chance = np.random.default_rng(message + ahead)
    arrived, size = np.sort(chance.integers(0, 10**9, 20 * BLOCK)), chance.integers(100, 300, 20 * BLOCK)
    arrived = np.sort(np.append(arrived, np.repeat(arrived[:: 7 * BLOCK], 5 * BLOCK))[: len(size)])
    told, none = np.where(chance.random(len(size)) < 0.5, 47, 0), np.zeros(len(size), np.int64)
    dropped = Dropped(told, chance.integers(0, 2, len(size)), arrived - 5, arrived, 128)
    given = Departing(
        Content(none, size, None), arrived // 1000, arrived, arrived, dropped, none, room_for(size, ahead)
    )
    rates = [None, 10**6, 999_983, 10**7, 10**9]
    hop = Hop(message=message, message_overhead=93, ahead=ahead)
    for received, rate in zip(cross_together(given, hop, rates), rates, strict=True):
        one = cross(arrived, size, hop._replace(rate=rate), dropped)
        assert received is not None
        assert np.array_equal(received[0], one.came - arrived // 1000)
        assert received[1:3] == (one.messages, one.told)


def _together(size: npt.NDArray[np.int64], hop: Hop, rates: list[int | None]) -> list[Received | None]:
    none = np.zeros(len(size), np.int64)
    dropped = Dropped(none, none, none, none)
    content, room = Content(none, size, None), room_for(size, hop.ahead)
    return cross_together(Departing(content, none, none, none, dropped, none, room), hop, rates)


@pytest.mark.parametrize("hop", [Hop(delay=1000), Hop(jitter=1000), Hop(downs=(Down(0, 1, 1),))])
def test_links_with_a_delay_or_outages_are_simulated_one_by_one(hop: Hop) -> None:
    assert _together(np.full(9, 100), hop, [10**6, 10**7]) == [None, None]


def test_a_message_of_many_equal_transactions_on_links_that_are_simulated_together() -> None:
    size, hop, rates = np.full(30_000, 55), Hop(message=1 << 20, ahead=20_000), [10**6, 10**7]
    for received, rate in zip(_together(size, hop, [*rates]), rates, strict=True):
        one = cross(np.zeros(len(size), np.int64), size, hop._replace(rate=rate))
        assert received is not None
        assert np.array_equal(received[0], one.came)


def test_the_overhead_of_all_messages_of_a_transaction_counts_for_the_largest_number() -> None:
    # A byte takes 8 * 10**9 / 999,983 ns, and fewer than EXACT // (8 * 10**9) bytes are exact.
    rates: list[int | None] = [999_983, None]
    size, hop = np.array([EXACT // (8 * 10**9) * 9 // 10]), Hop(message=1000)
    assert None not in _together(size, hop, rates)
    assert _together(size, hop._replace(message_overhead=150), rates) == [None, None]


@given(traffic(), RATES)
def test_a_link_is_lindleys_recursion_as_a_cumulative_maximum(
    given: tuple[list[int], list[int]], rate: int | None
) -> None:
    hop = Hop(rate)
    arrived, sizes = (np.array(column, np.int64) for column in given)
    needed = times_of(sizes, hop)
    total = np.cumsum(needed)
    departed = total + np.maximum.accumulate(arrived - (total - needed)) if len(total) else total
    assert cross(arrived, sizes, hop).departed.tolist() == departed.tolist()


@given(traffic(), HOPS, st.integers(0, 10**8), st.integers(0, 1 << 30))
def test_nothing_overtakes_and_the_seed_alone_decides_the_jitter(
    given: tuple[list[int], list[int]], hop: Hop, jitter: int, seed: int
) -> None:
    shaken = hop._replace(jitter=jitter, seed=seed)
    arrived, sizes = (np.array(column, np.int64) for column in given)
    once, again = cross(arrived, sizes, shaken), cross(arrived, sizes, shaken)
    assert once.received.tolist() == again.received.tolist()
    assert (np.diff(once.received) >= 0).all()
    assert (once.received >= once.departed).all()
    assert (once.departed >= arrived).all()
    if not hop.downs:
        calm = cross(arrived, sizes, hop)
        assert once.departed.tolist() == calm.departed.tolist()
        assert (np.abs(once.received - calm.received) <= jitter).all()


def test_different_seeds_have_different_jitter() -> None:
    arrived, sizes = np.arange(100) * 10**9, np.full(100, 100)
    first, second = (
        cross(arrived, sizes, Hop(delay=10**6, jitter=10**5, seed=seed)).received for seed in (1, 2)
    )
    assert (first != second).any()
    spread = first - arrived - 10**6
    assert spread.min() < -(10**5) // 2
    assert spread.max() > 10**5 // 2


def test_a_message_is_received_as_a_whole() -> None:
    # The first transaction fills the buffers for 8 ms. The three others then wait, and go in one message.
    hop = Hop(rate=1_000_000, message=1 << 18, ahead=1)
    assert _received([0, 10, 20, 30], [1000] * 4, hop) == [8_000_000] + [32_000_000] * 3
    assert _received([0, 10, 20, 30], [1000] * 4, Hop(rate=1_000_000)) == [
        8_000_000 * k for k in (1, 2, 3, 4)
    ]


def test_what_is_under_way_when_a_link_is_cut_is_sent_again() -> None:
    hop = Hop(rate=8_000_000, delay=10_000_000, downs=(Down(15_000_000, 50_000_000, 60_000_000),))
    # 1000 bytes take a millisecond. The first arrives at 11 ms, and the second would at 16 ms.
    crossed = cross(np.array([0, 5_000_000]), np.array([1000, 1000]), hop)
    assert crossed.received.tolist() == [11_000_000, 71_000_000]


def test_a_master_of_files_sends_what_an_outage_lost_as_it_found_it() -> None:
    downs = (Down(1_000_000, 2_000_000, 10_000_000),)
    for sender, expected in ((Sender.FILES, [11, 12, 14, 14]), (Sender.RECEIVER, [14] * 4)):
        hop = Hop(rate=8_000_000, message=5000, sender=sender, downs=downs)
        # The first two were found before the outage, and the other two in it.
        received = _received([300_000, 700_000, 1_500_000, 1_800_000], [1000] * 4, hop)
        assert received == [time * 1_000_000 for time in expected]


def test_an_outage_loses_one_message_of_a_large_transaction() -> None:
    hop = Hop(rate=8_000_000, message=1000, downs=(Down(5_500_000, 6_000_000, 7_000_000),))
    # 1000 bytes take a millisecond. Five messages have arrived before the outage.
    crossed = cross(np.array([0]), np.array([10_000]), hop)
    assert crossed.received.tolist() == [12_000_000]


def test_more_than_nine_gigabytes_before_an_outage_let_messages_grow() -> None:
    # 10 GB in 100 s are 100 MB a second, of which a quarter of a second fills a message of 1 MiB.
    def messages(sizes: list[int]) -> int:
        downs = (Down(100 * 10**9, 101 * 10**9, 102 * 10**9),)
        hop = Hop(downs=downs, message=2048, most_message=1 << 20)
        arrived = [0, *[110 * 10**9] * 100]
        return cross(np.array(arrived), np.array([*sizes, *[10_000] * 100]), hop).messages

    large, small = messages([10_000_000_000]), messages([9_000_000_000])
    assert large + -10_000_000_000 // 2048 == small + -9_000_000_000 // 2048 == 1


def test_a_large_transaction_does_not_hold_up_a_small_one() -> None:
    hop = Hop(rate=8_000_000, message=4000)
    assert _received([0, 0, 0], [1000, 10_000, 1000], hop) == [1_000_000, 11_000_000, 12_000_000]


def test_a_transaction_that_fits_into_a_message_arrives_with_it() -> None:
    hop = Hop(rate=8_000_000, message=4000)
    assert _received([0, 0, 0], [1000, 6000, 1000], hop) == [7_000_000, 7_000_000, 8_000_000]


@given(st.integers(0, 1 << 40), st.integers(0, 10**12), st.sampled_from([0, 512, 2048, 16_384, 1 << 20]))
def test_the_message_size_after_an_outage_is_that_of_the_master(carried: int, time: int, most: int) -> None:
    smallest = min(most, 2048)
    hop = Parameters(0, 1, 0, 0, 0, smallest, 0, 0, most)
    expected = max(smallest, message_size(carried * 1e9 / max(time, 1), most))
    assert message_after(carried, time, hop) == expected


def test_each_part_of_a_long_message_has_its_own_delay() -> None:
    """A message on the wire for 10 s arrives with one of its last and longest delays."""
    hop = Hop(8000, delay=10**9, jitter=10**9)
    times = [
        cross(np.array([0]), np.array([10_000]), hop._replace(seed=seed)).received[0] for seed in range(20)
    ]
    assert 11 * 10**9 < min(times) < max(times) <= 12 * 10**9


def test_nothing_comes_over_a_link_that_stays_down() -> None:
    hop = Hop(downs=(Down(5, NEVER, NEVER),))
    received = cross(np.array([0, 10]), np.array([1, 1]), hop).received
    assert received[0] == 0
    assert received[1] >= NEVER


@pytest.mark.parametrize("rate", [64_000, 1_000_000_000, 999_999_999_989])
def test_the_rounding_of_a_transactions_time_is_small(rate: int) -> None:
    size = 1 << 30
    assert abs(int(times_of(np.array([size]), Hop(rate))[0]) - size * 8 * 10**9 / rate) <= max(
        1, size * 8 / rate
    )
