"""Wild patterns, compared with their definition."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dumpfilter.filter.wild import WildSet
from tests.filter.plain import naive_match, parse_pattern

texts = st.text(alphabet="ab.%_\\é", max_size=9)


def matches_pattern(pattern: str, name: str, fold: Callable[[str], str] = str) -> bool:
    return WildSet([pattern], fold).first(name) is not None


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        ("", "", True),
        ("", "a", False),
        ("%", "", True),
        ("%%", "abc", True),
        ("_", "", False),
        ("_", "é", True),
        ("a%.t", "a.b.t", True),
        ("%.t", "db.with.dots.t", True),
        ("%.%", "nodot", False),
        ("a_b.%", "axb.t", True),
        (r"a\_b.%", "axb.t", False),
        (r"a\_b.%", "a_b.t", True),
        (r"a\%.%", "a%.t", True),
        (r"a\%.%", "ab.t", False),
        (r"a\\.%", "a\\.t", True),
        (r"a\b.t", "ab.t", True),
        ("a.t\\", "a.t\\", True),
        ("%aab%", "aaab", True),
        ("%ab%ab", "abab", True),
        ("%ab%ab", "abb", False),
        ("ab%ba", "aba", False),
        ("%_", "a", True),
        ("%__", "a", False),
        ("_%_%_", "abc", True),
    ],
)
def test_table(pattern: str, name: str, matches: bool) -> None:
    assert matches_pattern(pattern, name) is matches


@given(pattern=texts, name=texts)
def test_against_the_definition(pattern: str, name: str) -> None:
    assert matches_pattern(pattern, name) == naive_match(parse_pattern(pattern), name)


@given(texts)
def test_escaped_names_match_themselves(name: str) -> None:
    escaped = "".join(f"\\{c}" for c in name)
    assert matches_pattern(escaped, name)
    assert not matches_pattern(escaped, name + "a")
    assert matches_pattern(escaped + "%", name + "a")


@given(pattern=texts, name=texts)
def test_folding(pattern: str, name: str) -> None:
    """Characters that ``fold`` maps to the same character match. ``fold`` never makes a wildcard."""
    assert matches_pattern(pattern, name.upper(), str.upper) == naive_match(
        parse_pattern(pattern.upper()), name.upper()
    )
    assert matches_pattern(pattern, "%" * len(name), lambda _: "%") == naive_match(
        [("is", "%") if e[0] == "is" else e for e in parse_pattern(pattern)], "%" * len(name)
    )


@pytest.mark.parametrize(
    "pattern",
    ["%" * 60, "%a" * 60, "%a" * 60 + "%b", "%_" * 60, "_%" * 60 + "b", "%aaaaaaaaab" * 20, "%" + "_" * 300],
)
def test_cost_is_bounded(pattern: str) -> None:
    began = time.process_time()
    for name in ("a" * 129, "a" * 64 + "." + "a" * 64, "a" * 400, "ab" * 200):
        matches_pattern(pattern, name)
    # Steps that multiply with each % would take hours.
    assert time.process_time() - began < 60


@given(patterns=st.lists(st.text("ab%_\\.x", max_size=6), max_size=12), name=st.text("abx._%\\", max_size=8))
def test_a_set_finds_the_first_that_matches(patterns: list[str], name: str) -> None:
    found = WildSet(patterns).first(name)
    assert found == next((n for n, p in enumerate(patterns) if matches_pattern(p, name)), None)
