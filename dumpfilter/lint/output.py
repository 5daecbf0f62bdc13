"""The output of warnings: text for people, dictionaries for JSON, and one line for a log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.text import Text

from dumpfilter.lint.findings import Evidence, FilterWarning, Level
from dumpfilter.printable import visible

_STYLES = {Level.WARNING: "bold yellow", Level.NOTE: "bold cyan"}


def print_warnings(warnings: Sequence[FilterWarning], console: Console) -> None:
    """Print warnings, each with its cure and the events that show it. Long lines are wrapped on a terminal only."""
    for warning in warnings:
        head = Text(f"{warning.level}: {warning.code.label}", style=_STYLES[warning.level])
        for rule in warning.rules:
            head.append(f"\n  {visible(str(rule))}", style="default not bold")
        _print(head, console)
        _print(Text(visible(_sentences(warning))), console, 4)
        for each in warning.evidence:
            _print(Text(visible(str(each)), style="dim"), console, 4)


def _sentences(warning: FilterWarning) -> str:
    what = warning.what[:1].upper() + warning.what[1:]
    return f"{what}. {warning.cure}{'' if warning.cure.endswith('?') else '.'}"


def _print(text: Text, console: Console, indent: int = 0) -> None:
    wrapped = console.is_terminal
    console.print(
        Padding(text, (0, 0, 0, indent)) if wrapped else Text(" " * indent) + text,
        soft_wrap=not wrapped,
        highlight=False,
    )


def print_briefly(warnings: Sequence[FilterWarning], console: Console) -> None:
    """Print one line for each warning, for commands whose output is about something else. Notes are left out."""
    for warning in warnings:
        if warning.level is Level.WARNING:
            console.print(
                f"[yellow]warning:[/] {escape(visible(warning_line(warning)))}",
                soft_wrap=True,
                highlight=False,
            )


def warning_line(warning: FilterWarning) -> str:
    """Return a warning in one line, with its first event, for a log or a list of warnings."""
    shown = f" ({warning.evidence[0]})" if warning.evidence else ""
    return f"{warning}{shown}"


def warning_as_dict(warning: FilterWarning) -> dict[str, Any]:
    """Return a warning as a dictionary for JSON."""
    return {
        "code": warning.code.label,
        "level": warning.level.value,
        "rules": [str(rule) for rule in warning.rules],
        "what": warning.what,
        "cure": warning.cure,
        "evidence": [_evidence_as_dict(each) for each in warning.evidence],
    }


def _evidence_as_dict(evidence: Evidence) -> dict[str, Any]:
    return {
        "file": evidence.file,
        "position": evidence.position,
        "inside": evidence.inside,
        "text": evidence.text,
    }
