"""Encoders of small events, the inverse of the product's decoders."""

from __future__ import annotations

import struct

from dumpfilter.binlog.context_events import INT_RESULT, Intvar, UserVar

_DATA_TYPE_NAME = 2
"""The code of the piece of a User_var event with the name of MariaDB's data type."""


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
    if variable.data_type_name is not None:
        type_name = variable.data_type_name.encode("utf-8", "surrogateescape")
        rest += bytes([_DATA_TYPE_NAME, len(type_name)]) + type_name
    return head + rest
