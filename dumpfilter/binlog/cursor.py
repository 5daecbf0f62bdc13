"""A reader of the fields in an event's body, and the encoders of its fields: packed integers, integers of variable
length, and names.
"""

from __future__ import annotations

import struct
from typing import Any, TypeAlias

from dumpfilter.base.errors import BinlogCorrupt

BytesLike: TypeAlias = bytes | memoryview
"""The bytes of an event, or of a part of one."""


class Cursor:
    r"""A reader of the fields in an event's body. The reader's errors name the field at which the body ends.

    >>> Cursor(b"\xfc\x00\x01!", "Table_map").packed("a length")
    256
    >>> Cursor(b"\xfc\x00", "Table_map").packed("a length")
    Traceback (most recent call last):
    dumpfilter.base.errors.BinlogCorrupt: Table_map event ends inside a length
    """

    __slots__ = ("at", "body", "end", "what")

    def __init__(self, body: BytesLike, what: str) -> None:
        self.body = body
        self.what = what
        self.at = 0
        self.end = len(body)

    @property
    def left(self) -> int:
        """The number of bytes of the event's body that have not been read yet."""
        return self.end - self.at

    def take(self, length: int, field: str) -> bytes:
        """Return the next ``length`` bytes of the event's body.

        Raises BinlogCorrupt when fewer bytes are left. ``field`` names the bytes in the error.
        """
        if length > self.end - self.at:
            raise BinlogCorrupt(f"{self.what} event ends inside {field}")
        start = self.at
        self.at += length
        return bytes(self.body[start : self.at])

    def rest(self, field: str = "", *, least: int = 0) -> bytes:
        """Return all bytes of the event's body that are not read yet. Raises BinlogCorrupt when there are fewer than
        ``least``.

        ``field`` names these bytes in the error.
        """
        return self.take(max(self.left, least), field)

    def finish(self) -> None:
        """Raise BinlogCorrupt when the event's body has bytes that are not read yet."""
        if self.left:
            raise BinlogCorrupt(f"{self.what} event: it has {self.left} bytes after its last field")

    def unpack(self, form: struct.Struct, field: str) -> tuple[Any, ...]:
        """Return the next values of the event's body, one for each field of the struct ``form``. Raises BinlogCorrupt
        when the body ends inside them.

        ``field`` names the values in the error.
        """
        return form.unpack(self.take(form.size, field))

    def integer(self, width: int, field: str) -> int:
        """Return the next ``width`` bytes of the event's body as an unsigned little-endian integer. Raises
        BinlogCorrupt when the body ends inside the integer.

        ``field`` names the integer in the error.
        """
        return int.from_bytes(self.take(width, field), "little")

    def name(self, width: int, field: str) -> str:
        """Return the next name in the event's body, such as the name of a database. The name's length stands before the
        name, as an integer of ``width`` bytes.

        ``field`` describes the name in errors. Raises BinlogCorrupt when the body ends inside the name.
        """
        return decode_name(self.take(self.integer(width, field), field))

    def packed(self, field: str) -> int:
        """Return the next packed integer of the event's body: 1 byte, or a code byte and 2, 3 or 8 bytes
        (``net_field_length_ll``).

        Raises BinlogCorrupt when the body ends inside the integer, and for the first bytes 251 (NULL) and 255.
        """
        first = self.integer(1, field)
        if first < 251:
            return first
        width = {252: 2, 253: 3, 254: 8}.get(first)
        if width is None:
            raise BinlogCorrupt(f"{self.what} event: {field} is not a packed integer")
        return self.integer(width, field)

    def sized(self, field: str) -> bytes:
        """Return the bytes of the next field in the event's body. The field's length stands before the field, as a
        packed integer of 1 to 9 bytes.

        ``field`` names the field in errors. Raises BinlogCorrupt when the body ends inside the field.
        """
        return self.take(self.packed(f"the length of {field}"), field)

    def varlen(self, field: str) -> int:
        """Return the next integer of the event's body in the variable-length form of ``mysql::serialization``, 1 to 9
        bytes (``variable_length_integers.h``).

        The number of 1 bits at the low end of the first byte is the number of bytes that follow. The bits above hold
        the value, little-endian.

        >>> Cursor(bytes.fromhex("83120b"), "Gtid_tagged").varlen("a field")
        90704
        """
        first = self.integer(1, field)
        # The first byte 0xff has no 0 bit and says that 8 more bytes follow.
        extra = (~first & (first + 1)).bit_length() - 1
        rest = self.integer(extra, field)
        return rest if extra == 8 else (rest << 8 | first) >> (extra + 1)


def packed_integer(value: int) -> bytes:
    """Return an integer in the servers' packed form (``net_store_length``): 1 byte, or a code byte and 2, 3 or 8
    bytes.

    >>> packed_integer(250).hex(), packed_integer(251).hex(), packed_integer(1 << 16).hex()
    ('fa', 'fcfb00', 'fd000001')
    """
    if value < 251:
        return bytes((value,))
    code, width = (252, 2) if value < 1 << 16 else (253, 3) if value < 1 << 24 else (254, 8)
    return bytes((code,)) + value.to_bytes(width, "little")


def encode_varlen(value: int) -> bytes:
    """Return an unsigned integer (0 to 2**64-1) in the variable-length form of ``mysql::serialization``.

    >>> encode_varlen(90704).hex()
    '83120b'
    """
    length = max(1, -(-value.bit_length() // 7))
    if length > 8:
        return b"\xff" + value.to_bytes(8, "little")
    return (value << length | (1 << (length - 1)) - 1).to_bytes(length, "little")


def decode_name(raw: BytesLike) -> str:
    """Decode the name of a database, user or variable from utf-8. Bytes that are not valid utf-8 are kept by
    surrogateescape.
    """
    return bytes(raw).decode("utf-8", "surrogateescape")


def encode_name(name: str) -> bytes:
    """Return the bytes of a name in utf-8.

    Bytes that :func:`decode_name` kept by surrogateescape come back unchanged.
    """
    return name.encode("utf-8", "surrogateescape")
