"""Filters that operators changed on the console, in place of those of the configuration."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from dumpfilter.filter.rules import FilterClause, RuleKind, make_rule
from dumpfilter.master.config import ReplicaEntry
from dumpfilter.master.replica_filters import ReplicaFilters
from tests.master.replicas.entries import PEER, adopting, filters_of
from tests.master.replicas.serving import entry


def file(database: str, **conditions: object) -> ReplicaEntry:
    return entry("r", rules(database), **conditions)


SEVEN = frozenset([7])


def rules(database: str) -> list[str]:
    return [f"--replicate-do-db={database}"]


def clauses(database: str) -> list[FilterClause]:
    return [FilterClause(RuleKind.DO_DB, (make_rule(RuleKind.DO_DB, database),))]


def in_force(filters: ReplicaFilters) -> list[list[str]]:
    return [list(map(str, one.filter.rules)) if one.filter else [] for one in filters.entries]


def test_a_change_holds_until_the_file_has_other_rules() -> None:
    filters = filters_of([file("a", server_ids=SEVEN), file("c", channel="c")])
    filters.change("r", clauses("b"), server_id=7)
    assert in_force(filters) == [rules("b"), rules("c")]
    filters.take_over([file("a", server_ids=SEVEN), file("d", channel="c")])
    assert in_force(filters) == [rules("b"), rules("d")]
    filters.take_over([file("c")])
    assert in_force(filters) == [rules("c")]
    assert not filters.changes


def test_the_log_names_the_user_whose_change_ends() -> None:
    filters = filters_of([file("a", server_ids=SEVEN)])
    filters.change("r", clauses("b"))
    with capture_logs() as logs:
        filters.take_over([])
    assert [(line["user"], line["rules"]) for line in logs] == [("r", "--replicate-do-db=b")]


def test_the_rules_of_the_file_end_a_change() -> None:
    filters = filters_of([file("a")])
    told = []
    filters.on_change.append(lambda: told.append(len(filters.changes)))
    filters.change("r", clauses("b"))
    filters.change("r", clauses("a"))
    assert told == [1, 0]
    assert in_force(filters) == [rules("a")]


def test_a_saved_change_is_restored_if_it_still_holds() -> None:
    filters = filters_of([file("a", server_ids=SEVEN), file("a", channel="c")])
    filters.change("r", clauses("b"), server_id=7)
    filters.change("r", clauses("c"), channel="c")
    saved = filters.changes
    restored = filters_of([file("a", server_ids=SEVEN), file("x", channel="c")])
    restored.restore(saved)
    assert restored.changes == saved[:1]
    assert in_force(restored) == [rules("b"), rules("x")]
    for entries in ([], [adopting()]):
        other = filters_of(entries)
        other.restore(saved[:1])
        assert not other.changes
        assert list(other.entries) == entries


def test_a_replica_that_registers_during_a_reload_gets_the_new_filter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    filters = filters_of([file("a")])
    use, register = filters._use, filters._register

    def register_before(*changed: Any) -> Any:
        _, chosen = filters.filter_for(PEER)
        register.add(PEER, chosen)
        return use(*changed)

    monkeypatch.setattr(filters, "_use", register_before)
    filters.take_over([file("b")])
    (replica,) = register.all()
    assert list(map(str, replica.filter.rules)) == rules("b")
