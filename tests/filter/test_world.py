"""The model of a replica knows what earlier statements left there, and forgets the rest."""

from __future__ import annotations

import pytest

from dumpfilter.binlog.statement.facts import statement_facts
from dumpfilter.filter.filter import Filter
from dumpfilter.filter.world import Fault, FaultKind, World
from tests.analyse.lint.made import query

COLUMNS = "(a INT, FOREIGN KEY (a) REFERENCES hr.parent (a))"


def run(world: World[str], text: str, *, passes: bool = True) -> list[Fault[str]]:
    """Tell the model of a statement, and return the faults that the statement has."""
    facts = statement_facts(query(text, "shop"), "mysql")
    return list(world.statement(world.resolved(facts, "shop"), text, passes=passes))


def of_parent(world: World[str]) -> list[FaultKind]:
    return [fault.kind for fault in world.rows("shop", "child", passes=True)]


@pytest.mark.parametrize("columns", ["(a INT)", COLUMNS])
def test_the_work_for_a_statement_does_not_grow_with_the_tables_that_are_gone(
    columns: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world: World[str] = World(Filter())
    asked = []
    rows_ref = World.rows_ref
    monkeypatch.setattr(World, "rows_ref", lambda *names: asked.append(names) or rows_ref(*names))
    for number in range(100):
        run(world, f"CREATE TABLE t{number} {columns}")
        run(world, f"DROP TABLE t{number}")
    assert len(asked) < 1000


def test_a_table_that_takes_the_name_of_a_dropped_one_has_no_foreign_key_of_it() -> None:
    world: World[str] = World(Filter.from_options(["--replicate-ignore-table=hr.parent"]))
    run(world, f"CREATE TABLE child {COLUMNS}")
    assert of_parent(world) == [FaultKind.PARENT_ROWS]
    run(world, "DROP TABLE child")
    run(world, "RENAME TABLE older TO child")
    assert of_parent(world) == []


def test_a_child_that_the_filter_keeps_on_the_replica_still_refers_to_its_parent() -> None:
    world: World[str] = World(Filter())
    run(world, f"CREATE TABLE child {COLUMNS}")
    run(world, "DROP TABLE child", passes=False)
    (fault,) = run(world, "DROP TABLE hr.parent")
    assert (fault.kind, fault.ref.replica[1:]) == (FaultKind.CHILD, ("shop", "child"))
    (fault,) = run(world, "DROP DATABASE hr")
    assert fault.kind is FaultKind.CHILD
