"""The columns of the Spark data source ``binlog``, which has one row per event of a binlog set.

A segment (consecutive events of a file) becomes one Arrow array per column. Numpy and Arrow compute a column for all
events at once, and only if the query needs it. Python loops run only over rare things: new tables, new statements
and compressed transactions.

In the normal form, an event is one row of the data source. In exploded form, each changed row is a separate row of the
data source, with its row images (the columns ``before`` and ``after``): its values before and after the change.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dumpfilter.base.errors import BinlogError
from dumpfilter.binlog import roles as R
from dumpfilter.binlog.compression import decode_transaction_payload
from dumpfilter.binlog.context_events import decode_annotate_rows, decode_rows_query
from dumpfilter.binlog.events import ROWS, EventType, by_number, event_name
from dumpfilter.binlog.format import FormatDescription
from dumpfilter.binlog.gtid import MysqlGtid
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.binlog.row_walk import UNKNOWN
from dumpfilter.binlog.rows import MAP_TYPE, ChangedRows, RowCounter, RowImageReader
from dumpfilter.binlog.rows_events import rows_kind
from dumpfilter.binlog.statement import StatementKind
from dumpfilter.dump.sent_events import SentEvents
from dumpfilter.index.segment import Segment
from dumpfilter.index.statements import decode_statement_event
from dumpfilter.index.subjects import Subjects, TableSubject

Int64 = npt.NDArray[np.int64]

Chosen = Int64 | slice
"""The indexes of some events of a segment (consecutive events of a file), or a slice that selects all events in
order.
"""

IMAGES = ("before", "after")
"""The names of the columns with row images. A row image is a map from column names to values as text."""

ROW_TYPES: dict[str, pa.DataType] = {"row": pa.int32(), **dict.fromkeys(IMAGES, MAP_TYPE)}
"""The columns of the exploded form, with their Arrow types: the number of the changed row in its event, and its row
images.
"""


def joined(parts: Sequence[ChangedRows]) -> ChangedRows:
    """Merge the changed rows of a file's own events and of the events inside compressed transactions, in the order of
    the events.

    Each of ``parts`` has changed rows with the indexes of their events.
    """
    event = np.concatenate([part.event for part in parts])
    order = np.argsort(event, kind="stable")
    before, after = (
        pa.concat_arrays(arrays).take(pa.array(order))
        for arrays in ([part.before for part in parts], [part.after for part in parts])
    )
    return ChangedRows(event[order], before, after)


def exploded(images: ChangedRows, count: int) -> pa.RecordBatch:
    """Return an Arrow batch with one row per changed row, for ``count`` events. ``images`` has the changed rows, each
    with the index of its event.

    The column ``event`` has the event's index, ascending. The column ``row`` has the index of the changed row in its
    event. The columns ``before`` and ``after`` have the row's values before and after the change. An event without
    changed rows becomes one row with null in ``row``.
    """
    per_event = np.bincount(images.event, minlength=count)
    lines = np.maximum(per_event, 1)
    event = np.repeat(np.arange(count), lines)
    row = np.arange(event.size) - np.repeat(np.cumsum(lines) - lines, lines)
    without = (per_event == 0)[event]
    image = pa.array((np.cumsum(per_event) - per_event)[event] + row, mask=without)
    return pa.record_batch(
        {
            "event": event,
            "row": pa.array(row.astype(np.int32), mask=without),
            "before": images.before.take(image),
            "after": images.after.take(image),
        }
    )


_STATEMENTS = (EventType.QUERY, EventType.QUERY_COMPRESSED, EventType.EXECUTE_LOAD_QUERY)
_TEXTS_OF_ROWS: dict[EventType, Callable[[bytes], bytes]] = {
    EventType.ROWS_QUERY: decode_rows_query,
    EventType.ANNOTATE_ROWS: decode_annotate_rows,
}

HAS_TEXT: npt.NDArray[np.bool_] = np.zeros(256, np.bool_)
"""For each event type number, whether its events contain the text of a statement."""
HAS_TEXT[[*_STATEMENTS, *_TEXTS_OF_ROWS]] = True


def text_of(type: int, body: bytes, fd: FormatDescription) -> str | None:
    """Return the text of the statement in an event, or None if it cannot be decoded.

    ``type`` is the event type's number, ``body`` the event without header and checksum, and ``fd`` the file's format
    description event. Bytes that are invalid in the statement's character set become U+FFFD. Rows_query and
    Annotate_rows events do not record a character set, and are decoded as UTF-8.
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


