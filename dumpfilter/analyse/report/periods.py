"""The periods over which reports sum bytes, and whose bytes they sum."""

from __future__ import annotations

import enum

PERIODS = (1, 5, 15, 60, 300, 900, 3600, 6 * 3600, 86_400)
"""The lengths that reports choose among, seconds. Each is a multiple of the one before."""


class Division(enum.StrEnum):
    """The headings for which bytes are shown over time."""

    SCHEMA = "schema"
    TABLE = "table"


def wider(seconds: int) -> int:
    """Return the next longer period, a multiple of ``seconds``.

    >>> wider(1), wider(86_400), wider(7)
    (5, 172800, 14)
    """
    longer = PERIODS[PERIODS.index(seconds) + 1 :] if seconds in PERIODS else ()
    return longer[0] if longer else 2 * seconds
