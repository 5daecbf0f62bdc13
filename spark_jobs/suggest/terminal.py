"""The suggestions as text for a terminal of 80 columns or more."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.text import Text

from dumpfilter.analyse.report.terminal import Cell, table
from dumpfilter.analyse.report.text import human_bytes, human_files, human_percent, share, shorten
from dumpfilter.base.printable import visible
from dumpfilter.spark_jobs.suggest.results import Plan, Suggestions

NO_CLAIM = (
    "A binlog has no SELECTs. A table that no slave applies can still be read at the source, and a table that a rule "
    "drops may be needed on the replica. Nothing here tells which tables are needed."
)
"""A sentence about the limits of suggestions, which every output shows."""

SHARED = (
    "~ Each table has its share of compressed transactions with several tables, an estimate. Their exact bytes are "
    "under (several tables), as in bandwidth."
)
"""The text below the list of tables that explains its column of estimated bytes."""

_LONGEST_NAMES = 60
_REJECTED_SHOWN = 2


def print_suggestions(found: Suggestions, console: Console, *, top: int) -> None:
    """Print the tables with the most bytes, and the suggested rules for each slave and for all slaves. ``top`` is the
    maximum number of tables to list.
    """
    console.print(
        f"[bold]{human_files(found.files)}[/], {human_bytes(found.bytes)} of events, "
        f"written by {escape(found.server_version)}"
    )
    _print_tables(found, console, top)
    for plan in found.plans:
        _print_plan(plan, console, _title(plan), _about(found))
    if found.together is not None:
        number = len(found.together.slaves)
        whole = sum(len(plan.slaves) for plan in found.plans)
        which = "all" if number == whole else "the other"
        _print_plan(found.together, console, f"The same rules for {which} {number:,} slaves", _about(found))
    console.print(f"[dim]{NO_CLAIM}[/]")


def _print_tables(found: Suggestions, console: Console, top: int) -> None:
    slaves = sum(len(plan.slaves) for plan in found.plans)
    figures = [
        "bytes",
        *(["~ with shares"] if found.estimates else []),
        "share",
        *(["applied by"] if slaves else []),
    ]
    rows = []
    for one in found.tables[:top]:
        row: list[Cell] = [one.name, human_bytes(one.bytes)]
        if found.estimates:
            row.append("~ " + human_bytes(one.bytes_with_parts))
        row.append(human_percent(one.share))
        if slaves:
            row.append(f"{one.slaves:,} of {slaves:,}" if one.slaves else Text("no slave", "yellow"))
        rows.append(row)
    console.print(table(("table", *figures), rows, title="Heaviest tables", numbers=figures))
    if len(found.tables) > top:
        console.print(f"… and {len(found.tables) - top:,} more (--top {len(found.tables)} shows all)")
    if found.estimates:
        console.print(f"[dim]{SHARED}[/]")
    if slaves and found.without_reader:
        console.print(
            f"No slave applies {_about(found)}{human_bytes(found.without_reader)} "
            f"({human_percent(share(found.without_reader, found.bytes))}) of the events."
        )


def _about(found: Suggestions) -> str:
    """Return the sign for an estimate that precedes the bytes of rejected rules and of tables without a reader. It
    is empty if they are exact.
    """
    return "~ " if found.estimates else ""


def _title(plan: Plan) -> str:
    if not plan.slaves:
        return "Rules for a replica that takes everything"
    names = shorten(", ".join(plan.slaves), _LONGEST_NAMES)
    number = f" ({len(plan.slaves):,} slaves)" if len(plan.slaves) > 1 else ""
    return f"Rules for {names}{number}"


def _print_plan(plan: Plan, console: Console, title: str, about: str) -> None:
    console.print()
    console.print(f"[bold]{escape(visible(title))}[/], sent {human_bytes(plan.bytes)} now", soft_wrap=True)
    if plan.nothing_passes:
        whose = "their" if len(plan.slaves) > 1 else "its"
        told = f"no row and no statement on a table passes {whose} rules. Check the names in them:"
        console.print(Padding(Text(told, style="yellow"), (0, 0, 0, 2)), highlight=False)
        for rule in plan.rules:
            console.print(f"      {escape(visible(rule))}", soft_wrap=True, highlight=False)
    elif not plan.steps:
        console.print("  no further rule saves 1 % without dropping everything, or breaking something")
    for step, line in zip(plan.steps, plan.option_lines, strict=True):
        # A line for my.cnf is never wrapped, so that it can be copied.
        console.print(f"  {escape(visible(line))}", soft_wrap=True, highlight=False)
        console.print(
            f"      saves {human_bytes(step.saving)} ({human_percent(share(step.saving, plan.bytes))}), leaves "
            f"{human_bytes(step.bytes_after)}; drops {step.tables_dropped:,} of {plan.tables:,} tables",
            highlight=False,
        )
        if step.slaves < len(plan.slaves):
            console.print(
                f"      for {step.slaves:,} of {len(plan.slaves):,} slaves; the others need no such rule",
                highlight=False,
            )
    for one in plan.rejected[:_REJECTED_SHOWN]:
        console.print(
            f"  [yellow]not suggested:[/] {escape(visible(one.rule))}", soft_wrap=True, highlight=False
        )
        event = f" ({one.event})" if one.event else ""
        fault = f"{one.code}: {one.fault}{event}. {one.cure}"
        text = Text(visible(f"would save {about}{human_bytes(one.saving)}. {fault}"))
        console.print(Padding(text, (0, 0, 0, 6)), highlight=False)
