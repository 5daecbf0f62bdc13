"""The evaluation of the datetime expressions of PURGE BINARY LOGS BEFORE.

An expression is a literal or a function such as NOW(), and may add or subtract intervals such as INTERVAL 3 DAY.
"""

from __future__ import annotations

import re
from calendar import monthrange
from datetime import UTC, datetime, timedelta

from dumpfilter.binlog.statement.tokens import TokenKind
from dumpfilter.console.sql.cursor import Cursor
from dumpfilter.console.sql.result import Note
from dumpfilter.console.sql.server_errors import (
    ER_BAD_FIELD_ERROR,
    ER_DATETIME_FUNCTION_OVERFLOW,
    ER_NOT_SUPPORTED_YET,
    ER_TOO_BIG_PRECISION,
    ER_TRUNCATED_WRONG_VALUE,
    ER_WRONG_DATETIME_VALUE,
    ER_WRONG_VALUE,
)

_WITH_PARENTHESES = frozenset({"NOW", "SYSDATE"})
_NOW = _WITH_PARENTHESES | {"CURRENT_TIMESTAMP", "LOCALTIME", "LOCALTIMESTAMP"}
_UTC_NOW = "UTC_TIMESTAMP"
_TODAY = frozenset({"CURDATE", "CURRENT_DATE"})
_MAX_PRECISION = 6
_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
_SPANS = {
    "MICROSECOND": timedelta(microseconds=1),
    "SECOND": timedelta(seconds=1),
    "MINUTE": timedelta(minutes=1),
    "HOUR": timedelta(hours=1),
    "DAY": timedelta(days=1),
    "WEEK": timedelta(weeks=1),
}
_LITERAL = re.compile(
    r"""\s* (\d{4}) [^\w\s] (\d{1,2}) [^\w\s] (\d{1,2})
        (?: (?:T|\s+) (\d{1,2}) (?: [^\w\s] (\d{1,2}) (?: [^\w\s] (\d{1,2}) (?: \.(\d{0,6})\d* )? )? )?
            ([+-]\d\d:\d\d)? )? \s*""",
    re.VERBOSE | re.ASCII,
)
_LEADING = re.compile(r"\s*([+-]?\d{1,18})(\s*\Z)?", re.ASCII)

Value = datetime | None
"""The type of a datetime expression's value. None stands for NULL."""


def datetime_expression(cursor: Cursor, now: datetime, warnings: list[Note]) -> Value:
    """Consume a datetime expression at the cursor, and return its value.

    ``now`` is the value of NOW(), a local time without a time zone. The result is a local time without a time zone,
    too, unless a literal names a zone. For a text that is no datetime and for a result out of range, the function
    returns None and appends to ``warnings``. Raises SqlError for text that is not such an expression.
    """
    value = _operand(cursor, now, warnings)
    while sign := cursor.accept("-", "+"):
        value = _shifted(value, 1 if sign == "+" else -1, *_interval(cursor, warnings), warnings)
    return value


def parse_datetime(text: str) -> Value:
    """Return the datetime that a text spells, or None for another text.

    The MySQL manual lists the forms under "Date and Time Literals". A year must have four digits, and parts of the time
    must be separated.

    >>> parse_datetime("2026-11-21 15:30:00")
    datetime.datetime(2026, 11, 21, 15, 30)
    """
    match = _LITERAL.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(part or 0) for part in match.groups()[:6])
    microsecond = int((match[7] or "").ljust(6, "0"))
    try:
        value = datetime(year, month, day, hour, minute, second, microsecond)
        return value.replace(tzinfo=datetime.strptime(match[8], "%z").tzinfo) if match[8] else value
    except ValueError:
        return None


def _operand(cursor: Cursor, now: datetime, warnings: list[Note]) -> Value:
    token = cursor.token
    if token.kind in (TokenKind.STRING, TokenKind.INTEGER, TokenKind.DECIMAL):
        value = parse_datetime(cursor.advance().value)
        if value is None:
            warnings.append(ER_WRONG_DATETIME_VALUE.warning(token.value))
        return value
    if token.kind in (TokenKind.QUOTED, TokenKind.NAME):
        raise ER_BAD_FIELD_ERROR(token.value, "field list")
    if token.kind is not TokenKind.WORD:
        cursor.fail()
    cursor.advance()
    word = token.word
    if word in ("TIMESTAMP", "DATE") and cursor.at_string():
        return _typed_literal("DATETIME" if word == "TIMESTAMP" else word, cursor.advance().value)
    if word == "NULL":
        return None
    called = cursor.sees("(")
    if word in _NOW | _TODAY | {_UTC_NOW} and (called or word not in _WITH_PARENTHESES | {"CURDATE"}):
        if cursor.accept("("):
            _precision(cursor, token.value)
        if word == _UTC_NOW:
            return now.astimezone(UTC).replace(tzinfo=None)
        return now.replace(hour=0, minute=0, second=0, microsecond=0) if word in _TODAY else now
    if called:
        raise ER_NOT_SUPPORTED_YET(f"PURGE BINARY LOGS BEFORE {token.value}()")
    raise ER_BAD_FIELD_ERROR(token.value, "field list")


def _typed_literal(kind: str, text: str) -> datetime:
    value = parse_datetime(text)
    if value is None:
        raise ER_WRONG_VALUE(kind, text)
    return value


def _precision(cursor: Cursor, function: str) -> None:
    # Fractions of seconds make no difference to a file's time, so NOW(6) means the same as NOW().
    if not cursor.sees(")"):
        digits = cursor.integer()
        if digits > _MAX_PRECISION:
            raise ER_TOO_BIG_PRECISION(digits, function, _MAX_PRECISION)
    cursor.expect(")")


def _interval(cursor: Cursor, warnings: list[Note]) -> tuple[int, str]:
    cursor.expect("INTERVAL")
    sign = -1 if cursor.accept("-") else 1
    if cursor.at_string():
        written = cursor.advance().value
        match = _LEADING.match(written)
        count = int(match[1]) if match else 0
        exact = match is not None and match[2] is not None
    else:
        written = ""
        count = cursor.integer()
        exact = True
    unit = cursor.expect(*_SPANS, *_MONTHS)
    if not exact:
        warnings.append(ER_TRUNCATED_WRONG_VALUE.warning("INTEGER", written))
    return sign * count, unit


def _shifted(value: Value, sign: int, count: int, unit: str, warnings: list[Note]) -> Value:
    if value is None:
        return None
    try:
        if unit in _SPANS:
            return value + sign * count * _SPANS[unit]
        year, month = divmod(value.year * 12 + value.month - 1 + sign * count * _MONTHS[unit], 12)
        if not 1 <= year <= 9999:
            raise OverflowError
        return value.replace(year=year, month=month + 1, day=min(value.day, monthrange(year, month + 1)[1]))
    except OverflowError:
        warnings.append(ER_DATETIME_FUNCTION_OVERFLOW.warning("datetime"))
        return None
