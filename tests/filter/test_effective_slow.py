"""The effective filter, compared with the worklog's steps (tests/filter/plain_effective.py) on drawn rules."""

from __future__ import annotations

import random
from typing import Literal

from hypothesis import given
from hypothesis import strategies as st

from dumpfilter.binlog.format import NameCollation, NameRules
from dumpfilter.binlog.query import TableName
from dumpfilter.binlog.statement.statement import Statement, StatementKind
from dumpfilter.filter.base import Decision, Step, Verdict
from dumpfilter.filter.effective import EffectiveFilter
from dumpfilter.filter.rules import EffectiveRuleKind, Rule, make_rule
from dumpfilter.index.subjects import TableSubject
from tests.filter.plain import Names
from tests.filter.plain_effective import PlainEffectiveFilter

Family = Literal["mysql", "mariadb"]
K = EffectiveRuleKind

DATABASES = ["abc", "ABC", "ab", "a_b", "axb", "é", "e", "a.b", "a%b", "a\\b", "db1", "db1_backup", "🙂", ""]
TABLES = ["EFG", "efg", "t", "T", "t_1", "tx1", "table2", "a.b", "é", "ß", "%", "🙂", "?"]
_PIECES = ["a", "ab", "abc", "b", "B", "t", "db1", "e", "é", "1", "\\_", "\\%", "\\\\", "\\."]

tables = st.tuples(st.sampled_from(DATABASES), st.sampled_from(TABLES))
families = st.sampled_from(["mysql", "mariadb"])
lower = st.sampled_from([0, 1, 2])


def _escaped(name: str) -> str:
    return "".join(f"\\{c}" if c in "%_.\\" else c for c in name)


def _side(names: list[str], *wild: str) -> st.SearchStrategy[str]:
    """Draw a pattern for one side of the dot, which mostly matches a name of the list."""
    from_pieces = st.lists(st.sampled_from([*_PIECES, *wild]), min_size=1, max_size=3).map("".join)
    whole = st.sampled_from([name for name in names if name]).map(_escaped)
    return st.one_of(st.just("%"), whole, from_pieces, st.sampled_from(["a%", "%b", "_", "t_1", "%_backup"]))


expressions = st.tuples(_side(DATABASES, "%", "_"), _side(TABLES, "%", "_", ".")).map(".".join)


@st.composite
def _rewritten_side(draw: st.DrawFn, names: list[str]) -> tuple[str, str]:
    """Draw one side of the dot in FROM and in TO."""
    name = draw(st.sampled_from([name for name in names if name]))
    new = draw(st.sampled_from(["abc", "new_", "db1", "é", "t"]))
    begin = draw(st.integers(0, len(name)))
    end = draw(st.integers(begin, len(name)))
    return draw(
        st.sampled_from(
            [
                ("%", "%"),
                ("%", f"{new}%"),
                (_escaped(name), new),
                (f"{_escaped(name[:begin])}%{_escaped(name[end:])}", f"{new}%"),
                (f"{_escaped(name[:begin])}%{_escaped(name[end:])}", new),
            ]
        )
    )


@st.composite
def rewrites(draw: st.DrawFn) -> str:
    (from_db, to_db), (from_table, to_table) = (
        draw(_rewritten_side(DATABASES)),
        draw(_rewritten_side(TABLES)),
    )
    return f"{from_db}.{from_table}->{to_db}.{to_table}"


filtering = st.tuples(st.sampled_from([K.DO, K.IGNORE, K.IGNORE]), expressions)
rule_lists = st.lists(
    st.one_of(filtering, filtering, st.tuples(st.just(K.REWRITE), rewrites())).map(
        lambda pair: make_rule(*pair)
    ),
    max_size=6,
)

_names = st.builds(TableName, st.none() | st.sampled_from(DATABASES), st.sampled_from(TABLES))
statements = st.builds(
    Statement,
    st.sampled_from(StatementKind),
    st.none() | st.sampled_from(DATABASES),
    st.none() | st.sampled_from(DATABASES),
    st.none() | st.lists(st.sampled_from(DATABASES), max_size=3).map(tuple),
    st.none() | st.lists(st.lists(_names, max_size=3).map(tuple), max_size=2).map(tuple),
)


