"""Functions that format bytes, rates, percentages, times and names for people, and the traffic of a month.

>>> human_bytes(1289748), human_rate(1536), human_percent(0.8674), human_duration(108000)
('1.23 MiB', '1.5 KiB/s', '86.7 %', '30 h')
"""

from __future__ import annotations

import datetime
import math

NOTHING = "–"
"""The text that stands for an unknown number."""

_SMALL_PRICE = 0.05
"""The amount of money below which two decimals are not enough."""
_LEAST_PRICE = 0.000001
"""The smallest amount of money that is printed with its digits."""

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def shorten(name: str, most: int) -> str:
    """Shorten ``name`` to at most ``most`` characters by replacing its middle with "…". Table names often differ
    at their ends.

    >>> shorten("warehouse.order_items_2026", 15)
    'warehou…ms_2026'
    """
    if len(name) <= most:
        return name
    tail = (most - 1) // 2
    return f"{name[: most - 1 - tail]}…{name[len(name) - tail :]}"


def human_bytes(number: float) -> str:
    """Format a number of bytes in the largest binary unit (KiB, MiB …) in which the number is at least 1.

    The result has at most three digits, or four for whole bytes.

    >>> human_bytes(0), human_bytes(1023), human_bytes(-2048), human_bytes(153 * 2**20)
    ('0 B', '1023 B', '−2 KiB', '153 MiB')
    """
    size, unit = abs(number), 0
    while unit < len(_UNITS) - 1 and size >= (1023.5 if unit else 1024):
        size, unit = size / 1024, unit + 1
    text = _rounded(size).replace(",", "")
    return f"{'−' if number < 0 and text != '0' else ''}{text} {_UNITS[unit]}"


def human_gigabytes(number: float) -> str:
    """Format a number of bytes in gigabytes (10^9 bytes), as cloud providers bill.

    >>> human_gigabytes(0), human_gigabytes(3_000_000), human_gigabytes(1.5e9), human_gigabytes(1234.5e9)
    ('0', '< 0.01', '1.5', '1,234')
    """
    size = number / 1e9
    if 0 < size < 0.005:
        return "< 0.01"
    return _rounded(size)


def _rounded(size: float) -> str:
    """Format a positive number with three digits, or all digits of its whole part. Zeros at the end of the decimals are
    left out.
    """
    digits = 0 if size >= 99.95 else 1 if size >= 9.995 else 2
    text = f"{size:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if digits else text


def human_price(amount: float) -> str:
    """Format an amount of money with two decimals, or a small amount with two significant digits.

    >>> human_price(1234.5), human_price(0.0036), human_price(0.05), human_price(0), human_price(1e-9)
    ('1,234.50', '0.0036', '0.05', '0.00', '< 0.000001')
    """
    if 0 < amount < _LEAST_PRICE:
        return f"< {_LEAST_PRICE:f}"
    if 0 < amount < _SMALL_PRICE:
        return f"{amount:.{1 - math.floor(math.log10(amount))}f}"
    return f"{amount:,.2f}"


def human_rate(bytes_per_second: float) -> str:
    """Format a rate in bytes a second with a binary unit, for example "1.5 KiB/s"."""
    return human_bytes(bytes_per_second) + "/s"


def human_number(number: int) -> str:
    """Format a whole number with commas between groups of three digits, for example "1,234,567"."""
    return f"{number:,}".replace("-", "−")


def human_files(number: int) -> str:
    """Format a number of files with the word "file" or "files".

    >>> human_files(1), human_files(2000)
    ('1 file', '2,000 files')
    """
    return f"{number:,} file{'' if number == 1 else 's'}"


