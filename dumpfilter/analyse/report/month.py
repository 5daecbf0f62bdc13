"""The extrapolation of measured traffic to a month, with remarks about its accuracy."""

from __future__ import annotations

from dumpfilter.analyse.report.text import human_duration

MONTH_HOURS = 730
"""The number of hours in a month (a twelfth of a year), as cloud providers bill."""

GIGABYTE = 10**9
"""The number of bytes in a gigabyte, as cloud providers bill."""

SHORTEST = 3600
"""The minimum active time for an extrapolation to a month, seconds."""

ROUGH_BELOW = 86_400
"""The active time below which a month's extrapolated traffic is marked as rough, seconds. Below a day, the
difference between day and night is not covered.
"""


def bytes_of_month(nbytes: int, seconds: int) -> int | None:
    """Return the traffic of a month in bytes, extrapolated from ``nbytes`` in ``seconds`` of active time. None if
    the time is too short.

    >>> bytes_of_month(10, 7300), bytes_of_month(10, 3599)
    (3600, None)
    """
    return None if seconds < SHORTEST else round(nbytes * MONTH_HOURS * 3600 / seconds)


def remark_on_month(seconds: int) -> str | None:
    """Return a sentence that says why a month's traffic is unknown or only rough. Return None if at least a day was
    measured.
    """
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
