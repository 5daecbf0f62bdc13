"""Names as people and JSON can have them."""

from __future__ import annotations


def printable(name: str) -> str:
    """A name with what is no UTF-8 in it (surrogateescape) replaced.

    >>> printable("caf\\udce9")
    'caf?'
    """
    return name.encode("utf-8", "replace").decode("utf-8")
