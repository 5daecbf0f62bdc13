"""A prepared statement of a client: its text, and the values of its parameters in the client's packets.

A prepared statement is executed by writing the values of its parameters into the text as SQL literals.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from mysql_mimic.types import ColumnType as WireType
from pymysql.converters import escape_string

from dumpfilter.binlog.statement.tokens import TokenKind, tokens
from dumpfilter.console.sql import server_errors
from dumpfilter.console.wire import Fields

Value = str | int | float | None
_UNSIGNED = 0x80
_TEXT, _TIME = "sT"
_FORMS: dict[int, str] = {
    WireType.TINY: "b",
    **dict.fromkeys((WireType.SHORT, WireType.YEAR), "h"),
    **dict.fromkeys((WireType.LONG, WireType.INT24), "i"),
    WireType.LONGLONG: "q",
    WireType.FLOAT: "f",
    WireType.DOUBLE: "d",
    **dict.fromkeys((WireType.DATE, WireType.DATETIME, WireType.TIMESTAMP, WireType.TIME), _TIME),
}
"""The encoding of a parameter's value in a packet, by the parameter's type: a format of ``struct`` for a number, or
``_TIME`` for a date or time, which is refused. Values of all other types are encoded as texts.
"""


@dataclass
class Prepared:
    """A prepared statement of a session: its text, split at the ``?`` parameters, and the types of the parameters."""

    parts: list[str]
    """The pieces of the statement's text before, between and after its ``?`` parameters."""
    forms: str = ""
    """The form of each parameter's value in a packet: the format of ``struct`` for a number, or another character.

    A client sends the types with the first execution and may leave them out later, so they are kept.
    """

    @property
    def parameters(self) -> int:
        return len(self.parts) - 1

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
            raise server_errors.ER_PS_MANY_PARAM()
        return cls([*parts, text[begin:]])

    def with_values(self, values: Sequence[Value]) -> str:
        r"""Return the statement's text with a literal for each value in place of each ``?`` parameter.

        >>> Prepared.of("SELECT ?, '?', ?").with_values([1, "it's"])
        "SELECT 1, '?', 'it\\'s'"
        """
        literals = [*map(literal, values), ""]
        return "".join(part + value for part, value in zip(self.parts, literals, strict=True))

    def read_values(self, fields: Fields, codec: str) -> list[Value]:
        """Return the parameter values of a COM_STMT_EXECUTE packet, and keep the types of the parameters if the packet
        has them.

        ``fields`` must be positioned after the packet's statement id, flags and iteration count. ``codec`` is the
        Python codec of the client's character set. Raises MalformedPacket for a packet that is too short. Raises
        SqlError 1210 when the client has never sent the types, and 1235 for a date or time.
        """
        count = self.parameters
        if not count:
            return []
        nulls = int.from_bytes(fields.take((count + 7) // 8), "little")
        if fields.uint(1):
            self.forms = "".join(_form(fields.uint(1), fields.uint(1) & _UNSIGNED) for _ in range(count))
        if len(self.forms) != count:
            raise server_errors.ER_WRONG_ARGUMENTS("mysqld_stmt_execute")
        return [
            None if nulls >> at & 1 else _read_value(fields, form, codec)
            for at, form in enumerate(self.forms)
        ]


def literal(value: Value) -> str:
    """Return the SQL literal for a value, with quotes and escapes for a text, and NULL for None."""
    if isinstance(value, str):
        return f"'{escape_string(value)}'"
    return "NULL" if value is None else repr(value)


def _form(wire: int, unsigned: int) -> str:
    form = _FORMS.get(wire, _TEXT)
    return form.upper() if unsigned and form in "bhiq" else form


def _read_value(fields: Fields, form: str, codec: str) -> Value:
    if form == _TEXT:
        return fields.sized().decode(codec, "replace")
    if form == _TIME:
        raise server_errors.ER_NOT_SUPPORTED_YET("a parameter that is a date or a time, and no text")
    value: int | float = struct.unpack(f"<{form}", fields.take(struct.calcsize(f"<{form}")))[0]
    return value
