"""The printed rows are those that ``mysqlbinlog -vv`` and ``mariadb-binlog -vv`` print."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest

from dumpfilter.analyse.printing.row_text import RowText
from dumpfilter.binlog.compression import rows_data
from dumpfilter.binlog.events import ROWS, EventType
from dumpfilter.binlog.format import Family
from dumpfilter.binlog.rows_events import RowsHeader, TableMap, decode_rows_header, decode_table_map
from tests.binlog.rows.recorded import NAMES, events, printed_lines

BLOCK = re.compile(rb"^(?=###(?: Extra[^\n]*\n###)? (?:INSERT|UPDATE|DELETE))", re.M)


def row_events(name: str) -> Iterator[tuple[Family, TableMap, RowsHeader, bytes]]:
    maps = {}
    for event in events(name):
        body = event.fd.body(event.raw)
        if event.type == EventType.TABLE_MAP:
            table = decode_table_map(body, event.fd.post_header_length(event.type))
            maps[table.table_id] = table
        elif event.type in ROWS:
            rows = decode_rows_header(event.type, body, event.fd.post_header_length(event.type))
            yield event.fd.family, maps[rows.table_id], rows, rows_data(rows, body)


def lines(name: str, verbosity: int) -> Iterator[bytes]:
    text = RowText(verbosity)
    for family, table, rows, data in row_events(name):
        yield from text.lines(table, rows, data, family)


def test_a_line_end_in_a_name_does_not_end_the_comment() -> None:
    family, table, rows, data = next(row_events("mariadb1011-full"))
    table = replace(table, table="t\nDROP TABLE t;")
    for line in b"".join(RowText(1).lines(table, rows, data, family)).splitlines():
        assert line.startswith(b"###")


def without_geometries(text: bytes) -> bytes:
    """Leave out the rows with geometries, at which mysqlbinlog stops."""
    return b"".join(block for block in BLOCK.split(text) if b".`geo`" not in block)


@pytest.mark.parametrize("name", NAMES)
def test_rows_are_printed_as_the_servers_programs_print_them(name: str) -> None:
    ours, theirs = b"".join(lines(name, 2)), printed_lines(name)
    if name.startswith("mysql"):
        ours, theirs = without_geometries(ours), without_geometries(theirs)
    assert ours.splitlines() == theirs.splitlines()


@pytest.mark.parametrize("name", ["mysql97-full", "mariadb1011-full"])
def test_types_need_a_verbosity_of_two(name: str) -> None:
    types = re.compile(rb" /\* [A-Z/]+[^\n]*? meta=\d+ nullable=[01] is_null=[01] \*/$", re.M)
    assert b"".join(lines(name, 1)) == types.sub(b"", b"".join(lines(name, 2)))


def test_mysqls_geometries_are_printed_as_mariadbs() -> None:
    ours = b"".join(lines("mysql97-minimal", 2))
    assert rb"###   @2='\x00\x00\x00\x00\x01\x01" in ours
    assert b"/* GEOMETRY meta=4 nullable=1 is_null=0 */" in ours
