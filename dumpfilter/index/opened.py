"""The events of a segment (consecutive events of one file) together with those inside its compressed transactions.

The reports and the Spark data source treat the events inside a compressed transaction like those of the file. Both read
all events here as one sequence, in which the events inside a compressed transaction follow its Transaction_payload
event. An event's *row* is its index in this sequence.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from dumpfilter.binlog.compression import decode_transaction_payload
from dumpfilter.binlog.context_events import decode_annotate_rows, decode_rows_query
from dumpfilter.binlog.events import HEADER_LENGTH, STATEMENTS, EventType
from dumpfilter.binlog.format import FormatDescription
from dumpfilter.binlog.query import QueryEvent, decode_statement_event
from dumpfilter.index.segment import Segment

_T = TypeVar("_T", bound=np.generic)

_TEXTS_OF_ROWS = {EventType.ROWS_QUERY: decode_rows_query, EventType.ANNOTATE_ROWS: decode_annotate_rows}
TEXTS = frozenset({*STATEMENTS, *_TEXTS_OF_ROWS})
"""The types of events that hold the text of a statement."""


class OpenedEvents:
    """The events of ``segment`` (consecutive events of one file), and those inside its compressed transactions, in one
    sequence. An event's index in this sequence is called its row.

    The events inside a compressed transaction follow its Transaction_payload event. If the scan could not uncompress
    the transaction, they are missing. ``data`` (uint8) has the bytes of the file from the offset ``segment.start`` on.
    """

    def __init__(self, segment: Segment, data: npt.NDArray[np.uint8]) -> None:
        self.segment, self.data = segment, data
        self.payloads = dict(sorted(segment.payloads.items()))
        """The events inside each compressed transaction, as their own segment (scanned events). The keys are the
        indexes of the Transaction_payload events in ``segment``, ascending.
        """
        self._latest = -1, b""

    @cached_property
    def _row(self) -> npt.NDArray[np.int64]:
        """For each event of the segment (consecutive events of the file), its row, int64. The row is the event's index
        in the sequence that also has the events inside compressed transactions. One more entry at the end has the
        number of all events in this sequence.
        """
        rows = np.ones(self.segment.offset.size, np.int64)
        rows[list(self.payloads)] = [1 + one.offset.size for one in self.payloads.values()]
        return np.append(0, np.cumsum(rows))

    @cached_property
    def outer(self) -> npt.NDArray[np.int64]:
        """For each event of this object, its index in the segment (consecutive events of the file), int64. For an event
        inside a compressed transaction, the entry is the index of the Transaction_payload event.
        """
        return np.repeat(np.arange(self.segment.offset.size), np.diff(self._row))

    @cached_property
    def inner(self) -> npt.NDArray[np.int64]:
        """For each event of this object, its index inside its compressed transaction, from 0 on, int64. An event that
        is in no compressed transaction has -1.
        """
        inner: npt.NDArray[np.int64] = np.arange(self.outer.size) - self._row[self.outer] - 1
        return inner

    @property
    def format_description(self) -> FormatDescription:
        """The format description event of the segment (consecutive events of the file), changed to tell that events
        have no checksum. The changed event fits the events as :attr:`length` and :meth:`body` give them, without
        checksums.
        """
        return replace(self.segment.format_description, checksum=False)

    def column(self, of: Callable[[Segment], npt.NDArray[_T]]) -> npt.NDArray[_T]:
        """Return an array with one value for each event of this object, such as the events' types. ``of`` returns these
        values for one segment (scanned events). The function is called for the file's segment, and for the events
        inside each compressed transaction.
        """
        if not self.payloads:
            return of(self.segment)
        found = of(self.segment)[self.outer]
        found[self.inner >= 0] = np.concatenate([of(one) for one in self.payloads.values()])
        return found

    def inside(self, number: int) -> slice:
        """Return the rows (indexes among all events of this object) of the events inside a compressed transaction.
        ``number`` is the index of its Transaction_payload event in the segment (consecutive events of the file).
        """
        first = int(self._row[number]) + 1
        return slice(first, first + self.payloads[number].offset.size)

    def part(self, row: int) -> tuple[Segment, int]:
        """Return the segment (scanned events) that has an event, and the event's index in that segment. For an event
        inside a compressed transaction, it is the segment of the uncompressed events. ``row`` is the event's index
        among all events of this object.
        """
        outer, inner = int(self.outer[row]), int(self.inner[row])
        return (self.segment, outer) if inner < 0 else (self.payloads[outer], inner)

    @cached_property
    def opened_data(self) -> npt.NDArray[np.uint8]:
        """One uint8 array with the bytes of the segment (consecutive events of the file), followed by the uncompressed
        bytes of each compressed transaction.
        """
        opened = [np.frombuffer(self._payload(number), np.uint8) for number in self.payloads]
        return np.concatenate([self.data, *opened]) if opened else self.data

    @cached_property
    def start(self) -> npt.NDArray[np.int64]:
        """For each event of this object, the byte offset at which it begins in :attr:`opened_data`, the bytes of the
        segment and of its compressed transactions, int64.
        """
        begin = np.zeros(len(self._row), np.int64)
        sizes = np.array([one.end for one in self.payloads.values()], np.int64)
        begin[list(self.payloads)] = self.data.size + np.cumsum(sizes) - sizes
        of_row = np.where(self.inner < 0, -self.segment.start, begin[self.outer])
        return self.column(lambda one: one.offset) + of_row

    @cached_property
    def length(self) -> npt.NDArray[np.int64]:
        """For each event of this object, its size with the header and without the checksum, bytes, int64."""
        return self.column(lambda one: one.size - one.format_description.checksum_length)

    def body(self, row: int) -> bytes:
        """Return the body of an event: its bytes without header and checksum. ``row`` is the event's index among all
        events of this object.
        """
        part, number = self.part(row)
        data = self.data if part is self.segment else self._payload(int(self.outer[row]))
        start = int(part.offset[number]) - part.start
        end = start + int(part.size[number]) - part.format_description.checksum_length
        return bytes(data[start + HEADER_LENGTH : end])

    def kind(self, row: int) -> EventType:
        part, number = self.part(row)
        return EventType(part.type[number])

    def query(self, row: int) -> QueryEvent:
        """Return the statement in an event, which must be of a type in ``STATEMENTS``, such as Query. ``row`` is the
        event's index among all events of this object. Raises BinlogError for a malformed event.
        """
        return decode_statement_event(self.kind(row), self.body(row), self.segment.format_description)

    def text(self, row: int) -> str:
        """Return the statement's text in an event, which must be of a type in :data:`TEXTS`. ``row`` is the event's
        index among all events of this object.

        Rows_query and Annotate_rows events do not record a character set, and are decoded as UTF-8. Raises BinlogError
        for a malformed event.
        """
        of_rows = _TEXTS_OF_ROWS.get(self.kind(row))
        return self.query(row).text if of_rows is None else of_rows(self.body(row)).decode("utf-8", "replace")

    def _payload(self, number: int) -> bytes:
        if self._latest[0] != number:
            start = int(self.segment.offset[number]) - self.segment.start
            whole = self.data[start : start + int(self.segment.size[number])].tobytes()
            opened = decode_transaction_payload(self.segment.format_description.body(whole)).open()
            self._latest = number, opened
        return self._latest[1]
