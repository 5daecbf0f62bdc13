"""Values of options: the units in which people write sizes, rates and times (``512M``, ``2mbit``, ``50ms``),
suggestions for misspelt words, and defaults that several programs share.

Each ``format_…`` function writes a text that its ``parse_…`` function reads as the same value. The ``parse_…``
functions raise OptionError, which begins with the name of the ``option`` that has the text.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from decimal import Decimal

from dumpfilter.base.errors import OptionError

_SIZE_UNITS = {"T": 1 << 40, "G": 1 << 30, "M": 1 << 20, "K": 1 << 10}
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
_NUMBER = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z/]*)\s*", re.ASCII)

_MOST_DIGITS = 30
"""The number of digits of the longest number that is read. Python refuses to convert very long numbers."""

MOST_RATE = 1_000_000_000_000
"""The highest rate that :func:`parse_rate` accepts, bits per second."""
MOST_SECONDS = 1_000 * 86_400
"""The longest time that :func:`parse_time` accepts, seconds."""
MICROSECOND = Decimal("0.000001")
"""The smallest step of a time that :func:`parse_time` accepts, seconds."""


def whole_number(text: str) -> int | None:
    """Return the number that ``text`` has in decimal ASCII digits. None for any other text, and for a number that is
    larger than every size, position and port.

    >>> whole_number("3306"), whole_number("+1"), whole_number("9" * 5000)
    (3306, None, None)
    """
    is_number = text.isdecimal() and text.isascii() and len(text) <= _MOST_DIGITS
    return int(text) if is_number else None


def parse_size(text: str, *, option: str = "", least: int = 0) -> int:
    """Parse a size such as ``512M``, and return the number of bytes. K, M, G and T are powers of 1024. Raises
    OptionError for a text that is no size, and for a size below ``least``.

    >>> parse_size("1.5K"), parse_size("2g")
    (1536, 2147483648)
    """
    plain = whole_number(text)
    size = _scaled(text.upper(), _SIZE_UNITS) if plain is None else plain
    if size is None:
        raise _wrong(option, f"{text!r} is not a size: bytes, or with K, M, G or T")
    if size < least:
        raise _wrong(option, f"{text!r} is too small: at least {least}")
    return int(size)


def format_size(size: int) -> str:
    """Return the text of a number of bytes, with the largest unit that divides the number.

    >>> format_size(1 << 20), format_size(1000)
    ('1M', '1000')
    """
    units = (unit for unit, factor in _SIZE_UNITS.items() if size and size % factor == 0)
    return next((f"{size // _SIZE_UNITS[unit]}{unit}" for unit in units), str(size))


def parse_mebibytes(number: int, *, option: str = "") -> int:
    """Return the number of bytes of a size in MiB. ``option`` is not used. Every parser of a setting's value has this
    parameter, for its errors.
    """
    return number << 20


def parse_rate(text: str, *, option: str = "") -> int:
    """Parse a rate such as ``2mbit``, and return the bits per second. Units are powers of 1000. Raises OptionError for
    a text that is no rate, and for a rate that is not a whole number of bits from 1bit to 1000gbit.

    >>> parse_rate("512kbit"), parse_rate("1.5mbit")
    (512000, 1500000)
    """
    bits = _scaled(text.lower().replace("/s", ""), _RATE_UNITS)
    if bits is None:
        raise _wrong(
            option,
            f"{text!r} is not a rate: write bits per second with bit, kbit, mbit or gbit, such as 2mbit",
        )
    if bits != int(bits) or not 1 <= bits <= MOST_RATE:
        raise _wrong(option, f"{text!r}: a rate is a whole number of bits per second, from 1bit to 1000gbit")
    return int(bits)


def format_rate(bits: int) -> str:
    """Return the text of a rate in bits per second. The text has the largest unit that leaves at most three decimals.

    >>> format_rate(2_000_000), format_rate(1_500_000), format_rate(1_234_567)
    ('2mbit', '1.5mbit', '1234.567kbit')
    """
    for unit, factor in reversed(_RATE_UNITS.items()):
        if bits >= factor and bits * 1000 % factor == 0:
            return f"{_plain(Decimal(bits) / factor)}{unit}"
    return f"{bits}bit"


def parse_time(text: str, *, option: str = "") -> float:
    """Parse a time such as ``50ms``, and return the seconds. Raises OptionError for a text that is no time, and for a
    time above 1000 days or with a fraction of a microsecond.

    >>> parse_time("50ms"), parse_time("1.5h")
    (0.05, 5400.0)
    """
    seconds = _scaled(text, _TIME_UNITS)
    if seconds is None:
        raise _wrong(
            option, f"{text!r} is not a time: write a number with us, ms, s, m, h or d, such as 50ms"
        )
    if seconds > MOST_SECONDS or seconds % MICROSECOND:
        raise _wrong(option, f"{text!r}: a time is at most 1000d, in whole microseconds")
    return float(seconds)


def format_time(seconds: float) -> str:
    """Return a number of seconds, to the microsecond, as a text with a unit, such as ``50ms``, which :func:`parse_time`
    reads.

    >>> format_time(0.05), format_time(90), format_time(7200), format_time(0)
    ('50ms', '90s', '2h', '0s')
    """
    exact = Decimal(repr(float(seconds))).quantize(MICROSECOND)
    if exact and exact < 1:
        unit = "ms" if exact >= Decimal("0.001") else "us"
    else:
        unit = next((unit for unit in ("d", "h") if exact and exact % _TIME_UNITS[unit] == 0), "s")
    return f"{_plain(exact / _TIME_UNITS[unit])}{unit}"


def _scaled(text: str, units: Mapping[str, Decimal] | Mapping[str, int]) -> Decimal | None:
    """Return the number of base units in a text such as ``1.5K``. Return None if the text is no number with one of
    ``units``. ``units`` has the number of base units in each unit, such as 1024 bytes for ``K``.
    """
    match = _NUMBER.fullmatch(text)
    factor = None if match is None else units.get(match[2])
    return None if match is None or factor is None else Decimal(match[1]) * factor


def _wrong(option: str, text: str) -> OptionError:
    return OptionError(f"{option}: {text}" if option else text)


def _plain(number: Decimal) -> str:
    """Return the text of a number without an exponent and without zeros at the end of its decimals."""
    return f"{number.normalize():f}"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return the end of an error text about an unknown word: the most similar known word, or else the list of known
    words.

    >>> did_you_mean("rulse", ["rules", "from"]), did_you_mean("x", ["rules", "from"])
    ('; did you mean rules?', '; there are rules, from')
    """
    words = list(known)
    near = difflib.get_close_matches(word, words, n=1)
    return f"; did you mean {near[0]}?" if near else f"; there are {', '.join(words)}" if words else ""


NET_TIMEOUT = 60.0
"""The default of ``--replica-net-timeout``, seconds, as in MySQL. A slave waits so long for a silent master."""

HEARTBEAT_PERIOD = NET_TIMEOUT / 2
"""The default time between the heartbeats of a master that has nothing to send, seconds.

As in MySQL the default is half of ``--replica-net-timeout``. A slave with another timeout asks the master for half of
its own timeout.
"""

SYNC_EVENTS = 10_000
"""The default of ``--sync-relay-log``, as in MySQL: the number of events after which a slave syncs the relay log and
``master.info`` to disk.
"""

CONNECT_RETRY = 60.0
"""The default of ``--connect-retry``, as in MySQL: the longest wait before a slave connects to its master again,
seconds.
"""

FIRST_EVENT = 4
"""The offset of the first event of a binlog file, bytes. The file's magic number comes before the event."""
