"""The columns of the Spark data source ``binlog``, which has one row per event of a binlog set.

A segment (consecutive events of a file) becomes one Arrow array per column. Numpy and Arrow compute a column for all
events at once, and only if the query needs it. Python loops run only over rare things: new tables, new statements
and compressed transactions.

In the normal form, an event is one row of the data source. In exploded form, each changed row is a separate row of the
data source, with its row images (the columns ``before`` and ``after``): its values before and after the change.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dumpfilter.base.errors import BinlogError
from dumpfilter.binlog import roles as R
from dumpfilter.binlog.events import ROWS, by_number, event_name
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.binlog.rows.arrow import ENCODED_MAP_TYPE, MAP_TYPE, WORDS, ChangedRows, RowImageReader
from dumpfilter.binlog.rows.events import RowCounter
from dumpfilter.binlog.rows_events import rows_kind
from dumpfilter.binlog.statement.statement import StatementKind
from dumpfilter.dump.thread import SentEvents
from dumpfilter.index.opened import TEXTS, OpenedEvents
from dumpfilter.index.segment import Segment
from dumpfilter.index.subjects import Subjects, TableSubject

Int64 = npt.NDArray[np.int64]

Chosen = Int64 | slice
"""A choice among the events that :meth:`EventColumns.take` got last: an array with their indexes, or a slice that
selects all of them.
"""

IMAGES = ("before", "after")
"""The names of the columns with row images, the values of a row before and after a change. A row image is a map from
column names to values as text, or a struct with typed values if the query is about one table.
"""

ROW_TYPES: dict[str, pa.DataType] = {"row": pa.int32(), **dict.fromkeys(IMAGES, MAP_TYPE)}
"""The columns of the exploded form, with their Arrow types: the number of the changed row in its event (from 0), and
the row's values before and after the change.
"""


def exploded(images: ChangedRows, is_rows: npt.NDArray[np.bool_], *, others: bool) -> pa.RecordBatch:
    """Return an Arrow batch with one row for each row that binlog events changed. ``images`` has the changed rows, each
    with the index of its event. ``is_rows`` tells for each event whether it is a rows event.

    The column ``event`` has the event's index, ascending. The column ``row`` has the index of the changed row in its
    event. The column ``rows`` has the number of changed rows of the event, or null if the event is no rows event. The
    columns ``before`` and ``after`` have the row's values before and after the change.

    With ``others``, each event without changed rows becomes one row with null in ``row``, ``before`` and ``after``.
    Without it, such an event is left out.
    """
    per_event = np.bincount(images.event, minlength=is_rows.size)
    lines = np.maximum(per_event, 1) if others else per_event
    event = np.repeat(np.arange(is_rows.size), lines)
    row = np.arange(event.size) - np.repeat(np.cumsum(lines) - lines, lines)
    without = (per_event == 0)[event]
    before, after = images.before, images.after
    if others:
        before, after = _with_nulls(before, without), _with_nulls(after, without)
    return pa.record_batch(
        {
            "event": event,
            "rows": pa.array(per_event[event].astype(np.int32), mask=~is_rows[event]),
            "row": pa.array(row.astype(np.int32), mask=without),
            "before": before,
            "after": after,
        }
    )


def _with_nulls(maps: pa.MapArray, without: npt.NDArray[np.bool_]) -> pa.MapArray:
    """Return the Arrow maps ``maps`` with nulls inserted between them. The result has a null for each true element of
    ``without``, and the next element of ``maps`` for each false one. The maps' entries are not copied.
    """
    number = np.cumsum(~without)
    null = without.copy()
    null[~without] = maps.is_null().to_numpy(zero_copy_only=False)
    first = maps.offsets.to_numpy()[np.concatenate(([0], number))]
    return pa.MapArray.from_arrays(first, maps.keys, maps.items, mask=pa.array(null))


_HAS_TEXT: npt.NDArray[np.bool_] = np.isin(np.arange(256), [*TEXTS])

OF_SUBJECTS = frozenset({"database", "table", "statement_kind"})
"""The columns whose values come from the statements' texts (and, for rows events, from table maps). Statements are
parsed only for queries that use one of these columns, or that open compressed transactions.
"""


def true_of(test: Callable[[pa.Array], pa.Array], values: pa.Array) -> npt.NDArray[np.bool_]:
    """Return a Boolean array that marks the elements of ``values`` for which ``test`` is true.

    ``test`` maps an Arrow array of values to an array of Booleans. A null in its result means unknown, as in SQL, and
    counts as false. For a dictionary array, each distinct value is tested once.
    """
    is_dictionary = isinstance(values, pa.DictionaryArray)
    asked = pa.concat_arrays([values.dictionary, pa.nulls(1, pa.string())]) if is_dictionary else values
    found = np.asarray(pc.fill_null(test(asked), False).to_numpy(zero_copy_only=False), np.bool_)
    # A value without a word has the number of the null after the words.
    return found[values.indices.fill_null(len(asked) - 1).to_numpy()] if is_dictionary else found


# A list, since a process imports pandas for its first array, in 0.3 seconds. The planning of a query needs no array.
_TYPE_WORDS = [event_name(kind) for kind in range(256)]
_ROWS_WORDS = ("INSERT", "UPDATE", "DELETE")
_KIND_WORDS = [*_ROWS_WORDS, *(kind.value for kind in StatementKind if kind.value not in _ROWS_WORDS)]
_KIND_OF_TYPE: npt.NDArray[np.int8] = np.full(256, -1, np.int8)
for _type in ROWS:
    _KIND_OF_TYPE[_type] = _KIND_WORDS.index(rows_kind(_type).upper())
_COMPRESSED: npt.NDArray[np.bool_] = by_number(lambda kind: kind.compressed).astype(np.bool_)


def text_of(name: str) -> str:
    r"""Return a name or text as the columns have it, with U+FFFD for each byte that is not UTF-8.

    Python decoded the name with ``surrogateescape``, and Arrow takes valid UTF-8 only.

    >>> text_of("caf\udce9")
    'caf\ufffd'
    """
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


class _Named(NamedTuple):
    """The values of the columns ``database``, ``table`` and ``statement_kind`` for the events of one table or
    statement. ``database`` and ``table`` are None if unknown, or if the statement concerns several tables.
    """

    database: str | None
    table: str | None
    kind: int
    """The index in ``_KIND_WORDS`` of the statement's kind, such as INSERT. -1 for a table."""


