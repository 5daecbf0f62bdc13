"""The model of a replica knows what earlier statements left there, and forgets the rest."""

from __future__ import annotations

import gc
import sys

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


def made_with(count: int) -> World[str]:
    """Return a model with ``count`` tables, each with a foreign key and a trigger."""
    world: World[str] = World(Filter())
    for number in range(count):
        run(world, f"CREATE TABLE t{number} {COLUMNS.replace('parent', f'parent{number}')}")
        run(world, f"CREATE TRIGGER g{number} BEFORE INSERT ON t{number} FOR EACH ROW SET @a = 1")
    return world


def steps(world: World[str], text: str) -> int:
    """Return the number of lines of Python that run for a statement."""
    count = 0

    def trace(*_: object) -> object:
        nonlocal count
        count += 1
        return trace

    before = sys.gettrace()
    # The garbage collector may call functions in Python at any line.
    gc.disable()
    sys.settrace(trace)  # type: ignore[arg-type]
    try:
        run(world, text)
    finally:
        sys.settrace(before)
        gc.enable()
    return count


@pytest.mark.parametrize(
    "text",
    [
        *("INSERT INTO t1 VALUES (1)", "RENAME TABLE t1 TO r1", "DROP TABLE t1", "DROP TABLE hr.parent1"),
        "DROP DATABASE other",
    ],
)
def test_the_work_for_a_statement_does_not_grow_with_other_tables(text: str) -> None:
    run(made_with(2), text)  # The text is parsed once.
    assert steps(made_with(200), text) == steps(made_with(2), text)


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


@pytest.mark.parametrize(
    ("before", "text"),
    [
        ([], f"CREATE TABLE IF NOT EXISTS child {COLUMNS}"),
        (["DROP TABLE child"], f"ALTER TABLE IF EXISTS child ADD {COLUMNS[8:-1]}"),
    ],
)
def test_a_statement_that_does_nothing_needs_no_parent(before: list[str], text: str) -> None:
    world: World[str] = World(Filter.from_options(["--replicate-ignore-table=hr.parent"]))
    run(world, "CREATE TABLE hr.parent (a INT)", passes=False)
    for statement in ("CREATE TABLE child (a INT)", *before):
        run(world, statement)
    assert run(world, text) == []
    assert FaultKind.PARENT_ROWS not in of_parent(world)


def test_a_replica_drops_a_missing_temporary_table_without_an_error() -> None:
    world: World[str] = World(Filter())
    run(world, "CREATE TEMPORARY TABLE t (a INT)", passes=False)
    assert run(world, "DROP TEMPORARY TABLE t") == []
    assert run(world, "CREATE TEMPORARY TABLE t (a INT)") == []


def test_a_client_drops_no_missing_temporary_table() -> None:
    world: World[str] = World(Filter(), is_strict=True)
    run(world, "CREATE TEMPORARY TABLE t (a INT)", passes=False)
    assert [fault.kind for fault in run(world, "DROP TEMPORARY TABLE t")] == [FaultKind.MISSING]
