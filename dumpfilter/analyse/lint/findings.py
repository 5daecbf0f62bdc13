"""The faults of filter rules that ``dumpfilter lint`` finds (such as a rule that matches no name), the warnings into
which they are joined, and the output of warnings.

A warning has a code, the rules, the fault, the remedy, and the events that show the fault. The output is text for
people, dictionaries for JSON, and single lines for logs.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.text import Text

from dumpfilter.analyse.lint.knowledge import Evidence, SetEvent
from dumpfilter.analyse.report.terminal import warn
from dumpfilter.base.printable import visible
from dumpfilter.binlog.statement.statement import Statement
from dumpfilter.filter.base import Decision, ReplicationFilter, Step
from dumpfilter.filter.rules import Rule, RuleKind, escaped


class Level(enum.StrEnum):
    """The severities of the warnings of ``dumpfilter lint``: a warning of a probable mistake, or a note about a rule
    without effect.
    """

    WARNING = "warning"
    """The filter most probably does something that its author does not want."""
    NOTE = "note"
    """The rule has no effect on this binlog set, which may be intended."""


class Code(enum.StrEnum):
    """The codes of lint's warnings, as the output and docs/lint.md name them."""

    COMMA = "comma"
    QUOTES = "quotes"
    CASE = "case"
    WILDCARD = "wildcard"
    ESCAPE = "escape"
    WRONG_KIND = "wrong-kind"
    RENAMED = "renamed"
    MISSPELLED = "misspelled"
    NO_MATCH = "no-match"
    NOTHING_PASSES = "nothing-passes"
    MERGED = "merged"
    UNDERSCORE = "underscore"
    NOT_ASKED = "not-asked"
    BLOCKED = "blocked"
    LOST_STATEMENT = "lost-statement"
    UNWANTED_STATEMENT = "unwanted-statement"
    MISSING_TABLE = "missing-table"
    MISSING_DATABASE = "missing-database"
    MISSING_OBJECT = "missing-object"
    LEFT_TABLE = "left-table"
    LEFT_OBJECT = "left-object"
    SCHEMA_DRIFT = "schema-drift"
    READS_DROPPED = "reads-dropped"
    TRIGGER = "trigger"
    ROUTINE = "routine"
    TEMPORARY_TABLE = "temporary-table"
    FOREIGN_KEY = "foreign-key"
    UNKNOWN = "unknown"
    XA_DROPPED = "xa-dropped"
    NOT_COMPARED = "not-compared"

    @property
    def level(self) -> Level:
        """The severity of warnings with this code."""
        return Level.NOTE if self in _NOTES else Level.WARNING


_NOTES = (Code.NO_MATCH, Code.UNKNOWN, Code.XA_DROPPED, Code.NOT_COMPARED)


@dataclass(frozen=True)
class FilterWarning:
    """One warning about the rules of a filter, with the fault, the remedy, and events that show the fault."""

    code: Code
    rules: tuple[Rule, ...]
    """The rules that the warning is about. Empty if it is about a missing rule."""
    what: str
    """The fault as a sentence, without the full stop."""
    cure: str
    """The remedy as a sentence: a change of the filter or of the server."""
    evidence: tuple[Evidence, ...] = ()
    """Events that show the fault. Empty if none does, or if only the names of tables and databases are known."""
    names: tuple[str, ...] = ()
    """The tables, databases or other objects that have the fault."""
    errors: tuple[int, ...] = ()
    """The server error numbers with which a replica stops because of this fault. Empty if the replica may continue."""

    @property
    def level(self) -> Level:
        """The severity of the warning, which its code determines."""
        return self.code.level

    @property
    def cured(self) -> str:
        """The remedy as a sentence, with the full stop."""
        return self.cure if self.cure.endswith("?") else f"{self.cure}."

    def __str__(self) -> str:
        rules = ", ".join(map(str, self.rules))
        return f"{self.code}: {f'{rules}: ' if rules else ''}{self.what}. {self.cured}"


_MOST_NAMES = 3
"""The maximum number of tables that a warning names."""

_MOST_RULES = 3
"""The maximum number of rules that a warning names."""

_MOST_EVIDENCE = 3
"""The number of events that are enough for a warning. Further faults that are joined into the same warning then add no
events.
"""


@dataclass(frozen=True)
class Item:
    """One fault of a filter, as a check finds it. Items with equal code, rules, fault text and remedy are joined into
    one warning.
    """

    code: Code
    rules: tuple[Rule, ...]
    what: str
    """The fault as a sentence, in which ``{names}`` stands for the names that have the fault."""
    cure: str
    name: str = ""
    """The table or database that has the fault. This name replaces ``{names}`` in the texts."""
    events: tuple[SetEvent, ...] = ()
    """The events that show the fault, beginning with its cause."""
    errors: tuple[int, ...] = ()
    """The server error numbers, one of which stops the replica at the last event. Empty for a fault that may only
    change data.
    """
    is_sure: bool = False
    """Whether a replica certainly stops. False: it depends on the data."""


