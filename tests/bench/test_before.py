"""The comparison of ratios with those of an earlier commit."""

from __future__ import annotations

import pytest

from bench.before import earlier_commit, is_worse


@pytest.mark.parametrize(
    ("name", "now", "before", "worse"),
    [
        ("raw / ours at least", 0.55, 0.6, False),
        ("raw / ours at least", 0.53, 0.6, True),
        ("raw / ours at least", 6.0, 0.6, False),
        ("ours / raw at most", 1.1, 1.0, False),
        ("ours / raw at most", 1.2, 1.0, True),
        ("ours / raw at most", 0.1, 1.0, False),
    ],
)
def test_a_fall_by_more_than_a_tenth_is_worse(name: str, now: float, before: float, worse: bool) -> None:
    assert is_worse(name, now, before) == worse


def test_there_is_a_commit_to_compare_with() -> None:
    assert earlier_commit()
