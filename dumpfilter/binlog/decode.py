"""The decoding of events of any type. Each type's decoder is named in :class:`~dumpfilter.binlog.events.EventType`."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

from dumpfilter.binlog.events import GTIDS, STATEMENTS, EventType, Symbol
from dumpfilter.binlog.gtid_events import decode_gtid
from dumpfilter.binlog.query import decode_statement_event
from dumpfilter.binlog.reader import Event


def decode_event(event: Event) -> Any:
    """Decode an event's body and return its content, such as a QueryEvent, a TableMap, or an int for an Xid event.

    The result is None for an event type without a decoder. Raises BinlogCorrupt or BinlogUnsupported, without file and
    position, when the event is malformed.
    """
    try:
        kind = EventType(event.type)
    except ValueError:
        return None
    decode = decoder(kind)
    if decode is None:
        return None
    body, fd, symbol = event.body, event.fd, kind.kind.symbol
    if symbol == Symbol.FORMAT_DESCRIPTION:
        return fd
    if symbol == Symbol.TABLE_MAP:
        return decode(body, fd.post_header_length(kind))
    if symbol == Symbol.ROWS:
        return decode(kind, body, fd.post_header_length(kind) or None)
    if kind in STATEMENTS:
        return decode_statement_event(kind, body, fd)
    if kind in GTIDS:
        return decode_gtid(event.header, body)
    return decode(body)


@functools.cache
def decoder(kind: EventType) -> Callable[..., Any] | None:
    """Return the function that decodes the body of an event type; None for a type without a decoder.

    >>> decoder(EventType.XID).__name__, decoder(EventType.VIEW_CHANGE)
    ('decode_xid', None)
    """
    if not kind.kind.decoder:
        return None
    module, _, path = kind.kind.decoder.partition(".")
    found: Any = importlib.import_module(f"dumpfilter.binlog.{module}")
    for name in path.split("."):
        found = getattr(found, name)
    return found  # type: ignore[no-any-return]
