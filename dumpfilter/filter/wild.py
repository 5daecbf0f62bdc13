r"""Wild patterns of the table rules (``wild_compare`` / ``my_wildcmp`` with escape ``\``, ``_`` and ``%``).

A pattern is compiled once into runs of literal characters between ``%``. Matching is greedy from left to right. The
cost is at most the pattern's length times the name's, even for a pattern of nothing but ``%``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

_ANY = ""
"""The mark for ``_`` in a run. No character equals the empty string."""


class _Pattern(NamedTuple):
    runs: tuple[tuple[str, ...], ...]
    """The parts between the ``%``. A part holds characters, and _ANY for a character of any kind."""


def _compile(pattern: str, fold: Callable[[str], str]) -> _Pattern:
    runs: list[tuple[str, ...]] = []
    run: list[str] = []
    characters = iter(pattern)
    for character in characters:
        if character == "\\":
            # a backslash at the very end stands for itself
            run.append(fold(next(characters, "\\")))
        elif character == "%":
            runs.append(tuple(run))
            run = []
        elif character == "_":
            run.append(_ANY)
        else:
            run.append(fold(character))
    runs.append(tuple(run))
    return _Pattern(tuple(runs))


class WildPattern:
    r"""A pattern that is matched against the string ``db.table``.

    ``fold`` maps a character to its weight in the collation. Characters with equal weights match.

    >>> WildPattern(r"a\_b.%").matches("a_b.t1"), WildPattern(r"a\_b.%").matches("axb.t1")
    (True, False)
    >>> WildPattern("%.t").matches("db.with.dots.t")
    True
    """

    def __init__(self, pattern: str, fold: Callable[[str], str] = str) -> None:
        self.text = pattern
        self._fold = fold
        self._runs = _compile(pattern, fold).runs

    def literals(self) -> list[str]:
        """Return the runs of folded characters that every matching name holds."""
        found = []
        for run in self._runs:
            piece: list[str] = []
            for character in (*run, _ANY):
                if character is not _ANY:
                    piece.append(character)
                elif piece:
                    found.append("".join(piece))
                    piece = []
        return found

    def matches(self, name: str) -> bool:
        """Tell whether the whole ``name`` matches."""
        return self.matches_folded([self._fold(c) for c in name])

    def matches_folded(self, name: list[str]) -> bool:
        """Tell whether the whole ``name``, given as folded characters, matches."""
        first, *rest = self._runs
        if not rest:
            return len(name) == len(first) and _at(first, name, 0)
        if len(first) > len(name) or not _at(first, name, 0):
            return False
        *middle, last = rest
        at = len(first)
        for run in middle:
            if not run:
                continue
            while at + len(run) <= len(name) and not _at(run, name, at):
                at += 1
            if at + len(run) > len(name):
                return False
            at += len(run)
        return len(name) - len(last) >= at and _at(last, name, len(name) - len(last))


class WildSet:
    """Many patterns, which finds the first pattern that a name matches.

    Each pattern is filed under the rarest of its literal runs. A name is compared only with the patterns filed under a
    part of the name. With ten thousand patterns such as ``db7.%`` or ``%x7%.%`` a name costs a look-up for each of its
    parts instead of ten thousand comparisons.
    """

    def __init__(self, patterns: Sequence[str], fold: Callable[[str], str] = str) -> None:
        self._patterns = [WildPattern(pattern, fold) for pattern in patterns]
        frequency = Counter(run for pattern in self._patterns for run in set(pattern.literals()))
        self._anywhere: list[int] = []
        self._by_run: dict[int, dict[str, list[int]]] = {}
        for number, pattern in enumerate(self._patterns):
            runs = pattern.literals()
            if not runs:
                self._anywhere.append(number)
                continue
            run = min(runs, key=lambda run: (frequency[run], -len(run)))
            self._by_run.setdefault(len(run), {}).setdefault(run, []).append(number)

    def __bool__(self) -> bool:
        return bool(self._patterns)

    def first(self, name: list[str]) -> int | None:
        """Return the index of the first pattern that a name, given as folded characters, matches. None: no match."""
        text = "".join(name)
        candidates = set(self._anywhere)
        for length, runs in self._by_run.items():
            for start in range(len(text) - length + 1):
                found = runs.get(text[start : start + length])
                if found:
                    candidates.update(found)
        return next((n for n in sorted(candidates) if self._patterns[n].matches_folded(name)), None)


def _at(run: tuple[str, ...], name: list[str], start: int) -> bool:
    return all(r is _ANY or r == name[start + k] for k, r in enumerate(run))
