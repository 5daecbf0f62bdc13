"""The tables of the documentation that come from the code."""

from __future__ import annotations

import re

import pytest

from dumpfilter.binlog.events import KINDS
from tools.doc_tables import PAGES, page_with_tables


@pytest.mark.parametrize("name", PAGES)
def test_the_page_has_the_tables_of_the_code(name: str) -> None:
    text, page = page_with_tables(name)
    assert text == page, "run: python tools/doc_tables.py"


def test_each_event_type_is_in_the_table_once() -> None:
    text, _ = page_with_tables("events.md")
    table = " ".join(line for line in text.splitlines() if line.startswith("| "))
    for kind in KINDS:
        assert len(re.findall(rf"\b{kind.number} {kind.name}\b", table)) == 1, kind
