"""Extrapolation of measured traffic to a month, and the remarks about its accuracy in reports."""

from __future__ import annotations

from dumpfilter.analyse.report.text import human_duration

MONTH_HOURS = 730
"""The number of hours in a month, a twelfth of a year. Cloud providers bill by this number."""

GIGABYTE = 10**9
"""The number of bytes in a gigabyte on a bill."""

SHORTEST = 3600
"""The minimum active time from which the traffic of a month is extrapolated, seconds."""

ROUGH_BELOW = 86_400
"""The active time below which the traffic of a month is only a rough estimate, seconds. Days and nights differ."""


def bytes_of_month(nbytes: int, seconds: int) -> int | None:
    """Return the bytes of a month, extrapolated from ``nbytes`` in some active ``seconds``. None if the time is too
    short.

    >>> bytes_of_month(10, 7300), bytes_of_month(10, 3599)
    (3600, None)
    """
    return None if seconds < SHORTEST else round(nbytes * MONTH_HOURS * 3600 / seconds)


def remark_on_month(seconds: int) -> str | None:
    """Return why a month's traffic is not known, or that it is rough. Return None if at least a day was measured."""
    if seconds < SHORTEST:
        return (
            f"The binlogs span {human_duration(seconds)}. The traffic of a month needs at least "
            f"{human_duration(SHORTEST)}."
        )
    if seconds < ROUGH_BELOW:
        return (
            f"The traffic of a month is extrapolated from {human_duration(seconds)}. It is a rough figure, because "
            "days and nights differ."
        )
    return None
