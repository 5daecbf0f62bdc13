"""SQL literals for printed statements: quoted names, strings, and the values of user variables."""

from __future__ import annotations

import struct
from collections.abc import Callable

from dumpfilter.base.errors import BinlogCorrupt
from dumpfilter.binlog.collations import collation_name
from dumpfilter.binlog.context_events import (
    DECIMAL_RESULT,
    INT_RESULT,
    REAL_RESULT,
    UserVar,
)
from dumpfilter.binlog.cursor import encode_name
from dumpfilter.binlog.decimals import decimal_text
from dumpfilter.binlog.format import Family


def quoted_name(name: str) -> bytes:
    """Return an identifier (of a database, table or variable) in backticks, as bytes. Backticks inside it are
    doubled.

    >>> quoted_name("a`b")
    b'`a``b`'
    """
    return b"`" + encode_name(name).replace(b"`", b"``") + b"`"


def quoted_text(text: str) -> bytes:
    r"""Return an SQL string literal for ``text``, as bytes, that has one meaning in every sql_mode.

    Quotes are doubled. A text with a backslash or a control character becomes a hexadecimal literal.

    >>> quoted_text("it's"), quoted_text("a\\b")
    (b"'it''s'", b"X'615c62'")
    """
    raw = encode_name(text)
    if any(byte < 32 or byte == 0x5C for byte in raw):
        return b"X'" + raw.hex().encode() + b"'"
    return b"'" + raw.replace(b"'", b"''") + b"'"


def user_variable(variable: UserVar, family: Family, own_name: Callable[[str], str] = str) -> bytes | None:
    """Return the value of a user variable (from a User_var event) as an SQL expression of equal type, as bytes.

    Return None for a string whose collation is unknown. ``own_name`` maps a collation's name to its name in the
    server's version. Raises BinlogCorrupt for a malformed DECIMAL.

    >>> user_variable(UserVar("a", b"x", charset=45), "mysql")
    b"_utf8mb4 X'78' COLLATE `utf8mb4_general_ci`"
    >>> user_variable(UserVar("a", bytes.fromhex("0000000000001840"), REAL_RESULT), "mysql")
    b'6.0e0'
    """
    value = variable.value
    if value is None:
        return b"NULL"
    if variable.type == REAL_RESULT:
        text = repr(struct.unpack("<d", value)[0])
        # A server reads a number without an exponent as a DECIMAL. The exponent makes the literal a DOUBLE, as the user
        # variable was.
        return (text if "e" in text else text + "e0").encode()
    if variable.type == INT_RESULT:
        return str(int.from_bytes(value, "little", signed=not variable.unsigned)).encode()
    if variable.type == DECIMAL_RESULT:
        if len(value) < 2:
            raise BinlogCorrupt("User_var event: a decimal without its precision")
        return decimal_text(value[2:], value[0], value[1]).encode()
    collation = collation_name(variable.charset, family)
    if collation is None:
        return None
    collation = own_name(collation)
    charset = collation.partition("_")[0]
    return f"_{charset} X'{value.hex()}' COLLATE `{collation}`".encode()
