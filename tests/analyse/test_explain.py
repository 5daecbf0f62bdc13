"""``dumpfilter explain`` gives the dump's verdicts, and its steps end with the filter's verdict."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dumpfilter.analyse.explain import (
    Filters,
    describe,
    event_as_dict,
    explain_events,
    explain_set,
    explain_statement,
    path_of,
    print_set,
    print_statement,
    set_as_dict,
)
from dumpfilter.binlog.events import EventType
from dumpfilter.binlog.format import Family, NameRules
from dumpfilter.binlog.query import TableName
from dumpfilter.binlog.reader import iter_events
from dumpfilter.binlog.statement.statement import Statement, StatementKind
from dumpfilter.filter.base import Step, Verdict
from dumpfilter.filter.effective import EffectiveFilter
from dumpfilter.filter.filter import Filter, WriteFilter
from dumpfilter.filter.rules import Rule, RuleKind, make_rule
from dumpfilter.index.fileset import BinlogSet
from tests.commands.in_process import Finished
from tests.commands.in_process import run as run_in_process
from tests.oracle.recordings import DATA

STATEMENTS = DATA / "recordings" / "mysql-statements"


class TestSets:
    def test_the_write_side_comes_first(self) -> None:
        filters = Filters(
            Filter.from_options(["--replicate-ignore-db=shop"]),
            WriteFilter.from_options(["--binlog-ignore-db=shop"]),
        )
        found = explain_set(BinlogSet.open(STATEMENTS), filters)
        steps = {each.decision.step for each in found.subjects}
        assert Step.BINLOG_IGNORE_DB in steps
        assert Step.IGNORE_DB not in steps
        alone = explain_set(BinlogSet.open(STATEMENTS), Filters(filters.slave))
        assert [each.decision.verdict for each in found.subjects] == [
            each.decision.verdict for each in alone.subjects
        ]

    def test_names_that_cannot_be_printed_are_escaped(self) -> None:
        from rich.console import Console

        out = io.TextIOWrapper(io.BytesIO(), "utf-8")
        filters = Filters(Filter.from_options(["--replicate-ignore-table=a.\udcff\n"]))
        found = explain_statement("DELETE FROM `\udcff\n`", filters, current_database="a")
        assert found.decision.verdict is Verdict.IGNORE
        print_statement(found, filters, Console(file=out, width=200))
        out.flush()
        assert "[a.\\udcff\\n]" in out.buffer.getvalue().decode()

    def test_as_text_and_as_json(self) -> None:
        from rich.console import Console

        filters = Filters(Filter.from_options(["--replicate-do-table=shop.orders"]))
        binlogs = BinlogSet.open(STATEMENTS)
        found = explain_set(binlogs, filters)
        told = json.loads(json.dumps(set_as_dict(found, filters)))
        assert len(told["subjects"]) == len(found.subjects)
        rule = {s["rule"] for s in told["subjects"] if s["verdict"] == "execute" and s["step"] == "DO_TABLE"}
        assert rule == {"--replicate-do-table=shop.orders"}
        for terminal in (True, False):
            out = io.StringIO()
            print_set(
                found, filters, Console(file=out, width=200, force_terminal=terminal, highlight=False), top=3
            )
            text = out.getvalue()
            assert f"… and {len(found.subjects) - 3} smaller ones" in text
            assert f"{Step.NO_TABLE_MATCHED_DO.name}: {Step.NO_TABLE_MATCHED_DO.value}" in text
            assert "┏━" in text
        lines = [event_as_dict(event) for event in explain_events(binlogs, filters)]
        assert json.dumps(lines)
        assert lines[0]["position"] == 4 or lines[0]["type"] != "Format_desc"


names = st.sampled_from(["shop", "hr", "é"])
tables = st.builds(TableName, st.one_of(st.none(), names), st.sampled_from(["t", "u", "tmp_1"]))
statements = st.builds(
    Statement,
    st.sampled_from(StatementKind),
    st.one_of(st.none(), names),
    st.one_of(st.none(), names),
    st.none(),
    st.one_of(st.none(), st.lists(st.lists(tables, max_size=3).map(tuple), max_size=2).map(tuple)),
)


@st.composite
def rule_lists(draw: st.DrawFn) -> list[Rule]:
    made = []
    for kind in draw(st.lists(st.sampled_from(RuleKind), max_size=4)):
        if kind in (RuleKind.DO_DB, RuleKind.IGNORE_DB):
            value = draw(names)
        elif kind is RuleKind.REWRITE_DB:
            value = f"{draw(names)}->{draw(names)}"
        else:
            value = draw(st.sampled_from(["shop.t", "hr.u", "shop.%", "%.t%", "é.t"]))
        made.append(make_rule(kind, value))
    return made


write_rules = st.lists(
    st.tuples(st.sampled_from(["--binlog-do-db", "--binlog-ignore-db"]), names).map("=".join), max_size=2
)


class TestStatements:
    @settings(max_examples=40, deadline=None)
    @given(
        rules=rule_lists(),
        write=write_rules,
        statement=statements,
        family=st.sampled_from(["mysql", "mariadb"]),
    )
    def test_the_path_ends_where_the_filter_does(
        self, rules: list[Rule], write: list[str], statement: Statement, family: Family
    ) -> None:
        filters = Filters(
            Filter(rules, names=NameRules(family)), WriteFilter.from_options(write, names=NameRules(family))
        )
        decision = filters.decide(statement)
        *before, last = path_of(statement, filters)
        assert last.then == decision.verdict.value
        assert all(stop.then == "go on" for stop in before)
        # one of the steps names the rule that decides
        assert decision.rule is None or decision.rule in [stop.rule for stop in (*before, last)]

    @settings(max_examples=40, deadline=None)
    @given(
        options=st.lists(
            st.sampled_from(
                ["--do=shop.t", "--do=%.u", "--ignore=shop.%", "--ignore=%.%", "--rewrite=hr.%->shop.%"]
            )
        ),
        statement=statements,
    )
    def test_the_effective_path_too(self, options: list[str], statement: Statement) -> None:
        filters = Filters(EffectiveFilter.from_options(options))
        *before, last = path_of(statement, filters)
        assert last.then == filters.decide(statement).verdict.value
        assert all(stop.then == "go on" for stop in before)

    def test_the_manuals_chart(self) -> None:
        found = explain_statement(
            "INSERT INTO hr.people VALUES (1)",
            Filters(Filter.from_options(["--replicate-do-db=shop", "--replicate-wild-ignore-table=hr.%"])),
            current_database="shop",
        )
        assert found.statement.kind is StatementKind.INSERT
        assert found.decision.verdict is Verdict.IGNORE
        assert [(stop.name, str(stop.rule), stop.then) for stop in found.path] == [
            ("shop", "--replicate-do-db=shop", "go on"),
            ("hr.people", "--replicate-wild-ignore-table=hr.%", "ignore"),
        ]

    def test_the_text_of_an_update_leaves_open_which_tables_change(self) -> None:
        filters = Filters(Filter.from_options(["--replicate-ignore-table=shop.a"]))
        found = explain_statement("UPDATE a, b SET a.x = b.x", filters, current_database="shop")
        assert found.decision == (Verdict.UNDECIDED, Step.UNKNOWN_TABLES, None, None)

    def test_a_database_statement_is_logged_in_the_database_it_names(self) -> None:
        filters = Filters(Filter(), WriteFilter.from_options(["--binlog-do-db=d1"]))
        for text, passes in (("CREATE DATABASE d1", True), ("DROP DATABASE d2", False)):
            found = explain_statement(text, filters, current_database="elsewhere")
            assert found.decision.verdict.passes is passes

    @pytest.mark.parametrize("text", ["BEGIN", "commit", "ROLLBACK TO s", "XA START 'x'", "SAVEPOINT s"])
    def test_a_transactions_keywords_are_never_filtered(self, text: str) -> None:
        found = explain_statement(text, Filters(Filter.from_options(["--replicate-do-db=a"])))
        assert found.decision == (Verdict.EXECUTE, Step.NEVER_FILTERED, None, None)

    def test_what_is_not_understood_is_undecided(self) -> None:
        filters = Filters(Filter.from_options(["--replicate-do-table=a.b"]))
        found = explain_statement("GOBBLEDYGOOK t", filters, current_database="a")
        assert found.decision.verdict is Verdict.UNDECIDED
        assert found.path[-1].text == Step.UNKNOWN_TABLES.value
        assert describe(found.statement) == "UNKNOWN (tables not known)"


def run(*arguments: str | Path) -> Finished:
    return run_in_process("explain", *arguments)


class TestCommand:
    def test_help_has_examples(self) -> None:
        done = run("--help")
        assert done.returncode == 0
        assert "Examples" in done.stdout
        assert "dumpfilter explain" in done.stdout

    def test_a_statement_without_a_database_has_no_empty_name(self) -> None:
        done = run("--replicate-do-db=shop", "--statement=CREATE TABLE hr.t (n INT)")
        assert done.returncode == 0, done.stderr
        assert (
            "1. There are replicate-do-db rules, and the database matches none of them: ignore" in done.stdout
        )

    def test_a_statement(self) -> None:
        done = run(
            "--replicate-do-table=shop.orders", "--use=shop", "--statement=UPDATE orders SET x = 1", "--json"
        )
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout)
        assert told["verdict"] == "execute"
        assert told["rule"] == "--replicate-do-table=shop.orders"
        assert told["updated"] == [[[None, "orders"]]]
        assert [stop["then"] for stop in told["path"]] == ["go on", "execute"]

    @pytest.mark.parametrize(
        "text",
        [
            "DROP TABLE a; ; -- end",
            "DELETE FROM a WHERE x = ';b' OR x = ';'",
            "CREATE PROCEDURE p() BEGIN DELETE FROM a; DELETE FROM b; END",
            "CREATE TRIGGER r AFTER INSERT ON a FOR EACH ROW BEGIN DELETE FROM b; END",
            "CREATE EVENT e ON SCHEDULE EVERY 1 DAY DO BEGIN DELETE FROM a; END",
        ],
    )
    def test_a_semicolon_inside_or_after_a_statement(self, text: str) -> None:
        assert run("--statement", text).returncode == 0

    def test_the_families_differ(self) -> None:
        statement = ["--binlog-do-db=d1", "--statement", "CREATE TABLE d1.t (a INT)"]
        answers = {
            family: run(*statement, f"--family={family}").stdout.splitlines()[-1]
            for family in ("mysql", "mariadb")
        }
        assert answers == {"mysql": "verdict: execute", "mariadb": "verdict: not written"}

    def test_the_versions_of_mariadb_differ(self) -> None:
        statement = ["--replicate-wild-do-table=cafe.%", "--statement=INSERT INTO `café`.t VALUES (1)"]
        answers = [run(*statement, f"--family={family}") for family in ("mariadb", "mariadb-11.5")]
        assert [done.stdout.splitlines()[-1] for done in answers] == [
            "verdict: execute, by --replicate-wild-do-table=cafe.%",
            "verdict: ignore",
        ]

    def test_a_set_says_its_version(self) -> None:
        sent = {}
        for folder in ("mariadb-names", "mariadb118-names"):
            done = run(str(DATA / "recordings" / folder), "--replicate-wild-do-table=cafe.%", "--json")
            assert done.returncode == 0, done.stderr
            subjects = json.loads(done.stdout)["subjects"]
            sent[folder] = {
                one["name"] for one in subjects if one["verdict"] == "execute" and one["kind"] == "rows"
            }
        assert sent == {"mariadb-names": {"café.t"}, "mariadb118-names": set()}

    def test_a_set(self) -> None:
        done = run(STATEMENTS, "--filter-semantics=effective", "--ignore=%.%", "--do=shop.orders", "--json")
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout)
        assert told["rules"] == ["--do=shop.orders", "--ignore=%.%"]
        assert {"EFFECTIVE_DO", "EFFECTIVE_IGNORE"} <= {subject["step"] for subject in told["subjects"]}
        assert told["counts"]["bytes_dropped"] > 0

    def test_events(self) -> None:
        done = run(STATEMENTS, "--replicate-do-db=shop", "--events")
        assert done.returncode == 0, done.stderr
        lines = done.stdout.splitlines()
        assert lines[0].startswith("bin.000001:")
        assert any("sent" in line and "--replicate-do-db=shop" in line for line in lines)
        assert len(lines) == len(run(STATEMENTS, "--events", "--json").stdout.splitlines())

    @pytest.mark.parametrize(
        ("arguments", "code", "said"),
        [
            ([], 2, "name a binlog set or a statement"),
            ([STATEMENTS, "--statement=BEGIN"], 2, "one of the two"),
            ([STATEMENTS, "--use=a"], 2, "--use goes with --statement"),
            ([STATEMENTS, "--family=mysql"], 2, "--family goes with --statement"),
            (["--statement=BEGIN", "--events"], 2, "--events goes with a binlog set"),
            (["nowhere"], 1, "nowhere"),
            (["--statement=BEGIN", "--replicate-do-table=t"], 2, "--replicate-do-table=t"),
            (["--statement=BEGIN", "--do=a.b"], 2, "unknown option '--do'"),
            (["--statement=DROP TABLE a; DROP TABLE b"], 2, "several statements"),
            (["--statement=USE a; BEGIN"], 2, "with --use for USE"),
        ],
    )
    def test_wrong_input_is_one_line_and_a_code(
        self, arguments: list[str | Path], code: int, said: str
    ) -> None:
        done = run(*arguments)
        assert done.returncode == code
        assert said in done.stderr
        assert done.stderr.startswith("dumpfilter: ")
        assert "Traceback" not in done.stderr


def test_events_that_a_server_writes_meanwhile_are_left_out(tmp_path: Path) -> None:
    source = DATA / "recordings" / "mysql-databases" / "bin.000001"
    with source.open("rb") as file:
        begins = [event.offset for event in iter_events(file, file="") if event.type == EventType.GTID]
    data, growing = source.read_bytes(), tmp_path / "bin.000001"
    growing.write_bytes(data[: begins[3]])
    whole = list(explain_events(BinlogSet.open(growing), Filters(Filter())))
    found = explain_events(BinlogSet.open(growing), Filters(Filter()))
    first = next(found)
    with growing.open("ab") as file:
        file.write(data[begins[3] : begins[5]])
    assert [first, *found] == whole
    assert all(event.sent for event in whole)
