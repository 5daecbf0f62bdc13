"""Imposed filters, the filter of kinds of statement, the combination of filters, and the origin filter."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dumpfilter.base.errors import OptionError
from dumpfilter.binlog.statement.facts import read_text
from dumpfilter.binlog.statement.parse import make_statement
from dumpfilter.binlog.statement.statement import Statement, StatementKind
from dumpfilter.filter.base import (
    ROWS,
    AllFilters,
    BoundaryFilter,
    KindFilter,
    OnUndecided,
    OriginFilter,
    Step,
    Verdict,
    kind_name,
)
from dumpfilter.filter.convert import origin_from_proto, origin_to_proto
from dumpfilter.filter.effective import EffectiveFilter
from dumpfilter.filter.filter import Filter
from dumpfilter.filter.flags import FILTER_BINLOG_SEND_F, FILTER_STOP_F, FILTER_UNDECIDED_F, TableFlags
from dumpfilter.filter.rules import Rule
from dumpfilter.index.subjects import Subjects
from dumpfilter.v1 import dumpfilter_pb2 as pb
from tests.strategies import DATABASES, TABLES
from tests.strategies import rules as rule_lists

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


@pytest.mark.parametrize(
    ("rules", "verdict"),
    [
        (NO_SALARIES, OPEN),
        (Filter.from_options(["--replicate-wild-ignore-table=hr.sal%"]), OPEN),
        (Filter.from_options(["--replicate-do-table=hr.public"]), OPEN),
        (Filter.from_options(["--replicate-wild-do-table=hr.p%"]), OPEN),
        (EffectiveFilter.from_options(["--ignore=%.salaries"]), OPEN),
        (Filter.from_options(["--replicate-ignore-table=shop.orders"]), PASS),
        (Filter.from_options(["--replicate-wild-ignore-table=shop.%"]), PASS),
        (Filter.from_options(["--replicate-wild-do-table=hr.%", "--replicate-do-table=shop.t"]), PASS),
        (Filter.from_options(["--replicate-do-db=hr", "--replicate-do-db=shop"]), PASS),
        (NO_HR, DROP),
    ],
)
def test_a_function_may_write_any_table_of_its_databases(rules: Filter, verdict: Verdict) -> None:
    call = make_statement(
        read_text("SELECT `hr`.`f`(5000)"), current_database="shop", updated_databases=("hr",)
    )
    assert BoundaryFilter(rules).decide(call).verdict is verdict


@given(rule_lists(), st.sampled_from(DATABASES), st.sampled_from(TABLES))
def test_a_filter_that_drops_no_rows_of_a_database(
    given_rules: list[Rule], database: str, table: str
) -> None:
    made = Filter([rule for rule in given_rules if not rule.kind.is_rewrite])
    assert made.rows_ok(database, table) or made.may_drop_rows_of(database)


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


KINDS = [kind.value for kind in StatementKind] + [ROWS]
NAMES = st.sets(st.sampled_from(KINDS), max_size=4)


@given(NAMES, NAMES, st.sampled_from(list(StatementKind)))
def test_only_and_ignored(only: set[str], ignored: set[str], kind: StatementKind) -> None:
    made = KindFilter(only, ignored)
    passes = kind.value not in ignored and (not only or kind.value in only)
    verdict = made.verdict(Statement(kind, "d"))
    if kind is StatementKind.UNKNOWN and only and not passes and kind.value not in ignored:
        assert verdict is Verdict.UNDECIDED
    else:
        assert verdict.passes is passes
    assert made.rows_ok("d", "t") is (ROWS not in ignored and (not only or ROWS in only))
    assert made.is_on is bool(only or ignored)


@given(st.sampled_from(KINDS), st.sampled_from([str.lower, str.upper, str.title]), st.sampled_from("-_ "))
def test_however_it_is_written(name: str, case: object, between: str) -> None:
    assert kind_name(case(name).replace(" ", between), "--statement-kind") == name  # type: ignore[operator]


def test_a_kind_that_there_is_not() -> None:
    with pytest.raises(OptionError, match=r"^--ignore-statement-kind=upsert: .* INSERT, REPLACE, .* ROWS$"):
        KindFilter(ignored=["upsert"])


def test_all_of_several_must_pass() -> None:
    rules = Filter.from_options(["--replicate-do-db=d", "--replicate-rewrite-db=e->d"])
    both = AllFilters([rules, KindFilter(ignored=["DROP TABLE"])])
    assert both.verdict(Statement(StatementKind.INSERT, "d")).passes
    assert not both.verdict(Statement(StatementKind.DROP_TABLE, "d")).passes
    assert not both.verdict(Statement(StatementKind.INSERT, "x")).passes
    assert both.rows_ok("e", "t")
    assert not both.rows_ok("x", "t")
    assert both.rewrite_db("e") == "d"
    assert both.rewrite_table("e", "t") == ("d", "t")
    assert not AllFilters([Filter(), KindFilter()]).is_on
    assert AllFilters([Filter(), KindFilter()]).rows_ok("any", "thing")


IDS = st.frozensets(st.integers(0, (1 << 32) - 1), max_size=4)


@st.composite
def origins(draw: st.DrawFn) -> OriginFilter:
    do, ignore = draw(st.sampled_from([(IDS, st.just(frozenset())), (st.just(frozenset()), IDS)]))
    return OriginFilter(draw(IDS), draw(do), draw(ignore), draw(st.integers(0, 3)))


@given(origin=origins())
def test_over_the_wire(origin: OriginFilter) -> None:
    made = origin_from_proto(pb.OriginFilter.FromString(origin_to_proto(origin).SerializeToString()))
    assert made == (origin if origin.is_on else None)


def test_nothing_wanted_is_everything() -> None:
    assert origin_from_proto(pb.OriginFilter()) is None
    assert origin_to_proto(None) == pb.OriginFilter()
    assert not OriginFilter().is_on
    assert OriginFilter().wants(1, 0, writer=1)


def test_servers() -> None:
    origin = OriginFilter(frozenset({7}), own_server_id=3)
    assert origin.is_on
    assert [origin.wants(server, None, writer=1) for server in (1, 3, 7)] == [True, False, False]
    # the slave wants its own transactions from its own binlog; IGNORE_SERVER_IDS stays in force
    assert [origin.wants(server, None, writer=3) for server in (1, 3, 7)] == [True, True, False]
    assert OriginFilter(frozenset({7})).wants(7, None, writer=7) is False


def test_domains() -> None:
    """Domain lists do not apply to events without a domain, as in MariaDB 10.11."""
    do, ignore = OriginFilter(do_domain_ids=frozenset({0, 5})), OriginFilter(ignore_domain_ids=frozenset({3}))
    assert [do.wants(1, domain, writer=1) for domain in (0, 3, 5, None)] == [True, False, True, True]
    assert [ignore.wants(1, domain, writer=1) for domain in (0, 3, 5, None)] == [True, False, True, True]


@pytest.mark.parametrize(
    ("given_ids", "words"),
    [
        ({"do_domain_ids": {1}, "ignore_domain_ids": {2}}, "cannot be given together"),
        ({"ignore_server_ids": {1 << 32}}, "ignore_server_ids: 4294967296"),
        ({"do_domain_ids": {-1}}, "do_domain_ids: -1"),
        ({"own_server_id": 1 << 32}, "own_server_id"),
    ],
)
def test_what_cannot_be(given_ids: dict[str, object], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        OriginFilter(**given_ids)  # type: ignore[arg-type]


def test_both_over_the_wire() -> None:
    with pytest.raises(OptionError):
        origin_from_proto(pb.OriginFilter(do_domain_ids=[1], ignore_domain_ids=[1]))
