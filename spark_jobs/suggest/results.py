"""The results of the search for filter rules that save traffic. The module has the data model, as the JSON output shows
it, and the text for a terminal of 80 columns or more. Bytes are bytes of events in a dump.
"""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.text import Text

from dumpfilter.analyse.report.measures import Model
from dumpfilter.analyse.report.terminal import Cell, table
from dumpfilter.analyse.report.text import human_bytes, human_files, human_percent, share, shorten
from dumpfilter.base.printable import visible


class TableWeight(Model):
    """The bytes of a table in the binlogs, and the number of slaves that receive any of them."""

    name: str
    """``schema.table``, ``schema (statements)``, ``(several tables)``, or ``(no table)``."""
    bytes: int
    """The bytes as ``bandwidth`` counts them, with a compressed transaction of several tables under ``(several
    tables)``.
    """
    bytes_with_parts: int
    """The bytes including the table's estimated share of compressed transactions. Without such transactions it
    equals ``bytes``.
    """
    share: float
    """The fraction of ``bytes_with_parts`` in all bytes, from 0 to 1."""
    slaves: int
    """The number of slaves whose filters pass any event of the table. It says nothing about the use of the table by
    SELECTs.
    """


class RuleStep(Model):
    """A suggested rule, with the bytes that it saves in addition to the rules suggested before it."""

    rule: str
    """The rule as an option, such as ``--replicate-ignore-table=shop.log``."""
    saving: int
    """The bytes that the rule saves in addition to the rules before it, summed over the slaves."""
    bytes_after: int
    """The bytes that the slaves receive with this rule and the rules before it, summed over the slaves."""
    tables_dropped: int
    """The number of tables that a slave no longer receives because of the rule."""


class RejectedRule(Model):
    """A rule that would save much, but would break replication of this set according to ``dumpfilter lint``."""

    rule: str
    saving: int
    """The bytes that the rule would save, summed over the slaves. With compressed transactions it is an estimate."""
    code: str
    """The code of the fault, which docs/lint.md explains."""
    fault: str
    """The fault for which lint rejects the rule, as a sentence."""
    cure: str
    """The remedy for the fault, as a sentence."""
    event: str
    """The first event that shows the fault: file, position and text. Empty if no event shows it."""


class Plan(Model):
    """The rules suggested for one slave, or for slaves with equal filters, with the bytes that these rules save."""

    slaves: tuple[str, ...]
    """The names of the slaves. Empty for the replica without rules that stands in if the user gave no slave."""
    semantics: str
    """The semantics of the slaves' rules: ``classic`` or ``effective``."""
    rules: tuple[str, ...]
    """The rules that the slaves already have."""
    bytes: int
    """The bytes that the slaves currently receive, summed over the slaves."""
    tables: int
    """The number of tables whose rows a slave currently receives."""
    nothing_passes: bool = False
    """Whether the slaves' rules drop all rows and all statements on tables. No rule is then suggested."""
    steps: tuple[RuleStep, ...]
    option_lines: tuple[str, ...]
    """The suggested rules as lines of an option file such as ``my.cnf``."""
    rejected: tuple[RejectedRule, ...] = ()
    """The rules that would save much but would break replication, in descending order of savings."""


class Suggestions(Model):
    """All suggestions for a binlog set: the tables with their bytes, and the rules to add for each slave. The version
    number ``format`` grows when the meaning of a field changes.
    """

    format: int = 3
    files: int
    bytes: int
    """The bytes that a slave without rules receives."""
    server_version: str
    checked: bool
    """Whether lint checked the rules. If not, no rule was rejected."""
    estimates: bool = False
    """Whether ``bytes_with_parts``, ``without_reader`` and the savings of rejected rules are estimates. They are if
    a compressed transaction has several tables, each of which counts with a share.
    """
    tables: tuple[TableWeight, ...]
    """The tables of the binlog set, in descending order of bytes."""
    plans: tuple[Plan, ...]
    without_reader: int
    """The sum of ``bytes_with_parts`` over the tables that no slave receives."""
    warnings: tuple[str, ...] = ()
    """Warnings about the binlogs, for example about skipped files."""


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
    """Print the tables with the most bytes, and for each slave the filter rules suggested to save bytes. ``top`` is the
    maximum number of tables to list.
    """
    console.print(
        f"[bold]{human_files(found.files)}[/], {human_bytes(found.bytes)} of events, "
        f"written by {escape(found.server_version)}"
    )
    _print_tables(found, console, top)
    for plan in found.plans:
        _print_plan(plan, console, _about(found))
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
    """Return the text "~ ", which marks printed numbers of bytes as estimates. The text is empty if the numbers are
    exact.
    """
    return "~ " if found.estimates else ""


def _title(plan: Plan) -> str:
    if not plan.slaves:
        return "Rules for a replica that takes everything"
    names = shorten(", ".join(plan.slaves), _LONGEST_NAMES)
    number = f" ({len(plan.slaves):,} slaves)" if len(plan.slaves) > 1 else ""
    return f"Rules for {names}{number}"


def _print_plan(plan: Plan, console: Console, about: str) -> None:
    console.print()
    console.print(
        f"[bold]{escape(visible(_title(plan)))}[/], sent {human_bytes(plan.bytes)} now", soft_wrap=True
    )
    if plan.nothing_passes:
        whose = "their" if len(plan.slaves) > 1 else "its"
        told = f"no row and no statement on a table passes {whose} rules. Check the names in them:"
        console.print(Padding(Text(told, style="yellow"), (0, 0, 0, 2), expand=False))
        for rule in plan.rules:
            console.print(f"      {escape(visible(rule))}", soft_wrap=True)
    elif not plan.steps:
        console.print("  no further rule saves 1 % without dropping everything, or breaking something")
    for step, line in zip(plan.steps, plan.option_lines, strict=True):
        # A line for my.cnf is never wrapped, so that it can be copied.
        console.print(f"  {escape(visible(line))}", soft_wrap=True)
        console.print(
            f"      saves {human_bytes(step.saving)} ({human_percent(share(step.saving, plan.bytes))}), leaves "
            f"{human_bytes(step.bytes_after)}; drops {step.tables_dropped:,} of {plan.tables:,} tables"
        )
    for one in plan.rejected[:_REJECTED_SHOWN]:
        console.print(f"  [yellow]not suggested:[/] {escape(visible(one.rule))}", soft_wrap=True)
        event = f" ({one.event})" if one.event else ""
        fault = f"{one.code}: {one.fault}{event}. {one.cure}"
        text = Text(visible(f"would save {about}{human_bytes(one.saving)}. {fault}"))
        console.print(Padding(text, (0, 0, 0, 6), expand=False))
