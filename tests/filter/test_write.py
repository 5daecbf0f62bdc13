"""The write side's filter, compared with the manual's steps, and its effect on table flags."""

from __future__ import annotations

from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dumpfilter.base.errors import OptionError
from dumpfilter.binlog.format import NameRules
from dumpfilter.binlog.statement.statement import Statement, StatementKind
from dumpfilter.filter.base import Step, Verdict
from dumpfilter.filter.filter import Filter, WriteFilter
from dumpfilter.filter.flags import FILTER_BINLOG_SEND_F, FILTER_BINLOG_WRITE_F, TableFlags
from dumpfilter.filter.rules import WriteRuleKind, WriteSemantics, make_rule
from dumpfilter.index.subjects import Subjects, TableSubject
from tests.filter.plain import Names
from tests.filter.plain_write import is_written

Family = Literal["mysql", "mariadb"]

OF_DATABASES = [WriteSemantics.SERVER, WriteSemantics.WORKLOG]
DATABASES = ["shop", "Shop", "logs", "é", "É", "a,b", "ß"]
names = st.sampled_from(DATABASES)
databases = st.lists(names, max_size=3)
statements = st.builds(
    Statement,
    st.sampled_from([kind for kind in StatementKind if not kind.is_database]),
    st.one_of(st.none(), names),
)


def write_filter(
    do_db: list[str],
    ignore_db: list[str],
    *,
    semantics: WriteSemantics = WriteSemantics.SERVER,
    lower_case: int = 0,
    family: Family = "mysql",
) -> WriteFilter:
    return WriteFilter(
        [
            *(make_rule(WriteRuleKind.DO_DB, name) for name in do_db),
            *(make_rule(WriteRuleKind.IGNORE_DB, name) for name in ignore_db),
        ],
        semantics=semantics,
        names=NameRules(family, lower_case_table_names=lower_case),
    )


@given(
    do_db=databases,
    ignore_db=databases,
    statement=statements,
    table=names,
    semantics=st.sampled_from(OF_DATABASES),
    lower_case=st.sampled_from([0, 1, 2]),
    family=st.sampled_from(["mysql", "mariadb"]),
)
def test_against_the_manual(
    do_db: list[str],
    ignore_db: list[str],
    statement: Statement,
    table: str,
    semantics: WriteSemantics,
    lower_case: int,
    family: Family,
) -> None:
    rules = write_filter(do_db, ignore_db, semantics=semantics, lower_case=lower_case, family=family)
    plain = Names(family, bool(lower_case))
    worklog = semantics is WriteSemantics.WORKLOG
    for subject, database in ((statement, statement.current_database), (TableSubject(table, "t"), table)):
        decision = rules.decide(subject)
        assert decision.verdict.passes == is_written(do_db, ignore_db, database, plain, worklog=worklog)
        assert decision.verdict is not Verdict.UNDECIDED
        # the rule that decided is of the kind that the step names
        if decision.step in (Step.BINLOG_DO_DB, Step.BINLOG_IGNORE_DB):
            assert decision.rule in rules.rules
            assert decision.rule.kind.name == decision.step.name.removeprefix("BINLOG_")
        else:
            assert decision.rule is None
        assert (decision.step is Step.NO_RULES) == (not rules.is_on)


@given(
    do_db=databases,
    ignore_db=databases,
    slave_ignores=databases,
    tables=st.lists(names),
    statement=statements,
)
def test_what_is_not_written_has_no_flag(
    do_db: list[str],
    ignore_db: list[str],
    slave_ignores: list[str],
    tables: list[str],
    statement: Statement,
) -> None:
    """Subjects that are written have the flags of the slave's filter."""
    subjects = Subjects()
    subjects.statement(statement)
    for name in tables:
        subjects.statement(Statement(StatementKind.INSERT, name))
    write = write_filter(do_db, ignore_db)
    slave = Filter.from_options([f"--replicate-ignore-db={name}" for name in slave_ignores])
    flags = TableFlags(slave, subjects, write_filter=write)
    alone = TableFlags(slave, subjects).array()
    assert flags.is_on == (write.is_on or slave.is_on)
    for number, subject in enumerate(subjects.since(0)):
        found = int(flags.array()[number])
        if write.verdict(subject).passes:
            assert found == alone[number]
            assert found & FILTER_BINLOG_WRITE_F
        else:
            assert found == 0
        sent = write.verdict(subject).passes and slave.verdict(subject).passes
        assert bool(found & FILTER_BINLOG_SEND_F) == sent


class TestDatabaseStatements:
    """A server logs CREATE, ALTER and DROP DATABASE with the named database as the current one."""

    def test_the_events_database_decides(self) -> None:
        rules = write_filter(["d1"], [])
        assert rules.verdict(Statement(StatementKind.CREATE_DATABASE, "d1", "d1")).passes
        assert not rules.verdict(Statement(StatementKind.DROP_DATABASE, "d2", "d2")).passes

    @pytest.mark.parametrize("semantics", OF_DATABASES)
    def test_without_one_the_named_database(self, semantics: WriteSemantics) -> None:
        rules = write_filter(["d1"], [], semantics=semantics)
        assert rules.verdict(Statement(StatementKind.CREATE_DATABASE, None, "d1")).passes
        assert not rules.verdict(Statement(StatementKind.CREATE_DATABASE, None, "d2")).passes


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("--binlog-do-db", "a value is missing"),
        ("--binlog-do-db=", "a value is missing"),
        ("--binlog-do-table=a.b", "unknown option '--binlog-do-table'"),
        ("--replicate-do-db=a", "--binlog-do-db, --binlog-ignore-db"),
    ],
)
def test_a_bad_option_is_named(option: str, said: str) -> None:
    with pytest.raises(OptionError) as error:
        WriteFilter.from_options(["--binlog_do_db=a", option])
    assert said in str(error.value)


def test_rules_of_another_kind_are_refused() -> None:
    with pytest.raises(OptionError, match="unknown option"):
        WriteFilter(Filter.from_options(["--replicate-do-db=a"]).rules)
    with pytest.raises(OptionError, match="it is 0, 1 or 2"):
        WriteFilter(names=NameRules(lower_case_table_names=3))
