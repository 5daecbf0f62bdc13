"""Clever filtering, tested on a model of a server: statements that pass succeed and change the right tables."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dumpfilter.binlog.format import FormatDescription, NameRules
from dumpfilter.binlog.gtid_events import FL_COMMIT_ALTER_E1, FL_ROLLBACK_ALTER_E1, FL_START_ALTER_E1
from dumpfilter.binlog.query import QueryEvent, StatusVariables
from dumpfilter.binlog.reader import read_format_description
from dumpfilter.filter.base import Verdict
from dumpfilter.filter.clever import CleverFilter
from dumpfilter.filter.filter import Filter
from tests.support import RECORDED

with RECORDED[0].open("rb") as _source:
    FD: FormatDescription = read_format_description(_source, file="recorded")


def query(text: str, *, db: str = "d", thread: int = 1, phase: int | None = None) -> QueryEvent:
    status = StatusVariables(gtid_flags_extra=phase)
    return QueryEvent(thread, 0, 0, db, status, text.encode(), text, True, None)


class Stream:
    """A clever filter, and a builder of the events that it is asked about."""

    def __init__(self, *options: str, lower: int = 0) -> None:
        self.warnings: list[str] = []
        rules = Filter.from_options(
            [f"--replicate-{one}" for one in options], names=NameRules(lower_case_table_names=lower)
        )
        self.filter = CleverFilter(rules, warn=self.warnings.append)

    def passes(self, text: str, **session: object) -> bool:
        verdict = self.filter.statement(query(text, **session), FD)  # type: ignore[arg-type]
        assert verdict is not Verdict.UNDECIDED
        return verdict is Verdict.EXECUTE

    def rows(self, table: str, db: str = "d") -> bool:
        return self.filter.rows(db, table) is Verdict.EXECUTE


# The worklog's own examples.


@pytest.mark.parametrize(
    "creation",
    [
        "CREATE TABLE t2 LIKE t1",
        "CREATE TABLE t2 (LIKE d.t1)",
        "CREATE TABLE t2 SELECT * FROM t1",
        "CREATE TABLE IF NOT EXISTS t2 AS SELECT * FROM other JOIN t1 USING (i)",
        "create temporary table t2 like t1",
    ],
)
def test_a_table_made_from_an_ignored_one_is_ignored(creation: str) -> None:
    """WL#40, section 5: the filter drops statements (2) and (3)."""
    stream = Stream("ignore-table=d.t1")
    assert not stream.passes("CREATE TABLE t1 (i INT)")
    assert not stream.passes(creation)
    assert not stream.passes("INSERT INTO t2 VALUES (1)")
    assert not stream.passes("DROP TABLE t2")
    assert stream.passes("CREATE TABLE t2 (i INT)")
    assert stream.passes("INSERT INTO t2 VALUES (1)")


def test_it_goes_on_from_table_to_table() -> None:
    stream = Stream("ignore-table=d.t1")
    assert not stream.passes("CREATE TABLE t2 LIKE t1")
    assert not stream.passes("CREATE TABLE t3 LIKE t2")
    assert not stream.passes("RENAME TABLE t3 TO t4")
    assert not stream.rows("t4")
    assert stream.rows("t3")
    assert not stream.passes("CREATE TABLE IF NOT EXISTS t2 (i INT)")  # t2 exists, so that nothing is created
    assert not stream.rows("t2")


def test_if_not_exists_leaves_an_existing_table_as_it_is() -> None:
    """MySQL logs this statement. A target without t1 cannot run it."""
    stream = Stream("ignore-table=d.t1", "wild-do-table=d.t%")
    again = "CREATE TABLE IF NOT EXISTS t2 LIKE t1"
    assert stream.passes("CREATE TABLE t2 (i INT)")
    assert not stream.passes(again)
    assert stream.passes("INSERT INTO t2 VALUES (1)")
    assert stream.passes("RENAME TABLE t2 TO u2")
    assert not stream.passes(again.replace("t2", "u2"))
    assert stream.rows("u2")
    assert not stream.passes(again)
    assert not stream.rows("t2")
    assert stream.passes(
        "CREATE TEMPORARY TABLE IF NOT EXISTS t2 (i INT)"
    )  # an ordinary t2 is in nobody's way
    assert stream.passes("INSERT INTO t2 VALUES (1)")


@pytest.mark.parametrize("end", [FL_COMMIT_ALTER_E1, FL_ROLLBACK_ALTER_E1])
def test_a_table_is_renamed_when_its_alter_is_committed(end: int) -> None:
    stream = Stream("ignore-table=d.t1")
    rename = "ALTER TABLE t1 RENAME TO t2"
    assert not stream.passes(rename, phase=FL_START_ALTER_E1)
    assert not stream.rows("t1")
    assert stream.rows("t2")
    assert not stream.passes(rename, phase=end)
    committed = end == FL_COMMIT_ALTER_E1
    # a new table with the old name goes by that name
    assert (stream.rows("t1"), stream.rows("t2")) == (False, not committed)


