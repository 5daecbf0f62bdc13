"""The bar of bytes is for terminals only."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from dumpfilter.base.byte_bar import byte_bar


def drawn(*, terminal: bool = True, shown: bool = True, remaining: bool = True) -> str:
    out = StringIO()
    console = Console(file=out, width=80, force_terminal=terminal, color_system=None)
    with byte_bar(console, shown=shown, remaining=remaining) as bar:
        task = bar.add_task("reading", total=4_000_000)
        bar.update(task, completed=1_000_000)
        bar.refresh()
    return out.getvalue()


@pytest.mark.parametrize("remaining", [True, False])
def test_a_terminal_has_a_bar(remaining: bool) -> None:
    text = drawn(remaining=remaining)
    assert "reading" in text
    assert "1.0/4.0 MB" in text
    assert ("-:--:--" in text) is remaining


def test_no_bar() -> None:
    assert drawn(shown=False) == ""
    assert "1.0/4.0 MB" not in drawn(terminal=False)
