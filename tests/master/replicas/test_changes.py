"""Filters that operators changed on the console, in place of those of the configuration."""

from __future__ import annotations

import pytest

from dumpfilter.base.errors import OptionError
from dumpfilter.master.replica_entry import ReplicaEntry
from dumpfilter.master.replicas.filters import ReplicaFilters
from tests.master.replicas.entries import adopting
from tests.master.replicas.serving import entry


def file(database: str, **conditions: object) -> ReplicaEntry:
    return entry("r", rules(database), **conditions)


def rules(database: str) -> list[str]:
    return [f"--replicate-do-db={database}"]


def in_force(filters: ReplicaFilters) -> list[list[str]]:
    return [list(map(str, one.filter.rules)) if one.filter else [] for one in filters.entries]


def test_a_change_holds_until_the_file_has_other_rules() -> None:
    filters = ReplicaFilters([file("a"), file("c", channel="c")])
    assert filters.change(file("a"), rules("b")) == filters.entries[0]
    assert in_force(filters) == [rules("b"), rules("c")]
    filters.replace([file("a"), file("d", channel="c")])
    assert in_force(filters) == [rules("b"), rules("d")]
    filters.replace([file("c")])
    assert in_force(filters) == [rules("c")]
    assert not filters.changes


def test_the_rules_of_the_file_end_a_change() -> None:
    filters = ReplicaFilters([file("a")])
    told = []
    filters.on_change.append(lambda: told.append(len(filters.changes)))
    filters.change(file("a"), rules("b"))
    filters.change(filters.entries[0], rules("a"))
    assert told == [1, 0]
    assert in_force(filters) == [rules("a")]


def test_rules_that_cannot_be_parsed_change_nothing() -> None:
    filters = ReplicaFilters([file("a")])
    with pytest.raises(OptionError):
        filters.change(file("a"), ["--replicate-nothing=b"])
    assert in_force(filters) == [rules("a")]


def test_a_saved_change_is_restored_if_it_still_holds() -> None:
    filters = ReplicaFilters([file("a"), file("a", channel="c")])
    filters.change(file("a"), rules("b"))
    filters.change(file("a", channel="c"), rules("c"))
    saved = filters.changes
    restored = ReplicaFilters([file("a"), file("x", channel="c")])
    restored.restore(saved)
    assert restored.changes == saved[:1]
    assert in_force(restored) == [rules("b"), rules("x")]
    for entries in ([], [adopting()]):
        other = ReplicaFilters(entries)
        other.restore(saved[:1])
        assert not other.changes
        assert list(other.entries) == entries
