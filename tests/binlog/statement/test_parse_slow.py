"""The parser of binlogged statements reads texts of 16 MB."""

from __future__ import annotations

import pytest

from dumpfilter.binlog.query import TableName
from dumpfilter.binlog.statement.facts import read_text

_SIZE = 16 << 20


# The texts themselves would stay in the memory of each worker.
@pytest.mark.parametrize(
    ("before", "repeated", "after"),
    [
        ("INSERT INTO a.t VALUES ('", "x", "')"),
        ("INSERT INTO a.t VALUES ", "(1,2),\n", ""),
        ("'", "\\'", ""),
        ('"', '\\"', ""),
        ("ALTER TABLE a.t COMMENT '", "\\'", ""),
        ("ALTER TABLE a.t COMMENT '", "''", ""),
        ("ALTER TABLE a.t ", "ADD i INT, ", ""),
        ("DROP TABLE ", "`", "x"),
        ("DROP TABLE ", "a.b,", "c"),
        ("/*", "*", ""),
        ("", "/*", ""),
        ("", "/*!", ""),
        ("-- ", "-", ""),
        ("", "\n", "DROP DATABASE a"),
        ("DROP DATABASE ", "a", ""),
        ("CREATE ", "OR REPLACE ", ""),
        ("CREATE DEFINER=", "(", ""),
        ("LOAD DATA ", "(", ""),
        ("RENAME TABLE ", "a TO b, ", ""),
        ("", "\\", ""),
    ],
)
def test_very_long_statements(before: str, repeated: str, after: str) -> None:
    """The parser comes to an end with texts of 16 MB. A bench measures the time."""
    parsed = read_text(before + repeated * (_SIZE // len(repeated)) + after)
    assert parsed.updated is None or len(parsed.updated) <= 1
    if before.startswith("INSERT"):
        assert parsed.updated == ((TableName("a", "t"),),)
