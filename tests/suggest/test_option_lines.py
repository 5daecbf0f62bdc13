"""Tests of rules as lines of an option file."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dumpfilter.filter.rules import RuleKind, make_rule
from dumpfilter.options.my_cnf import FileOption, parse
from dumpfilter.suggest.option_lines import option_line

_VALUES = st.text(st.characters(codec="ascii", exclude_characters="\0\r"), min_size=1, max_size=20)


@given(value=_VALUES)
def test_an_option_file_gives_the_rule_back(value: str) -> None:
    line = option_line(make_rule(RuleKind.IGNORE_DB, value))
    assert "\n" not in line
    (option,) = parse(f"[mysqld]\n{line}\n", "my.cnf")
    assert isinstance(option, FileOption)
    assert (option.name, option.value) == ("replicate-ignore-db", value)


@pytest.mark.skipif(shutil.which("my_print_defaults") is None, reason="needs MariaDB's my_print_defaults")
def test_a_server_reads_the_same(tmp_path: Path) -> None:
    r"""MariaDB's own reader of option files gives the values back, with quotes, backslashes, spaces and signs."""
    values = [r"shop\_01.tmp\_%", "a #1.t", "it's.t", 'q".t', "b\\n.t", "c\\\\.t", " d .t", "e\\", "f;g.t"]
    rules = [make_rule(RuleKind.WILD_IGNORE_TABLE, value + ".x") for value in values]
    file = tmp_path / "my.cnf"
    file.write_text("\n".join(["[mysqld]", *map(option_line, rules), ""]))
    told = subprocess.run(
        ["my_print_defaults", f"--defaults-file={file}", "mysqld"], check=True, capture_output=True, text=True
    )
    assert told.stdout.splitlines() == [str(rule) for rule in rules]