def joined(items: Iterable[Item]) -> Iterator[FilterWarning]:
    """Yield one warning for each group of items (faults) with equal code, rules and texts, in the order of the groups'
    first items.
    """
    groups: dict[tuple[Code, tuple[Rule, ...], str, str], list[Item]] = {}
    for item in items:
        groups.setdefault((item.code, item.rules, item.what, item.cure), []).append(item)
    for (code, rules, what, cure), group in groups.items():
        names = list(dict.fromkeys(item.name for item in group))
        yield FilterWarning(
            code,
            rules,
            what.replace("{names}", listed(names)),
            cure.replace("{names}", listed(names)),
            _evidence(group),
            tuple(filter(None, names)),
            tuple(dict.fromkeys(error for item in group if item.is_sure for error in item.errors)),
        )


def listed(names: Iterable[str]) -> str:
    """Return ``names`` as an enumeration for a sentence. Long lists are cut and end with the number of further names.

    >>> listed(["a", "b"]), listed(["a", "b", "c", "d", "e"])
    ('a, b', 'a, b, c and 2 more')
    """
    names = list(names)
    if len(names) <= _MOST_NAMES + 1:
        return ", ".join(names)
    return f"{', '.join(names[:_MOST_NAMES])} and {len(names) - _MOST_NAMES} more"