def test_a_renamed_table_is_followed() -> None:
    """WL#40, section 6: t and s are the same table."""
    stream = Stream("do-table=d.t")
    assert stream.passes("RENAME TABLE t TO s")
    assert stream.passes("INSERT INTO s VALUES (1)")
    assert stream.rows("s")
    assert stream.passes("INSERT INTO d.s VALUES (1)", db="elsewhere")
    assert stream.passes("RENAME TABLE s TO t")
    assert stream.passes("INSERT INTO t VALUES (1)")
    assert not stream.rows("s")


def test_tables_change_places() -> None:
    """WL#40, section 4.2: whichever table is ignored, rows stay with their table."""
    stream = Stream("ignore-table=d.t1")
    assert stream.passes("RENAME TABLE t1 TO tmp, t2 TO t1, tmp TO t2")
    assert (stream.rows("t1"), stream.rows("t2"), stream.rows("tmp")) == (True, False, True)
    assert len(stream.warnings) == 1
    assert stream.passes("RENAME TABLE t1 TO tmp, t2 TO t1, tmp TO t2")
    assert (stream.rows("t1"), stream.rows("t2")) == (False, True)


def test_tables_that_are_both_followed_change_places_without_a_warning() -> None:
    stream = Stream("do-table=d.t1", "do-table=d.t2")
    assert stream.passes("RENAME TABLE t1 TO tmp, t2 TO t1, tmp TO t2")
    assert stream.rows("t1")
    assert stream.rows("t2")
    assert stream.warnings == []


def test_a_rename_by_alter_table() -> None:
    stream = Stream("do-table=d.t")
    assert stream.passes("ALTER TABLE t ADD j INT, RENAME TO e.s")
    assert stream.rows("s", "e")
    assert not stream.passes("ALTER TABLE x RENAME y")
    assert stream.passes("UPDATE s SET j = 1", db="e")
    assert not stream.passes("UPDATE s SET j = 1", db="d")


def test_a_table_moved_out_of_its_database_keeps_its_rules() -> None:
    stream = Stream("do-db=d")
    assert stream.passes("RENAME TABLE t TO e.t")
    assert stream.passes("INSERT INTO t VALUES (1)", db="e")
    assert not stream.passes("INSERT INTO u VALUES (1)", db="e")
    assert stream.rows("t", "e")


def test_dropped_with_its_database() -> None:
    stream = Stream("ignore-table=d.t1")
    assert not stream.passes("CREATE TABLE t2 LIKE t1")
    stream.passes("DROP DATABASE d")
    assert stream.rows("t2")


def test_of_several_tables_the_first_that_is_decided_decides() -> None:
    stream = Stream("ignore-table=d.t1", "do-table=d.best", "wild-do-table=d.%")
    assert not stream.passes("CREATE TABLE t2 LIKE t1")
    assert stream.passes("DELETE best, t2 FROM best JOIN t2")
    assert not stream.passes("DELETE t2, best FROM t2 JOIN best")


def test_an_update_of_no_table_of_its_text_passes_no_table_rule() -> None:
    """The bits of Q_TABLE_MAP_FOR_UPDATE may mark only tables inside a view. Renamed tables change nothing in this."""
    stream = Stream("ignore-table=d.z")
    status = StatusVariables(table_map_for_update=0b1000)
    update = replace(query("UPDATE a, b SET a.i = 1"), status=status)
    before = stream.filter.statement(update, FD)
    assert stream.passes("RENAME TABLE q TO r")
    assert stream.filter.statement(update, FD) is before is Verdict.IGNORE


def test_temporary_tables_are_of_their_session() -> None:
    stream = Stream("ignore-table=d.t1")
    assert not stream.passes("CREATE TEMPORARY TABLE t2 LIKE t1", thread=1)
    assert not stream.passes("INSERT INTO t2 VALUES (1)", thread=1)
    assert stream.passes("INSERT INTO t2 VALUES (1)", thread=2)
    assert not stream.passes("DROP TEMPORARY TABLE t2", thread=1)
    assert stream.passes("INSERT INTO t2 VALUES (1)", thread=1)


def test_a_temporary_table_hides_one_that_is_ignored() -> None:
    stream = Stream("ignore-table=d.t1")
    assert not stream.passes("CREATE TABLE t2 LIKE t1")
    assert stream.passes("CREATE TEMPORARY TABLE t2 (i INT)")
    assert stream.passes("INSERT INTO t2 VALUES (1)")
    assert stream.passes("DROP TEMPORARY TABLE t2")
    assert not stream.passes("INSERT INTO t2 VALUES (1)")


def test_names_without_case() -> None:
    stream = Stream("ignore-table=d.t1", lower=1)
    assert not stream.passes("CREATE TABLE T2 LIKE D.T1")
    assert not stream.passes("INSERT INTO t2 VALUES (1)")