TYPES: dict[str, pa.DataType] = {
    "file": pa.string(),
    "position": pa.int64(),
    "end_log_pos": pa.int64(),
    "size": pa.int64(),
    "type": pa.string(),
    "timestamp": pa.timestamp("us", "UTC"),
    "server_id": pa.int64(),
    "gtid": pa.string(),
    "transaction": pa.int64(),
    "database": pa.string(),
    "table": pa.string(),
    "statement_kind": pa.string(),
    "rows": pa.int32(),
    "compressed": pa.bool_(),
    "inner": pa.int32(),
}
"""The standard columns of the data source, in order, with their Arrow types. docs/spark-source.md describes each."""

TEXT_TYPES: dict[str, pa.DataType] = {"sql": pa.string()}
"""The column with statement texts. A query has it only if the query names it, because each text costs time."""

OF_SUBJECTS = frozenset({"database", "table", "statement_kind"})
"""The columns computed from statement texts. Statements are parsed only for queries that use one of these columns."""

_OF_BYTES = frozenset({"end_log_pos", "timestamp", "server_id", "rows", "sql", *IMAGES})
"""The columns computed from the events' bytes, for which compressed transactions must be decompressed again. For all
other columns, the scan has already found the data.
"""


def true_of(test: Callable[[pa.Array], pa.Array], values: pa.Array) -> npt.NDArray[np.bool_]:
    """Return a Boolean array that marks the elements of ``values`` for which ``test`` is true.

    ``test`` maps an Arrow array of values to booleans. Null means unknown, as in SQL, and counts as false. For a
    dictionary array, each distinct value is tested once.
    """
    is_dictionary = isinstance(values, pa.DictionaryArray)
    asked = pa.concat_arrays([values.dictionary, pa.nulls(1, pa.string())]) if is_dictionary else values
    found = np.asarray(pc.fill_null(test(asked), False).to_numpy(zero_copy_only=False), np.bool_)
    # A value without a word has the number of the null after the words.
    return found[values.indices.fill_null(len(asked) - 1).to_numpy()] if is_dictionary else found


_TYPE_WORDS = pa.array([event_name(kind) for kind in range(256)], pa.string())
_ROWS_WORDS = ("INSERT", "UPDATE", "DELETE")
_KIND_WORDS = [*_ROWS_WORDS, *(kind.value for kind in StatementKind if kind.value not in _ROWS_WORDS)]
_KINDS = pa.array(_KIND_WORDS, pa.string())
_KIND_OF_TYPE: npt.NDArray[np.int8] = np.full(256, -1, np.int8)
for _type in ROWS:
    _KIND_OF_TYPE[_type] = _KIND_WORDS.index(rows_kind(_type).upper())
_COMPRESSED: npt.NDArray[np.bool_] = by_number(lambda kind: kind.compressed).astype(np.bool_)


def _text(name: str | None) -> str | None:
    # Arrow requires valid UTF-8, but a name from a binlog may have other bytes.
    return None if name is None else name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


class _Part(NamedTuple):
    """Events whose bytes are in one buffer: the events of the file, or the events inside compressed transactions."""

    data: npt.NDArray[np.uint8]
    events: slice
    """The slice of the part's events among all events of the segment."""
    fd: FormatDescription


