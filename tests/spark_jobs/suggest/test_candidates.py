"""Tests of the rules that a search tries."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dumpfilter.filter.filter import make_filter
from dumpfilter.filter.rules import FilterSemantics
from dumpfilter.index.subjects import TableSubject
from dumpfilter.spark_jobs.suggest.search import candidates

_NAMES = st.text("ab_%\\1", min_size=1, max_size=6)
_TABLES = st.dictionaries(
    st.builds(TableSubject, st.sampled_from(["shop", "a_b", "axb", "x%", "c\\d", "mysql"]), _NAMES),
    st.integers(0, 1000),
    max_size=12,
)


@given(weights=_TABLES, semantics=st.sampled_from(FilterSemantics))
def test_a_rule_drops_its_tables_and_no_other(
    weights: dict[TableSubject, int], semantics: FilterSemantics
) -> None:
    """The filter with a suggested rule drops the rows of exactly the tables that the candidate names."""
    for one, weight in candidates(weights):
        rule_filter = make_filter(semantics, [one.rule(semantics)])
        dropped = {table for table in weights if not rule_filter.rows_ok(table.database, table.table)}
        assert dropped == one.tables
        assert weight == sum(weights[table] for table in one.tables)


@given(weights=_TABLES, data=st.data())
def test_kept_tables_are_never_dropped(weights: dict[TableSubject, int], data: st.DataObject) -> None:
    kept = data.draw(st.sets(st.sampled_from(sorted(weights, key=str)))) if weights else set()
    assert not any(one.tables & kept for one, _ in candidates(weights, kept))


def test_names_with_dots_have_no_patterns() -> None:
    """The pattern ``shop.a%`` also matches the database ``shop.a``, so that only exact rules are tried."""
    weights = {TableSubject("shop", "a_1"): 9, TableSubject("shop", "a_2"): 5, TableSubject("shop.a", "b"): 3}
    assert {str(one.rule(FilterSemantics.CLASSIC)) for one, _ in candidates(weights)} == {
        "--replicate-ignore-table=shop.a_1",
        "--replicate-ignore-table=shop.a_2",
    }


def test_system_schemas_are_left_alone() -> None:
    """No rule is about a system schema, and no rule for all databases matches one of its tables by chance."""
    weights = {
        TableSubject("mysql", "log_a"): 9,
        TableSubject("shop", "log_a"): 5,
        TableSubject("crm", "log_b"): 3,
    }
    rules = {str(one.rule(FilterSemantics.CLASSIC)) for one, _ in candidates(weights)}
    assert rules == {
        "--replicate-ignore-table=shop.log_a",
        "--replicate-ignore-table=crm.log_b",
        "--replicate-wild-ignore-table=shop.%",
        "--replicate-wild-ignore-table=crm.%",
        "--replicate-wild-ignore-table=shop._%",
        "--replicate-wild-ignore-table=crm._%",
    }


def test_no_rule_names_a_nul_character() -> None:
    """No server has such names, but a made binlog can. The other tables have their rules."""
    weights = {TableSubject("shop", "a\0b"): 9, TableSubject("c\0d", "t"): 5, TableSubject("crm", "t"): 3}
    rules = {str(one.rule(FilterSemantics.CLASSIC)) for one, _ in candidates(weights)}
    assert rules == {
        "--replicate-ignore-table=crm.t",
        "--replicate-wild-ignore-table=crm.%",
        "--replicate-wild-ignore-table=crm._%",
    }


def test_common_beginnings() -> None:
    """Tables whose names begin alike, up to an underscore or a number, have one rule."""
    weights = {TableSubject("s_1", name): 1 for name in ("tmp_a", "tmp_b", "part7", "part12", "order")}
    rules = {str(one.rule(FilterSemantics.CLASSIC)) for one, _ in candidates(weights) if one.is_prefix}
    assert {
        r"--replicate-wild-ignore-table=s\_1.tmp\_%",
        r"--replicate-wild-ignore-table=s\_1.part%",
    } <= rules