def human_percent(share: float | None) -> str:
    """Format a fraction between 0 and 1 as a percentage with one decimal. Only exact values become 0 % and 100 %.

    None, an unknown fraction, becomes a dash.

    >>> human_percent(0.00001), human_percent(0.99999), human_percent(1.0), human_percent(None)
    ('< 0.1 %', '> 99.9 %', '100 %', '–')
    """
    if share is None:
        return NOTHING
    if 0 < share < 0.001:
        return "< 0.1 %"
    if 0.999 < share < 1:
        return "> 99.9 %"
    text = f"{share * 100:.1f}"
    return f"{text.removesuffix('.0').replace('-', '−')} %"


def human_seconds(seconds: float) -> str:
    """Format a measured duration in milliseconds, in seconds, or in minutes and seconds.

    >>> human_seconds(0.0123), human_seconds(0.9999), human_seconds(4.25), human_seconds(312)
    ('12.3 ms', '1 s', '4.25 s', '5 min 12 s')
    """
    if seconds < 0.9995:
        return f"{seconds * 1000:.3g} ms" if seconds else "0 s"
    return f"{seconds:.3g} s" if seconds < 100 else human_duration(round(seconds))


def human_duration(seconds: int) -> str:
    """Format whole seconds in the two largest units. From two days on, the larger unit is days.

    >>> human_duration(0), human_duration(3600), human_duration(30 * 3600 - 8), human_duration(90 * 3600)
    ('0 s', '1 h', '30 h', '3 d 18 h')
    """
    sizes = [(86400, "d", 2 * 86400 - 1800), (3600, "h", 3570), (60, "min", 60)]
    size, unit, _ = next((s for s in sizes if seconds >= s[2]), (1, "s", 0))
    finer, fine_unit = {86400: (3600, "h"), 3600: (60, "min")}.get(size, (1, "s"))
    rounded = (seconds + finer // 2) // finer * finer
    rest = rounded % size // finer
    return f"{rounded // size} {unit}" + (f" {rest} {fine_unit}" if rest else "")


def utc(seconds: int | None) -> str:
    """Format Unix seconds as ``YYYY-MM-DD HH:MM:SS`` in UTC. None gives a dash."""
    if seconds is None:
        return NOTHING
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S")


def share(part: float, whole: float) -> float | None:
    """Return ``part`` divided by ``whole``, or None if ``whole`` is 0."""
    return part / whole if whole else None


def human_rate_of_bits(bits: float) -> str:
    """Format a network rate given in bits per second. Units are powers of 1000.

    >>> human_rate_of_bits(512_000), human_rate_of_bits(2_500_000), human_rate_of_bits(1e9)
    ('512 kbit/s', '2.5 Mbit/s', '1 Gbit/s')
    """
    size, unit = float(bits), 0
    units = ("bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s")
    while unit < len(units) - 1 and size >= 999.5:
        size, unit = size / 1000, unit + 1
    return f"{size:.3g} {units[unit]}"


MONTH_HOURS = 730
"""The number of hours in a month (a twelfth of a year), as cloud providers bill."""

GIGABYTE = 10**9
"""The number of bytes in a gigabyte, as cloud providers bill."""

SHORTEST = 3600
"""The minimum active time (in which binlogs were written) for an extrapolation to a month, seconds."""

ROUGH_BELOW = 86_400
"""The active time (in which binlogs were written) below which a month's extrapolated traffic is marked as rough,
seconds. Below a day, the difference between day and night is not covered.
"""


def bytes_of_month(nbytes: int, seconds: int) -> int | None:
    """Return the traffic of a month in bytes, extrapolated from ``nbytes`` in ``seconds`` of active time (in which
    binlogs were written). None if the time is too short.

    >>> bytes_of_month(10, 7300), bytes_of_month(10, 3599)
    (3600, None)
    """
    return None if seconds < SHORTEST else round(nbytes * MONTH_HOURS * 3600 / seconds)


def remark_on_month(seconds: int) -> str | None:
    """Return a sentence that says why a month's traffic is unknown or only rough, if it is extrapolated from
    ``seconds`` of active time (in which binlogs were written). Return None if at least a day was measured.
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
