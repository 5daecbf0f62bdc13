"""The page of recorded cases shows what is sent."""

from __future__ import annotations

from tests.docs.cases import PAGE, page


def test_the_page_shows_what_is_sent() -> None:
    assert page() == PAGE.read_text(), "run: python -m tests.docs.cases"
