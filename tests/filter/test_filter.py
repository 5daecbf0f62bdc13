"""The classic filter, compared with the manual's steps (tests/filter/plain.py)."""

from __future__ import annotations

import importlib
import random
from typing import Literal

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dumpfilter.base.errors import OptionError
from dumpfilter.binlog.format import NameCollation, NameRules
from dumpfilter.binlog.statement.parse import make_statement, parse_statement
from dumpfilter.binlog.statement.statement import Statement, StatementKind
from dumpfilter.filter.base import Verdict
from dumpfilter.filter.filter import Filter, make_filter
from dumpfilter.filter.rules import (
    EffectiveRuleKind,
    FilterSemantics,
    Rule,
    RuleKind,
    WriteRuleKind,
    make_rule,
    parse_option,
)
from dumpfilter.index.subjects import TableSubject
from tests.filter.plain import Names, PlainFilter

Family = Literal["mysql", "mariadb"]

# Names whose case, accents and width matter. plain.Names compares them as the servers do.
DATABASES = ["shop", "Shop", "logs", "a_b", "axb", "é", "É", "e", "ß", "🙂", ""]
TABLES = ["t", "T", "t_1", "tx1", "é", "ß", "s", "ſ", "ss", "d.t"]

names = st.sampled_from(DATABASES)
tables = st.tuples(names, st.sampled_from(TABLES))
patterns = st.sampled_from(
    [
        "shop.%",
        "SHOP.%",
        "%.t",
        "%.T",
        "a_b.%",
        "a\\_b.%",
        "_.%",
        "__.%",
        "%.e",
        "%.é",
        "%.",
        "%.%",
        "é.%",
        "%s.t%",
    ]
)


@st.composite
def rule_lists(draw: st.DrawFn, kinds: tuple[RuleKind, ...] = tuple(RuleKind)) -> list[Rule]:
    made = []
    for kind in draw(st.lists(st.sampled_from(kinds), max_size=5)):
        if kind in (RuleKind.DO_DB, RuleKind.IGNORE_DB):
            value = draw(names.filter(bool))
        elif kind is RuleKind.REWRITE_DB:
            value = f"{draw(names.filter(bool))}->{draw(names.filter(bool))}"
        elif kind in (RuleKind.DO_TABLE, RuleKind.IGNORE_TABLE):
            value = ".".join(draw(tables))
        else:
            value = draw(patterns)
        made.append(make_rule(kind, value))
    return made


statements = st.builds(
    Statement,
    st.sampled_from(StatementKind),
    st.one_of(st.none(), names.filter(bool)),
    st.one_of(st.none(), names.filter(bool)),
)
families = st.sampled_from(["mysql", "mariadb"])
lower = st.sampled_from([0, 1, 2])
collations = st.sampled_from(NameCollation)


@given(
    given_rules=rule_lists(),
    family=families,
    lower_case=lower,
    collation=collations,
    database=names,
    several=st.lists(tables, max_size=4),
    statement=statements,
)
def test_against_the_manual(
    given_rules: list[Rule],
    family: Family,
    lower_case: int,
    collation: NameCollation,
    database: str,
    several: list[tuple[str, str]],
    statement: Statement,
) -> None:
    rules = Filter(given_rules, names=NameRules(family, collation, lower_case))
    plain = PlainFilter(given_rules, Names(family, bool(lower_case), collation))
    assert rules.db_ok(database) == plain.db_ok(database)
    assert rules.db_ok(None) == plain.db_ok(None)
    assert rules.rewrite_db(database) == plain.rewrite(database)
    assert rules.tables_ok(several) == plain.tables_ok(several)
    assert rules.db_ok_with_wild_table(database) == plain.db_ok_with_wild_table(database)
    assert rules.table_rules_on == plain.table_rules
    for db, table in several:
        passes = plain.rows(db, table)
        assert rules.rows_ok(db, table) == passes
        assert rules.verdict(TableSubject(db, table)) is (Verdict.EXECUTE if passes else Verdict.IGNORE)
        if not rules.is_on:
            assert passes
    wanted = {True: Verdict.EXECUTE, False: Verdict.IGNORE, None: Verdict.UNDECIDED}[
        plain.statement(statement)
    ]
    assert rules.verdict(statement) is wanted
    assert wanted.passes == (wanted is not Verdict.IGNORE)


