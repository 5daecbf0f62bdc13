from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dumpfilter.base.errors import OptionError
from dumpfilter.simulation.retries import Retries, all_down, retries_of
from dumpfilter.topology import master, server, slave
from dumpfilter.topology.links.shape import LinkShape, Outage

TIMES = st.floats(0, 1000)


@given(TIMES, TIMES, st.floats(0.01, 2), st.floats(0.01, 60), st.floats(0, 1))
def test_a_dump_goes_on_with_the_first_attempt_after_the_outage(
    start: float, length: float, first: float, longest: float, delay: float
) -> None:
    end = start + length
    retries = Retries(min(first, longest), longest, 3.0, 1000)
    again = retries.restart(start, end, LinkShape(16_000, delay)) - 6 * delay - 0.5
    assert end - 1e-6 <= again <= end + longest + 1e-6


def test_waits_double() -> None:
    retries = Retries(first=1, longest=8)
    # The attempts are at 1, 3, 7, 15, 23 … seconds.
    assert [retries.restart(0, end) for end in (0.5, 2, 6.5, 8, 16)] == [1, 3, 7, 15, 23]


def test_a_known_time_of_the_next_connection_replaces_the_waits() -> None:
    assert Retries(8, 8, 3.0, 1000).restart(0, 1, LinkShape(16_000, 0.1), connected=2.0) == 2.0 + 0.6 + 0.5


def test_the_option_of_a_node_sets_its_longest_wait() -> None:
    assert retries_of(slave("a", "m", options=["--connect-retry=8"])).longest == 6
    assert retries_of(slave("a", "m", options=["--connect_retry", "0.04"])) == Retries(0.03, 0.03)
    assert retries_of(server("a")).longest == 1
    assert retries_of(master("a", "db")).longest > 10


def test_a_wait_of_nothing_ends_with_the_outage() -> None:
    assert Retries(0, 0, 0.0, 0).restart(1, 5) == 5


def test_the_last_of_equal_options_counts_and_a_wrong_value_is_an_error_of_the_node() -> None:
    assert retries_of(slave("a", "m", options=["--connect-retry=8", "--connect-retry", "4"])).longest == 3
    for value in ("=soon", "=nan", "=-1", "=", ""):
        node = slave("a", "m", options=["--log-level=info", f"--connect-retry{value}"])
        with pytest.raises(
            OptionError, match=r"node a: options: --connect-retry=.*: give a number of 0 or more"
        ):
            retries_of(node)


def test_a_node_has_no_reader_while_all_are_down() -> None:
    retries = Retries(0.1, 0.1, 0.0, 0)
    one = LinkShape(outages=(Outage(1, 5), Outage(10, 12)))
    other = LinkShape(outages=(Outage(2, 9, connected=9.5), Outage(11, None)))
    assert all_down([(one, retries)]) == ((1, 5), (10, 12))
    assert all_down([(one, retries), (other, retries)]) == ((2, 5),)
    assert all_down([(one, retries), (LinkShape(), retries)]) == ()
