"""Statements made around known tables: the parser finds the tables, and filters decide as the manual describes."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from dumpfilter.binlog.format import NameRules
from dumpfilter.binlog.query import TableName
from dumpfilter.binlog.statement.facts import read_text
from dumpfilter.binlog.statement.parse import grant_tables, make_statement
from dumpfilter.binlog.statement.statement import Statement
from dumpfilter.filter.base import Verdict
from dumpfilter.filter.filter import Filter
from dumpfilter.filter.rules import Rule
from tests.binlog.statement.made import MadeStatement, made_statements, table_names
from tests.filter.plain import Names, PlainFilter
from tests.strategies import rules


def made_subject(made: MadeStatement, family: str, current: str | None) -> Statement:
    """Return the subject of the statement, from the parts that it was made of."""
    updated = made.updated
    if made.grants and updated is not None:
        parsed = read_text(made.text, family=family)  # type: ignore[arg-type]
        assert parsed.updated is not None
        grants = parsed.updated[-1]
        assert set(grants) <= {*grant_tables("mysql"), *grant_tables("mariadb", "*")}
        updated = (*updated, grants)
    return Statement(made.kind, current, None, None, updated)


@settings(max_examples=250, deadline=None)
@given(made=made_statements(), family=st.sampled_from(["mysql", "mariadb"]))
def test_a_text_is_read_as_what_it_was_made_of(made: MadeStatement, family: str) -> None:
    parsed = read_text(made.text, family=family)  # type: ignore[arg-type]
    read = make_statement(parsed, current_database="now", table_map_for_update=made.table_map)
    wanted = made_subject(made, family, "now")
    assert (read.kind, read.updated) == (wanted.kind, wanted.updated), made.text


@settings(max_examples=250, deadline=None)
@given(
    made=made_statements(),
    given_rules=rules(),
    current=st.sampled_from([None, "shop", "logs", "a_b"]),
    family=st.sampled_from(["mysql", "mariadb"]),
    lower=st.booleans(),
    involved=st.lists(table_names, max_size=3).map(tuple),
    data=st.data(),
)
def test_the_verdict_is_the_manuals(
    made: MadeStatement,
    given_rules: list[Rule],
    current: str | None,
    family: str,
    lower: bool,
    involved: tuple[TableName, ...],
    data: st.DataObject,
) -> None:
    """The parser and the filter agree with the plain filter, which gets the parts that the text was made of.

    The verdict does not depend on the order of the rules, except of rewrites with the same FROM: the first counts.
    """
    parsed = read_text(made.text, family=family)  # type: ignore[arg-type]
    statement = make_statement(
        parsed, current_database=current, table_map_for_update=made.table_map, tables_info=involved
    )
    rule_filter = Filter(given_rules, names=NameRules(family, lower_case_table_names=int(lower)))  # type: ignore[arg-type]
    subject = made_subject(made, family, current)
    if subject.updated is None:
        subject = replace(subject, involved=involved)
    plain = PlainFilter(given_rules, Names(family, lower)).statement(subject)
    expected = {True: Verdict.EXECUTE, False: Verdict.IGNORE, None: Verdict.UNDECIDED}[plain]
    decision = rule_filter.decide(statement)
    assert decision.verdict is expected, (made.text, decision)
    if decision.rule is not None:
        assert decision.rule in given_rules
    rewrites = [rule for rule in given_rules if rule.kind.value == "replicate-rewrite-db"]
    others = data.draw(st.permutations([rule for rule in given_rules if rule not in rewrites]))
    shuffled = Filter([*others, *rewrites], names=NameRules(family, lower_case_table_names=int(lower)))  # type: ignore[arg-type]
    assert shuffled.decide(statement).verdict is expected
