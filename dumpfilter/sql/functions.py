"""MySQL's functions for one value at a time, as a SELECT on the console may use them.

Each takes and gives what SQLite holds: None, int, float or str; dates are texts as the server writes them. The
texts in the manual, "Functions and Operators", are the contract; where an argument makes no sense there, the
result is NULL.
"""

from __future__ import annotations

import datetime
import functools
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from dumpfilter.filter.collation import weight

MAX_TEXT = 16 << 20
"""Characters of a function's result (``max_allowed_packet``): NULL beyond."""

Value = Any


@dataclass(frozen=True)
class Function:
    """A function and how many arguments it takes; ``most`` None: any number."""

    call: Callable[..., Value]
    least: int
    most: int | None


FUNCTIONS: dict[str, Function] = {}
"""By name in lower case."""


def _function(
    *names: str, least: int, most: int | None = -1, nulls: bool = False
) -> Callable[[Callable[..., Value]], Callable[..., Value]]:
    """Enter a function; unless it sees to ``nulls`` itself, one NULL argument makes the result NULL."""

    def enter(call: Callable[..., Value]) -> Callable[..., Value]:
        def guarded(*arguments: Value) -> Value:
            if not nulls and None in arguments:
                return None
            try:
                value = call(*arguments)
            except (ValueError, OverflowError, ZeroDivisionError, ArithmeticError):
                return None
            if isinstance(value, bool):
                return int(value)
            return None if isinstance(value, str) and len(value) > MAX_TEXT else value

        for name in names:
            FUNCTIONS[name] = Function(guarded, least, least if most == -1 else most)
        return call

    return enter


def fold(text: str) -> str:
    """What a text compares as: without case and accents, as utf8mb4_0900_ai_ci for the usual letters."""
    return text.upper() if text.isascii() else "".join(map(weight, text))


_ORDER = "\t\n\v\f\r _-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_RANKS = {ord(character): 0x20 + rank for rank, character in enumerate(_ORDER)}


def sort_key(text: str) -> str:
    """What a text is sorted by: as :func:`fold`, ASCII in the order of utf8mb4_0900_ai_ci (asked of MySQL 9.7).

    >>> sorted(["a", "1", "-", "B", "_"], key=sort_key)
    ['_', '-', '1', 'a', 'B']
    """
    return fold(text).translate(_RANKS)


