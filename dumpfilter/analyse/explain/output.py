"""The output of ``dumpfilter explain``: tables on a terminal, tab-separated lines in a pipe, or JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.text import Text

from dumpfilter.analyse.explain.explanation import ExplainedEvent, ExplainedSet, ExplainedStatement, Filters
from dumpfilter.analyse.lint.output import warning_as_dict
from dumpfilter.analyse.report.terminal import Cell, table
from dumpfilter.base.printable import visible
from dumpfilter.binlog.statement import Statement, TableName
from dumpfilter.filter import Decision, Rule, Step, Verdict
from dumpfilter.index.subjects import Subject, TableSubject

_MOST_TABLES = 3
"""The maximum number of tables of one statement that a cell of the output names."""

_NOT_WRITTEN = "not written"


def verdict_word(decision: Decision, filters: Filters) -> str:
    """Return the verdict of a decision as one word: ``execute``, ``ignore``, ``undecided`` or ``not written``.

    ``not written`` means that a rule such as ``--binlog-do-db`` keeps the event out of the binlog.
    """
    if decision.verdict is Verdict.IGNORE and by_write_side(decision, filters):
        return _NOT_WRITTEN
    return decision.verdict.value


def by_write_side(decision: Decision, filters: Filters) -> bool:
    """Tell whether rules with which the server writes its binlog, such as ``--binlog-do-db``, made the decision, rather
    than the slave's rules.
    """
    return filters.write is not None and filters.write.is_on and decision.step.name.startswith("BINLOG_")


def describe(subject: Subject) -> str:
    """Return a short description of a table or statement, for a cell of the output.

    >>> describe(TableSubject("shop", "orders"))
    'rows of shop.orders'
    """
    if isinstance(subject, TableSubject):
        return f"rows of {subject.database}.{subject.table}"
    named = subject.database if subject.kind.is_database else _tables(subject.updated)
    return f"{subject.kind.value} {named}".rstrip() if named else subject.kind.value


def _text(text: str) -> Text:
    """Return a text for the terminal. Unprintable characters, which names in a binlog may contain, are escaped."""
    return Text(visible(text))


def _tables(lists: Iterable[Iterable[TableName]] | None) -> str:
    if lists is None:
        return "(tables not known)"
    names = [_name(table) for tables in list(lists)[:1] for table in tables]
    more = f", … ({len(names)} tables)" if len(names) > _MOST_TABLES else ""
    return ", ".join(names[:_MOST_TABLES]) + more


def _name(table: TableName) -> str:
    return table.table if table.database is None else f"{table.database}.{table.table}"


def _current(subject: Subject | None) -> str:
    return (subject.current_database or "(none)") if isinstance(subject, Statement) else ""


def decision_as_dict(decision: Decision | None, filters: Filters, why: str = "") -> dict[str, Any]:
    """Return a decision as a dictionary for JSON, with its verdict, reason and rule.

    ``decision`` is None for an event that no rule decides, such as Rotate. ``why`` is then the reason in the result.
    The verdict ``undecided`` means that the master sends the event and the slave decides.
    """
    if decision is None:
        return {"verdict": None, "step": None, "why": why, "rule": None, "name": None}
    return {
        "verdict": verdict_word(decision, filters),
        "step": decision.step.name,
        "why": decision.step.value,
        "rule": _rule(decision.rule),
        "name": decision.name,
    }


def _rule(rule: Rule | None) -> str | None:
    return None if rule is None else str(rule)


def subject_as_dict(subject: Subject) -> dict[str, Any]:
    """Return a table or a statement as a dictionary for JSON."""
    if isinstance(subject, TableSubject):
        return {"kind": "rows", "database": subject.database, "table": subject.table}
    return {
        "kind": subject.kind.value,
        "current_database": subject.current_database,
        "database": subject.database,
        "updated": subject.updated,
    }


def set_as_dict(found: ExplainedSet, filters: Filters) -> dict[str, Any]:
    """Return the decisions about all tables and statements of a binlog set as a dictionary for JSON.

    ``filters`` are the filters that made these decisions. Their rules are included. Sizes are in bytes.
    """
    counts = asdict(found.counts)
    # Stand-ins are sent to real replicas alone.
    del counts["bytes_gtid"]
    return {
        "rules": rules_as_list(filters),
        "subjects": [
            subject_as_dict(each.subject)
            | {"events": each.events, "bytes": each.size}
            | decision_as_dict(each.decision, filters)
            for each in found.subjects
        ],
        "others": [
            {"why": why, "events": events, "bytes": size} for why, (events, size) in found.others.items()
        ],
        "counts": counts,
        "warnings": [warning_as_dict(each) for each in found.warnings],
    }


def event_as_dict(event: ExplainedEvent, filters: Filters) -> dict[str, Any]:
    """Return one event, with the reason why ``filters`` send or drop it, as a dictionary for JSON."""
    return {
        "file": event.file,
        "position": event.position,
        "inside": event.inside,
        "bytes": event.size,
        "type": event.type,
        "sent": event.sent,
        "subject": None if event.subject is None else subject_as_dict(event.subject),
    } | decision_as_dict(event.decision, filters, event.why)


def statement_as_dict(found: ExplainedStatement, filters: Filters) -> dict[str, Any]:
    """Return the decision of ``filters`` about a statement, and the steps that led to the decision, as a dictionary for
    JSON.
    """
    path = [stop._asdict() | {"rule": _rule(stop.rule)} for stop in found.path]
    decided = subject_as_dict(found.statement) | decision_as_dict(found.decision, filters)
    return {"rules": rules_as_list(filters), **decided, "path": path}


def rules_as_list(filters: Filters) -> list[str]:
    """Return all rules of ``filters`` as options such as ``--replicate-do-db=shop``.

    The rules with which the server writes its binlog, such as ``--binlog-do-db``, come before the slave's rules.
    """
    written = filters.write.rules if filters.write is not None else ()
    return [str(rule) for rule in (*written, *filters.slave.rules)]


def print_set(found: ExplainedSet, filters: Filters, console: Console, *, top: int) -> None:
    """Print the decisions of ``filters`` about a binlog set: for the ``top`` tables and statements with the most bytes,
    and in total.
    """
    _print_rules(filters, console)
    shown = found.subjects[:top]
    rows = [
        (
            describe(each.subject),
            _current(each.subject),
            f"{each.events:,}",
            f"{each.size:,}",
            _colored(verdict_word(each.decision, filters)),
            each.decision.step.name,
            str(each.decision.rule or ""),
        )
        for each in shown
    ]
    heads = ("what", "USE", "events", "bytes", "verdict", "step", "rule")
    _print_table(console, "What becomes of it", heads, rows)
    if len(found.subjects) > top:
        hidden = len(found.subjects) - top
        console.print(f"… and {hidden} smaller ones (--top {len(found.subjects)} shows all)")
    for step in dict.fromkeys(each.decision.step for each in shown):
        console.print(Text(f"{step.name}: {step.value}"), soft_wrap=True)
    if found.others:
        sums = [(why, f"{events:,}", f"{size:,}") for why, (events, size) in found.others.items()]
        _print_table(console, "Events that no rule is asked about", ("why", "events", "bytes"), sums)
    counts = found.counts
    console.print(
        f"sent: {counts.events_sent:,} of {counts.events_read:,} events, {counts.bytes_sent:,} of "
        f"{counts.bytes_read:,} bytes; of {counts.transactions_read:,} transactions "
        f"{counts.transactions_dropped:,} are not sent at all",
        soft_wrap=True,
    )
    if counts.events_undecided:
        console.print(
            f"undecided: {counts.events_undecided:,} events that the master cannot decide are sent, and the "
            "slave decides",
            soft_wrap=True,
        )


def print_events(events: Iterable[ExplainedEvent], filters: Filters, console: Console) -> None:
    """Print one line for each event: its position and type, and why the filters send or drop it.

    A line is printed as soon as ``events`` yields the event. In a pipe, tabs separate the columns.
    """
    separator = "  " if console.is_terminal else "\t"
    for event in events:
        what = "" if event.subject is None else describe(event.subject)
        if isinstance(event.subject, Statement):
            what += f" (USE {event.subject.current_database or 'none'})"
        why = event.why
        if event.decision is not None:
            why = f"{verdict_word(event.decision, filters)}: {_why(event.decision)}"
            if event.decision.rule is not None:
                why += f" ({event.decision.rule})"
        place = f"{event.file}:{event.position}" + ("" if event.inside is None else f"+{event.inside}")
        cells = [place, event.type, "sent" if event.sent else "dropped", what, why]
        print(separator.join(_text(cell).plain for cell in cells), file=console.file)


def print_statement(found: ExplainedStatement, filters: Filters, console: Console) -> None:
    """Print the decision about a statement, and the steps through the server's flow chart of rules that led to it."""
    _print_rules(filters, console)
    statement = found.statement
    console.print(Text(f"kind: {statement.kind.value}"))
    console.print(_text(f"current database: {_current(statement)}"))
    if statement.kind.is_database:
        console.print(_text(f"database: {statement.database or _current(statement)}"))
        if statement.database is not None:
            console.print(
                "(a server logs it with this database as the current one, whatever the session's is)"
            )
    else:
        updated = _tables(statement.updated) or "none that a table rule is asked about"
        console.print(_text(f"tables it updates: {updated}"))
    for number, stop in enumerate(found.path, 1):
        about = "" if stop.name is None else f" [{stop.name}]"
        rule = "" if stop.rule is None else f" ({stop.rule})"
        console.print(_text(f"{number}. {stop.text}{about}{rule}: {stop.then}"), soft_wrap=True)
    line = Text("verdict: ")
    line.append_text(_colored(verdict_word(found.decision, filters)))
    if found.decision.rule is not None:
        line.append_text(_text(f", by {found.decision.rule}"))
    if found.decision.verdict is Verdict.UNDECIDED:
        line.append(" (it is sent, and the slave decides)")
    console.print(line, soft_wrap=True)


def _why(decision: Decision) -> str:
    named = decision.name and decision.step is not Step.NO_RULES
    return f"{decision.step.value} [{decision.name}]" if named else decision.step.value


def _colored(word: str) -> Text:
    colors = {"execute": "green", "ignore": "red", _NOT_WRITTEN: "red", "undecided": "yellow"}
    return Text(word, style=colors[word])


def _print_rules(filters: Filters, console: Console) -> None:
    console.print(_text("rules: " + (" ".join(rules_as_list(filters)) or "none")), soft_wrap=True)


def _print_table(console: Console, title: str, heads: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
    """Print a table on a terminal, or tab-separated lines into a pipe."""
    if console.is_terminal:
        console.print(table(heads, rows, title=title, numbers=("events", "bytes")))
        return
    for cells in (heads, *rows):
        # The library rich would replace tabs by spaces, so the lines are written without it.
        print("\t".join(visible(str(cell)) for cell in cells), file=console.file)
