"""Python versions of the MySQL functions that a SELECT on the console (a port for MySQL clients) may call.

SQLite answers the SELECT, and calls these functions. Arguments and results are None (for NULL), int, float or str.
A date is a text in the server's format. For an invalid argument the result is NULL.
"""

from __future__ import annotations

import datetime
import functools
import json
import math
import re
import sys
import time
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from dumpfilter.console.sql.result import text_of

MAX_TEXT = 1 << 16
"""The length limit of a function's text, in characters. A longer text becomes NULL.

A call holds the interpreter's lock, for which the master's other threads must wait.
"""

MAX_GROUP = 1 << 17
"""The length limit of the JSON text with the values of one group for GROUP_CONCAT, characters."""

_MAX_PLACES = 30
_MAX_FRACTION_DIGITS = 6

Value = Any
"""The type of a function's arguments and results, as SQLite passes them: None (for NULL), int, float or str."""


def number_of(value: Value) -> int | float:
    """Return the number to which MySQL converts a value.

    A text becomes the number at its beginning, or 0 if it begins with no number. A number beyond the largest double
    becomes that double.

    >>> number_of("12abc"), number_of("-1.5"), number_of("x"), number_of("1e999")
    (12, -1.5, 0, 1.7976931348623157e+308)
    """
    if isinstance(value, (int, float)):
        return max(-sys.float_info.max, min(value, sys.float_info.max))
    found = re.match(r"\s*([-+]?\d{1,300}(\.\d{0,300})?([eE][-+]?\d{1,3})?|[-+]?\.\d{1,300})", text_of(value))
    if not found:
        return 0
    return number_of(float(found[1])) if found[2] or found[3] or "." in found[1] else int(found[1])


def _count(value: Value) -> int:
    """Return a number of characters or repetitions, as the argument of LEFT or REPEAT gives it, as an integer. A
    negative number becomes 0.
    """
    return max(0, int(number_of(value)))


def _substring(text: Value, position: Value, length: Value = MAX_TEXT) -> str:
    string, begin = text_of(text), int(number_of(position))
    if begin == 0 or begin < -len(string):
        return ""
    begin = begin - 1 if begin > 0 else len(string) + begin
    return string[begin : begin + _count(length)]


def _repeat(text: Value, count: Value) -> str | None:
    string, times = text_of(text), _count(count)
    return None if len(string) * times > MAX_TEXT else string * times


def _locate(part: Value, text: Value, begin: Value = 1) -> int:
    start = int(number_of(begin)) - 1
    return 0 if start < 0 else text_of(text).casefold().find(text_of(part).casefold(), start) + 1


def _extreme(choose: Callable[..., Value], first: Value, second: Value, *others: Value) -> Value:
    """Return the least or the greatest of the arguments, for LEAST and GREATEST. ``choose`` is ``min`` or ``max``. If
    one of the values is a text, all are compared as texts.
    """
    values = (first, second, *others)
    if any(isinstance(value, str) for value in values):
        return choose(map(text_of, values), key=str.casefold)
    return choose(values)


def _round(value: Value, digits: Value = 0) -> int | float:
    number, places = number_of(value), max(-_MAX_PLACES, min(_MAX_PLACES, int(number_of(digits))))
    rounded = Decimal(repr(number)).quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP)
    return int(rounded) if isinstance(number, int) or places <= 0 else float(rounded)


def _mod(value: Value, divisor: Value) -> int | float:
    numbers = number_of(value), number_of(divisor)
    number, other = (Decimal(repr(one)) for one in numbers)
    return int(number % other) if all(isinstance(one, int) for one in numbers) else float(number % other)


def _group_concat(group: str, separator: Value, directions: str) -> str | None:
    """Return the value of GROUP_CONCAT for one group of rows.

    ``group`` is a JSON array with one array for each row: the value to join, then the row's keys of ORDER BY.
    ``directions`` has one letter for each key, "a" (ascending) or "d" (descending). Rows whose value is NULL are left
    out. Without other rows the result is None. Raises MemoryError for a group above :data:`MAX_GROUP`.
    """
    if len(group) > MAX_GROUP:
        raise MemoryError
    rows = [row for row in json.loads(group) if row[0] is not None]
    # Python's sort is stable, so sorting by the last key first gives the order by all keys.
    for at, direction in reversed(list(enumerate(directions, 1))):
        rows.sort(key=lambda row, at=at: _order(row[at]), reverse=direction == "d")  # type: ignore[misc]
    return text_of(separator).join(text_of(row[0]) for row in rows) if rows else None


