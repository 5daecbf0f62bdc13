"""Rates, times, outages and speeds as people write them, such as ``2mbit`` and ``50ms``.

Each ``format_…`` function writes a text that its ``parse_…`` function reads as the same value.
"""

from __future__ import annotations

import re
from decimal import Decimal

from dumpfilter.errors import OptionError
from dumpfilter.links.shape import Outage

_RATE_UNITS = {"bit": 1, "kbit": 1_000, "mbit": 1_000_000, "gbit": 1_000_000_000}
_TIME_UNITS = {
    "us": Decimal("0.000001"),
    "ms": Decimal("0.001"),
    "s": Decimal(1),
    "m": Decimal(60),
    "min": Decimal(60),
    "h": Decimal(3600),
    "d": Decimal(86_400),
}
_SIZE_UNITS = {"T": 1 << 40, "G": 1 << 30, "M": 1 << 20, "K": 1 << 10}
_NUMBER = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z/]*)\s*", re.ASCII)

MOST_RATE = 1_000_000_000_000
"""The fastest link, bits per second."""
MOST_SECONDS = 1_000 * 86_400
"""The longest time, seconds."""
MICROSECOND = Decimal("0.000001")
"""The resolution of times, seconds."""
AT_ONCE = "at-once"
"""The speed of a recording that is there as a whole from the beginning."""


def parse_rate(text: str) -> int:
    """Return the bits per second that a text such as ``2mbit`` means. Units are powers of 1000. Raises OptionError.

    >>> parse_rate("512kbit"), parse_rate("1.5mbit")
    (512000, 1500000)
    """
    number, unit = _split(text)
    factor = _RATE_UNITS.get(unit.lower().removesuffix("/s"))
    if number is None or factor is None:
        raise OptionError(
            f"{text!r} is not a rate: write bits per second with bit, kbit, mbit or gbit, such as 2mbit"
        )
    bits = number * factor
    if bits != int(bits) or not 1 <= bits <= MOST_RATE:
        raise OptionError(f"{text!r}: a rate is a whole number of bits per second, from 1bit to 1000gbit")
    return int(bits)


def format_rate(bits: int) -> str:
    """Return a rate as a text. The text has the largest unit that leaves at most three decimals.

    >>> format_rate(2_000_000), format_rate(1_500_000), format_rate(1_234_567)
    ('2mbit', '1.5mbit', '1234.567kbit')
    """
    for unit, factor in reversed(_RATE_UNITS.items()):
        if bits >= factor and bits * 1000 % factor == 0:
            return f"{_plain(Decimal(bits) / factor)}{unit}"
    return f"{bits}bit"


def parse_time(text: str) -> float:
    """Return the seconds that a text such as ``50ms`` means. Raises OptionError.

    >>> parse_time("50ms"), parse_time("1.5h")
    (0.05, 5400.0)
    """
    number, unit = _split(text)
    factor = _TIME_UNITS.get(unit)
    if number is None or factor is None:
        raise OptionError(f"{text!r} is not a time: write a number with us, ms, s, m, h or d, such as 50ms")
    seconds = number * factor
    if seconds > MOST_SECONDS or seconds % MICROSECOND:
        raise OptionError(f"{text!r}: a time is at most 1000d, in whole microseconds")
    return float(seconds)


def format_time(seconds: float) -> str:
    """Return a time as a text.

    >>> format_time(0.05), format_time(90), format_time(7200), format_time(0)
    ('50ms', '90s', '2h', '0s')
    """
    exact = Decimal(repr(float(seconds)))
    if exact and exact < 1:
        unit = "ms" if exact >= Decimal("0.001") else "us"
    else:
        unit = next((unit for unit in ("d", "h") if exact and exact % _TIME_UNITS[unit] == 0), "s")
    return f"{_plain(exact / _TIME_UNITS[unit])}{unit}"


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


def format_size(size: int) -> str:
    """Return a number of bytes as a text that :func:`dumpfilter.options.sizes.parse_size` reads.

    >>> format_size(1 << 20), format_size(1000)
    ('1M', '1000')
    """
    return next(
        (f"{size // factor}{unit}" for unit, factor in _SIZE_UNITS.items() if size and size % factor == 0),
        str(size),
    )


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


def format_speed(speed: float | None) -> str:
    """Return the speed of a recording as a text.

    >>> format_speed(10.0), format_speed(None)
    ('10', 'at-once')
    """
    return AT_ONCE if speed is None else repr(float(speed)).removesuffix(".0")


def _split(text: str) -> tuple[Decimal | None, str]:
    match = _NUMBER.fullmatch(text)
    return (None, "") if match is None else (Decimal(match[1]), match[2])


def _plain(number: Decimal) -> str:
    """Return a number without an exponent and without zeros at its end."""
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
