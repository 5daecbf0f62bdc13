"""Python versions of the MySQL functions that a SELECT on the console may call.

SQLite answers the SELECT, and calls these functions. Arguments and results are None (for NULL), int, float or str.
A date is a text in the server's format. For an invalid argument the result is NULL. A SELECT with any other function is
refused.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from dumpfilter.filter.collation import weight

MAX_TEXT = 1 << 20
"""The length limit of a function's text, in characters (``max_allowed_packet``). A longer text becomes NULL."""

_MAX_PLACES = 30
_MAX_FRACTION_DIGITS = 6
_SECONDS_LENGTH = len("2026-01-02 03:04:05")

Value = Any
"""The type of a function's arguments and results, as SQLite passes them: None (for NULL), int, float or str."""


def fold(text: str) -> str:
    """Return a text without case and accents, for comparison.

    Two texts that are equal in MySQL's collation utf8mb4_0900_ai_ci have the same result, at least in common scripts.
    """
    return text.upper() if text.isascii() else "".join(map(weight, text))


_ORDER = "\t\n\v\f\r _-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_RANKS = {ord(character): 0x20 + rank for rank, character in enumerate(_ORDER)}


def sort_key(text: str) -> str:
    """Return a key by which Python sorts texts in the order of MySQL's collation utf8mb4_0900_ai_ci.

    The key ignores case and accents. The order of the ASCII characters was read from MySQL 9.7.

    >>> sorted(["a", "1", "-", "B", "_"], key=sort_key)
    ['_', '-', '1', 'a', 'B']
    """
    return fold(text).translate(_RANKS)


def text_of(value: Value) -> str:
    """Return the text into which CONCAT converts a value. A float without a fraction loses its ``.0``."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)


def number_of(value: Value) -> int | float:
    """Return the number into which MySQL converts a value.

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


@dataclass(frozen=True)
class Function:
    """A function of MySQL, written in Python, with the limits of its number of arguments."""

    call: Callable[..., Value]
    least: int
    most: int | None
    """The largest number of arguments that the function accepts, or None if the number has no limit."""
    takes_null: bool = False
    """Whether the Python code is called with NULL arguments. If false, the result is NULL as soon as one argument is
    NULL.
    """

    def __call__(self, *arguments: Value) -> Value:
        if not self.takes_null and None in arguments:
            return None
        try:
            value = self.call(*arguments)
        except (ValueError, ArithmeticError):
            return None
        if isinstance(value, bool):
            return int(value)
        return None if isinstance(value, str) and len(value) > MAX_TEXT else value


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
    def call(*values: Value) -> Value:
        return pick(values, key=sort_key if all(isinstance(value, str) for value in values) else number_of)

    return call


def _round(value: Value, digits: Value = 0) -> int | float:
    number, places = number_of(value), max(-_MAX_PLACES, min(_MAX_PLACES, _whole(digits)))
    rounded = Decimal(repr(number)).quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP)
    return int(rounded) if isinstance(number, int) or places <= 0 else float(rounded)


def _mod(value: Value, by: Value) -> int | float:
    number, divisor = number_of(value), number_of(by)
    rest = math.fmod(number, divisor)
    return int(rest) if isinstance(number, int) and isinstance(divisor, int) else rest


def timestamp(value: Value) -> datetime.datetime:
    """Parse a text such as ``2026-01-02 03:04:05`` into a datetime. Raises ValueError for a text that is none."""
    return datetime.datetime.fromisoformat(text_of(value).strip())


def _unix_timestamp(value: Value = None) -> int:
    return int((datetime.datetime.now() if value is None else timestamp(value)).timestamp())


def fraction_cut(moment: datetime.datetime, digits: Value = 0) -> str:
    """Return a time as a text with ``digits`` digits of its fraction of a second, without rounding.

    If ``digits`` is not from 1 to 6, the text ends with the seconds.
    """
    places = _whole(digits)
    whole = moment.isoformat(" ", "microseconds")
    return (
        whole[: _SECONDS_LENGTH + 1 + places]
        if 0 < places <= _MAX_FRACTION_DIGITS
        else whole[:_SECONDS_LENGTH]
    )


