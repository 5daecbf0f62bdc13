"""Prepared statements of the console's clients.

The console executes a prepared statement by writing the values of its parameters into the text as SQL literals.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field

from mysql_mimic.types import ColumnType as WireType

from dumpfilter.binlog.statement.tokens import TokenKind, tokens
from dumpfilter.console.sql.server_errors import ER_NOT_SUPPORTED_YET, ER_PS_MANY_PARAM, ER_WRONG_ARGUMENTS
from dumpfilter.console.wire import Fields

Value = str | int | float | bytes | None

MAX_PREPARED_STATEMENTS = 1024
"""The limit of the number of prepared statements that one session holds at a time.

A server's max_prepared_stmt_count limits the sum over all sessions.
"""

_SIZE_PER_PARAMETER = 128

_INTEGERS = {
    WireType.TINY: 1,
    WireType.SHORT: 2,
    WireType.YEAR: 2,
    WireType.LONG: 4,
    WireType.INT24: 4,
    WireType.LONGLONG: 8,
}
_TIMES = (WireType.DATE, WireType.DATETIME, WireType.TIMESTAMP, WireType.TIME)


@dataclass
class Prepared:
    """A prepared statement of a session: its text, split at the ``?`` parameters, and the types of the parameters."""

    parts: list[str]
    """The pieces of the statement's text before, between and after its ``?`` parameters."""
    types: list[tuple[int, bool]] = field(default_factory=list)
    """The type (as numbered in the client protocol) of each parameter, and whether it is an unsigned number.

    A client sends the types with the first execution and may leave them out later, so they are kept.
    """

    @property
    def parameters(self) -> int:
        return len(self.parts) - 1

    @property
    def size(self) -> int:
        """The estimated memory that the prepared statement takes, bytes."""
        return sum(map(sys.getsizeof, self.parts)) + _SIZE_PER_PARAMETER * self.parameters

    @classmethod
    def of(cls, text: str) -> Prepared:
        """Make a prepared statement from the text of a statement whose parameters are written as ``?``.

        A question mark in a string, a quoted name or a comment is no parameter. Raises SqlError 1390 for more than
        65535 parameters.
        """
        parts, begin = [], 0
        for token in tokens(text):
            if token.kind is TokenKind.SYMBOL and token.value == "?":
                parts.append(text[begin : token.start])
                begin = token.end
        if len(parts) > 0xFFFF:
            raise ER_PS_MANY_PARAM()
        return cls([*parts, text[begin:]])

    def with_values(self, values: Sequence[Value]) -> str:
        r"""Return the statement's text with a literal for each value in place of each ``?`` parameter.

        >>> Prepared.of("SELECT ?, '?', ?").with_values([1, "it's"])
        "SELECT 1, '?', 'it\\'s'"
        """
        text = [self.parts[0]]
        for value, part in zip(values, self.parts[1:], strict=True):
            text += [literal(value), part]
        return "".join(text)


def literal(value: Value) -> str:
    """Return the SQL literal for a value, with quotes and escapes for a text, and NULL for None."""
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace("'", "\\'").replace("\0", "\\0")
        return f"'{escaped}'"
    return repr(value)


def read_execute(fields: Fields, statement: Prepared, codec: str) -> list[Value]:
    """Return the parameter values of a COM_STMT_EXECUTE packet.

    ``fields`` must be positioned after the packet's statement id, flags and iteration count. ``codec`` is the Python
    codec of the client's character set. If the packet has the types of the parameters, they are kept in ``statement``
    for later packets without types. Raises MalformedPacket, and SqlError 1210 when the client has never sent the types,
    and 1235 for a date or time.
    """
    count = statement.parameters
    if not count:
        return []
    nulls = fields.take((count + 7) // 8)
    if fields.uint(1):
        statement.types = [(fields.uint(1), bool(fields.uint(1) & 0x80)) for _ in range(count)]
    if len(statement.types) != count:
        raise ER_WRONG_ARGUMENTS("mysqld_stmt_execute")
    values: list[Value] = []
    for at, (wire, unsigned) in enumerate(statement.types):
        if nulls[at // 8] >> at % 8 & 1:
            values.append(None)
        else:
            values.append(_read_value(fields, wire, unsigned, codec))
    return values


def _read_value(fields: Fields, wire: int, unsigned: bool, codec: str) -> Value:
    if wire in _INTEGERS:
        length = _INTEGERS[WireType(wire)]
        return fields.uint(length) if unsigned else fields.signed(length)
    if wire in (WireType.FLOAT, WireType.DOUBLE):
        return fields.real(4 if wire == WireType.FLOAT else 8)
    if wire == WireType.NULL:
        return None
    if wire in _TIMES:
        raise ER_NOT_SUPPORTED_YET("a parameter that is a date or a time, and no text")
    return fields.with_length().decode(codec, "replace")
