"""The faults that lint finds, and the warnings into which they are joined.

A warning has a code, the rules, the fault, the remedy, and the events that show the fault.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from dumpfilter.analyse.lint.knowledge import Evidence, SetEvent
from dumpfilter.filter.rules import Rule


class Level(enum.StrEnum):
    """The severity of a warning."""

    WARNING = "warning"
    """The filter most probably does something that its author does not want."""
    NOTE = "note"
    """The rule has no effect on this binlog set, which may be intended."""


class Code(enum.Enum):
    """The codes of lint's warnings. A value has the name that the output and docs/lint.md use, and the severity."""

    COMMA = ("comma", Level.WARNING)
    QUOTES = ("quotes", Level.WARNING)
    CASE = ("case", Level.WARNING)
    WILDCARD = ("wildcard", Level.WARNING)
    ESCAPE = ("escape", Level.WARNING)
    WRONG_KIND = ("wrong-kind", Level.WARNING)
    RENAMED = ("renamed", Level.WARNING)
    MISSPELLED = ("misspelled", Level.WARNING)
    NO_MATCH = ("no-match", Level.NOTE)
    NOTHING_PASSES = ("nothing-passes", Level.WARNING)
    MERGED = ("merged", Level.WARNING)
    UNDERSCORE = ("underscore", Level.WARNING)
    NOT_ASKED = ("not-asked", Level.WARNING)
    NO_EFFECT = ("no-effect", Level.NOTE)
    BLOCKED = ("blocked", Level.WARNING)
    LOST_STATEMENT = ("lost-statement", Level.WARNING)
    UNWANTED_STATEMENT = ("unwanted-statement", Level.WARNING)
    MISSING_TABLE = ("missing-table", Level.WARNING)
    MISSING_DATABASE = ("missing-database", Level.WARNING)
    MISSING_OBJECT = ("missing-object", Level.WARNING)
    LEFT_TABLE = ("left-table", Level.WARNING)
    LEFT_OBJECT = ("left-object", Level.WARNING)
    SCHEMA_DRIFT = ("schema-drift", Level.WARNING)
    READS_DROPPED = ("reads-dropped", Level.WARNING)
    TRIGGER = ("trigger", Level.WARNING)
    ROUTINE = ("routine", Level.WARNING)
    TEMPORARY_TABLE = ("temporary-table", Level.WARNING)
    FOREIGN_KEY = ("foreign-key", Level.WARNING)
    UNKNOWN = ("unknown", Level.NOTE)
    XA_DROPPED = ("xa-dropped", Level.NOTE)
    NOT_COMPARED = ("not-compared", Level.NOTE)

    def __init__(self, label: str, level: Level) -> None:
        self.label = label
        self.level = level


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

    def __str__(self) -> str:
        rules = ", ".join(map(str, self.rules))
        end = "" if self.cure.endswith("?") else "."
        return f"{self.code.label}: {f'{rules}: ' if rules else ''}{self.what}. {self.cure}{end}"


_MOST_NAMES = 3
"""The maximum number of tables that a warning names."""

_MOST_RULES = 3
"""The maximum number of rules that a warning names."""

_MOST_EVIDENCE = 2
"""The number of events in a warning from which on further items add none."""


@dataclass(frozen=True)
class Item:
    """One fault of a filter. Items with equal code, rules, fault text and remedy become one warning."""

    code: Code
    rules: tuple[Rule, ...]
    what: str
    """The fault as a sentence, in which ``{names}`` stands for the names that have the fault."""
    cure: str
    name: str = ""
    """The table or database that has the fault. It replaces ``{names}`` in the texts."""
    events: tuple[SetEvent, ...] = ()
    """The events that show the fault, beginning with its cause."""
    errors: tuple[int, ...] = ()
    """The server error numbers, one of which stops the replica at the last event. Empty for a fault that may only
    change data.
    """
    is_sure: bool = False
    """Whether a replica certainly stops. False: it depends on the data."""


def joined(items: Iterable[Item]) -> Iterator[FilterWarning]:
    """Yield one warning for each group of items with equal code, rules and texts, in the order of the groups' first
    items.
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


def listed(names: list[str]) -> str:
    """Return ``names`` as an enumeration for a sentence. Long lists are cut and end with the number of further names.

    >>> listed(["a", "b"]), listed(["a", "b", "c", "d", "e"])
    ('a, b', 'a, b, c and 2 more')
    """
    if len(names) <= _MOST_NAMES + 1:
        return ", ".join(names)
    return f"{', '.join(names[:_MOST_NAMES])} and {len(names) - _MOST_NAMES} more"


def few(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """Return the first three of ``rules``, so that a warning does not name hundreds."""
    return tuple(rules)[:_MOST_RULES]


def _evidence(group: list[Item]) -> tuple[Evidence, ...]:
    """Return events that show the fault, from the group's first items. An item's events are all included, or none."""
    found: dict[Evidence, None] = {}
    for item in group:
        if len(found) < _MOST_EVIDENCE:
            found |= dict.fromkeys(event.evidence for event in item.events if event.evidence is not None)
    return tuple(found)