def text_of(value: Value) -> str:
    """A value as text, as CONCAT takes it."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)


def number_of(value: Value) -> int | float:
    """A value as a number: of a text what it begins with.

    >>> number_of("12abc"), number_of("-1.5"), number_of("x")
    (12, -1.5, 0)
    """
    if isinstance(value, (int, float)):
        return value
    found = re.match(r"\s*([-+]?\d{1,300}(\.\d{0,300})?([eE][-+]?\d{1,3})?|[-+]?\.\d{1,300})", text_of(value))
    if not found:
        return 0
    return float(found[1]) if found[2] or found[3] or "." in found[1] else int(found[1])


def like(pattern: Value, value: Value, escape: Value = "\\") -> int | None:
    r"""LIKE, without case and accents; takes time in proportion to both lengths.

    >>> like("a\\_%", "A_b"), like("a_", "a"), like("%b%d%", "abcde")
    (1, 0, 1)
    """
    if pattern is None or value is None or escape is None:
        return None
    units: list[tuple[str, str]] = []
    characters = iter(text_of(pattern))
    for character in characters:
        if escape and character == escape:
            units.append(("=", fold(next(characters, character))))
        elif character == "%":
            if not units or units[-1][0] != "%":
                units.append(("%", ""))
        else:
            units.append(("_", "") if character == "_" else ("=", fold(character)))
    return int(_matches(units, [fold(character) for character in text_of(value)]))


def _matches(units: list[tuple[str, str]], text: list[str]) -> bool:
    at = unit = 0
    retry_unit, retry_at = -1, 0
    while at < len(text):
        if unit < len(units) and units[unit][0] == "%":
            retry_unit, retry_at = unit, at
            unit += 1
        elif unit < len(units) and (units[unit][0] == "_" or units[unit][1] == text[at]):
            unit, at = unit + 1, at + 1
        elif retry_unit >= 0:
            retry_at += 1
            unit, at = retry_unit + 1, retry_at
        else:
            return False
    return all(kind == "%" for kind, _ in units[unit:])


# Texts


@_function("concat", least=1, most=None)
def _concat(*parts: Value) -> Value:
    return "".join(map(text_of, parts))


@_function("concat_ws", least=2, most=None, nulls=True)
def _concat_ws(separator: Value, *parts: Value) -> Value:
    if separator is None:
        return None
    return text_of(separator).join(text_of(part) for part in parts if part is not None)


@_function("upper", "ucase", least=1)
def _upper(text: Value) -> Value:
    return text_of(text).upper()


@_function("lower", "lcase", least=1)
def _lower(text: Value) -> Value:
    return text_of(text).lower()


@_function("length", "octet_length", least=1)
def _length(text: Value) -> Value:
    return len(text_of(text).encode())


@_function("char_length", "character_length", least=1)
def _char_length(text: Value) -> Value:
    return len(text_of(text))


@_function("left", least=2)
def _left(text: Value, length: Value) -> Value:
    return text_of(text)[: max(0, int(number_of(length)))]


@_function("right", least=2)
def _right(text: Value, length: Value) -> Value:
    count = max(0, int(number_of(length)))
    return text_of(text)[-count:] if count else ""


@_function("substring", "substr", "mid", least=2, most=3)
def _substring(text: Value, position: Value, length: Value = MAX_TEXT) -> Value:
    string, begin, count = text_of(text), int(number_of(position)), int(number_of(length))
    begin = begin - 1 if begin > 0 else len(string) + begin
    if begin < 0 or int(number_of(position)) == 0 or count <= 0:
        return ""
    return string[begin : begin + count]


@_function("substring_index", least=3)
def _substring_index(text: Value, delimiter: Value, count: Value) -> Value:
    string, cut, number = text_of(text), text_of(delimiter), int(number_of(count))
    if not cut or not number:
        return ""
    parts = string.split(cut)
    return cut.join(parts[:number] if number > 0 else parts[number:])


@_function("replace", least=3)
def _replace(text: Value, old: Value, new: Value) -> Value:
    string, gone, come = text_of(text), text_of(old), text_of(new)
    if not gone:
        return string
    if len(string) + string.count(gone) * (len(come) - len(gone)) > MAX_TEXT:
        return None
    return string.replace(gone, come)


@_function("trim", least=1)
def _trim(text: Value) -> Value:
    return text_of(text).strip(" ")


@_function("ltrim", least=1)
def _ltrim(text: Value) -> Value:
    return text_of(text).lstrip(" ")


@_function("rtrim", least=1)
def _rtrim(text: Value) -> Value:
    return text_of(text).rstrip(" ")


def _padding(text: str, length: int, pad: str) -> str | None:
    if length < 0 or length > MAX_TEXT or (not pad and length > len(text)):
        return None
    missing = max(0, length - len(text))
    return (pad * (missing // max(1, len(pad)) + 1))[:missing]


@_function("lpad", least=3)
def _lpad(text: Value, length: Value, pad: Value) -> Value:
    string, wanted = text_of(text), int(number_of(length))
    padding = _padding(string, wanted, text_of(pad))
    return None if padding is None else (padding + string[:wanted])


@_function("rpad", least=3)
def _rpad(text: Value, length: Value, pad: Value) -> Value:
    string, wanted = text_of(text), int(number_of(length))
    padding = _padding(string, wanted, text_of(pad))
    return None if padding is None else (string[:wanted] + padding)


@_function("repeat", least=2)
def _repeat(text: Value, count: Value) -> Value:
    string, times = text_of(text), max(0, int(number_of(count)))
    return None if len(string) * times > MAX_TEXT else string * times


@_function("space", least=1)
def _space(count: Value) -> Value:
    return _repeat(" ", count)


@_function("reverse", least=1)
def _reverse(text: Value) -> Value:
    return text_of(text)[::-1]


@_function("locate", least=2, most=3)
def _locate(part: Value, text: Value, begin: Value = 1) -> Value:
    start = int(number_of(begin)) - 1
    return 0 if start < 0 else fold(text_of(text)).find(fold(text_of(part)), start) + 1


@_function("instr", least=2)
def _instr(text: Value, part: Value) -> Value:
    return _locate(part, text)


@_function("field", least=2, most=None, nulls=True)
def _field(wanted: Value, *values: Value) -> Value:
    return next((at for at, value in enumerate(values, 1) if wanted is not None and _same(value, wanted)), 0)


@_function("find_in_set", least=2)
def _find_in_set(wanted: Value, texts: Value) -> Value:
    return _field(text_of(wanted), *text_of(texts).split(","))


@_function("elt", least=2, most=None, nulls=True)
def _elt(number: Value, *values: Value) -> Value:
    at = 0 if number is None else int(number_of(number))
    return values[at - 1] if 0 < at <= len(values) else None


@_function("strcmp", least=2)
def _strcmp(left: Value, right: Value) -> Value:
    one, other = sort_key(text_of(left)), sort_key(text_of(right))
    return (one > other) - (one < other)


@_function("ascii", least=1)
def _ascii(text: Value) -> Value:
    return text_of(text).encode()[0] if text_of(text) else 0


@_function("hex", least=1)
def _hex(value: Value) -> Value:
    if isinstance(value, int):
        return f"{value & 0xFFFFFFFFFFFFFFFF:X}"
    return text_of(value).encode().hex().upper()


@_function("unhex", least=1)
def _unhex(value: Value) -> Value:
    return bytes.fromhex(text_of(value)).decode("utf-8", "replace")


@_function("quote", least=1, nulls=True)
def _quote(value: Value) -> Value:
    if value is None:
        return "NULL"
    return "'" + text_of(value).replace("\\", "\\\\").replace("'", "\\'") + "'"


@_function("regexp_like", least=2, most=2)
def _regexp_like(text: Value, pattern: Value) -> Value:
    # RE2: its time is linear in the text, whatever the pattern; Python's own can be made to run for ever
    import pyarrow
    import pyarrow.compute

    try:
        found = pyarrow.compute.match_substring_regex(
            pyarrow.array([text_of(text)]), text_of(pattern), ignore_case=True
        )
    except pyarrow.ArrowInvalid as error:
        raise ValueError(str(error)) from error
    return bool(found[0].as_py())


class GroupConcat:
    """GROUP_CONCAT, as an aggregate of SQLite's: separator, whether DISTINCT, the keys' directions, value, keys."""

    def __init__(self) -> None:
        self._found: list[tuple[str, tuple[Value, ...]]] = []
        self._separator = ","
        self._distinct = False
        self._directions = ""
        self._size = 0

    def step(self, separator: str, distinct: int, directions: str, value: Value, *keys: Value) -> None:
        """Take a row. Raises MemoryError for more text than a result may have."""
        self._separator, self._distinct, self._directions = separator, bool(distinct), directions
        if value is not None:
            text = text_of(value)
            self._size += len(text) + len(separator)
            if self._size > MAX_TEXT:
                raise MemoryError
            self._found.append((text, keys))

    def finalize(self) -> str | None:
        """All of them; NULL when there was none."""
        if not self._found:
            return None
        for at, direction in reversed(list(enumerate(self._directions))):
            self._found.sort(key=functools.partial(_nth_key, at), reverse=direction == "d")
        texts = [text for text, _ in self._found]
        if self._distinct:
            texts = list({fold(text): text for text in reversed(texts)}.values())[::-1]
        return self._separator.join(texts)


def _nth_key(at: int, found: tuple[str, tuple[Value, ...]]) -> tuple[int, Any]:
    return _sort_key(found[1][at])


def _sort_key(value: Value) -> tuple[int, Any]:
    """NULL comes first, then numbers, then texts."""
    if value is None:
        return 0, 0
    return (2, sort_key(value)) if isinstance(value, str) else (1, value)


# Choices


def _same(left: Value, right: Value) -> bool:
    if isinstance(left, str) and isinstance(right, str):
        return fold(left) == fold(right)
    return left is not None and right is not None and bool(number_of(left) == number_of(right))


@_function("if", least=3, nulls=True)
def _if(condition: Value, yes: Value, no: Value) -> Value:
    return yes if condition is not None and number_of(condition) else no


@_function("ifnull", least=2, nulls=True)
@_function("coalesce", least=1, most=None, nulls=True)
def _coalesce(*values: Value) -> Value:
    return next((value for value in values if value is not None), None)


@_function("nullif", least=2, nulls=True)
def _nullif(value: Value, other: Value) -> Value:
    return None if _same(value, other) else value


@_function("any_value", least=1)
def _any_value(value: Value) -> Value:
    return value


@_function("isnull", least=1, nulls=True)
def _isnull(value: Value) -> Value:
    return value is None


@_function("greatest", least=2, most=None)
def _greatest(*values: Value) -> Value:
    return max(values, key=_order(values))


@_function("least", least=2, most=None)
def _least(*values: Value) -> Value:
    return min(values, key=_order(values))


def _order(values: tuple[Value, ...]) -> Callable[[Value], Any]:
    return sort_key if all(isinstance(v, str) for v in values) else number_of


# Numbers


@_function("abs", least=1)
def _abs(value: Value) -> Value:
    return abs(number_of(value))


@_function("ceil", "ceiling", least=1)
def _ceil(value: Value) -> Value:
    return math.ceil(number_of(value))


@_function("floor", least=1)
def _floor(value: Value) -> Value:
    return math.floor(number_of(value))


@_function("round", least=1, most=2)
def _round(value: Value, digits: Value = 0) -> Value:
    number, places = number_of(value), max(-30, min(30, int(number_of(digits))))
    rounded = Decimal(repr(number)).quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP)
    return int(rounded) if isinstance(number, int) or places <= 0 else float(rounded)


@_function("truncate", least=2)
def _truncate(value: Value, digits: Value) -> Value:
    number, places = number_of(value), max(-30, min(30, int(number_of(digits))))
    scale = Decimal(1).scaleb(places)
    cut = Decimal(int(Decimal(repr(number)) * scale)) / scale
    return int(cut) if isinstance(number, int) or places <= 0 else float(cut)


@_function("mod", least=2)
def _mod(value: Value, by: Value) -> Value:
    number, divisor = number_of(value), number_of(by)
    if not divisor:
        return None
    rest = math.fmod(number, divisor)
    return int(rest) if isinstance(number, int) and isinstance(divisor, int) else rest


@_function("pow", "power", least=2)
def _pow(value: Value, exponent: Value) -> Value:
    return math.pow(number_of(value), number_of(exponent))


@_function("sqrt", least=1)
def _sqrt(value: Value) -> Value:
    return math.sqrt(number_of(value))


@_function("sign", least=1)
def _sign(value: Value) -> Value:
    number = number_of(value)
    return (number > 0) - (number < 0)


@_function("cast_signed", "cast_unsigned", least=1)
def _cast_integer(value: Value) -> Value:
    number = number_of(value)
    return math.floor(number + 0.5) if isinstance(number, float) else number


@_function("cast_char", least=1, most=2)
def _cast_char(value: Value, length: Value = MAX_TEXT) -> Value:
    return text_of(value)[: int(number_of(length))]


@_function("cast_double", least=1)
def _cast_double(value: Value) -> Value:
    return float(number_of(value))


@_function("cast_decimal", least=1, most=3)
def _cast_decimal(value: Value, precision: Value = 10, scale: Value = 0) -> Value:
    del precision
    return _round(value, scale)


@_function("format_bytes", least=1)
def _format_bytes(value: Value) -> Value:
    size, units = float(number_of(value)), ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"]
    at = 0
    while abs(size) >= 1024 and at < len(units) - 1:
        size, at = size / 1024, at + 1
    return f"{size:4.0f} bytes" if not at else f"{size:.2f} {units[at]}"


# Dates

_DATE = re.compile(
    r"\s*(\d{1,4})-(\d{1,2})-(\d{1,2})(?:[ T](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,9}))?)?)?\s*\Z"
)


def moment(value: Value) -> datetime.datetime:
    """A date or a date with a time. Raises ValueError for any other text."""
    found = _DATE.match(text_of(value))
    if not found:
        raise ValueError(value)
    year, month, day, hour, minute, second = (int(part or 0) for part in found.groups()[:6])
    micro = int((found[7] or "").ljust(6, "0")[:6])
    return datetime.datetime(year, month, day, hour, minute, second, micro)


def full_moment(value: str) -> str | None:
    """A text as a TIMESTAMP(6) is stored; None when it is no date."""
    try:
        return moment(value).isoformat(" ", "microseconds")
    except ValueError:
        return None


def _written(value: datetime.datetime, like_text: str) -> str:
    """As long as what it was made from: with a time or fractions where that had them."""
    if value.microsecond or "." in like_text:
        return value.isoformat(" ", "microseconds")
    return value.isoformat(" ", "seconds") if ":" in like_text else value.date().isoformat()


@_function("now", "current_timestamp", "localtime", "localtimestamp", "sysdate", least=0, most=1)
def _now(digits: Value = 0) -> Value:
    return _cut_fraction(datetime.datetime.now(), digits)


@_function("utc_timestamp", least=0, most=1)
def _utc_timestamp(digits: Value = 0) -> Value:
    return _cut_fraction(datetime.datetime.now(datetime.UTC).replace(tzinfo=None), digits)


def _cut_fraction(value: datetime.datetime, digits: Value) -> str:
    places = int(number_of(digits))
    whole = value.isoformat(" ", "microseconds")
    return whole[: 20 + places] if places > 0 else whole[:19]


@_function("curdate", "current_date", least=0)
def _curdate() -> Value:
    return datetime.date.today().isoformat()


@_function("curtime", "current_time", least=0, most=1)
def _curtime(digits: Value = 0) -> Value:
    return _cut_fraction(datetime.datetime.now(), digits)[11:]


@_function("unix_timestamp", least=0, most=1)
def _unix_timestamp(value: Value = "") -> Value:
    if value == "":
        return int(datetime.datetime.now().timestamp())
    then = moment(value)
    return then.timestamp() if then.microsecond else int(then.timestamp())


@_function("from_unixtime", least=1)
def _from_unixtime(value: Value) -> Value:
    then = datetime.datetime.fromtimestamp(number_of(value))
    return _written(then, ":." if then.microsecond else ":")


@_function("date", least=1)
def _date(value: Value) -> Value:
    return moment(value).date().isoformat()


@_function("time", least=1)
def _time(value: Value) -> Value:
    return _written(moment(value), text_of(value) + ":")[11:]


def _part(pick: Callable[[datetime.datetime], Value]) -> Callable[[Value], Value]:
    return lambda value: pick(moment(value))


for _name, _pick in {
    "year": lambda t: t.year,
    "quarter": lambda t: (t.month + 2) // 3,
    "month": lambda t: t.month,
    "day": lambda t: t.day,
    "dayofmonth": lambda t: t.day,
    "hour": lambda t: t.hour,
    "minute": lambda t: t.minute,
    "second": lambda t: t.second,
    "microsecond": lambda t: t.microsecond,
    "dayofweek": lambda t: t.isoweekday() % 7 + 1,
    "weekday": lambda t: t.weekday(),
    "dayofyear": lambda t: t.timetuple().tm_yday,
    "to_days": lambda t: t.toordinal() + 365,
}.items():
    _function(_name, least=1)(_part(_pick))

_UNITS = {
    "MICROSECOND": datetime.timedelta(microseconds=1),
    "SECOND": datetime.timedelta(seconds=1),
    "MINUTE": datetime.timedelta(minutes=1),
    "HOUR": datetime.timedelta(hours=1),
    "DAY": datetime.timedelta(days=1),
    "WEEK": datetime.timedelta(weeks=1),
}
_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}


@_function("add_interval", least=3)
def _add_interval(value: Value, amount: Value, unit: Value) -> Value:
    then, number, name = moment(value), number_of(amount), unit.upper()
    if name in _MONTHS:
        months = then.year * 12 + then.month - 1 + int(number) * _MONTHS[name]
        year, month = divmod(months, 12)
        following = datetime.date(year + month // 11, (month + 1) % 12 + 1, 1)
        last = (following - datetime.timedelta(days=1)).day
        then = then.replace(year=year, month=month + 1, day=min(then.day, last))
        return _written(then, text_of(value))
    shape = text_of(value) if name in ("DAY", "WEEK") else text_of(value) + ":"
    return _written(then + number * _UNITS[name], shape)


@_function("timestampdiff", least=3)
def _timestampdiff(unit: Value, begin: Value, end: Value) -> Value:
    one, other, name = moment(begin), moment(end), text_of(unit).upper()
    if name in _MONTHS:
        early, late = min(one, other), max(one, other)
        months = (late.year - early.year) * 12 + late.month - early.month
        if (late.day, late.time()) < (early.day, early.time()):
            months -= 1
        return (1 if other >= one else -1) * (months // _MONTHS[name])
    if name not in _UNITS:
        return None
    difference = other - one
    whole = abs(difference) // _UNITS[name]
    return whole if other >= one else -whole


@_function("datediff", least=2)
def _datediff(later: Value, earlier: Value) -> Value:
    return (moment(later).date() - moment(earlier).date()).days


_FORMATS: dict[str, Callable[[datetime.datetime], str]] = {
    "Y": lambda t: f"{t.year:04d}",
    "y": lambda t: f"{t.year % 100:02d}",
    "m": lambda t: f"{t.month:02d}",
    "c": lambda t: str(t.month),
    "d": lambda t: f"{t.day:02d}",
    "e": lambda t: str(t.day),
    "H": lambda t: f"{t.hour:02d}",
    "k": lambda t: str(t.hour),
    "h": lambda t: f"{(t.hour + 11) % 12 + 1:02d}",
    "I": lambda t: f"{(t.hour + 11) % 12 + 1:02d}",
    "l": lambda t: str((t.hour + 11) % 12 + 1),
    "i": lambda t: f"{t.minute:02d}",
    "s": lambda t: f"{t.second:02d}",
    "S": lambda t: f"{t.second:02d}",
    "f": lambda t: f"{t.microsecond:06d}",
    "p": lambda t: "AM" if t.hour < 12 else "PM",
    "T": lambda t: t.strftime("%H:%M:%S"),
    "r": lambda t: t.strftime("%I:%M:%S %p"),
    "W": lambda t: t.strftime("%A"),
    "a": lambda t: t.strftime("%a"),
    "M": lambda t: t.strftime("%B"),
    "b": lambda t: t.strftime("%b"),
    "j": lambda t: t.strftime("%j"),
    "w": lambda t: t.strftime("%w"),
}


@_function("date_format", least=2)
def _date_format(value: Value, pattern: Value) -> Value:
    then = moment(value)
    return re.sub(
        r"%(.)",
        lambda found: _FORMATS[found[1]](then) if found[1] in _FORMATS else found[1],
        text_of(pattern),
        flags=re.DOTALL,
    )