_NOT_NAMED = _Named(None, None, -1)


class EventColumns:
    """The columns of the Spark data source for the events of one part of a binlog file, which has complete
    transactions.

    The caller passes the segments (consecutive events) of this part in order to :meth:`take`. The other methods return
    columns for the events of the segment that was passed last. An event is a row of the columns. The rows of the events
    inside a compressed transaction follow the row of its Transaction_payload event. The object remembers the
    transaction and the table maps that continue in the next segment.

    Parameters:
        file: the value of the column ``file``.
        subjects: the register of the tables and statements whose numbers the segments have.
        sources: the register of the GTID sources (server UUIDs, or MariaDB's domain and server ids) whose numbers the
            segments have.
        wanted: the names of the columns that the caller will read. Other columns need not be available.
        filters: a mapping from the name of a column that shows a filter's decisions to the filter's index in ``sent``.
        image_reader: reads the values in changed rows.
        sent: the filters' decisions about all events. None if no column needs the decisions.
    """

    def __init__(
        self,
        file: str,
        subjects: Subjects,
        sources: SourceNumbers,
        *,
        wanted: Collection[str],
        filters: Mapping[str, int],
        image_reader: RowImageReader,
        sent: SentEvents | None = None,
    ) -> None:
        self.file = text_of(file)
        self._subjects, self._sources = subjects, sources
        self._wanted = frozenset(wanted)
        self._filters, self._sent = filters, sent
        self._images, self._counter = image_reader, RowCounter()
        self._named: list[_Named] = []
        self._transaction = -1
        """The file offset of the transaction that continues in the next segment (consecutive events of the file), or -1
        after an event between transactions.
        """

    def take(self, events: OpenedEvents) -> None:
        """Take the next segment (consecutive events) of the part of the binlog file that a query's task reads. Until
        the next call, the other methods return the data source's columns for the events of this segment.

        Raises BinlogError for a compressed transaction, or a rows event, that cannot be decoded.
        """
        self.events = events
        self.segment = segment = events.segment
        self.size = events.column(lambda one: one.size)
        self.type = events.column(lambda one: one.type)
        self.subject = events.column(_subject)
        self.sent: dict[str, npt.NDArray[np.bool_]] = {}
        for name, number in self._filters.items():
            assert self._sent is not None
            self.sent[name] = self._sent.of(number, events)
        # The number of the transaction that continues is its beginning in an earlier segment.
        self._begins = np.where(segment.txn_source == R.KEPT, -1, segment.offset[segment.txn_event[:-1]])
        if segment.continues:
            self._begins[0] = self._transaction
        self._transaction = int(self._begins[-1])
        if "rows" in self._wanted:
            role = events.column(lambda one: one.role)
            self.counts = self._counter.count(*self._of_bytes, role, events.format_description)

    def __len__(self) -> int:
        return len(self.events.outer)

    @property
    def _of_bytes(self) -> tuple[npt.NDArray[np.uint8], Int64, Int64, npt.NDArray[np.uint8]]:
        """Four arrays about the events that were last given to :meth:`take`. The first array has the bytes of all these
        events (uint8). The other arrays have for each event the offset in these bytes at which the event begins, its
        size without checksum, and its type.
        """
        return self.events.opened_data, self.events.start, self.events.length, self.type

    def column(self, name: str, keep: Int64 | None = None) -> pa.Array:
        """Return one column of the data source as an Arrow array, with a value for each event that was last given to
        :meth:`take`.

        ``name`` is a name in :data:`TYPES`, ``sql``, or a name from the parameter ``filters`` such as ``sent_web``,
        whose values tell whether the slave is sent the event. ``keep`` has the indexes of the events whose values are
        wanted, in the order of the result (None: all events). Columns with repeated texts are dictionary arrays.
        """
        events = slice(None) if keep is None else keep
        if name in self.sent:
            return pa.array(self.sent[name][events])
        kind, make = _COLUMNS[name]
        values = make(self, events)
        return values if isinstance(values, pa.DictionaryArray) else values.cast(kind)

    def changed_rows(self, keep: Int64 | None) -> ChangedRows:
        """Return the rows that the events last given to :meth:`take` changed, with their values before and after the
        change. ``keep`` has the indexes of the wanted events, ascending (None: all events).

        The field ``event`` of the result has for each changed row the index of its event in ``keep``, or among all
        events if ``keep`` is None. Call this method exactly once after each :meth:`take`, even for no events, because
        the decoder must see all table maps. Raises BinlogError for rows that cannot be decoded, and ColumnsChanged if a
        query has fixed the table's columns and the table was altered.
        """
        wanted = np.zeros(len(self), np.bool_)
        wanted[slice(None) if keep is None else keep] = True
        position, fd = self.segment.offset[self.events.outer], self.events.format_description
        try:
            rows = self._images.read(*self._of_bytes, position, fd, wanted=wanted)
        except BinlogError as error:
            raise error.located(self.segment.file, error.position) from error
        return rows if keep is None else rows._replace(event=np.searchsorted(keep, rows.event))

    def header_field(self, field: int, events: Chosen) -> npt.NDArray[np.uint32]:
        """Return a 4-byte field of the chosen events' headers as an array of numbers. ``field`` is the field's offset
        in the header.

        ``events`` chooses among the events that were last given to :meth:`take`, by an array of their indexes or a
        slice that selects all.
        """
        # The elements of this array overlap. Element k is the little-endian number in the bytes k to k + 3.
        data = self.events.opened_data
        numbers: npt.NDArray[np.uint32] = np.ndarray(max(0, data.size - 3), "<u4", data, 0, (1,))
        return numbers[self.events.start[events] + field]

    def transaction(self, events: Chosen) -> Int64:
        """Return for each chosen event the index of its transaction in the segment (consecutive events of a file).

        ``events`` chooses among the events that were last given to :meth:`take`, by an array of their indexes or a
        slice that selects all.
        """
        of_event = np.repeat(np.arange(self._begins.size), np.diff(self.segment.txn_event))
        return np.take(of_event, self.events.outer[events])

    def begins(self, events: Chosen) -> Int64:
        """Return for each chosen event the file offset at which its transaction begins. The value is -1 for an event
        between two transactions.

        ``events`` chooses among the events that were last given to :meth:`take`, by an array of their indexes or a
        slice that selects all.
        """
        return self._begins[self.transaction(events)]

    def gtids(self) -> pa.Array:
        """Return the GTID of each transaction in the segment (consecutive events of a file) that was last given to
        :meth:`take`. The result is an Arrow array of texts in the order of the file.

        The value is null for a transaction without a GTID, and for an event between two transactions, which counts as a
        transaction here.
        """
        source = self.segment.txn_source
        known = np.unique(source[source >= 0]).tolist()
        # All GTIDs of a source begin with the same text, which ends before the number.
        prefixes = pa.array([self._sources.gtid(k, 0)[:-1] for k in known], pa.string())
        at = pa.array(np.searchsorted(known, source), mask=source < 0)
        numbers = pa.array(self.segment.txn_number).cast(pa.string())
        return pc.binary_join_element_wise(prefixes.take(at), numbers, "")

    def named(self) -> list[_Named]:
        """Return a list with the database, table and statement kind of each subject (table or statement) registered so
        far. The index in the result is the subject's number.

        For a number that stands for a set of tables and statements, database and table are None, and the kind is -1.
        """
        for number in range(len(self._named), len(self._subjects)):
            named = _NOT_NAMED
            if self._subjects.members(number) is None:
                subject = self._subjects[number]
                database, table = subject.schema_and_table()
                kind = -1 if isinstance(subject, TableSubject) else _KIND_WORDS.index(subject.kind.value)
                named = _Named(database and text_of(database), table and text_of(table), kind)
            self._named.append(named)
        return self._named

    def kinds(self, events: Chosen) -> npt.NDArray[np.int8]:
        """Return for each chosen event its kind of statement (INSERT, CREATE TABLE …), as an index into the list
        ``_KIND_WORDS``. The index is -1 for an event without a statement kind, such as Xid.

        ``events`` chooses among the events that were last given to :meth:`take`, by an array of their indexes or a
        slice that selects all.
        """
        of_type = _KIND_OF_TYPE[self.type[events]]
        # An event without a subject (table or statement) has the index -1, which selects the appended -1.
        of_subject = np.array([*(one.kind for one in self.named()), -1], np.int8)[self.subject[events]]
        found: npt.NDArray[np.int8] = np.where(of_type >= 0, of_type, of_subject)
        return found

    def texts(self, events: Chosen) -> list[str | None]:
        """Return a list with the text of the SQL statement in each chosen event. A value is None for an event of a type
        without a text, and for a malformed event. Bytes that are invalid in the statement's character set become
        U+FFFD.

        ``events`` chooses among the events that were last given to :meth:`take`, by an array of their indexes or a
        slice that selects all.
        """
        numbers = np.arange(len(self))[events]
        texts: list[str | None] = [None] * len(numbers)
        for place in np.flatnonzero(_HAS_TEXT[self.type[numbers]]).tolist():
            texts[place] = self._statement(int(numbers[place]))
        return texts

    def _statement(self, number: int) -> str | None:
        """Return the text of the SQL statement in an event, or None for a malformed event. ``number`` is the event's
        index among those last given to :meth:`take`.
        """
        try:
            return text_of(self.events.text(number))
        except BinlogError:
            return None