def test_what_every_server_has_can_be_a_source() -> None:
    stream = Stream("do-table=d.t")
    assert stream.passes("CREATE TABLE t SELECT * FROM information_schema.TABLES")
    assert not stream.passes("CREATE TABLE t SELECT * FROM elsewhere.TABLES")


def test_a_select_that_cannot_be_read_is_left_to_the_slave() -> None:
    text = "CREATE TABLE t2 AS SELECT * FROM t1 WHERE a ((( b"
    verdict = Stream("ignore-table=d.t1").filter.statement(query(text), FD)
    assert verdict is Verdict.UNDECIDED


# A world of tables: statements that a server ran, and a target that runs those that pass.


@dataclass
class Table:
    """A table, which keeps its identity when it is renamed."""

    replicated: bool
    rows: int = 0


@dataclass
class Server:
    """A model of a server that knows its tables by name and fails as a server does."""

    tables: dict[str, Table] = field(default_factory=dict)

    def run(self, text: str, made: bool = True) -> None:
        if match := re.fullmatch(r"CREATE TABLE (\w+) \(i INT\)", text):
            assert match[1] not in self.tables
            self.tables[match[1]] = Table(made)
        elif match := re.fullmatch(r"CREATE TABLE (\w+) LIKE (\w+)", text):
            assert match[1] not in self.tables
            assert match[2] in self.tables, "the source does not exist"
            self.tables[match[1]] = Table(made)
        elif match := re.fullmatch(r"INSERT INTO (\w+) VALUES \(1\)", text):
            self.tables[match[1]].rows += 1
        elif match := re.fullmatch(r"DROP TABLE (\w+)", text):
            del self.tables[match[1]]
        else:
            for old, new in re.findall(r"(\w+) TO (\w+)", text):
                assert new not in self.tables
                self.tables[new] = self.tables.pop(old)


NAMES = ["a", "b", "c", "e", "f"]


@st.composite
def _histories(draw: st.DrawFn, alike: bool) -> tuple[set[str], list[str], Server]:
    """Draw ignored names, statements that a source can run, and the source after these statements.

    ``alike``: no RENAME mixes replicated and ignored tables.
    """
    ignored = draw(st.sets(st.sampled_from(NAMES), max_size=3))
    source = Server()
    history: list[str] = []

    def run(text: str, made: bool = True) -> None:
        source.run(text, made)
        history.append(text)

    for _ in range(draw(st.integers(0, 25))):
        there, free = sorted(source.tables), [name for name in NAMES if name not in source.tables]
        kinds = ["create"] * bool(free) + ["like", "rename"] * bool(there and free)
        kinds += ["insert", "insert", "drop"] * bool(there) + ["swap"] * bool(len(there) > 1 and free)
        kind = draw(st.sampled_from(kinds))
        if kind == "create":
            new = draw(st.sampled_from(free))
            run(f"CREATE TABLE {new} (i INT)", new not in ignored)
        elif kind == "like":
            new, old = draw(st.sampled_from(free)), draw(st.sampled_from(there))
            run(f"CREATE TABLE {new} LIKE {old}", new not in ignored and source.tables[old].replicated)
        elif kind == "insert":
            run(f"INSERT INTO {draw(st.sampled_from(there))} VALUES (1)")
        elif kind == "drop":
            run(f"DROP TABLE {draw(st.sampled_from(there))}")
        elif kind == "rename":
            run(f"RENAME TABLE {draw(st.sampled_from(there))} TO {draw(st.sampled_from(free))}")
        else:
            one, two = draw(st.permutations(there))[:2]
            if not alike or source.tables[one].replicated == source.tables[two].replicated:
                run(f"RENAME TABLE {one} TO {free[0]}, {two} TO {one}, {free[0]} TO {two}")
    return ignored, history, source


@pytest.mark.parametrize("spelled", ["ignore", "do"])
@given(data=st.data())
def test_what_passes_runs_and_gives_the_replicated_tables(spelled: str, data: st.DataObject) -> None:
    ignored, history, source = data.draw(_histories(alike=True))
    if spelled == "ignore":
        stream = Stream(*(f"ignore-table=d.{name}" for name in ignored))
    else:
        stream = Stream(*(f"do-table=d.{name}" for name in NAMES if name not in ignored))
    target = Server()
    for text in history:
        if stream.passes(text):
            target.run(text)  # a KeyError or AssertionError is a statement that fails
    assert target.tables == {name: table for name, table in source.tables.items() if table.replicated}
    assert stream.warnings == []


@given(_histories(alike=False))
def test_rows_follow_their_tables(history: tuple[set[str], list[str], Server]) -> None:
    ignored, statements, source = history
    stream = Stream(*(f"ignore-table=d.{name}" for name in ignored))
    for text in statements:
        stream.passes(text)
    for name, table in source.tables.items():
        assert stream.rows(name) is table.replicated


@given(_histories(alike=False))
def test_without_rules_everything_passes(history: tuple[set[str], list[str], Server]) -> None:
    stream = Stream()
    assert all(stream.passes(text) for text in history[1])
