"""Errors as gRPC statuses."""

from __future__ import annotations

from typing import NoReturn

import grpc

from dumpfilter.errors import (
    BinlogError,
    BinlogMissing,
    DumpfilterError,
    GtidError,
    OptionError,
    PositionError,
)
from dumpfilter.master.access import AccessDenied
from dumpfilter.master.register import AlreadyRegistered, NotRegistered

MAX_ERROR = 1800
"""The longest text of an error, characters. gRPC sends the text in a header of at most 8 KiB."""

_ESCAPED_SHARE = 3
"""The divisor of MAX_ERROR for a text that is not ASCII, in which gRPC may use 12 bytes for a character."""

_CODES: list[tuple[type[DumpfilterError], grpc.StatusCode]] = [
    (NotRegistered, grpc.StatusCode.NOT_FOUND),
    (AlreadyRegistered, grpc.StatusCode.ALREADY_EXISTS),
    (AccessDenied, grpc.StatusCode.UNAUTHENTICATED),
    (OptionError, grpc.StatusCode.INVALID_ARGUMENT),
    (GtidError, grpc.StatusCode.INVALID_ARGUMENT),
    (PositionError, grpc.StatusCode.OUT_OF_RANGE),
    (BinlogMissing, grpc.StatusCode.OUT_OF_RANGE),
    (BinlogError, grpc.StatusCode.DATA_LOSS),
]
"""The status of each error. The first class that fits counts."""


def abort(context: grpc.ServicerContext, error: DumpfilterError) -> NoReturn:
    """End a call with the status and the text of an error."""
    code = next((code for kind, code in _CODES if isinstance(error, kind)), grpc.StatusCode.INTERNAL)
    text = str(error)
    most = MAX_ERROR if text.isascii() else MAX_ERROR // _ESCAPED_SHARE
    context.abort(code, text if len(text) <= most else text[:most] + "…")
    raise AssertionError("abort() raises")
