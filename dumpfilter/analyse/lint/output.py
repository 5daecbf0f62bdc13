"""The output of lint's warnings: text for people, dictionaries for JSON, and single lines for logs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.text import Text

from dumpfilter.analyse.lint.findings import FilterWarning, Level
from dumpfilter.analyse.report.terminal import warn
from dumpfilter.base.printable import visible
from dumpfilter.filter.rules import Rule

_STYLES = {Level.WARNING: "bold yellow", Level.NOTE: "bold cyan"}


def print_warnings(warnings: Sequence[FilterWarning], console: Console) -> None:
    """Print warnings, each with its remedy and the events that show the fault. Sentences are wrapped.

    Rules and events are wrapped on a terminal only, so that in a pipe each stays on one line. Warnings with equal
    rules and remedy share a headline and the remedy.
    """
    groups: dict[tuple[Level, tuple[Rule, ...], str], list[FilterWarning]] = {}
    for warning in warnings:
        groups.setdefault((warning.level, warning.rules, warning.cure), []).append(warning)
    for (level, rules, cure), group in groups.items():
        codes = dict.fromkeys(warning.code for warning in group)
        head = Text(f"{level}: {', '.join(codes)}", style=_STYLES[level])
        for rule in rules:
            head.append(f"\n  {visible(str(rule))}", style="default not bold")
        _print(head, console)
        sentence = f"{cure}{'' if cure.endswith('?') else '.'}"
        for warning in group:
            what = f"{warning.what[:1].upper()}{warning.what[1:]}."
            if len(group) == 1:
                what = f"{what} {sentence}"
            elif len(codes) > 1:
                what = f"{warning.code}: {what}"
            _print(Text(visible(what)), console, 4, wraps=True)
            for each in warning.evidence:
                _print(Text(visible(str(each)), style="dim"), console, 4)
        if len(group) > 1:
            _print(Text(visible(f"Cure: {sentence}")), console, 4, wraps=True)


def _print(text: Text, console: Console, indent: int = 0, *, wraps: bool = False) -> None:
    lines = text.wrap(console, console.width - indent) if wraps or console.is_terminal else [text]
    for line in lines:
        line.rstrip()
        console.print(Text(" " * indent) + line, soft_wrap=True, highlight=False)


def print_briefly(warnings: Sequence[FilterWarning], console: Console) -> None:
    """Print each warning as one line, for commands with another main output. Notes are left out."""
    for warning in warnings:
        if warning.level is Level.WARNING:
            warn(console, warning_line(warning))


def warning_line(warning: FilterWarning) -> str:
    """Return a warning as one line with its first event, for logs and lists of warnings."""
    shown = f" ({warning.evidence[0]})" if warning.evidence else ""
    return f"{warning}{shown}"


def warning_as_dict(warning: FilterWarning) -> dict[str, Any]:
    """Return a warning as a dictionary for JSON."""
    return {
        "code": warning.code.value,
        "level": warning.level.value,
        "rules": [str(rule) for rule in warning.rules],
        "what": warning.what,
        "cure": warning.cure,
        "names": list(warning.names),
        "errors": list(warning.errors),
        "evidence": [asdict(each) for each in warning.evidence],
    }
