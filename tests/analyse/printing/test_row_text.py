"""The printed rows are those that ``mysqlbinlog -vv`` and ``mariadb-binlog -vv`` print."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

import pytest

from dumpfilter.analyse.printing.options import Base64Output, TextOptions
from dumpfilter.analyse.printing.text import TextPrinter
from dumpfilter.binlog.events import ROWS, EventType
from dumpfilter.binlog.rows_events import decode_table_map, encode_table_map
from dumpfilter.binlog.writer import make_event
from dumpfilter.dump.set_pass import one_event
from tests.binlog.rows.recorded import NAMES, RecordedEvent, all_pairs, events, printed_lines

WANTED = ROWS | {EventType.FORMAT_DESCRIPTION, EventType.TABLE_MAP}
BLOCK = re.compile(rb"^(?=###(?: Extra[^\n]*\n###)? (?:INSERT|UPDATE|DELETE))", re.M)


def text_of(found: Iterable[RecordedEvent], verbosity: int) -> bytes:
    """Return the lines about rows. The events are printed together, as a set's are."""
    out: list[bytes] = []
    printer = TextPrinter(out.append, TextOptions(verbose=verbosity, base64_output=Base64Output.DECODE_ROWS))
    for event in found:
        printer.events(one_event("f", event.fd, event.position, event.raw))
    printer.end()
    lines = b"".join(out).splitlines(keepends=True)
    return b"".join(line for line in lines if line.startswith(b"###"))


def lines(name: str, verbosity: int) -> bytes:
    return text_of(opened(name), verbosity)


def opened(name: str) -> Iterator[RecordedEvent]:
    """Yield the format description event and the row events, also those inside of compressed transactions."""
    for event in events(name):
        if event.type in WANTED:
            yield event


def test_a_line_end_in_a_name_does_not_end_the_comment() -> None:
    description, *found = opened("mariadb1011-full")
    table, rows = found[:2]
    body = table.fd.body(table.raw)
    renamed = replace(decode_table_map(body), table="t\nDROP TABLE t;")
    changed = table._replace(
        raw=make_event(table.type, encode_table_map(renamed), checksum=table.fd.checksum)
    )
    assert b"`t DROP TABLE t;`" in text_of([description, changed, rows], 1)


def without_geometries(text: bytes) -> bytes:
    """Leave out the rows with geometries, at which mysqlbinlog stops."""
    return b"".join(block for block in BLOCK.split(text) if b".`geo`" not in block)


@pytest.mark.parametrize("name", NAMES)
def test_rows_are_printed_as_the_servers_programs_print_them(name: str) -> None:
    ours, theirs = lines(name, 2), printed_lines(name)
    if name.startswith("mysql"):
        ours, theirs = without_geometries(ours), without_geometries(theirs)
    assert ours.splitlines() == theirs.splitlines()


@pytest.mark.parametrize("name", ["mysql97-full", "mariadb1011-full"])
def test_types_need_a_verbosity_of_two(name: str) -> None:
    types = re.compile(rb" /\* [A-Z/]+[^\n]*? meta=\d+ nullable=[01] is_null=[01] \*/$", re.M)
    assert lines(name, 1) == types.sub(b"", lines(name, 2))


def test_mysqls_geometries_are_printed_as_mariadbs() -> None:
    ours = lines("mysql97-minimal", 2)
    assert rb"###   @2='\x00\x00\x00\x00\x01\x01" in ours
    assert b"/* GEOMETRY meta=4 nullable=1 is_null=0 */" in ours


@pytest.mark.parametrize("name", NAMES)
def test_as_many_rows_are_printed_as_read(name: str) -> None:
    heads = re.findall(rb"^### (?:INSERT|UPDATE|DELETE)", lines(name, 1), re.M)
    assert len(heads) == len(all_pairs(name)) > 0
