"""Warnings about the slaves' filters, from the tables and statements that a measurement has found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from dumpfilter.filter import ReplicationFilter
from dumpfilter.index.subjects import Subject
from dumpfilter.lint.findings import Code, FilterWarning, Level
from dumpfilter.lint.knowledge import knowledge_of
from dumpfilter.lint.linting import lint
from dumpfilter.lint.output import warning_line
from dumpfilter.printable import replace_invalid_utf8, visible

_MOST_NAMES = 3
"""The most slaves that a warning names."""

_MOST_DECISIONS = 1_000_000
"""The number of decisions of filters about subjects after which no further filter is checked, to bound the time."""

_WRONG_NAMES = frozenset(
    {
        Code.COMMA,
        Code.QUOTES,
        Code.CASE,
        Code.WILDCARD,
        Code.ESCAPE,
        Code.WRONG_KIND,
        Code.RENAMED,
        Code.MISSPELLED,
    }
)
"""The codes of rules that match nothing because of their spelling."""


def filter_warnings(
    slaves: Iterable[tuple[str, ReplicationFilter]], subjects: Sequence[Subject], *, is_whole: bool
) -> dict[str, list[str]]:
    """Return the warnings about the filters of slaves, each with the names of the slaves.

    The first warning about each filter comes before the second one about any filter, since the terminal shows only a
    few. Filters to which nothing passes come first. A misspelled name comes before the fault that it causes.

    ``is_whole`` tells whether the subjects (tables and statements) are those of a whole binlog set. The warnings have
    no places, since the measurements of a job have none.
    """
    # The order of the subjects depends on how the engine divides the binlogs. Warnings name the first ones.
    known = knowledge_of(sorted(subjects, key=repr), is_whole=is_whole)
    alike: dict[tuple[object, ...], tuple[ReplicationFilter, list[str]]] = {}
    for name, one in slaves:
        alike.setdefault((type(one), one.rules, one.names), (one, []))[1].append(name)
    found: dict[str, list[str]] = {}
    order: dict[str, tuple[int, bool, int]] = {}
    most = max(1, _MOST_DECISIONS // (len(subjects) + 1))
    for one, names in list(alike.values())[:most]:
        warnings = [warning for warning in lint(one, known) if warning.level is Level.WARNING]
        something_passes = all(warning.code is not Code.NOTHING_PASSES for warning in warnings)
        for place, warning in enumerate(sorted(warnings, key=_rank)):
            text = warning_line(warning)
            found.setdefault(text, []).extend(names)
            here = (place, something_passes, _rank(warning))
            order[text] = min(order.get(text, here), here)
    return {replace_invalid_utf8(visible(text)): found[text] for text in sorted(found, key=order.__getitem__)}


def _rank(warning: FilterWarning) -> int:
    """Return the rank of a warning by its gravity. The gravest warning has rank 0."""
    if warning.code in _WRONG_NAMES:
        return 0
    return 1 if warning.code is Code.NOTHING_PASSES else 2


def lines_of(warnings: Mapping[str, list[str]]) -> tuple[str, ...]:
    """Return each warning with the names of its slaves before it."""
    return tuple(replace_invalid_utf8(f"{_listed(names)}: {text}") for text, names in warnings.items())


def by_slave(warnings: Mapping[str, list[str]]) -> dict[str, tuple[str, ...]]:
    """Return the warnings about each slave that has any."""
    found: dict[str, list[str]] = {}
    for text, names in warnings.items():
        for name in names:
            found.setdefault(name, []).append(text)
    return {name: tuple(texts) for name, texts in found.items()}


def _listed(names: list[str]) -> str:
    """Return the names of slaves as the beginning of a warning.

    >>> _listed(["web"]), _listed(["a", "b", "c", "d"])
    ('slave web', 'slaves a, b, c and 1 more')
    """
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"slave{'s' if len(names) > 1 else ''} {', '.join(map(visible, names[:_MOST_NAMES]))}{more}"
