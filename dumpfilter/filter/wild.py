r"""The LIKE patterns of ``--replicate-wild-do-table`` and ``--replicate-wild-ignore-table``.

``%`` matches any text, ``_`` matches one character, and ``\`` escapes both, as in the servers' functions
``wild_compare`` and ``my_wildcmp``.
"""

from __future__ import annotations

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


def escaped(name: str) -> str:
    r"""Return a LIKE pattern that matches only ``name``.

    >>> escaped("a_b"), escaped("shop")
    ('a\\_b', 'shop')
    """
    return "".join(f"\\{character}" if character in "\\%_" else character for character in name)


class WildSet:
    r"""A list of LIKE patterns (``%``, ``_``, escape ``\``) with an index that quickly finds the first pattern that a
    name matches.

    Each pattern is stored under the rarest of its literal texts. A name is compared only with patterns whose stored
    text occurs in the name. So ten thousand patterns such as ``db7.%`` cost a few look-ups for each name instead of ten
    thousand comparisons. ``fold`` returns the comparison key (collation weight) of a character, as one character.
    Characters with equal keys match, for example ``A`` and ``a`` if case does not count.

    >>> patterns = WildSet([r"a\_b.%", "%.t"])
    >>> patterns.first("a_b.t"), patterns.first("axb.t1"), patterns.first("db.with.dots.t")
    (0, None, 1)
    """

    def __init__(self, patterns: Sequence[str], fold: Callable[[str], str] = str) -> None:
        self._patterns = [wild_tokens(pattern, fold) for pattern in patterns]
        self._compiled: dict[int, re.Pattern[str]] = {}
        literals = [_literals(tokens) for tokens in self._patterns]
        frequency = Counter(run for runs in literals for run in set(runs))
        self._by_run: dict[int, dict[str, list[int]]] = {}
        for number, runs in enumerate(literals):
            # A pattern of wildcards only is stored under the empty text, which every name has.
            run = min(runs, key=lambda run: (frequency[run], -len(run)), default="")
            self._by_run.setdefault(len(run), {}).setdefault(run, []).append(number)

    def __bool__(self) -> bool:
        return bool(self._patterns)

    def first(self, text: str) -> int | None:
        """Return the index of the first LIKE pattern that a name matches, or None without a match.

        ``text`` is the name with each character replaced by its comparison key (collation weight).
        """
        candidates: set[int] = set()
        for length, runs in self._by_run.items():
            for start in range(len(text) - length + 1 if length else 1):
                candidates.update(runs.get(text[start : start + length], ()))
        return next((number for number in sorted(candidates) if self._matches(number, text)), None)

    def _matches(self, number: int, text: str) -> bool:
        if number not in self._compiled:
            self._compiled[number] = _regex(self._patterns[number])
        return self._compiled[number].fullmatch(text) is not None


def _literals(tokens: list[str]) -> list[str]:
    """Return the texts of a pattern between its wildcards, which every matching name contains."""
    groups = itertools.groupby(tokens, lambda token: token not in (ANY, MANY))
    return ["".join(run) for is_literal, run in groups if is_literal]


def _regex(tokens: list[str]) -> re.Pattern[str]:
    groups = itertools.groupby(tokens, lambda token: token == MANY)
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