FUNCTIONS: dict[str, Function] = {
    # These functions return or search a text.
    "concat": Function(lambda *parts: "".join(map(text_of, parts)), 1, None),
    "concat_ws": Function(
        lambda separator, *parts: (
            None
            if separator is None
            else text_of(separator).join(text_of(part) for part in parts if part is not None)
        ),
        2,
        None,
        takes_null=True,
    ),
    **dict.fromkeys(("upper", "ucase"), Function(lambda text: text_of(text).upper(), 1, 1)),
    **dict.fromkeys(("lower", "lcase"), Function(lambda text: text_of(text).lower(), 1, 1)),
    **dict.fromkeys(("length", "octet_length"), Function(lambda text: len(text_of(text).encode()), 1, 1)),
    **dict.fromkeys(("char_length", "character_length"), Function(lambda text: len(text_of(text)), 1, 1)),
    "left": Function(_left, 2, 2),
    "right": Function(_right, 2, 2),
    **dict.fromkeys(("substring", "substr", "mid"), Function(_substring, 2, 3)),
    "replace": Function(_replace, 3, 3),
    "trim": Function(lambda text: text_of(text).strip(" "), 1, 1),
    "ltrim": Function(lambda text: text_of(text).lstrip(" "), 1, 1),
    "rtrim": Function(lambda text: text_of(text).rstrip(" "), 1, 1),
    "repeat": Function(_repeat, 2, 2),
    "locate": Function(_locate, 2, 3),
    "instr": Function(lambda text, part: _locate(part, text), 2, 2),
    "hex": Function(_hex, 1, 1),
    # These functions choose one of their arguments.
    "if": Function(
        lambda condition, yes, no: yes if condition is not None and number_of(condition) else no,
        3,
        3,
        takes_null=True,
    ),
    "ifnull": Function(lambda value, other: other if value is None else value, 2, 2, takes_null=True),
    "coalesce": Function(
        lambda *values: next((value for value in values if value is not None), None), 1, None, takes_null=True
    ),
    "nullif": Function(lambda value, other: None if _equal(value, other) else value, 2, 2, takes_null=True),
    "isnull": Function(lambda value: value is None, 1, 1, takes_null=True),
    "any_value": Function(lambda value: value, 1, 1),
    "greatest": Function(_extreme(max), 2, None),
    "least": Function(_extreme(min), 2, None),
    # These functions calculate with numbers.
    "abs": Function(lambda value: abs(number_of(value)), 1, 1),
    **dict.fromkeys(("ceil", "ceiling"), Function(lambda value: math.ceil(number_of(value)), 1, 1)),
    "floor": Function(lambda value: math.floor(number_of(value)), 1, 1),
    "round": Function(_round, 1, 2),
    "mod": Function(_mod, 2, 2),
    # These functions convert dates and times.
    "date": Function(lambda value: timestamp(value).date().isoformat(), 1, 1),
    "unix_timestamp": Function(_unix_timestamp, 0, 1),
}
"""The functions that a SELECT on the console may call, by their names in lower case."""

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
    local = (now.astimezone(datetime.UTC) if name.startswith("utc") else now.astimezone()).replace(
        tzinfo=None
    )
    if name in ("curdate", "current_date"):
        return local.date().isoformat()
    text = fraction_cut(local, digits)
    return text.partition(" ")[2] if name in ("curtime", "current_time") else text


_NATIVE_NAMES = """
    abs acos adddate addtime aes_decrypt aes_encrypt ascii asin atan atan2 avg benchmark bin bin_to_uuid bit_and
    bit_count bit_length bit_or bit_xor cast char charset coercibility collation compress conv convert convert_tz cos
    cot crc32 cume_dist date_add date_format date_sub datediff day dayname dayofmonth dayofweek dayofyear default
    degrees elt exp export_set extract extractvalue field find_in_set format format_bytes format_pico_time from_base64
    from_days from_unixtime get_format get_lock grouping gtid_subset gtid_subtract hour icu_version inet6_aton
    inet6_ntoa inet_aton inet_ntoa insert is_free_lock is_ipv4 is_ipv6 is_used_lock is_uuid json_array json_arrayagg
    json_contains json_extract json_keys json_length json_object json_objectagg json_pretty json_search json_set
    json_table json_type json_unquote json_valid json_value last_day ln load_file log log10 log2 lpad make_set
    makedate maketime master_pos_wait md5 microsecond minute month monthname name_const oct ord period_add period_diff
    pi position pow power ps_current_thread_id ps_thread_id quarter quote radians rand random_bytes regexp_instr
    regexp_like regexp_replace regexp_substr release_all_locks release_lock reverse rpad sec_to_time second sha sha1
    sha2 sign sin soundex source_pos_wait space sqrt std stddev stddev_pop stddev_samp str_to_date strcmp subdate
    substring_index subtime tan time time_format time_to_sec timediff timestamp timestampadd timestampdiff to_base64
    to_days to_seconds truncate uncompress unhex updatexml utc_date utc_time uuid uuid_short uuid_to_bin
    validate_password_strength values var_pop var_samp variance wait_for_executed_gtid_set week weekday weekofyear
    weight_string year yearweek
"""
NATIVE = frozenset(_NATIVE_NAMES.split())
"""The names of MySQL functions that a SELECT on the console cannot call, in lower case.

The console answers error 1235 ("not supported") for these functions, and error 1305 ("does not exist") for others.
"""


class GroupConcat:
    """MySQL's GROUP_CONCAT in the form of an aggregate that Python adds to SQLite.

    SQLite makes one object for each group, calls ``step`` for each row of the group, and ``finalize`` at its end.
    """

    def __init__(self) -> None:
        self._found: list[tuple[str, tuple[Value, ...]]] = []
        self._separator = ","
        self._distinct = False
        self._directions = ""
        self._size = 0

    def step(self, separator: str, distinct: int, directions: str, value: Value, *keys: Value) -> None:
        """Add the value of one row of the group. A row whose value is NULL is left out.

        ``keys`` are the row's values of the expressions in ORDER BY inside GROUP_CONCAT. ``directions`` has one letter
        for each of them, "a" (ascending) or "d" (descending). Raises MemoryError when the group's joined text becomes
        too long.
        """
        self._separator, self._distinct, self._directions = separator, bool(distinct), directions
        if value is not None:
            text = text_of(value)
            self._size += len(text) + len(separator)
            if self._size > MAX_TEXT:
                raise MemoryError
            self._found.append((text, keys))

    def finalize(self) -> str | None:
        """Return the joined text of the group, or None (NULL) if all values of the group are NULL."""
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
    return (2, sort_key(value)) if isinstance(value, str) else (1, value)