@given(
    given_rules=rule_lists,
    family=families,
    lower_case=lower,
    collation=st.sampled_from(NameCollation),
    several=st.lists(tables, min_size=1, max_size=4),
    statement=statements,
)
def test_against_the_worklog(
    given_rules: list[Rule],
    family: Family,
    lower_case: int,
    collation: NameCollation,
    several: list[tuple[str, str]],
    statement: Statement,
) -> None:
    rules = EffectiveFilter(given_rules, names=NameRules(family, collation, lower_case))
    plain = PlainEffectiveFilter(given_rules, Names(family, bool(lower_case), collation))
    for database, table in several:
        assert rules.rewrite_db(database) == plain.rewrite_db(database)
        assert rules.rewrite_table(database, table) == plain.rewrite_table(database, table)
        passes = plain.rows(database, table)
        assert rules.rows_ok(database, table) == passes
        decision = rules.decide(TableSubject(database, table))
        _has_a_reason(decision, rules)
        assert decision.name == ".".join(rules.rewrite_table(database, table))
        if not rules.is_on:
            assert passes
    wanted = {True: Verdict.EXECUTE, False: Verdict.IGNORE, None: Verdict.UNDECIDED}
    decision = rules.decide(statement)
    assert decision.verdict is wanted[plain.statement(statement)]
    _has_a_reason(decision, rules)
    if not rules.is_on:
        assert decision.verdict is Verdict.EXECUTE


def _has_a_reason(decision: Decision, rules: EffectiveFilter) -> None:
    """Check that the step fits the verdict, and that a rule that decided is the filter's and of the step's kind."""
    verdict, kind = {
        Step.NO_RULES: (Verdict.EXECUTE, None),
        Step.EFFECTIVE_DO: (Verdict.EXECUTE, K.DO),
        Step.EFFECTIVE_IGNORE: (Verdict.IGNORE, K.IGNORE),
        Step.EFFECTIVE_NEITHER: (Verdict.EXECUTE, None),
        Step.EFFECTIVE_NOTHING: (Verdict.EXECUTE, None),
        Step.UNKNOWN_TABLES: (Verdict.UNDECIDED, None),
    }[decision.step]
    assert decision.verdict is verdict
    assert (decision.step is Step.NO_RULES) == (not rules.rules)
    if kind is None:
        assert decision.rule is None
    else:
        assert decision.rule in rules.rules
        assert decision.rule.kind is kind
        plain = PlainEffectiveFilter(
            rules.rules,
            Names(rules.names.family, bool(rules.names.lower_case_table_names), rules.names.collation),
        )
        assert any(
            plain.matches(decision.rule.value, decision.name[:k], decision.name[k + 1 :])
            for k, c in enumerate(decision.name)
            if c == "."
        )


@given(
    filtering_rules=st.lists(filtering.map(lambda pair: make_rule(*pair)), max_size=6),
    rewriting=st.lists(rewrites().map(lambda value: make_rule(K.REWRITE, value)), max_size=2),
    family=families,
    several=st.lists(tables, max_size=4),
    statement=statements,
    seed=st.randoms(use_true_random=False),
)
def test_order_does_not_matter_but_among_rewrites(
    filtering_rules: list[Rule],
    rewriting: list[Rule],
    family: Family,
    several: list[tuple[str, str]],
    statement: Statement,
    seed: random.Random,
) -> None:
    one = EffectiveFilter([*filtering_rules, *rewriting], names=NameRules(family))
    shuffled = seed.sample(filtering_rules, len(filtering_rules))
    place = seed.randint(0, len(shuffled))
    other = EffectiveFilter([*shuffled[:place], *rewriting, *shuffled[place:]], names=NameRules(family))
    assert one.verdict(statement) is other.verdict(statement)
    for database, table in several:
        assert one.rows_ok(database, table) == other.rows_ok(database, table)


@given(
    given_rules=rule_lists,
    family=families,
    current=st.sampled_from(DATABASES),
    name=tables.filter(lambda name: "🙂" not in "".join(name)),
)
def test_a_statement_of_one_table_is_decided_as_its_rows_are(
    given_rules: list[Rule], family: Family, current: str, name: tuple[str, str]
) -> None:
    """The verdict does not depend on the binlog format and the current database, as the worklog wants."""
    rules = EffectiveFilter(given_rules, names=NameRules(family))
    database, table = name
    rows = rules.decide(TableSubject(database, table))
    qualified = Statement(StatementKind.UPDATE, current, updated=((TableName(database, table),),))
    used = Statement(StatementKind.UPDATE, database, updated=((TableName(None, table),),))
    for statement in (qualified, used):
        decision = rules.decide(statement)
        assert decision.verdict is rows.verdict
        assert (decision.rule, decision.step) == (rows.rule, rows.step)
