"""The verdicts of imposed filters about statements, and the fate of undecided ones."""

from __future__ import annotations

import pytest

from dumpfilter.binlog.statement import Statement, make_statement, read_text
from dumpfilter.filter import EffectiveFilter, Filter
from dumpfilter.filter.boundary import BoundaryFilter, OnUndecided
from dumpfilter.filter.decision import Step, Verdict
from dumpfilter.filter.flags import (
    FILTER_BINLOG_SEND_F,
    FILTER_STOP_F,
    FILTER_UNDECIDED_F,
    TableFlags,
)
from dumpfilter.index.subjects import Subjects

NO_HR = Filter.from_options(["--replicate-ignore-db=hr"])
NO_SALARIES = Filter.from_options(["--replicate-ignore-table=hr.salaries"])
ONLY_ORDERS = Filter.from_options(["--replicate-do-table=shop.orders"])
ONLY_SHOP = Filter.from_options(["--replicate-do-db=shop"])
EFFECTIVE = EffectiveFilter.from_options(["--ignore=hr.%"])


def statement(text: str, database: str = "shop", table_map: int | None = None) -> Statement:
    return make_statement(read_text(text), current_database=database, table_map_for_update=table_map)


PASS, DROP, OPEN = Verdict.EXECUTE, Verdict.IGNORE, Verdict.UNDECIDED


@pytest.mark.parametrize(
    ("rules", "text", "verdict"),
    [
        # The rules look at the current database alone. The boundary looks at the table.
        (NO_HR, "INSERT INTO orders VALUES (1)", PASS),
        (NO_HR, "INSERT INTO hr.emp VALUES ('x')", DROP),
        (NO_HR, "ALTER TABLE hr.emp ADD c INT DEFAULT 7", DROP),
        (NO_HR, "CREATE TRIGGER hr.t BEFORE INSERT ON hr.emp FOR EACH ROW SET @a = 'x'", DROP),
        (NO_HR, "CREATE PROCEDURE hr.p() INSERT INTO emp VALUES ('x')", DROP),
        (NO_HR, "CREATE PROCEDURE p() SELECT 1", PASS),
        (NO_HR, "SELECT hr.f('x')", OPEN),
        (NO_HR, "FROBNICATE hr.emp 'x'", OPEN),
        (NO_HR, "CREATE USER u IDENTIFIED BY 'x'", PASS),
        (ONLY_SHOP, "CREATE USER u IDENTIFIED BY 'x'", DROP),
        (ONLY_SHOP, "GRANT SELECT ON shop.orders TO u", DROP),
        # Texts that hold names alone are left to the rules.
        (NO_HR, "DROP TABLE hr.emp", PASS),
        (NO_HR, "RENAME TABLE hr.emp TO hr.staff", PASS),
        (NO_SALARIES, "DROP TRIGGER hr.t", OPEN),
        (NO_HR, "ANALYZE TABLE hr.emp, shop.orders", PASS),
        (NO_HR, "ANALYZE TABLE orders", PASS),
        # A histogram quotes values of the table.
        (NO_HR, "ANALYZE TABLE hr.emp UPDATE HISTOGRAM ON pay USING DATA '{\"buckets\": [[7, 1]]}'", DROP),
        # A statement that writes forbidden and allowed tables can neither be sent nor dropped.
        (NO_HR, "DELETE a, b FROM shop.a JOIN hr.b WHERE b.name = 'x'", OPEN),
        (ONLY_ORDERS, "DELETE o, s FROM orders AS o JOIN hr.salaries AS s WHERE s.name = 'x'", OPEN),
        (EFFECTIVE, "DELETE o, s FROM orders AS o JOIN hr.salaries AS s WHERE s.name = 'x'", OPEN),
        # A statement that only reads a forbidden table holds none of its rows.
        (NO_SALARIES, "INSERT INTO orders SELECT * FROM hr.salaries", PASS),
        (NO_SALARIES, "INSERT INTO hr.salaries VALUES (5)", DROP),
    ],
)
def test_statements(rules: Filter, text: str, verdict: Verdict) -> None:
    assert BoundaryFilter(rules).decide(statement(text)).verdict is verdict


def test_updates_of_several_tables() -> None:
    both = "UPDATE shop.orders, hr.salaries SET a = 1"
    boundary = BoundaryFilter(ONLY_ORDERS)
    assert boundary.decide(statement(both, table_map=1)).verdict is PASS
    decision = boundary.decide(statement(both, table_map=3))
    assert (decision.verdict, decision.step) == (OPEN, Step.WRITES_FORBIDDEN_TOO)
    decision = BoundaryFilter(NO_HR).decide(statement(both, table_map=2))
    assert (decision.verdict, decision.step) == (DROP, Step.WRITES_FORBIDDEN)


def test_a_view_of_a_forbidden_table() -> None:
    def write(rules: Filter, *updated: str) -> Verdict:
        parsed = read_text("INSERT INTO v VALUES ('x')")
        view = make_statement(parsed, current_database="shop", updated_databases=updated)
        return BoundaryFilter(rules).decide(view).verdict

    # A MySQL server lists the databases of the tables under the view.
    for rules in (NO_HR, ONLY_SHOP, EFFECTIVE):
        assert write(rules, "hr") is OPEN
        assert write(rules, "hr", "shop") is PASS
        assert write(rules, "shop") is PASS


def test_an_allowed_table_of_a_forbidden_database() -> None:
    rules = Filter.from_options(["--replicate-wild-ignore-table=hr.%", "--replicate-do-table=hr.public"])
    for text, verdict in (
        ("INSERT INTO hr.public VALUES (1)", PASS),
        ("INSERT INTO hr.other VALUES (1)", DROP),
    ):
        written = make_statement(read_text(text), current_database="shop", updated_databases=("hr",))
        assert BoundaryFilter(rules).decide(written).verdict is verdict


SEND, STOPS = FILTER_BINLOG_SEND_F, FILTER_STOP_F
FATES = OnUndecided


@pytest.mark.parametrize(
    ("imposed", "own", "bits"),
    [
        ([FATES.SEND], Filter(), SEND | FILTER_UNDECIDED_F),
        ([FATES.STOP], Filter(), STOPS | FILTER_UNDECIDED_F),
        ([FATES.DROP], Filter(), FILTER_UNDECIDED_F),
        ([FATES.STOP, FATES.DROP], Filter(), FILTER_UNDECIDED_F),
        ([FATES.SEND, FATES.STOP], Filter(), STOPS | FILTER_UNDECIDED_F),
        # The slave's own filter drops the statement, so the imposed filter need not decide.
        ([FATES.STOP], Filter.from_options(["--replicate-ignore-db=shop"]), 0),
    ],
)
def test_the_fate_of_an_undecided_statement(imposed: list[OnUndecided], own: Filter, bits: int) -> None:
    filters = [BoundaryFilter(NO_HR, fate, name=fate.value) for fate in imposed]
    flags = TableFlags(own, Subjects(), imposed=filters)
    wanted = SEND | STOPS | FILTER_UNDECIDED_F
    assert flags.bits(statement("FROBNICATE t")) & wanted == bits
    if bits & STOPS:
        assert flags.stopping(statement("FROBNICATE t")) == "stop"
    # A statement that holds only names never stops a dump.
    assert flags.bits(statement("DROP TABLE t")) & wanted in (SEND, 0)


def test_an_imposed_filter_serves_no_dump_from_a_split() -> None:
    assert TableFlags(NO_HR, Subjects()).is_plain
    assert not TableFlags(NO_HR, Subjects(), imposed=[BoundaryFilter(NO_SALARIES)]).is_plain
