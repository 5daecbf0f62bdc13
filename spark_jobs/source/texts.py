"""The values of the column ``sql``: the texts of statements in Query, Execute_load_query and text events of rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from dumpfilter.binlog.context_events import decode_annotate_rows, decode_rows_query
from dumpfilter.binlog.events import EventType
from dumpfilter.binlog.format import FormatDescription
from dumpfilter.errors import BinlogError
from dumpfilter.index.statements import decode_statement_event

_STATEMENTS = (EventType.QUERY, EventType.QUERY_COMPRESSED, EventType.EXECUTE_LOAD_QUERY)
_TEXTS_OF_ROWS: dict[EventType, Callable[[bytes], bytes]] = {
    EventType.ROWS_QUERY: decode_rows_query,
    EventType.ANNOTATE_ROWS: decode_annotate_rows,
}

HAS_TEXT: npt.NDArray[np.bool_] = np.zeros(256, np.bool_)
"""For each event type, whether its events carry the text of a statement."""
HAS_TEXT[[*_STATEMENTS, *_TEXTS_OF_ROWS]] = True


def text_of(type: int, body: bytes, fd: FormatDescription) -> str | None:
    """Return the text of the statement in an event's body; None for an event that cannot be decoded.

    Bytes that are not valid in the statement's character set become U+FFFD. Text events of rows (Rows_query and
    Annotate_rows) do not name their character set, and are read as UTF-8.
    """
    kind = EventType(type)
    try:
        if kind in _TEXTS_OF_ROWS:
            return _TEXTS_OF_ROWS[kind](body).decode("utf-8", "replace")
        text = decode_statement_event(kind, body, fd).text
    except BinlogError:
        return None
    # Arrow requires valid UTF-8. The decoder keeps wrong bytes as lone surrogates.
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
