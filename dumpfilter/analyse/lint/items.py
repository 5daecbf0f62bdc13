"""Items, the single faults that lint finds. Items that differ only in table or event are joined into one warning."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from dumpfilter.analyse.lint.findings import Code, Evidence, FilterWarning
from dumpfilter.analyse.lint.knowledge import SetEvent
from dumpfilter.filter.rules import Rule

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
    """Return the first ``_MOST_RULES`` rules, so that a warning does not name hundreds."""
    return tuple(rules)[:_MOST_RULES]


def _evidence(group: list[Item]) -> tuple[Evidence, ...]:
    """Return events that show the fault, from the group's first items. An item's events are all included, or none."""
    found: dict[Evidence, None] = {}
    for item in group:
        if len(found) < _MOST_EVIDENCE:
            found |= dict.fromkeys(event.evidence for event in item.events if event.evidence is not None)
    return tuple(found)
