"""The parser of binlogged statements reads texts of 16 MB."""

from __future__ import annotations

import pytest

from dumpfilter.binlog.statement import TableName, read_text

_SIZE = 16 << 20


@pytest.mark.parametrize(
    "text",
    [
        "INSERT INTO a.t VALUES ('" + "x" * _SIZE + "')",
        "INSERT INTO a.t VALUES " + "(1,2),\n" * (_SIZE // 7),
        "'" + "\\'" * (_SIZE // 2),
        '"' + '\\"' * (_SIZE // 2),
        "ALTER TABLE a.t COMMENT '" + "\\'" * (_SIZE // 2),
        "ALTER TABLE a.t COMMENT '" + "''" * (_SIZE // 2),
        "ALTER TABLE a.t " + "ADD i INT, " * (_SIZE // 11),
        "DROP TABLE " + "`" * _SIZE + "x",
        "DROP TABLE " + "a.b," * (_SIZE // 4) + "c",
        "/*" + "*" * _SIZE,
        "/*" * (_SIZE // 2),
        "/*!" * (_SIZE // 3),
        "-- " + "-" * _SIZE,
        "\n" * _SIZE + "DROP DATABASE a",
        "DROP DATABASE " + "a" * _SIZE,
        "CREATE " + "OR REPLACE " * (_SIZE // 11),
        "CREATE DEFINER=" + "(" * _SIZE,
        "LOAD DATA " + "(" * _SIZE,
        "RENAME TABLE " + "a TO b, " * (_SIZE // 8),
        "\\" * _SIZE,
    ],
    ids=lambda text: text[:24].strip(),
)
def test_very_long_statements(text: str) -> None:
    """The parser comes to an end with texts of 16 MB. A bench measures the time."""
    parsed = read_text(text)
    assert parsed.updated is None or len(parsed.updated) <= 1
    if text.startswith("INSERT"):
        assert parsed.updated == ((TableName("a", "t"),),)
