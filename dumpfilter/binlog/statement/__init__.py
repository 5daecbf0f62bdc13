"""Parsing of binlogged statements: from a text, the kind of statement and the databases and tables that it names."""

from dumpfilter.binlog.query import TableName
from dumpfilter.binlog.statement.facts import read_text, statement_shape
from dumpfilter.binlog.statement.parse import make_statement, parse_statement
from dumpfilter.binlog.statement.statement import Statement, StatementFacts, StatementKind, TableLists

__all__ = [
    "Statement",
    "StatementFacts",
    "StatementKind",
    "TableLists",
    "TableName",
    "make_statement",
    "parse_statement",
    "read_text",
    "statement_shape",
]
