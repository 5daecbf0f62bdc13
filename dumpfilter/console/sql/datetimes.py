"""The evaluation of the datetime expressions of PURGE BINARY LOGS BEFORE.

An expression is a literal or a function such as NOW(), and may add or subtract intervals such as INTERVAL 3 DAY.
"""

from __future__ import annotations

import re
from calendar import monthrange
from datetime import datetime, timedelta

from dumpfilter.binlog.statement.tokens import TokenKind
from dumpfilter.console.sql.cursor import Cursor
from dumpfilter.console.sql.functions import CLOCKS, clock
from dumpfilter.console.sql.result import Note
from dumpfilter.console.sql.server_errors import (
    ER_BAD_FIELD_ERROR,
    ER_DATETIME_FUNCTION_OVERFLOW,
    ER_NOT_SUPPORTED_YET,
    ER_TOO_BIG_PRECISION,
    ER_WRONG_DATETIME_VALUE,
    ER_WRONG_VALUE,
)

Value = datetime | None
"""The type of a datetime expression's value. None stands for NULL."""


_CLOCKS = {name.upper() for name in CLOCKS} - {"CURTIME", "CURRENT_TIME"}
"""The functions of the current date or time that are a datetime."""
_WITH_PARENTHESES = frozenset({"NOW", "SYSDATE", "CURDATE"})
"""The functions of the current date or time that a server does not know without parentheses."""

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
_LITERAL = re.compile(r"\d{4}-\d\d-\d\d([T ].*)?", re.ASCII)


def datetime_expression(cursor: Cursor, now: datetime, warnings: list[Note]) -> Value:
    """Consume a datetime expression at the cursor, and return its value.

    ``now`` is the value of NOW(), a local time without a time zone. The result is a local time without a time zone,
    too, unless a literal names a zone. For a text that is no datetime and for a result out of range, the function
    returns None and appends to ``warnings``. Raises SqlError for text that is not such an expression.
    """
    value = _operand(cursor, now, warnings)
    while sign := cursor.accept("-", "+"):
        cursor.expect("INTERVAL")
        count = cursor.integer() * (1 if sign == "+" else -1)
        unit = cursor.expect(*_SPANS, *_MONTHS)
        try:
            value = None if value is None else _shifted(value, count, unit)
        except OverflowError:
            warnings.append(ER_DATETIME_FUNCTION_OVERFLOW.warning("datetime"))
            value = None
    return value


def parse_datetime(text: str) -> Value:
    """Return the datetime of a text in ISO 8601's form, or None for a text of another form.

    >>> parse_datetime("2026-11-21 15:30:00")
    datetime.datetime(2026, 11, 21, 15, 30)
    """
    try:
        return datetime.fromisoformat(text) if _LITERAL.fullmatch(text) else None
    except ValueError:
        return None


def _operand(cursor: Cursor, now: datetime, warnings: list[Note]) -> Value:
    if cursor.accept("NULL"):
        return None
    token = cursor.token
    if token.kind in (TokenKind.STRING, TokenKind.INTEGER, TokenKind.DECIMAL):
        value = parse_datetime(cursor.advance().value)
        if value is None:
            warnings.append(ER_WRONG_DATETIME_VALUE.warning(token.value))
        return value
    if token.kind not in (TokenKind.WORD, TokenKind.NAME, TokenKind.QUOTED):
        cursor.fail()
    cursor.advance()
    if token.word in ("TIMESTAMP", "DATE") and cursor.at_string():
        text = cursor.advance().value
        value = parse_datetime(text)
        if value is None:
            raise ER_WRONG_VALUE("DATETIME" if token.word == "TIMESTAMP" else "DATE", text)
        return value
    has_arguments = cursor.accept("(")
    if has_arguments and token.word not in _CLOCKS:
        raise ER_NOT_SUPPORTED_YET(f"PURGE BINARY LOGS BEFORE {token.value}()")
    if not has_arguments and token.word not in _CLOCKS - _WITH_PARENTHESES:
        raise ER_BAD_FIELD_ERROR(token.value, "field list")
    if has_arguments and not cursor.accept(")"):
        # Fractions of seconds make no difference to a file's time, so NOW(6) means the same as NOW().
        digits = cursor.integer()
        if digits > _MAX_PRECISION:
            raise ER_TOO_BIG_PRECISION(digits, token.value, _MAX_PRECISION)
        cursor.expect(")")
    return datetime.fromisoformat(clock(token.word.lower(), now, _MAX_PRECISION))


def _shifted(value: datetime, count: int, unit: str) -> datetime:
    """Return ``value`` plus ``count`` units, such as MONTH. Raises OverflowError for a result out of range."""
    if unit in _SPANS:
        return value + count * _SPANS[unit]
    year, month = divmod(value.year * 12 + value.month - 1 + count * _MONTHS[unit], 12)
    if not 1 <= year <= 9999:
        raise OverflowError
    return value.replace(year=year, month=month + 1, day=min(value.day, monthrange(year, month + 1)[1]))