def _subject(segment: Segment) -> npt.NDArray[np.int32]:
    """Return the number of the table or statement of each event in ``segment``. The value is -1 for an event without a
    table or statement, and for XA COMMIT and XA ROLLBACK.

    A task knows the tables of an XA COMMIT only if the transaction was prepared in the range (part of a file) that the
    task reads. With these tables the result would depend on the size of the ranges.
    """
    subject = np.maximum(segment.subject, -1)
    subject[list(segment.xa_ends)] = -1
    return subject


def _words(numbers: npt.NDArray[np.integer[Any]], words: pa.Array) -> pa.DictionaryArray:
    """Return a dictionary array (Arrow) of texts. ``numbers`` has for each element the index of its text in ``words``,
    or -1 for null.
    """
    # Arrow's writer of Parquet needs a dictionary of distinct words.
    return words.dictionary_encode().take(_known(numbers))


def _known(numbers: npt.NDArray[np.integer[Any]]) -> pa.Array:
    missing = numbers < 0
    return pa.array(numbers, mask=missing if missing.any() else None)


_TIME = pa.timestamp("us", "UTC")

_COLUMNS: dict[str, tuple[pa.DataType, Callable[[EventColumns, Chosen], pa.Array]]] = {
    "file": (
        pa.string(),
        lambda e, at: _words(np.zeros(e.events.outer[at].size, np.int8), pa.array([e.file])),
    ),
    "position": (pa.int64(), lambda e, at: pa.array(e.segment.offset[e.events.outer[at]])),
    "end_log_pos": (pa.int64(), lambda e, at: pa.array(e.header_field(13, at))),
    "size": (pa.int64(), lambda e, at: pa.array(e.size[at])),
    "type": (pa.string(), lambda e, at: _words(e.type[at].astype(np.int16), pa.array(_TYPE_WORDS))),
    "timestamp": (_TIME, lambda e, at: pa.array(e.header_field(0, at) * np.int64(1_000_000)).cast(_TIME)),
    "server_id": (pa.int64(), lambda e, at: pa.array(e.header_field(5, at))),
    "gtid": (pa.string(), lambda e, at: _words(e.transaction(at), e.gtids())),
    "transaction": (pa.int64(), lambda e, at: _known(e.begins(at))),
    "database": (pa.string(), lambda e, at: _words(e.subject[at], _names(e, "database"))),
    "table": (pa.string(), lambda e, at: _words(e.subject[at], _names(e, "table"))),
    "statement_kind": (pa.string(), lambda e, at: _words(e.kinds(at), pa.array(_KIND_WORDS))),
    "rows": (pa.int32(), lambda e, at: _known(e.counts[at])),
    "compressed": (pa.bool_(), lambda e, at: pa.array((e.events.inner[at] >= 0) | _COMPRESSED[e.type[at]])),
    "inner": (pa.int32(), lambda e, at: _known(e.events.inner[at].astype(np.int32))),
    "sql": (pa.string(), lambda e, at: pa.array(e.texts(at), pa.string())),
}
"""All columns of the Spark data source ``binlog``, in order. Each has its Arrow type, and the function that makes the
column for chosen events.
"""


def _names(events: EventColumns, field: str) -> pa.Array:
    return pa.array([getattr(one, field) for one in events.named()], pa.string())


TYPES = {name: type for name, (type, _) in _COLUMNS.items() if name != "sql"}
"""The standard columns of the data source, in order, with their Arrow types. docs/spark-source.md describes each."""

TEXT_TYPES = {"sql": _COLUMNS["sql"][0]}
"""The column with statement texts. A query has it only if the query names it, because each text costs time."""


def encoded(schema: pa.Schema) -> pa.Schema:
    """Return a schema with the columns of ``schema``, in which columns of repeated texts (all texts except ``sql``) and
    of maps have dictionary types. The batches for Parquet files have this schema.
    """
    kinds = {pa.string(): WORDS, MAP_TYPE: ENCODED_MAP_TYPE}
    return pa.schema(
        [(one.name, one.type if one.name in TEXT_TYPES else kinds.get(one.type, one.type)) for one in schema]
    )
