"""What strangers send, in a form that can be logged."""

from __future__ import annotations

MOST = 200
"""The longest text of a stranger's in one log line, characters."""


def printable(text: str, most: int = MOST) -> str:
    r"""The text on one line, control characters escaped, cut to ``most`` characters.

    >>> printable("a\nb\x1b[2J"), printable("x" * 300, 10)
    ('a\\nb\\x1b[2J', 'xxxxxxxxxx…')
    """
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text[: most + 1])
    return shown if len(shown) <= most else shown[:most] + "…"
