"""Outages and speeds as people write them, such as ``60s-120s``.

``format_outage`` writes a text that ``parse_outage`` reads as the same value.
"""

from __future__ import annotations

from dumpfilter.base.errors import OptionError
from dumpfilter.base.options.units import format_time, parse_time
from dumpfilter.topology.links.shape import Outage

AT_ONCE = "at-once"
"""The speed of a recording that is there as a whole from the beginning."""


def parse_outage(text: str) -> Outage:
    """Return the outage that a text such as ``60s-120s`` means. ``60s-`` has no end. Raises OptionError.

    >>> parse_outage("60s-2m")
    Outage(start=60.0, end=120.0)
    """
    start, dash, end = text.partition("-")
    if not dash:
        raise OptionError(f"{text!r} is not an outage: write its start and end, such as 60s-120s")
    outage = Outage(parse_time(start), parse_time(end) if end.strip() else None)
    if outage.end is not None and outage.end <= outage.start:
        raise OptionError(f"{text!r}: the outage ends before it begins; write the earlier time first")
    return outage


def format_outage(outage: Outage) -> str:
    """Return an outage as a text.

    >>> format_outage(Outage(60, 120)), format_outage(Outage(5, None))
    ('60s-120s', '5s-')
    """
    return f"{format_time(outage.start)}-{'' if outage.end is None else format_time(outage.end)}"


def parse_speed(text: str) -> float | None:
    """Return the speed of a recording: a factor, or None for ``at-once``. Raises OptionError.

    >>> parse_speed("10"), parse_speed("at-once")
    (10.0, None)
    """
    if text == AT_ONCE:
        return None
    try:
        speed = float(text)
    except ValueError:
        speed = 0.0
    if not 0 < speed < float("inf"):
        raise OptionError(
            f"{text!r} is not a speed: write 1 for the recording's own pace, 10 for ten times faster, or {AT_ONCE}"
        )
    return speed
