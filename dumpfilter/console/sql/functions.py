"""Python versions of the MySQL functions that a SELECT on the console may call.

SQLite answers the SELECT, and calls these functions. Arguments and results are None (for NULL), int, float or str.
A date is a text in the server's format. For an invalid argument the result is NULL.
"""

from __future__ import annotations

import datetime
import math
import re
import sys
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from dumpfilter.console.sql.interruption import turns
from dumpfilter.console.sql.result import text_of
from dumpfilter.filter.collation import weight

MAX_TEXT = 1 << 16
"""The length limit of a function's text, in characters. A longer text becomes NULL.

A call holds the interpreter's lock, for which the master's other threads must wait.
"""

MAX_GROUPS = 16 << 20
"""The limit of the memory of the groups that the calls of GROUP_CONCAT in one statement collect at a time, bytes."""
_ROW_SIZE = 96

_MAX_PLACES = 30
_MAX_FRACTION_DIGITS = 6
_SECONDS_LENGTH = len("2026-01-02 03:04:05")

Value = Any
"""The type of a function's arguments and results, as SQLite passes them: None (for NULL), int, float or str."""


def fold(text: str) -> str:
    """Return a comparison key of a text, without case and accents.

    Two texts that are equal in MySQL's collation utf8mb4_0900_ai_ci have the same key, at least in common scripts.
    """
    return text.upper() if text.isascii() else weight(text)


def number_of(value: Value) -> int | float:
    """Return the number to which MySQL converts a value.

    A text becomes the number at its beginning, or 0 if it begins with no number.

    >>> number_of("12abc"), number_of("-1.5"), number_of("x")
    (12, -1.5, 0)
    """
    if isinstance(value, (int, float)):
        return value
    found = re.match(r"\s*([-+]?\d{1,300}(\.\d{0,300})?([eE][-+]?\d{1,3})?|[-+]?\.\d{1,300})", text_of(value))
    if not found:
        return 0
    return float(found[1]) if found[2] or found[3] or "." in found[1] else int(found[1])


def _whole(value: Value) -> int:
    return int(number_of(value))


def _left(text: Value, length: Value) -> str:
    return text_of(text)[: max(0, _whole(length))]


def _right(text: Value, length: Value) -> str:
    count = max(0, _whole(length))
    return text_of(text)[-count:] if count else ""


def _substring(text: Value, position: Value, length: Value = MAX_TEXT) -> str:
    string, begin, count = text_of(text), _whole(position), _whole(length)
    if begin == 0 or count <= 0 or begin < -len(string):
        return ""
    begin = begin - 1 if begin > 0 else len(string) + begin
    return string[begin : begin + count]


def _replace(text: Value, old: Value, new: Value) -> str | None:
    string, gone, come = text_of(text), text_of(old), text_of(new)
    if not gone:
        return string
    if len(string) + string.count(gone) * (len(come) - len(gone)) > MAX_TEXT:
        return None
    return string.replace(gone, come)


def _repeat(text: Value, count: Value) -> str | None:
    string, times = text_of(text), max(0, _whole(count))
    return None if len(string) * times > MAX_TEXT else string * times


def _locate(part: Value, text: Value, begin: Value = 1) -> int:
    start = _whole(begin) - 1
    return 0 if start < 0 else fold(text_of(text)).find(fold(text_of(part)), start) + 1


def _hex(value: Value) -> str:
    if isinstance(value, int):
        return f"{value & (1 << 64) - 1:X}"
    return text_of(value).encode().hex().upper()


def _equal(left: Value, right: Value) -> bool:
    if isinstance(left, str) and isinstance(right, str):
        return fold(left) == fold(right)
    return left is not None and right is not None and bool(number_of(left) == number_of(right))


def _extreme(pick: Callable[..., Value]) -> Callable[..., Value]:
    def call(first: Value, second: Value, *others: Value) -> Value:
        values = (first, second, *others)
        return pick(values, key=fold if all(isinstance(value, str) for value in values) else number_of)

    return call


def _round(value: Value, digits: Value = 0) -> int | float:
    number, places = number_of(value), max(-_MAX_PLACES, min(_MAX_PLACES, _whole(digits)))
    rounded = Decimal(repr(number)).quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP)
    return int(rounded) if isinstance(number, int) or places <= 0 else float(rounded)


def _mod(value: Value, by: Value) -> int | float:
    number, divisor = number_of(value), number_of(by)
    rest = math.fmod(number, divisor)
    return int(rest) if isinstance(number, int) and isinstance(divisor, int) else rest


def _timestamp(value: Value) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text_of(value).strip())


def _unix_timestamp(value: Value = None) -> int:
    return int((datetime.datetime.now() if value is None else _timestamp(value)).timestamp())


def _concat(first: Value, *others: Value) -> str:
    return "".join(map(text_of, (first, *others)))


def _concat_ws(separator: Value, first: Value, *others: Value) -> str | None:
    if separator is None:
        return None
    return text_of(separator).join(text_of(part) for part in (first, *others) if part is not None)


def _coalesce(first: Value, *others: Value) -> Value:
    return next((value for value in (first, *others) if value is not None), None)


_OF_NULL: dict[str, Callable[..., Value]] = {
    "coalesce": _coalesce,
    "concat_ws": _concat_ws,
    "if": lambda condition, yes, no: yes if condition is not None and number_of(condition) else no,
    "ifnull": lambda value, other: other if value is None else value,
    "isnull": lambda value: value is None,
    "nullif": lambda value, other: None if _equal(value, other) else value,
}
"""The functions that are also called with NULL arguments, by name."""

