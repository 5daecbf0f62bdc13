"""The warnings of lint. Each has a code, the rules, the fault, the remedy, and the events that show the fault."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

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
class Evidence:
    """An event of the binlog set that shows a fault. The field names are the names of members in the JSON output."""

    file: str
    position: int
    inside: int | None = field(default=None, kw_only=True)
    """For an event inside a compressed transaction, its byte offset in the uncompressed payload; None for other
    events.

    ``position`` is then the offset of the Transaction_payload event.
    """
    text: str
    """The statement, shortened to one line, or ``rows of DB.TABLE``."""

    def __str__(self) -> str:
        inside = "" if self.inside is None else f"+{self.inside}"
        return f"{self.file}:{self.position}{inside}: {self.text}"


@dataclass(frozen=True)
class FilterWarning:
    """One warning about a filter."""

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
