"""Mappings of bounded size."""

from __future__ import annotations

from dumpfilter.base.recent import Recent


def test_what_was_set_longest_ago_is_forgotten() -> None:
    numbers: Recent[str, int] = Recent(2)
    numbers["a"] = 1
    numbers["b"] = 2
    numbers["a"] = 3
    numbers["c"] = 4
    assert dict(numbers) == {"a": 3, "c": 4}
