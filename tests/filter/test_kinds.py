"""The filter of kinds of statement, and the filter that combines filters."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dumpfilter.base.errors import OptionError
from dumpfilter.binlog.statement import Statement, StatementKind
from dumpfilter.filter import Filter
from dumpfilter.filter.decision import Verdict
from dumpfilter.filter.kinds import ROWS, AllFilters, KindFilter, kind_name

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
