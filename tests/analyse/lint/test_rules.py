"""The bounded search for the name that a rule misspells finds what difflib's ratio finds."""

from __future__ import annotations

import difflib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dumpfilter.analyse.lint.rules import closest, likeness_to

NAMES = st.text("ab_1", max_size=8)


@given(NAMES, st.lists(NAMES, max_size=4))
def test_likeness_is_the_ratio_where_names_are_alike(name: str, others: list[str]) -> None:
    likeness = likeness_to(name)
    for other in others * 2:
        ratio = difflib.SequenceMatcher(None, other, name).ratio()
        assert likeness(other) == (ratio if ratio >= 0.75 else 0.0)


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("shop.order", "shop.orders"),
        ("shpo.orders", "shop.orders"),
        ("hr.emp1", "hr.emp"),
        ("hr.orders", None),
        ("orders", None),
        ("x" * 100 + ".orders", None),
    ],
)
def test_each_side_of_a_dot_is_alike_by_itself(value: str, found: str | None) -> None:
    assert closest(value, ["shop.orders", "shop.ordinal", "hr.emp"]) == found