def _order(value: Value) -> tuple[int, Value]:
    if value is None:
        return 0, 0
    return (2, value.casefold()) if isinstance(value, str) else (1, value)


FUNCTIONS: dict[str, Callable[..., Value]] = {
    **dict.fromkeys(("ceil", "ceiling"), lambda value: math.ceil(number_of(value))),
    **dict.fromkeys(("char_length", "character_length"), lambda text: len(text_of(text))),
    "concat": lambda first, *others: "".join(map(text_of, (first, *others))),
    "concat_ws": lambda separator, first, *others: (
        None
        if separator is None
        else text_of(separator).join(text_of(part) for part in (first, *others) if part is not None)
    ),
    "date": lambda value: datetime.datetime.fromisoformat(text_of(value).strip()).date().isoformat(),
    "floor": lambda value: math.floor(number_of(value)),
    **{name: functools.partial(_extreme, choose) for name, choose in (("greatest", max), ("least", min))},
    "group_concat": _group_concat,
    "if": lambda condition, yes, no: yes if condition is not None and number_of(condition) else no,
    "left": lambda text, length: text_of(text)[: _count(length)],
    **dict.fromkeys(("length", "octet_length"), lambda text: len(text_of(text).encode())),
    "locate": _locate,
    **dict.fromkeys(("lower", "lcase"), lambda text: text_of(text).lower()),
    "mod": _mod,
    "repeat": _repeat,
    "right": lambda text, length: text_of(text)[::-1][: _count(length)][::-1],
    "round": _round,
    **dict.fromkeys(("substring", "substr"), _substring),
    "unix_timestamp": lambda: int(time.time()),
    **dict.fromkeys(("upper", "ucase"), lambda text: text_of(text).upper()),
}
"""The functions that a SELECT on the console may call, by their names in lower case."""

_TAKING_NULL = frozenset({"concat_ws", "group_concat", "if"})
"""The functions that may return a value although an argument is NULL."""


def called(name: str, *arguments: Value) -> Value:
    """Return the result of the SQL function ``name`` for these arguments, as MySQL computes it.

    A calculation error, or a result that is too long, gives None (NULL). An argument None also gives None, except for a
    few functions such as CONCAT_WS. Raises TypeError for a wrong number of arguments.

    >>> called("left", "abc", 2), called("left", None, 2), called("date", "nonsense")
    ('ab', None, None)
    """
    if None in arguments and name not in _TAKING_NULL:
        return None
    try:
        value = FUNCTIONS[name](*arguments)
    except (ValueError, ArithmeticError):
        return None
    return None if isinstance(value, str) and len(value) > MAX_TEXT else value


_DATES, _TIMES = frozenset({"curdate", "current_date"}), frozenset({"curtime", "current_time"})
CLOCKS = (
    _DATES | _TIMES | {"now", "current_timestamp", "localtime", "localtimestamp", "sysdate", "utc_timestamp"}
)
"""The names of the functions that return the current date or time, in lower case."""


def clock(name: str, now: datetime.datetime, digits: int = 0) -> str:
    """Return the text that a function such as NOW(6), CURDATE() or UTC_TIMESTAMP() returns at the time ``now``.

    ``name`` is the function's name, ``digits`` its argument (the digits of the fraction of a second). A time
    without a time zone is local. The result is local time, except for UTC_TIMESTAMP().
    """
    zone = datetime.UTC if name.startswith("utc") else None
    date, time_of_day = now.astimezone(zone).replace(tzinfo=None).isoformat(" ", "microseconds").split()
    if name in _DATES:
        return date
    text = time_of_day if name in _TIMES else f"{date} {time_of_day}"
    return (
        text[: len(text) - _MAX_FRACTION_DIGITS + digits] if 0 < digits <= _MAX_FRACTION_DIGITS else text[:-7]
    )
