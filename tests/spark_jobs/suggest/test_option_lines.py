"""Tests of rules as lines of an option file."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dumpfilter.base.options.config_files import GivenOption, parse
from dumpfilter.filter.rules import RuleKind, make_rule
from dumpfilter.spark_jobs.suggest.search import option_line

_VALUES = st.text(st.characters(codec="ascii", exclude_characters="\0\r"), min_size=1, max_size=20)


@given(value=_VALUES)
def test_an_option_file_gives_the_rule_back(value: str) -> None:
    line = option_line(make_rule(RuleKind.IGNORE_DB, value))
    assert "\n" not in line
    (option,) = parse(f"[mysqld]\n{line}\n", "my.cnf")
    assert isinstance(option, GivenOption)
    assert (option.name, option.value) == ("replicate-ignore-db", value)
