"""Encoders of small events, the inverse of the product's decoders."""

from __future__ import annotations

import struct
import zlib

from dumpfilter.binlog.context_events import INT_RESULT, Intvar, UserVar


def encode_intvar(intvar: Intvar) -> bytes:
    """Return the body of an Intvar event."""
    return bytes([intvar.type]) + intvar.value.to_bytes(8, "little")


def encode_user_var(variable: UserVar) -> bytes:
    """Return the body of a User_var event."""
    name = variable.name.encode("utf-8", "surrogateescape")
    head = struct.pack("<I", len(name)) + name
    if variable.value is None:
        return head + b"\1"
    rest = struct.pack("<BBII", 0, variable.type, variable.charset, len(variable.value)) + variable.value
    if variable.type == INT_RESULT:
        rest += bytes([variable.unsigned])
    return head + rest


def compress(data: bytes, level: int = -1) -> bytes:
    """Return ``data`` as MariaDB compresses rows and statements (``binlog_buf_compress``)."""
    width = max(1, (len(data).bit_length() + 7) // 8)
    return bytes((0x80 | width,)) + len(data).to_bytes(width, "big") + zlib.compress(data, level)
