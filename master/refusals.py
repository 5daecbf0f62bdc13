"""The translation of dumpfilter's errors into gRPC status codes and texts."""

from __future__ import annotations

from typing import Any, NoReturn

import grpc

from dumpfilter.base.errors import (
    BinlogError,
    BinlogMissing,
    BinlogUnreadable,
    DumpfilterError,
    GtidError,
    OptionError,
    PositionError,
    ProtocolMismatch,
    UndecidedEvent,
)
from dumpfilter.master.access import AccessDenied, TryLater
from dumpfilter.master.drain import Drained
from dumpfilter.master.limits import Overloaded
from dumpfilter.master.measurements import MEASURED
from dumpfilter.master.register import AlreadyRegistered, NotRegistered, Unregistered

Context = grpc.aio.ServicerContext[Any, Any]
"""gRPC's view of a call, in the asyncio loop that serves it."""

MAX_ERROR = 1800
"""The longest error text that the master sends to a slave, characters. gRPC limits the text's header to 8 KiB."""

_ESCAPED_SHARE = 3
"""The factor by which the longest error text is shorter when it is not ASCII.

gRPC may need 12 bytes for such a character, because it escapes each byte.
"""

_CODES: list[tuple[type[DumpfilterError], grpc.StatusCode]] = [
    (NotRegistered, grpc.StatusCode.NOT_FOUND),
    (AlreadyRegistered, grpc.StatusCode.ALREADY_EXISTS),
    (Drained, grpc.StatusCode.UNAVAILABLE),
    (Overloaded, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (Unregistered, grpc.StatusCode.ABORTED),
    (AccessDenied, grpc.StatusCode.UNAUTHENTICATED),
    (TryLater, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (OptionError, grpc.StatusCode.INVALID_ARGUMENT),
    (GtidError, grpc.StatusCode.INVALID_ARGUMENT),
    (PositionError, grpc.StatusCode.OUT_OF_RANGE),
    (BinlogMissing, grpc.StatusCode.OUT_OF_RANGE),
    (ProtocolMismatch, grpc.StatusCode.FAILED_PRECONDITION),
    (UndecidedEvent, grpc.StatusCode.FAILED_PRECONDITION),
    (BinlogError, grpc.StatusCode.DATA_LOSS),
]
"""The gRPC status code for each class of error. For an error of several classes the first entry counts."""


_STOPPING = frozenset(
    {
        grpc.StatusCode.ALREADY_EXISTS,
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.OUT_OF_RANGE,
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.DATA_LOSS,
    }
)
"""The status codes at which a slave stops, until its operator has removed the cause. After others it tries again."""


def status_of(error: DumpfilterError) -> grpc.StatusCode:
    """Return the gRPC status code for an error."""
    if isinstance(error, BinlogUnreadable) and error.momentary:
        # Slaves retry after this status code. They end after DATA_LOSS.
        return grpc.StatusCode.UNAVAILABLE
    return next((code for kind, code in _CODES if isinstance(error, kind)), grpc.StatusCode.INTERNAL)


def stops_slaves(error: DumpfilterError) -> bool:
    """Tell whether a slave that gets this error stops, until its operator has removed the cause."""
    return status_of(error) in _STOPPING


async def abort(context: Context, error: DumpfilterError) -> NoReturn:
    """End a gRPC call with the status code and the text that belong to an error."""
    MEASURED.failed_calls.add(error)
    text = str(error)
    most = MAX_ERROR if text.isascii() else MAX_ERROR // _ESCAPED_SHARE
    await context.abort(status_of(error), text if len(text) <= most else text[:most] + "…")
    raise AssertionError("abort() raises")
