"""MariaDB reads rules as lines of an option file."""

from __future__ import annotations

import subprocess
from pathlib import Path

from dumpfilter.filter.rules import RuleKind, make_rule
from dumpfilter.spark_jobs.suggest.search import option_line


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
