"""Conditions are compared, renumbered and evaluated as columns."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dumpfilter.analyse.traffic._group import ALWAYS, NO_SUBJECT
from dumpfilter.analyse.traffic.facts import Conditions

SUBJECTS = 6
FILTERS = 70

Made = tuple[int, frozenset[int]]
"""A condition's required subject and members."""


def _conditions(made: list[Made]) -> Conditions:
    return Conditions(
        np.array([required for required, _ in made], np.int32),
        np.cumsum([0, *(len(members) for _, members in made)]).astype(np.int64),
        np.array([member for _, members in made for member in members], np.int32),
    )


SUBJECT = st.integers(0, SUBJECTS - 1)
LISTED = st.integers(0, FILTERS - 1).map(lambda number: NO_SUBJECT - 1 - number)
CONDITION = st.one_of(
    st.just((-1, frozenset({ALWAYS}))),
    st.tuples(st.just(-1), st.frozensets(SUBJECT, min_size=1, max_size=1)),
    st.tuples(st.just(-1) | SUBJECT, st.frozensets(SUBJECT, min_size=2)),
    st.just((-1, frozenset({NO_SUBJECT}))),
    st.tuples(st.just(-1), st.frozensets(LISTED, min_size=1)),
)
"""The conditions that a tally makes."""


@given(st.lists(CONDITION, max_size=12), st.permutations(range(SUBJECTS)), st.booleans())
def test_unified_conditions_are_the_different_ones(made: list[Made], numbers: list[int], folds: bool) -> None:
    renamed = _conditions(made).expanded(np.arange(SUBJECTS + 1), np.array(numbers, np.int32))
    found, number = renamed.folded(np.arange(SUBJECTS) if folds else None)
    renumbered = [
        (
            -1 if required < 0 else numbers[required],
            frozenset(numbers[member] if member >= 0 else member for member in members)
            | ({NO_SUBJECT} if folds and len(members) > 1 and max(members) >= 0 else frozenset()),
        )
        for required, members in made
    ]
    members = [found.member[found.start[c] : found.start[c + 1]] for c in range(len(found))]
    each = [
        (int(required), frozenset(some.tolist()))
        for required, some in zip(found.required, members, strict=True)
    ]
    assert each == list(dict.fromkeys(renumbered))
    assert [each[c] for c in number.tolist()] == renumbered
    assert all(np.all(np.diff(some) > 0) for some in members)


@given(
    st.lists(CONDITION, max_size=12),
    st.lists(st.frozensets(SUBJECT) | st.none(), min_size=FILTERS, max_size=FILTERS),
)
def test_conditions_hold_for_a_filter(made: list[Made], sent_by: list[frozenset[int] | None]) -> None:
    """A filter meets a condition by a subject that it sends, or by a member of its own. None has no rules."""
    conditions = _conditions(made)
    for number, sent in enumerate(sent_by):
        expected = []
        for required, members in made:
            if sent is None:
                holds = max(members) >= NO_SUBJECT or NO_SUBJECT - 1 - number in members
            else:
                holds = bool(members & (sent | {ALWAYS, NO_SUBJECT - 1 - number}))
                holds = holds and (required < 0 or required in sent)
            expected.append(holds)
        own = [NO_SUBJECT - 1 - number]
        own += [ALWAYS] if sent is not None else [ALWAYS, NO_SUBJECT]
        mask = np.isin(np.arange(SUBJECTS), list(range(SUBJECTS) if sent is None else sent))
        assert conditions.passing(mask, *own).tolist() == expected
