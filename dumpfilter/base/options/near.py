"""Suggestions of similar known words, for errors about unknown words."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return the end of an error text about an unknown word: the most similar known word, or else the list of known
    words.

    >>> did_you_mean("rulse", ["rules", "from"]), did_you_mean("x", ["rules", "from"])
    ('; did you mean rules?', '; there are rules, from')
    """
    words = list(known)
    near = difflib.get_close_matches(word, words, n=1)
    return f"; did you mean {near[0]}?" if near else f"; there are {', '.join(words)}" if words else ""
