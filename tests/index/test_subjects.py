"""Tests of the statements of events, and of the schema and table for which they stand in all reports."""

from __future__ import annotations

from typing import Any

import pytest

from dumpfilter.binlog.format import FormatDescription
from dumpfilter.binlog.query import TableName, decode_query
from dumpfilter.binlog.statement.statement import Statement, StatementKind
from dumpfilter.index.subjects import TableSubject, statement_of
from tests.strategies import DIALECTS


def made(**parts: Any) -> Statement:
    return Statement(**{"kind": StatementKind.UPDATE, "current_database": "here", **parts})


def test_schema_and_table() -> None:
    one, two, far = TableName(None, "one"), TableName(None, "two"), TableName("there", "far")
    assert TableSubject("shop", "orders").schema_and_table() == ("shop", "orders")
    assert made(updated=((one,),)).schema_and_table() == ("here", "one")
    assert made(updated=((far,),)).schema_and_table() == ("there", "far")
    assert made(updated=((one, two),)).schema_and_table() == ("here", None)
    assert made(updated=None, updated_databases=("there",)).schema_and_table() == ("there", None)
    assert made(updated=None, current_database=None).schema_and_table() == (None, None)
    created = made(kind=StatementKind.CREATE_DATABASE, database="new")
    assert created.schema_and_table() == ("new", None)


def test_a_statement_on_several_schemas_has_no_schema() -> None:
    both = made(updated=((TableName(None, "one"),), (TableName("there", "far"),)))
    assert both.schemas() == ("here", "there")
    assert both.schema_and_table() == (None, None)
    by_event = made(updated=None, updated_databases=("hr", "shop"))
    assert by_event.schemas() == ("hr", "shop")
    assert by_event.schema_and_table() == (None, None)


@pytest.mark.parametrize(
    ("collation", "text", "table"),
    [
        (8, b"INSERT INTO \xe9 VALUES ('\xa0')", "é"),
        (8, b"INSERT INTO `a\x81` VALUES (1)", "a\x81"),
        (22, b"INSERT INTO `\x95` VALUES (1)", "•"),  # koi8u
        (36, b"INSERT INTO `\xfc` VALUES (1)", "ⁿ"),  # cp866
        (25, b"INSERT INTO `\xa1` VALUES (1)", "ʽ"),  # greek
        (16, b"INSERT INTO `\xaf` VALUES (1)", "‾"),  # hebrew
        (45, b"INSERT INTO t VALUES ('\xff\\0')", "t"),
        (37, b"INSERT INTO t VALUES ('\x87')", "t"),
        # No codec, or not valid, or another name for the server.
        (37, b"INSERT INTO \x87asy VALUES (1)", None),  # keybcs2
        (92, b"INSERT INTO `\xc0` VALUES (1)", None),  # geostd8
        (3, b"INSERT INTO `\xd7` VALUES (1)", None),  # dec8
        (32, b"INSERT INTO `\xb2` VALUES (1)", None),  # armscii8
        (10, b"INSERT INTO `[` VALUES (1)", None),  # swe7
        (11, "INSERT INTO `é` VALUES (1)".encode(), None),  # ascii
        (12, b"INSERT INTO `\xc2\x80` VALUES (1)", None),  # bytes that are valid only in UTF-8
        (45, b"INSERT INTO `\xe9` VALUES (1)", None),
        (8, b"INSERT INTO\xa0t VALUES (1)", None),
        (28, b"UPDATE a JOIN b ON '\xa1\x5c' <> '' SET b.i = 1 WHERE '' = ''", None),
    ],
)
def test_tables_in_the_clients_character_set(collation: int, text: bytes, table: str | None) -> None:
    numbers = collation.to_bytes(2, "little") * 3
    body = bytes(8) + b"\1\0\0\7\0\x04" + numbers + b"d\0" + text
    fd = FormatDescription.parse(DIALECTS[0].format_description())
    found = statement_of(decode_query(body), fd)
    assert found.updated == (None if table is None else ((TableName(None, table),),))
    assert (found.kind is StatementKind.UNKNOWN) is (table is None)
