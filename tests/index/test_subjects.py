"""Tests of the schema and table that a table or statement stands for in all reports."""

from __future__ import annotations

from typing import Any

from dumpfilter.binlog.query import TableName
from dumpfilter.binlog.statement.statement import Statement, StatementKind
from dumpfilter.index.subjects import TableSubject


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
