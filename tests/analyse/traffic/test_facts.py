"""Conditions are compared, renumbered and evaluated as columns."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dumpfilter.analyse.traffic._group import ALWAYS, ANY, EXACTLY, ONE
from dumpfilter.analyse.traffic.facts import Conditions

SUBJECTS = 6
FILTERS = 70

Made = tuple[int, int, frozenset[int]]
"""A condition's kind, required subject and members."""


def _conditions(made: list[Made]) -> Conditions:
    return Conditions(
        np.array([kind for kind, _, _ in made], np.uint8),
        np.array([required for _, required, _ in made], np.int32),
        np.cumsum([0, *(len(members) for _, _, members in made)]).astype(np.int64),
        np.array([member for _, _, members in made for member in members], np.int32),
    )


SUBJECT = st.integers(0, SUBJECTS - 1)
CONDITION = st.one_of(
    st.just((ALWAYS, -1, frozenset())),
    st.tuples(st.just(ONE), st.just(-1), st.frozensets(SUBJECT, min_size=1, max_size=1)),
    st.tuples(st.just(ANY), st.just(-1) | SUBJECT, st.frozensets(SUBJECT, min_size=2)),
    st.just((ANY, -1, frozenset())),
    st.tuples(st.just(EXACTLY), st.just(-1), st.frozensets(st.integers(-1, FILTERS - 1))),
)
"""The conditions that a tally makes."""


@given(st.lists(CONDITION, max_size=12), st.permutations(range(SUBJECTS)))
def test_unified_conditions_are_the_different_ones(made: list[Made], numbers: list[int]) -> None:
    renamed = _conditions(made).expanded(np.arange(SUBJECTS + 1), np.array(numbers, np.int64))
    found, number = renamed.folded(np.arange(SUBJECTS))
    renumbered = [
        (
            kind,
            -1 if required < 0 else numbers[required],
            members if kind == EXACTLY else frozenset(numbers[member] for member in members),
        )
        for kind, required, members in made
    ]
    each = [
        (int(found.kind[c]), int(found.required[c]), frozenset(found.members(c).tolist()))
        for c in range(len(found))
    ]
    assert each == list(dict.fromkeys(renumbered))
    assert [each[c] for c in number.tolist()] == renumbered
    assert all(np.all(np.diff(found.members(c)) > 0) for c in range(len(found)))


@given(
    st.lists(CONDITION, max_size=12),
    st.lists(st.frozensets(SUBJECT) | st.none(), min_size=FILTERS, max_size=FILTERS),
)
def test_words_have_a_bit_for_each_filter(made: list[Made], sent_by: list[frozenset[int] | None]) -> None:
    """A filter's bit says whether it meets the condition. None is a filter without rules."""
    conditions = _conditions(made)

    def words(numbers: list[int]) -> np.ndarray:
        row = np.zeros(2, np.uint64)
        for number in numbers:
            row[number // 64] |= np.uint64(1 << number % 64)
        return row

    rules = [n for n, sent in enumerate(sent_by) if sent is not None]
    of_subject = [
        words([n for n, sent in enumerate(sent_by) if sent is not None and subject in sent])
        for subject in range(SUBJECTS)
    ]
    found = conditions.words(np.stack(of_subject), words(list(range(FILTERS))), words(rules))
    for number, sent in enumerate(sent_by):
        met = found[:, number // 64] >> np.uint64(number % 64) & np.uint64(1) != 0
        if sent is None:
            expected = conditions.for_everything | conditions.among(number)
        else:
            mask = np.isin(np.arange(SUBJECTS), list(sent))
            expected = conditions.passing(mask) | conditions.among(number) | (conditions.kind == ALWAYS)
        assert met.tolist() == expected.tolist()
