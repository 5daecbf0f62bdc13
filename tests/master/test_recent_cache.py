"""The cache of what was used a short while ago."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from dumpfilter.master.indexed_file import RecentCache


def a_cache(limit: int, largest: float = math.inf) -> RecentCache[str, str]:
    return RecentCache(limit, len, largest=largest)


def test_the_least_recently_used_go_first() -> None:
    cache = a_cache(6)
    for key in "abc":
        cache.add(key, key * 2)
    assert cache.get("a") == "aa"
    cache.add("d", "dd")
    assert [cache.get(key) for key in "abcd"] == ["aa", None, "cc", "dd"]
    assert (cache.hits, cache.misses) == (4, 1)


def test_a_large_entry_is_not_kept() -> None:
    cache = a_cache(10, largest=3)
    cache.add("a", "aaa")
    cache.add("b", "bbbb")
    assert len(cache) == 1
    cache.add("a", "aaaa")
    assert len(cache) == cache.size == 0


def test_unwanted_entries_are_removed() -> None:
    cache = a_cache(10)
    cache.add("a", "1")
    cache.add("b", "22")
    cache.remove_if(lambda key: key == "b")
    assert (len(cache), cache.size) == (1, 1)


_KEYS = st.sampled_from("abcdef")
_STEPS = st.one_of(
    st.tuples(st.just("add"), _KEYS, st.text("x", max_size=5)),
    st.tuples(st.just("get"), _KEYS, st.just("")),
)


@given(st.lists(_STEPS), st.integers(5, 12))
def test_it_holds_what_a_plain_list_holds(steps: list[tuple[str, str, str]], limit: int) -> None:
    cache = a_cache(limit)
    plain: list[tuple[str, str]] = []
    for what, key, value in steps:
        known = next((one for one in plain if one[0] == key), None)
        if what == "get":
            assert cache.get(key) == (None if known is None else known[1])
            if known is not None:
                plain.remove(known)
                plain.append(known)
            continue
        cache.add(key, value)
        if known is not None:
            plain.remove(known)
        plain.append((key, value))
        while sum(len(each) for _, each in plain) > limit:
            del plain[0]
        assert cache.size == sum(len(each) for _, each in plain) <= limit
    assert len(cache) == len(plain)
