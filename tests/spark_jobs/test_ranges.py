"""Groups of ranges: every range once and in order, in groups that become smaller towards the end."""

from __future__ import annotations

from itertools import accumulate, pairwise

from hypothesis import given
from hypothesis import strategies as st

from dumpfilter.spark_jobs.engines import Amount, ThreadRunner
from dumpfilter.spark_jobs.ranges import MOST_GROUPS, Range, amount_of, grouped


def ranges_of_sizes(sizes: list[int]) -> list[Range]:
    bounds = pairwise(accumulate(sizes, initial=0))
    return [Range("made", start, end, number) for number, (start, end) in enumerate(bounds)]


@given(st.lists(st.integers(1, 300), max_size=200), st.integers(1, 400), st.integers(1, 20))
def test_each_range_is_in_one_group(sizes: list[int], range_size: int, cores: int) -> None:
    ranges = ranges_of_sizes(sizes)
    groups = grouped(ranges, range_size, ThreadRunner(cores))
    assert [one for group in groups for one in group] == ranges
    assert all(groups)
    assert len(groups) <= MOST_GROUPS


def test_groups_become_smaller_towards_the_end() -> None:
    """Each core gets large groups first, and no group is more than a core's half of the rest."""
    ranges = ranges_of_sizes([10] * 400)
    lengths = [len(group) for group in grouped(ranges, 10, ThreadRunner(4))]
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[0] == 8
    assert lengths[-4:] == [1] * 4
    assert len(lengths) < 100


def test_a_set_that_is_small_for_its_cores_has_small_groups() -> None:
    ranges = ranges_of_sizes([10] * 16)
    assert grouped(ranges, 10, ThreadRunner(16)) == [(one,) for one in ranges]


def test_a_group_ends_with_the_range_by_which_it_has_the_asked_size() -> None:
    ranges = ranges_of_sizes([9] * 6)
    assert [len(group) for group in grouped(ranges, 10, ThreadRunner(16))] == [2, 2, 2]


def test_the_amount_is_the_size_of_all_ranges() -> None:
    assert amount_of(ranges_of_sizes([10, 20, 5])) == Amount("parts", 35)