def _concatenated(arrays: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


class EventColumns:
    """Makes the columns of the data source for the events of one part of a binlog file, which has complete
    transactions.

    The caller must pass the segments (consecutive events) of this part in order. The object remembers the transaction
    and the table maps that continue in the next segment.

    Parameters:
        file: the value of the column ``file``.
        subjects: the tables and statements to which the numbers in segments refer.
        sources: the server UUIDs and domains of GTIDs to which the numbers in segments refer.
        wanted: the names of the columns that the caller will read. Others need not be available.
        opened: whether each event inside a compressed transaction gets its own row.
        filters: for each column that shows a filter's decisions, the index of the filter.
        image_reader: creates a reader of the values in changed rows.
        sent: the filters' decisions about all events. None if no column needs them.
    """

    def __init__(
        self,
        file: str,
        subjects: Subjects,
        sources: SourceNumbers,
        *,
        wanted: Collection[str],
        opened: bool,
        filters: Mapping[str, int],
        image_reader: Callable[[], RowImageReader],
        sent: SentEvents | None = None,
    ) -> None:
        self._sent, self._filters = sent, filters
        self.image_readers = (image_reader(), image_reader())
        self.file = pa.array([_text(file)], pa.string())
        self._subjects, self._sources = subjects, sources
        self._of_subject: list[tuple[str | None, str | None, int]] = []
        self._subject_arrays: tuple[pa.Array, pa.Array, npt.NDArray[np.int8]] | None = None
        self._wanted = frozenset(wanted)
        self._opened = opened
        self._transaction = -1
        """The file offset of the transaction that continues in the next segment, or -1 after an event between
        transactions.
        """
        self._counters = (RowCounter(), RowCounter())
        self._prefixes: dict[int, str] = {}

    def of(self, segment: Segment, data: npt.NDArray[np.uint8]) -> EventsOfSegment:
        """Return the rows of the data source for the events of a segment (consecutive events of a file).

        ``data`` is a uint8 array of the file's bytes from ``segment.start`` on.
        """
        numbers = sorted(segment.payloads) if self._opened else []
        inside = [segment.payloads[number] for number in numbers]
        count = segment.offset.size
        parts = [_Part(data, slice(count), segment.format_description)]
        if inside:
            parts.append(
                _Part(self._inside(segment, data, numbers), slice(count, None), inside[0].format_description)
            )
        begins = [-segment.start, *np.cumsum([0, *(inner.end for inner in inside[:-1])]).tolist()]
        every = [segment, *inside]
        events = EventsOfSegment(
            self,
            segment,
            parts,
            start=_concatenated([one.offset + begin for one, begin in zip(every, begins, strict=False)]),
            size=_concatenated([one.size for one in every]),
            type=_concatenated([one.type for one in every]),
            role=_concatenated([one.role for one in every]),
            subject=_concatenated([_named(one) for one in every]),
            outer=_concatenated(
                [
                    np.arange(count),
                    *(np.full(one.offset.size, k) for k, one in zip(numbers, inside, strict=True)),
                ]
            ),
            transactions=self._transactions(segment),
            decided=self._decided(segment, numbers),
        )
        if "rows" in self._wanted:
            events.counts = self._rows(events)
        return events

    @property
    def of_subject(self) -> tuple[pa.Array, pa.Array, npt.NDArray[np.int8]]:
        """The database, table and kind of each subject (table or statement) met so far, as three arrays indexed by the
        subject's number.

        The kind of a statement is an int8 index into ``_KINDS``. For a table it is -1.
        """
        for number in range(len(self._of_subject), len(self._subjects)):
            database = table = None
            kind = -1
            if self._subjects.members(number) is None:
                subject = self._subjects[number]
                database, table = subject.schema_and_table()
                if not isinstance(subject, TableSubject):
                    kind = _KIND_WORDS.index(subject.kind.value)
            self._of_subject.append((_text(database), _text(table), kind))
            self._subject_arrays = None
        if self._subject_arrays is None:
            databases, tables, kinds = (
                zip(*self._of_subject, strict=True) if self._of_subject else ([], [], [])
            )
            self._subject_arrays = (
                pa.array(databases, pa.string()),
                pa.array(tables, pa.string()),
                np.array(kinds, np.int8),
            )
        return self._subject_arrays

    def _decided(self, segment: Segment, opened: Sequence[int]) -> dict[str, npt.NDArray[np.bool_]]:
        """Return for each column of filter verdicts whether the filter sends each event. Events inside compressed
        transactions come after those of the file.
        """
        found = {}
        for name, number in self._filters.items():
            if self._sent is None:
                # The only event before the first transaction is the format description event, which every slave gets.
                found[name] = np.ones(segment.offset.size, np.bool_)
                continue
            parts = [self._sent.of(number, segment.offset)]
            for event in opened:
                count = segment.payloads[event].offset.size
                parts.append(self._sent.inside(number, int(segment.offset[event]), count))
            found[name] = np.concatenate(parts)
        return found

    def _inside(
        self, segment: Segment, data: npt.NDArray[np.uint8], numbers: Sequence[int]
    ) -> npt.NDArray[np.uint8]:
        """Return the concatenated bytes of the events inside the compressed transactions ``numbers``. The result is
        empty if no column needs them.
        """
        buffers = [np.empty(0, np.uint8)]
        for number in numbers if self._wanted & _OF_BYTES else ():
            start = int(segment.offset[number]) - segment.start
            event = data[start : start + int(segment.size[number])].tobytes()
            opened = decode_transaction_payload(segment.format_description.body(event)).open()
            buffers.append(np.frombuffer(opened, np.uint8))
        return np.concatenate(buffers)

    def _rows(self, events: EventsOfSegment) -> npt.NDArray[np.int32]:
        start, size, type, role = events.start, events.size, events.type, events.role
        return _concatenated(
            [
                counter.count(part.data, start[some], size[some], type[some], role[some], part.fd)
                for counter, part in zip(self._counters, events.parts, strict=False)
                for some in [part.events]
            ]
        )

    def _transactions(self, segment: Segment) -> Int64:
        """Return the file offset at which each transaction of the segment begins, or -1 for events between
        transactions.
        """
        found = np.where(segment.txn_source == R.KEPT, -1, segment.offset[segment.txn_event[:-1]])
        if segment.continues:
            found[0] = self._transaction
        self._transaction = int(found[-1])
        return found

    def gtids(self, segment: Segment) -> pa.Array:
        """Return the GTID of each transaction in a segment (consecutive events of a file) as text, in order. A
        transaction without a GTID has null.
        """
        source = segment.txn_source
        family = segment.format_description.family
        known = np.unique(source[source >= 0]).tolist()
        prefixes = pa.array([self._prefix(number, family) for number in known], pa.string())
        at = pa.array(np.searchsorted(known, source), mask=source < 0)
        numbers = pa.array(segment.txn_number).cast(pa.string())
        return pc.binary_join_element_wise(prefixes.take(at), numbers, "")

    def _prefix(self, source: int, family: str) -> str:
        """Return the prefix that all GTIDs of the GTID source ``source`` share, such as the server UUID and a colon."""
        prefix = self._prefixes.get(source)
        if prefix is None:
            first, second = self._sources.key(source, family)
            if isinstance(first, bytes):
                prefix = str(MysqlGtid(first, 0, str(second)))[:-1]
            else:
                prefix = f"{first}-{second}-"
            self._prefixes[source] = prefix
        return prefix


def _named(segment: Segment) -> npt.NDArray[np.int32]:
    """Return the subject number (table or statement) of each event, but none for XA COMMIT and XA ROLLBACK.

    Their tables are known only if the XA transaction was prepared in the same range. Their columns would then depend
    on the size of the ranges.
    """
    if not segment.xa_ends:
        return segment.subject
    subject = segment.subject.copy()
    subject[list(segment.xa_ends)] = R.NOTHING
    return subject


@dataclass(eq=False)
class EventsOfSegment:
    """The rows of the data source for one segment (consecutive events of a file). Their columns are computed only when
    a query reads them.

    The arrays have one element per event. Events of the file come first, then those inside compressed transactions. The
    rows of the result are ordered differently: an inner event follows its Transaction_payload event.
    """

    maker: EventColumns
    segment: Segment
    parts: Sequence[_Part]
    start: Int64
    """The byte offset of each event in its part's ``data``."""
    size: Int64
    type: npt.NDArray[np.uint8]
    role: npt.NDArray[np.uint8]
    subject: npt.NDArray[np.int32]
    outer: Int64
    """The index of each event in the segment. An event inside a compressed transaction has the index of its
    Transaction_payload event.
    """
    transactions: Int64
    """The file offset at which each transaction begins; -1 for events between transactions."""
    decided: Mapping[str, npt.NDArray[np.bool_]]
    counts: npt.NDArray[np.int32] = field(init=False)
    """The number of changed rows in each event. It is set only if the query needs it."""

    def __post_init__(self) -> None:
        # Most segments have one part, whose events are in order. A slice copies nothing.
        is_ordered = len(self.parts) == 1
        self._order: Chosen = slice(None) if is_ordered else np.argsort(self.outer, kind="stable")

    def __len__(self) -> int:
        return len(self.outer)

    def column(self, name: str, keep: Int64 | None = None) -> pa.Array:
        """Return the values of a column of the data source as an Arrow array.

        ``name`` is a name in :data:`TYPES`, ``sql``, or a column ``sent_NAME``, which tells whether the slave NAME is
        sent the event.

        ``keep`` has the indexes of the wanted events, in the order of the result (None: all events). Columns with
        repeated texts are dictionary arrays.
        """
        events = self._chosen(keep)
        if name in self.decided:
            return pa.array(self.decided[name][events])
        made: pa.Array = getattr(self, f"_{name}")(events)
        return made

    def _chosen(self, keep: Int64 | None) -> Chosen:
        if keep is None:
            return self._order
        return keep if isinstance(self._order, slice) else self._order[keep]

    def changed_rows(self, keep: Int64 | None) -> ChangedRows:
        """Return the values of changed rows, before and after the change, of the events with the indexes ``keep``
        (ascending; None: all events).

        In the result, ``event`` is an index into ``keep``. Call this exactly once per segment, even for no events,
        because the decoder must see all table maps. Raises BinlogError for rows that cannot be decoded.
        """
        kept = np.arange(len(self))[self._chosen(keep)]
        wanted = np.zeros(len(self), np.bool_)
        wanted[kept] = True
        place = np.empty(len(self), np.int64)
        place[kept] = np.arange(kept.size)
        position = self.segment.offset[self.outer]
        found = []
        for part, reader in zip(self.parts, self.maker.image_readers, strict=False):
            some = part.events
            try:
                rows = reader.read(
                    part.data,
                    self.start[some],
                    self.size[some],
                    self.type[some],
                    position[some],
                    part.fd,
                    wanted=wanted[some],
                )
            except BinlogError as error:
                raise error.located(self.segment.file, error.position) from error
            found.append(rows._replace(event=place[some][rows.event]))
        return found[0] if len(found) == 1 else joined(found)

    def body(self, number: int) -> tuple[bytes, FormatDescription]:
        """Return the body of the event with the index ``number``, and the format description event by which to decode
        it.

        The events' bytes are available only if the query has a column that is computed from them, such as ``sql`` or
        ``timestamp``.
        """
        part = self.parts[number >= self.segment.offset.size]
        start, size = int(self.start[number]), int(self.size[number])
        return bytes(part.fd.body(part.data[start : start + size].tobytes())), part.fd

    def _numbers(self, field: int, events: Chosen) -> npt.NDArray[np.uint32]:
        """Return the 4-byte little-endian number at offset ``field`` in the header of each chosen event."""
        found = []
        for part in self.parts:
            # The elements of this array overlap. Element k is the little-endian number in the bytes k to k + 3 of
            # ``data``.
            numbers: npt.NDArray[np.uint32] = np.ndarray(
                max(0, part.data.size - 3), "<u4", part.data, 0, (1,)
            )
            found.append(numbers[self.start[part.events] + field])
        chosen: npt.NDArray[np.uint32] = _concatenated(found)[events]
        return chosen

    def _transaction_number(self, events: Chosen) -> Int64:
        of_event = np.repeat(np.arange(self.transactions.size), np.diff(self.segment.txn_event))
        return np.take(of_event, self.outer[events])

    def _subject(self, events: Chosen) -> npt.NDArray[np.int32]:
        found: npt.NDArray[np.int32] = np.maximum(self.subject[events], -1)
        return found

    def _file(self, events: Chosen) -> pa.Array:
        return _words(np.zeros(len(self.outer[events]), np.int8), self.maker.file)

    def _position(self, events: Chosen) -> pa.Array:
        return pa.array(self.segment.offset[self.outer[events]])

    def _end_log_pos(self, events: Chosen) -> pa.Array:
        return pa.array(self._numbers(13, events))

    def _size(self, events: Chosen) -> pa.Array:
        return pa.array(self.size[events])

    def _type(self, events: Chosen) -> pa.Array:
        return _words(self.type[events].astype(np.int16), _TYPE_WORDS)

    def _timestamp(self, events: Chosen) -> pa.Array:
        return pa.array(self._numbers(0, events).astype(np.int64) * 1_000_000).cast(TYPES["timestamp"])

    def _server_id(self, events: Chosen) -> pa.Array:
        return pa.array(self._numbers(5, events))

    def _gtid(self, events: Chosen) -> pa.Array:
        return _words(self._transaction_number(events), self.maker.gtids(self.segment))

    def _transaction(self, events: Chosen) -> pa.Array:
        found = self.transactions[self._transaction_number(events)]
        return pa.array(found, mask=found < 0)

    def _database(self, events: Chosen) -> pa.Array:
        return _words(self._subject(events), self.maker.of_subject[0])

    def _table(self, events: Chosen) -> pa.Array:
        return _words(self._subject(events), self.maker.of_subject[1])

    def _statement_kind(self, events: Chosen) -> pa.Array:
        of_type = _KIND_OF_TYPE[self.type[events]]
        # An event without a subject (table or statement) has the index -1, which selects the last number in the array.
        # Therefore a -1, which stands for null, is appended as the last number.
        of_subject = np.append(self.maker.of_subject[2], np.int8(-1))[self._subject(events)]
        return _words(np.where(of_type >= 0, of_type, of_subject), _KINDS)

    def _rows(self, events: Chosen) -> pa.Array:
        counts = self.counts[events]
        return pa.array(counts, mask=counts == UNKNOWN)

    def _sql(self, events: Chosen) -> pa.Array:
        has_text = HAS_TEXT[self.type[events]]
        texts: list[str | None] = [None] * len(has_text)
        numbers = np.arange(len(self))[events]
        for place in np.flatnonzero(has_text).tolist():
            number = int(numbers[place])
            texts[place] = text_of(int(self.type[number]), *self.body(number))
        return pa.array(texts, pa.string())

    def _compressed(self, events: Chosen) -> pa.Array:
        is_inside = np.arange(len(self))[events] >= self.segment.offset.size
        return pa.array(is_inside | _COMPRESSED[self.type[events]])

    def _inner(self, events: Chosen) -> pa.Array:
        first = self.segment.offset.size
        numbers = np.arange(len(self))[events]
        begins = np.searchsorted(self.outer[first:], self.outer[events])
        return pa.array((numbers - first - begins).astype(np.int32), mask=numbers < first)


def _words(numbers: npt.NDArray[np.integer[Any]], words: pa.Array) -> pa.DictionaryArray:
    """Return a dictionary array of texts. ``numbers`` has each text's index in ``words``, or -1 for null."""
    missing = numbers < 0
    indices = pa.array(numbers, mask=missing if missing.any() else None)
    return pa.DictionaryArray.from_arrays(indices, words)
