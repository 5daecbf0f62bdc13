"""The warnings of lint: a code, the rules, the fault, the remedy, and the events that show the fault."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from dumpfilter.filter.rules import Rule


class Level(enum.StrEnum):
    """The severity of a warning."""

    WARNING = "warning"
    """The filter most probably does something that its author does not want."""
    NOTE = "note"
    """The rule has no effect on this binlog set, which the author may have intended."""


class Code(enum.Enum):
    """The kinds of warning. A value has the name in the output and in docs/lint.md, and the level."""

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
class Evidence:
    """An event of the binlog set that shows a fault. The fields are the members in JSON, in their order."""

    file: str
    position: int
    inside: int | None = field(default=None, kw_only=True)
    """The byte offset of an event inside the uncompressed payload of a compressed transaction; None for other events.

    ``position`` is then the position of the Transaction_payload event.
    """
    text: str
    """The statement, cut to one short line, or ``rows of DB.TABLE``."""

    def __str__(self) -> str:
        inside = "" if self.inside is None else f"+{self.inside}"
        return f"{self.file}:{self.position}{inside}: {self.text}"


@dataclass(frozen=True)
class FilterWarning:
    """One warning about a filter."""

    code: Code
    rules: tuple[Rule, ...]
    """The rules that the warning is about. Empty when the warning is about the lack of a rule."""
    what: str
    """The fault, in a sentence."""
    cure: str
    """The change of the filter or the server that removes the fault, in a sentence."""
    evidence: tuple[Evidence, ...] = ()
    """Events that show the fault. Empty when no event does, or when only the names of tables and databases are known.
    """
    names: tuple[str, ...] = ()
    """The tables, databases or other objects that the fault is about."""
    errors: tuple[int, ...] = ()
    """The numbers of the errors, one of which stops a replica. Empty for a fault that need not stop a replica."""

    @property
    def level(self) -> Level:
        """The severity of the warning, which follows from its code."""
        return self.code.level

    def __str__(self) -> str:
        rules = ", ".join(map(str, self.rules))
        end = "" if self.cure.endswith("?") else "."
        return f"{self.code.label}: {f'{rules}: ' if rules else ''}{self.what}. {self.cure}{end}"