@given(
    given_rules=rule_lists(),
    family=families,
    several=st.lists(tables, max_size=4),
    statement=statements,
    seed=st.randoms(use_true_random=False),
)
def test_order_does_not_matter(
    given_rules: list[Rule],
    family: Family,
    several: list[tuple[str, str]],
    statement: Statement,
    seed: random.Random,
) -> None:
    sources = [rule.pair[0] for rule in given_rules if rule.kind is RuleKind.REWRITE_DB]
    assume(len(set(sources)) == len(sources))
    shuffled = seed.sample(given_rules, len(given_rules))
    one, other = Filter(given_rules, names=NameRules(family)), Filter(shuffled, names=NameRules(family))
    assert one.tables_ok(several) == other.tables_ok(several)
    assert one.verdict(statement) is other.verdict(statement)
    for db, table in several:
        assert one.rows_ok(db, table) == other.rows_ok(db, table)


def _filter(*options: str, family: Family = "mysql") -> Filter:
    return Filter.from_options([f"--replicate-{option}" for option in options], names=NameRules(family))


class TestTheTable:
    """The rules of the semantics page, one by one."""

    def test_no_rules(self) -> None:
        rules = _filter()
        assert not rules.is_on
        assert rules.db_ok("a")
        assert rules.db_ok(None)
        assert rules.rows_ok("a", "t")
        assert not rules.tables_ok([])

    def test_do_db_makes_ignore_db_meaningless(self) -> None:
        rules = _filter("do-db=a", "ignore-db=a", "ignore-db=b")
        assert rules.db_ok("a")
        assert not rules.db_ok("b")
        assert not rules.db_ok("c")

    def test_a_name_with_a_comma_is_one_name(self) -> None:
        assert not _filter("do-db=a,b").db_ok("a")
        assert _filter("do-db=a,b").db_ok("a,b")

    def test_the_first_table_that_is_decided_decides(self) -> None:
        rules = _filter("do-table=a.x", "ignore-table=a.y")
        assert rules.tables_ok([("a", "z"), ("a", "x"), ("a", "y")])
        assert not rules.tables_ok([("a", "z"), ("a", "y"), ("a", "x")])
        assert not rules.tables_ok([("a", "z")])
        assert _filter("ignore-table=a.y").tables_ok([("a", "z")])

    def test_exact_before_wild_and_do_before_ignore(self) -> None:
        assert _filter("do-table=a.x", "ignore-table=a.x").rows_ok("a", "x")
        assert _filter("wild-do-table=a.%", "wild-ignore-table=a.%").rows_ok("a", "x")
        assert not _filter("wild-do-table=a.%", "ignore-table=a.x").rows_ok("a", "x")
        assert _filter("do-table=a.x", "wild-ignore-table=a.%").rows_ok("a", "x")

    def test_database_rules_come_first(self) -> None:
        assert not _filter("do-db=b", "do-table=a.x").rows_ok("a", "x")
        assert not _filter("ignore-db=a", "wild-do-table=%.%").rows_ok("a", "x")

    def test_a_pattern_is_matched_against_the_whole_name(self) -> None:
        rules = _filter("wild-do-table=a%.t")
        assert rules.rows_ok("a", "x.t")
        assert rules.rows_ok("a.x", "t")

    def test_databases_and_wild_rules(self) -> None:
        rules = _filter("wild-do-table=a%.%", "wild-ignore-table=%.%")
        assert rules.db_ok_with_wild_table("abc")
        assert not rules.db_ok_with_wild_table("b")
        assert not _filter("wild-do-table=a.t").db_ok_with_wild_table("a")
        assert _filter("wild-ignore-table=a.t").db_ok_with_wild_table("a")

    @pytest.mark.parametrize(
        ("rules", "verdict"),
        [
            ("wild-do-table=shop.%", Verdict.IGNORE),
            ("wild-do-table=h_.t%", Verdict.UNDECIDED),
            ("wild-do-table=%.t", Verdict.UNDECIDED),
            ("wild-do-table=h\\_.t", Verdict.IGNORE),
            ("do-table=hr.t", Verdict.UNDECIDED),
            ("do-table=shop.t", Verdict.IGNORE),
            ("do-table=shop.t wild-ignore-table=hr.%", Verdict.IGNORE),
            ("wild-ignore-table=hr.%", Verdict.IGNORE),
            ("wild-ignore-table=h%.%", Verdict.IGNORE),
            ("wild-ignore-table=hr.t%", Verdict.UNDECIDED),
            ("wild-ignore-table=hr.% do-table=hr.t", Verdict.UNDECIDED),
            ("ignore-table=hr.t", Verdict.UNDECIDED),
            ("rewrite-db=logs->hr wild-do-table=shop.%", Verdict.IGNORE),
            ("ignore-db=hr", Verdict.EXECUTE),
        ],
    )
    def test_drop_trigger_goes_by_all_tables_of_its_database(self, rules: str, verdict: Verdict) -> None:
        found = _filter(*rules.split())
        statement = make_statement(parse_statement("DROP TRIGGER IF EXISTS hr.g"), current_database="logs")
        assert found.verdict(statement) is verdict
        statement = make_statement(parse_statement("DROP TRIGGER g"), current_database="hr")
        assert found.verdict(statement) is (Verdict.IGNORE if rules == "ignore-db=hr" else verdict)

    def test_a_mariadb_replica_logs_drop_trigger_if_exists(self) -> None:
        rules = Filter.from_options(["--replicate-wild-do-table=shop.%"], names=NameRules("mariadb"))
        for text, verdict in (("", Verdict.IGNORE), ("IF EXISTS ", Verdict.UNDECIDED)):
            facts = parse_statement(f"DROP TRIGGER {text}hr.g", "mariadb")
            assert rules.verdict(make_statement(facts, current_database=None)) is verdict

    @pytest.mark.parametrize("family", ["mysql", "mariadb"])
    def test_a_replica_looks_for_the_table_of_a_grant_before_its_rules_for_grant_tables(
        self, family: Family
    ) -> None:
        rules = Filter.from_options(["--replicate-do-table=hr.t"], names=NameRules(family))
        for text, verdict in (
            ("GRANT SELECT ON hr.t TO u", Verdict.UNDECIDED),
            ("GRANT CREATE VIEW ON hr.t TO u", Verdict.UNDECIDED),
            ("GRANT CREATE, SELECT (i) ON hr.t TO u", Verdict.UNDECIDED),
            ("GRANT ALL ON PROCEDURE hr.t TO u", Verdict.UNDECIDED),
            ("GRANT CREATE ON hr.t TO u", Verdict.IGNORE),
            ("GRANT ALL PRIVILEGES ON TABLE hr.t TO u", Verdict.IGNORE),
            ("REVOKE SELECT (i) ON hr.t FROM u", Verdict.IGNORE),
            ("REVOKE EXECUTE ON PROCEDURE hr.t FROM u", Verdict.IGNORE),
        ):
            statement = make_statement(parse_statement(text, family), current_database="hr")
            assert rules.verdict(statement) is verdict, text

    @pytest.mark.parametrize("semantics", FilterSemantics)
    def test_a_mariadb_replica_that_passes_global_priv_sets_the_default_role(
        self, semantics: FilterSemantics
    ) -> None:
        facts = parse_statement("SET DEFAULT ROLE r FOR u", "mariadb")
        statement = make_statement(facts, current_database="hr")
        is_classic = semantics is FilterSemantics.CLASSIC
        option = "replicate-ignore-table" if is_classic else "ignore"
        for table, verdict in (("roles_mapping", Verdict.EXECUTE), ("global_priv", Verdict.UNDECIDED)):
            rule = parse_option(f"--{option}=mysql.{table}", semantics)
            rules = make_filter(semantics, [rule], names=NameRules("mariadb"))
            assert rules.verdict(statement) is verdict, table

    def test_mariadb_reads_a_rewritten_name_up_to_a_space(self) -> None:
        rule = make_rule(RuleKind.REWRITE_DB, "a b->x y")
        assert Filter([rule], names=NameRules("mariadb")).rewrite_db("a b") == "x"
        assert Filter([rule], names=NameRules("mysql")).rewrite_db("a b") == "x y"

    def test_rewriting_comes_first_and_once(self) -> None:
        rules = _filter("rewrite-db=a->b", "rewrite-db=b->c", "rewrite-db=a->z", "do-db=b")
        assert rules.rewrite_db("a") == "b"
        assert rules.rows_ok("a", "t")
        assert not rules.rows_ok("b", "t")
        assert not _filter("rewrite-db=a->b").is_on


@pytest.mark.parametrize("value", [-1, 3, 100])
def test_lower_case_table_names(value: int) -> None:
    with pytest.raises(OptionError, match="it is 0, 1 or 2"):
        Filter(names=NameRules(lower_case_table_names=value))


def test_a_bad_option_is_named() -> None:
    with pytest.raises(OptionError, match="replicate-do-table=t"):
        _filter("do-db=a", "do-table=t", "do-table=u")


@pytest.mark.parametrize("kind", [*EffectiveRuleKind, *WriteRuleKind])
def test_rules_of_another_kind_are_refused(kind: EffectiveRuleKind | WriteRuleKind) -> None:
    with pytest.raises(OptionError, match=f"unknown option '--{kind.option}' in classic filter semantics"):
        Filter([Rule(kind, "a.b")])


def test_repeated_rules_count_once() -> None:
    assert len(_filter("do-db=a", "do-db=a", "do-db=b").rules) == 2


def test_users_scripts_import_names_from_the_package() -> None:
    package = importlib.import_module("dumpfilter.filter")
    assert package.Filter is Filter
    assert package.RuleKind is RuleKind
    assert package.parse_option is parse_option