def few(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """Return the first three of ``rules``, so that a warning does not name hundreds."""
    return tuple(rules)[:_MOST_RULES]


def _evidence(group: list[Item]) -> tuple[Evidence, ...]:
    """Return the events that a warning shows: those of the first few items (faults) in ``group``, the items that become
    this warning. An item's events are all included, or none.
    """
    found: dict[Evidence, None] = {}
    for item in group:
        if len(found) < _MOST_EVIDENCE:
            found |= dict.fromkeys(event.evidence for event in item.events if event.evidence is not None)
    return tuple(found)


_RULES = {
    Step.NO_DO_DB: (RuleKind.DO_DB,),
    Step.NO_IGNORE_DB: (RuleKind.IGNORE_DB,),
    Step.NO_TABLE_MATCHED_DO: (RuleKind.DO_TABLE, RuleKind.WILD_DO_TABLE),
    Step.DB_NO_WILD_DO: (RuleKind.WILD_DO_TABLE,),
}
"""For each reason of a decision in which no rule matched, the kinds of rules that failed to match."""


def rules_of(rule_filter: ReplicationFilter, decision: Decision) -> tuple[Rule, ...]:
    """Return the rules behind a decision: the rule that matched, or the first few of the rules that failed to match."""
    if decision.rule is not None:
        return (decision.rule,)
    kinds = _RULES.get(decision.step, ())
    return few(rule for rule in rule_filter.rules if rule.kind in kinds)


_REASONS = {
    Step.NO_DO_DB: "no do-db rule names its current database",
    Step.IGNORE_DB: "an ignore-db rule names its current database",
    **dict.fromkeys(
        (Step.DO_DB, Step.NO_IGNORE_DB, Step.NO_RULES),
        "database rules look at its current database only",
    ),
    Step.NO_TABLE_MATCHED: "its current database passes, and no table rule matches its tables",
    Step.NO_TABLE_MATCHED_DO: "no do rule matches its tables",
    # The table's name would make a warning of its own for each table that the rule matches.
    **dict.fromkeys(
        (Step.DO_TABLE, Step.IGNORE_TABLE, Step.WILD_DO_TABLE, Step.WILD_IGNORE_TABLE),
        "its first table with a rule matches {rule}, and this table decides the whole statement",
    ),
    Step.NONE_UPDATED: "a replica with table rules executes no statement of this kind",
    **dict.fromkeys(
        (Step.DB_NO_WILD_DO, Step.DB_WILD_IGNORE),
        "wild rules are compared with the text {name!r}, without a table",
    ),
}
_OF_NO_DATABASE = {
    Step.NO_DO_DB: "do",
    **dict.fromkeys((Step.DO_DB, Step.NO_IGNORE_DB, Step.NO_RULES), "ignore"),
}
"""The type of database rules (``do`` or ``ignore``) that cannot match a statement without a current database, by the
reason of the filter's decision about the statement.
"""


def reason_of(decision: Decision, statement: Statement) -> str:
    """Return the reason of a decision about a statement, worded as the end of a sentence after "because"."""
    step, rule = decision.step, decision.rule
    if statement.current_database is None and step in _OF_NO_DATABASE:
        return f"it has no current database, which no {_OF_NO_DATABASE[step]}-db rule matches"
    text = _REASONS.get(step, f"{step.value[0].lower()}{step.value[1:]}")
    return text.format(rule=rule and rule.value, name=decision.name)


def cure_of(rule_filter: ReplicationFilter, decision: Decision) -> str:
    """Return a remedy, as a sentence, for a filter's unwanted decision about a statement.

    If the statement's default database decided, the remedy is to use table rules instead of the database rules.
    """
    if decision.step in (Step.NO_DO_DB, Step.DO_DB):
        rules = [rule for rule in rule_filter.rules if rule.kind is RuleKind.DO_DB]
        return f"Use {wild_rules(RuleKind.WILD_DO_TABLE, rules)} instead of the do-db rules"
    if decision.step in (Step.IGNORE_DB, Step.NO_IGNORE_DB):
        rules = [rule for rule in rule_filter.rules if rule.kind is RuleKind.IGNORE_DB]
        return f"Use {wild_rules(RuleKind.WILD_IGNORE_TABLE, rules)} instead of the ignore-db rules"
    if decision.step in (Step.DB_NO_WILD_DO, Step.DB_WILD_IGNORE):
        database = (decision.name or "").rstrip(".")
        return (
            f"Create the database {database!r} on the replica, or add a rule that matches {decision.name!r}"
        )
    if decision.step is Step.NONE_UPDATED:
        return "Run the statement on the replica by hand, or use rules about databases only"
    return "Change the tables in statements of their own, or give them the same rule"


def database_cure(rule_filter: ReplicationFilter, decision: Decision, database: str) -> str:
    """Return a remedy, as a sentence, for a filter that drops CREATE DATABASE of ``database``.

    If possible, the remedy is a rule that passes this statement and still drops the database's tables. Otherwise the
    remedy is to create the database on the replica. The server compares CREATE DATABASE hr with wild rules as the text
    "hr.", which "hr._%" does not match.
    """
    do, ignore = RuleKind.WILD_DO_TABLE.option, RuleKind.WILD_IGNORE_TABLE.option
    added = f"--{do}={escaped(database)}. for the database without its tables"
    if decision.step is Step.DB_NO_WILD_DO:
        return f"Add {added}"
    if decision.step is Step.NO_DO_DB:
        return f"{cure_of(rule_filter, decision)}, and add {added}"
    if decision.step is Step.IGNORE_DB:
        return f"Use --{ignore}={escaped(database)}._% instead of --{RuleKind.IGNORE_DB.option}={database}"
    if decision.rule is not None and decision.rule.value.endswith(".%"):
        return f"Use --{ignore}={decision.rule.value[:-1]}_% instead of {decision.rule}"
    return f"Create the database {database!r} on the replica"


def wild_rules(kind: RuleKind, rules: Iterable[Rule]) -> str:
    """Return table rules for the remedy of a warning, as text with options such as
    ``--replicate-wild-do-table=shop.%``. Each of them matches all tables of the database that one of the database rules
    ``rules`` names.

    ``kind`` is the kind of the table rules. At most three rules are returned.
    """
    return " ".join(f"--{kind.option}={escaped(rule.value)}.%" for rule in few(rules))


_STYLES = {Level.WARNING: "bold yellow", Level.NOTE: "bold cyan"}


def print_warnings(warnings: Sequence[FilterWarning], console: Console) -> None:
    """Print warnings, each with its remedy and the events that show the fault. Lines are wrapped at the console's
    width.
    """
    for warning in warnings:
        head = Text(f"{warning.level}: {warning.code}", style=_STYLES[warning.level])
        for rule in warning.rules:
            head.append(f"\n  {visible(str(rule))}", style="default not bold")
        _print(head, console)
        sentences = f"{warning.what[:1].upper()}{warning.what[1:]}. {warning.cured}"
        _print(Text(visible(sentences)), console, 4)
        for each in warning.evidence:
            _print(Text(visible(str(each)), style="dim"), console, 4)


def _print(text: Text, console: Console, indent: int = 0) -> None:
    for line in text.wrap(console, max(console.width - indent, 1)):
        line.rstrip()
        console.print(Text(" " * indent) + line, soft_wrap=True)


def print_briefly(warnings: Sequence[FilterWarning], console: Console) -> None:
    """Print each warning as one line, for commands whose main output is something else. Warnings of the level NOTE are
    left out.
    """
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
