"""Warnings are printed with their rules, cures and events."""

from __future__ import annotations

import io

from rich.console import Console

from dumpfilter.analyse.lint.findings import Code, FilterWarning, print_warnings
from dumpfilter.analyse.lint.knowledge import Evidence
from dumpfilter.filter.rules import Rule, RuleKind


def printed(*warnings: FilterWarning) -> list[str]:
    """Return the printed lines."""
    out = io.StringIO()
    print_warnings(warnings, Console(file=out))
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


def test_sentences_are_wrapped_and_events_are_whole() -> None:
    place = Evidence("bin.000001", 100, f"use `shop`; CREATE TABLE {'t' * 90} (i INT)")
    lines = printed(
        FilterWarning(
            Code.MISSING_TABLE, (Rule(RuleKind.DO_DB, "shop"),), "word " * 40 + "end", "Cure", (place,)
        )
    )
    assert lines[-1] == f"    {place}"
    assert len(lines) > 4
    assert all(line.startswith("    ") and len(line) <= 80 for line in lines[2:-1])