_STRICT: dict[str, Callable[..., Value]] = {
    "abs": lambda value: abs(number_of(value)),
    "any_value": lambda value: value,
    **dict.fromkeys(("ceil", "ceiling"), lambda value: math.ceil(number_of(value))),
    **dict.fromkeys(("char_length", "character_length"), lambda text: len(text_of(text))),
    "concat": _concat,
    "date": lambda value: _timestamp(value).date().isoformat(),
    "floor": lambda value: math.floor(number_of(value)),
    "greatest": _extreme(max),
    "hex": _hex,
    "instr": lambda text, part: _locate(part, text),
    "least": _extreme(min),
    "left": _left,
    **dict.fromkeys(("length", "octet_length"), lambda text: len(text_of(text).encode())),
    "locate": _locate,
    **dict.fromkeys(("lower", "lcase"), lambda text: text_of(text).lower()),
    "ltrim": lambda text: text_of(text).lstrip(" "),
    "mod": _mod,
    "repeat": _repeat,
    "replace": _replace,
    "right": _right,
    "round": _round,
    "rtrim": lambda text: text_of(text).rstrip(" "),
    **dict.fromkeys(("substring", "substr", "mid"), _substring),
    "trim": lambda text: text_of(text).strip(" "),
    "unix_timestamp": _unix_timestamp,
    **dict.fromkeys(("upper", "ucase"), lambda text: text_of(text).upper()),
}
"""The functions whose result is NULL if any argument is NULL, by name."""

FUNCTIONS = _STRICT | _OF_NULL | {"sleep": lambda seconds: 0}
"""The functions that a SELECT on the console may call, by their names in lower case.

Their parameters limit the number of arguments of a call. The execution of the SELECT replaces SLEEP by a function that
waits.
"""


def called(name: str, *arguments: Value) -> Value:
    """Call the function ``name`` as MySQL does. A calculation error, or a result that is too long, gives None (NULL).

    >>> called("left", "abc", 2), called("left", None, 2), called("date", "nonsense")
    ('ab', None, None)
    """
    if name in _STRICT and None in arguments:
        return None
    try:
        value = FUNCTIONS[name](*arguments)
    except (ValueError, ArithmeticError):
        return None
    if isinstance(value, bool):
        return int(value)
    return None if isinstance(value, str) and len(value) > MAX_TEXT else value


CLOCKS = frozenset(
    {
        *("now", "current_timestamp", "localtime", "localtimestamp", "sysdate", "utc_timestamp"),
        *("curdate", "current_date", "curtime", "current_time"),
    }
)
"""The names of the functions that return the current date or time, in lower case."""


def clock(name: str, now: datetime.datetime, digits: int) -> str:
    """Return the text that a function such as NOW(6), CURDATE() or UTC_TIMESTAMP() returns at the time ``now``.

    ``name`` is the function's name, ``digits`` its argument (the digits of the fraction of a second). ``now`` must have
    a time zone. The result is local time, except for UTC_TIMESTAMP().
    """
    zone = datetime.UTC if name.startswith("utc") else None
    text = now.astimezone(zone).replace(tzinfo=None).isoformat(" ", "microseconds")
    date, _, _ = text.partition(" ")
    if name in ("curdate", "current_date"):
        return date
    cut = text[: _SECONDS_LENGTH + 1 + digits if 0 < digits <= _MAX_FRACTION_DIGITS else _SECONDS_LENGTH]
    return cut[len(date) + 1 :] if name in ("curtime", "current_time") else cut


class Room:
    """The memory that the groups of all calls of GROUP_CONCAT in one statement may still take, bytes."""

    def __init__(self) -> None:
        self.left = MAX_GROUPS


class GroupConcat:
    """MySQL's GROUP_CONCAT in the form of an aggregate that Python adds to SQLite.

    SQLite makes one object for each group, calls ``step`` for each row of the group, and ``finalize`` at its end.
    ``room`` is the memory that all groups of a statement share.
    """

    def __init__(self, room: Room) -> None:
        self._room = room
        self._held = 0
        self._found: list[tuple[str, tuple[Value, ...]]] = []
        self._separator = ","
        self._distinct = False
        self._directions = ""
        self._size = 0

    def step(self, separator: str, distinct: int, directions: str, value: Value, *keys: Value) -> None:
        """Add the value of one row of the group. A row whose value is NULL is left out.

        ``keys`` has the row's values of the expressions in ORDER BY inside GROUP_CONCAT. ``directions`` has one letter
        for each expression, "a" (ascending) or "d" (descending). Raises MemoryError when the joined text of the group
        becomes longer than :data:`MAX_TEXT` characters, and when the groups take more than :data:`MAX_GROUPS` bytes.
        """
        turns.pause()
        self._separator, self._distinct, self._directions = separator, bool(distinct), directions
        if value is not None:
            text = text_of(value)
            self._size += len(text) + len(separator)
            held = _ROW_SIZE + sum(map(sys.getsizeof, (text, keys, *keys)))
            self._held += held
            self._room.left -= held
            if self._size > MAX_TEXT or self._room.left < 0:
                raise MemoryError
            self._found.append((text, keys))

    def finalize(self) -> str | None:
        """Return the joined text of the group, or None (NULL) if all values of the group are NULL."""
        self._room.left += self._held
        if not self._found:
            return None
        # Python's sort is stable, so sorting by the last key first gives the order by all keys.
        for at, direction in reversed(list(enumerate(self._directions))):
            self._found.sort(key=lambda found, at=at: _order(found[1][at]), reverse=direction == "d")  # type: ignore[misc]
        texts = [text for text, _ in self._found]
        if self._distinct:
            texts = list({fold(text): text for text in reversed(texts)}.values())[::-1]
        return self._separator.join(texts)


def _order(value: Value) -> tuple[int, Any]:
    if value is None:
        return 0, 0
    return (2, fold(value)) if isinstance(value, str) else (1, value)
