"""Warnings are printed with their rules, cures and events."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from dumpfilter.analyse.lint.findings import Code, FilterWarning, print_warnings
from dumpfilter.analyse.lint.knowledge import Evidence
from dumpfilter.filter.rules import Rule, RuleKind


def printed(*warnings: FilterWarning, width: int = 80) -> list[str]:
    """Return the printed lines."""
    out = io.StringIO()
    print_warnings(warnings, Console(file=out, width=width))
    return out.getvalue().splitlines()


def test_each_warning_has_its_cure() -> None:
    rules = (Rule(RuleKind.DO_DB, "shop"),)
    assert printed(
        FilterWarning(Code.MISSING_TABLE, rules, "a table is missing", "Use another rule"),
        FilterWarning(Code.COMMA, rules, "a comma", "Did you mean another?"),
    ) == [
        "warning: missing-table",
        "  --replicate-do-db=shop",
        "    A table is missing. Use another rule.",
        "warning: comma",
        "  --replicate-do-db=shop",
        "    A comma. Did you mean another?",
    ]


@pytest.mark.parametrize("width", [80, 10_000])
def test_lines_are_wrapped_at_the_width(width: int) -> None:
    place = Evidence("bin.000001", 100, f"use `shop`; CREATE TABLE {'t' * 90} (i INT)")
    lines = printed(
        FilterWarning(
            Code.MISSING_TABLE, (Rule(RuleKind.DO_DB, "shop"),), "word " * 40 + "end", "Cure", (place,)
        ),
        width=width,
    )
    assert (lines[-1] == f"    {place}") == (width > 80)
    assert (len(lines) > 4) == (width == 80)
    assert all(line.startswith("    ") and len(line) <= width for line in lines[2:])


@pytest.mark.parametrize("width", range(1, 8))
def test_a_narrow_terminal_has_one_character_a_line_at_least(width: int) -> None:
    lines = printed(FilterWarning(Code.COMMA, (), "a comma", "Did you mean another?"), width=width)
    assert "".join("".join(lines).split()) == "warning:commaAcomma.Didyoumeananother?"
