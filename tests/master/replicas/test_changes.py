"""Filters that operators changed on the console, beside those of the configuration."""

from __future__ import annotations

from dumpfilter.filter import Filter
from dumpfilter.master.replica_entry import ReplicaEntry
from dumpfilter.master.replicas.changes import FilterChanges
from tests.master.replicas.entries import adopting
from tests.master.replicas.serving import entry


def made(database: str) -> Filter:
    return Filter.from_options([f"--replicate-do-db={database}"])


def file(database: str, **conditions: object) -> ReplicaEntry:
    return entry("r", [f"--replicate-do-db={database}"], **conditions)


def test_a_change_holds_until_the_file_has_other_rules() -> None:
    changes = FilterChanges()
    changes.set(file("a"), made("b"), now=1.0)
    assert changes.filter_of(file("a")) is not None
    assert changes.filter_of(file("a", channel="c")) is None
    assert not changes.keep([file("a"), file("c", channel="c")])
    assert changes.filter_of(file("a")) is not None
    assert [one.rules for one in changes.keep([file("c")])] == [("--replicate-do-db=b",)]
    assert not changes.all()


def test_the_rules_of_the_file_end_a_change() -> None:
    changes = FilterChanges()
    told = []
    changes.on_change.append(lambda: told.append(len(changes.all())))
    changes.set(file("a"), made("b"), now=1.0)
    changes.set(file("a"), made("a"), now=2.0)
    assert told == [1, 0]


def test_a_saved_change_is_restored_if_it_still_holds() -> None:
    changes = FilterChanges()
    changes.set(file("a"), made("b"), now=1.0)
    changes.set(file("a", channel="c"), made("c"), now=2.0)
    saved = changes.all()
    restored = FilterChanges()
    assert restored.restore(saved, [file("a"), file("x", channel="c")]) == saved[1:]
    assert restored.all() == saved[:1]
    found = restored.filter_of(file("a"))
    assert found is not None
    assert found.rules == made("b").rules
    for entries in ([], [adopting()]):
        assert FilterChanges().restore(saved[:1], entries) == saved[:1]
