r"""The LIKE patterns of ``--replicate-wild-do-table`` and ``--replicate-wild-ignore-table``.

``%`` matches any text, ``_`` matches one character, and ``\`` escapes both, as in the servers' functions
``wild_compare`` and ``my_wildcmp``. A pattern is split once at its ``%`` signs. Matching is greedy from left to right.
It takes at most the pattern's length times the name's length steps, even for a pattern of nothing but ``%``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

_ANY = ""
"""The value that stands for the wildcard ``_`` in a compiled LIKE pattern. It is the empty string, so that it differs
from every character."""


class _Pattern(NamedTuple):
    runs: tuple[tuple[str, ...], ...]
    """The texts before, between and after the ``%`` signs of a LIKE pattern.

    Each text is a tuple of characters, with _ANY in place of each wildcard ``_``.
    """


def _compile(pattern: str, fold: Callable[[str], str]) -> _Pattern:
    runs: list[tuple[str, ...]] = []
    run: list[str] = []
    characters = iter(pattern)
    for character in characters:
        if character == "\\":
            # A backslash at the end of a LIKE pattern has no character to escape, so it matches a backslash in the
            # name.
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
    r"""A LIKE pattern (``%``, ``_``, escape ``\``) for the string ``db.table``.

    ``fold`` returns a character's weight in the collation, as a character. Characters with equal weights match.

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
        """Return the literal texts of the pattern between ``%`` and ``_``, as folded characters.

        Every name that matches the pattern contains all these texts.
        """
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
        """Tell whether the whole name matches this LIKE pattern."""
        return self.matches_folded([self._fold(c) for c in name])

    def matches_folded(self, name: list[str]) -> bool:
        """Tell whether the whole name matches this LIKE pattern.

        ``name`` is a list of folded characters: each character is replaced by its weight in the collation.
        """
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
    """A list of LIKE patterns that quickly finds the first pattern that a name matches.

    Each pattern is stored under its rarest literal text. A name is compared only with patterns that are stored under a
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
        """Return the index of the first LIKE pattern that a name matches, or None without a match.

        ``name`` is a list of folded characters: each character is replaced by its weight in the collation.
        """
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
