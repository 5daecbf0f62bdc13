"""The tables of the documentation that come from the code."""

from __future__ import annotations

import pytest

from tools.doc_tables import PAGES, page_with_tables


@pytest.mark.parametrize("name", PAGES)
def test_the_page_has_the_tables_of_the_code(name: str) -> None:
    text, page = page_with_tables(name)
    assert text == page, "run: python tools/doc_tables.py"


def test_an_event_type_is_in_both_tables_of_the_page() -> None:
    text, _ = page_with_tables("events.md")
    assert text.count("| TABLE_MAP |") == 2
