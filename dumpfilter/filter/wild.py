r"""The LIKE patterns of ``--replicate-wild-do-table`` and ``--replicate-wild-ignore-table``.

``%`` matches any text, ``_`` matches one character, and ``\`` escapes both, as in the servers' functions
``wild_compare`` and ``my_wildcmp``.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections import Counter
from collections.abc import Callable, Sequence

ANY, MANY = "\0_", "\0%"
"""The tokens of a LIKE pattern for the wildcards ``_`` and ``%``. Any other token is one character."""


def wild_tokens(pattern: str, fold: Callable[[str], str] = str) -> list[str]:
    """Return the tokens of a LIKE pattern. A token is a character, converted by ``fold``, or ANY for ``_``, or MANY for
    ``%``.

    A backslash at the end has no character to escape, so it stands for itself.
    """
    tokens = []
    characters = iter(pattern)
    for character in characters:
        if character == "\\":
            tokens.append(fold(next(characters, "\\")))
        else:
            tokens.append({"_": ANY, "%": MANY}.get(character) or fold(character))
    return tokens


class WildPattern:
    r"""A LIKE pattern (``%``, ``_``, escape ``\``) for the string ``db.table``.

    ``fold`` returns the comparison key (collation weight) of a character, as one character. Characters with equal keys
    match, for example ``A`` and ``a`` if case does not count.

    >>> WildPattern(r"a\_b.%").matches("a_b.t1"), WildPattern(r"a\_b.%").matches("axb.t1")
    (True, False)
    >>> WildPattern("%.t").matches("db.with.dots.t")
    True
    """

    def __init__(self, pattern: str, fold: Callable[[str], str] = str) -> None:
        self._fold = fold
        self._tokens = wild_tokens(pattern, fold)

    def literals(self) -> list[str]:
        """Return the texts of the pattern between its wildcards, which every matching name contains.

        Each character is replaced by its comparison key (collation weight).
        """
        groups = itertools.groupby(self._tokens, lambda token: token not in (ANY, MANY))
        return ["".join(run) for is_literal, run in groups if is_literal]

    @functools.cached_property
    def _regex(self) -> re.Pattern[str]:
        groups = itertools.groupby(self._tokens, lambda token: token == MANY)
        parts = [
            MANY if is_many else "".join("." if token == ANY else re.escape(token) for token in run)
            for is_many, run in groups
        ]
        for number, part in enumerate(parts[:-1]):
            if part == MANY:
                # The first place where the text between two % fits is as good as any later one. An atomic group keeps
                # this place, so that the steps of several % do not multiply.
                is_last = number + 2 == len(parts)
                parts[number : number + 2] = [
                    "",
                    f".*{parts[-1]}" if is_last else f"(?>.*?{parts[number + 1]})",
                ]
        return re.compile("".join(".*" if part == MANY else part for part in parts), re.DOTALL)

    def matches(self, name: str) -> bool:
        """Tell whether the whole name matches this LIKE pattern."""
        return self.matches_folded("".join(map(self._fold, name)))

    def matches_folded(self, name: str) -> bool:
        """Tell whether a name matches this LIKE pattern. The caller has already replaced each character of the name by
        its comparison key (collation weight).
        """
        return self._regex.fullmatch(name) is not None


class WildSet:
    """A list of LIKE patterns with an index that quickly finds the first pattern that a name matches.

    Each pattern is stored under the rarest of its literal texts. A name is compared only with patterns whose stored
    text occurs in the name. So ten thousand patterns such as ``db7.%`` cost a few look-ups for each name instead of ten
    thousand comparisons. ``fold`` returns the comparison key (collation weight) of a character, as one character.
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

    def first(self, text: str) -> int | None:
        """Return the index of the first LIKE pattern that a name matches, or None without a match.

        ``text`` is the name with each character replaced by its comparison key (collation weight).
        """
        candidates = set(self._anywhere)
        for length, runs in self._by_run.items():
            for start in range(len(text) - length + 1):
                found = runs.get(text[start : start + length])
                if found:
                    candidates.update(found)
        return next((n for n in sorted(candidates) if self._patterns[n].matches_folded(text)), None)
