"""The conversion of binlogs to tables info (WL#40, ``--binlog-with-tables-info``) and back.

With tables info each Query event names its statement's tables. The format description event announces the format for
the whole file. The conversion therefore takes whole files. docs/tables-info.md describes the format.
:mod:`dumpfilter.binlog.query` has the layout of the events, :mod:`dumpfilter.statement.tables_info` the rules for the
names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from dumpfilter.binlog import roles as R
from dumpfilter.binlog.compression import (
    decode_transaction_payload,
    encode_transaction_payload,
    events_inside,
)
from dumpfilter.binlog.events import EventHeader, EventType
from dumpfilter.binlog.format import FormatDescription
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.binlog.query import (
    EXTENDED_QUERY_HEADER_LENGTH,
    QUERY_HEADER_LENGTH,
    QueryEvent,
    encode_query,
    encode_tables_info,
)
from dumpfilter.binlog.writer import BinlogSetWriter, with_body
from dumpfilter.errors import BinlogError, BinlogUnsupported
from dumpfilter.index.fileset import BinlogSet, SegmentReader
from dumpfilter.index.segment import Segment
from dumpfilter.index.statements import decode_statement_event, statement_of
from dumpfilter.index.subjects import Subjects
from dumpfilter.statement import StatementKind, TableName, read_text
from dumpfilter.statement.reads import tables_read
from dumpfilter.statement.tables_info import form_tables_info, qualified, relative

_QUERIES = (EventType.QUERY, EventType.QUERY_COMPRESSED)
_REWRITTEN = (*_QUERIES, EventType.TRANSACTION_PAYLOAD)
_FRAME = re.compile(rb"(BEGIN|COMMIT|ROLLBACK)\Z|(ROLLBACK|SAVEPOINT|RELEASE SAVEPOINT|XA) ", re.IGNORECASE)
"""The statements that frame a transaction (``Query_log_event::is_trans_keyword``, and XA). They have no tables."""


@dataclass
class Converted:
    """The counts of a conversion."""

    queries: int = 0
    """Query events that were written in the other format."""
    untold: int = 0
    """Query events with empty tables info, because the tables are not known or do not fit into the format."""


def has_tables_info(fd: FormatDescription) -> bool:
    """Tell whether a file's Query events are in the extended format."""
    return fd.post_header_length(EventType.QUERY) == EXTENDED_QUERY_HEADER_LENGTH


def announce_tables_info(fd: FormatDescription, extended: bool) -> FormatDescription:
    """Return the format description event of a file in the extended format, or in the usual format.

    The format of MariaDB's QUERY_COMPRESSED changes with the format of Query. Execute_load_query keeps its format.
    """
    length = EXTENDED_QUERY_HEADER_LENGTH if extended else QUERY_HEADER_LENGTH
    return fd.with_post_header_lengths(dict.fromkeys(_QUERIES, length))


def encode_query_event(
    event: bytes, old: FormatDescription, new: FormatDescription, tables: Iterable[TableName] = ()
) -> bytes:
    """Return a whole Query or QUERY_COMPRESSED event of a file of format ``old`` in the format ``new``.

    In the extended format the event names ``tables`` (see :func:`~dumpfilter.binlog.query.encode_query`). It keeps its
    end_log_pos and gets a new checksum. Raises BinlogCorrupt or BinlogUnsupported, without file and position.
    """
    header = EventHeader.unpack(event)
    body = encode_query(
        old.body(event),
        post_header_length=old.post_header_length(EventType.QUERY),
        to=new.post_header_length(EventType.QUERY),
        tables=tables,
    )
    return with_body(header, body, checksum=new.checksum)


def query_tables_info(query: QueryEvent, fd: FormatDescription) -> tuple[TableName, ...] | None:
    """Return the tables info of a statement; None if the statement does not tell its tables."""
    if _FRAME.match(query.raw):
        return ()
    if not query.text_exact and not query.raw.isascii():
        return None  # the character set of the names is not known
    sql_mode = query.status.sql_mode or 0
    tables = form_tables_info(
        replace(
            read_text(query.text, family=fd.family, sql_mode=sql_mode),
            updated=statement_of(query, fd).updated,
        ),
        tables_read(query.text, family=fd.family, sql_mode=sql_mode),
        current_database=query.db or None,
    )
    return tables if tables is not None and encode_tables_info(tables) is not None else None


def with_tables_info(
    binlogs: BinlogSet,
    output_dir: Path,
    base: str,
    *,
    verify: bool = True,
    overwrite: bool = False,
    progress: Callable[[int], None] = lambda read: None,
) -> Converted:
    """Write a binlog set again with tables info in every Query event: ``<base>.000001`` … and ``<base>.index``.

    Each file of the set gives one file. Files with tables info keep it. The events get the end_log_pos, the checksums
    and the names in Rotate events of the new set. MySQL's GTID events keep their transaction lengths. ``progress`` is
    called with the bytes read of each segment.

    Raises BinlogError if the set is damaged, and OutputError if the new set cannot be written. Nothing of the new set
    is left then.
    """
    return _convert(binlogs, output_dir, base, True, verify, overwrite, progress)


def without_tables_info(
    binlogs: BinlogSet,
    output_dir: Path,
    base: str,
    *,
    verify: bool = True,
    overwrite: bool = False,
    progress: Callable[[int], None] = lambda read: None,
) -> Converted:
    """Write a binlog set again in the usual format, which every server reads.

    Parameters and errors are those of :func:`with_tables_info`.
    """
    return _convert(binlogs, output_dir, base, False, verify, overwrite, progress)


def _convert(
    binlogs: BinlogSet,
    output_dir: Path,
    base: str,
    extended: bool,
    verify: bool,
    overwrite: bool,
    progress: Callable[[int], None],
) -> Converted:
    subjects, sources = Subjects(), SourceNumbers()
    counts = Converted()
    names = binlogs.names
    with BinlogSetWriter(output_dir, base, overwrite=overwrite) as writer:
        for name in names:
            with binlogs.file(name) as file:
                reader = SegmentReader(file, subjects, sources, verify=verify, statements=False)
                converter = _Converter(file.format_description, extended, counts)
                writer.begin(converter.new)
                rotate: bytes | None = None
                while (segment := reader.next()) is not None:
                    if rotate is not None:  # a relay log may have a Rotate event inside
                        writer.append(rotate)
                        rotate = None
                    if segment.type[0] == EventType.FORMAT_DESCRIPTION:
                        converter = _second(reader.scanner.format_description, converter, segment)
                        writer.append(converter.new.raw)
                    else:
                        data, rotate = reader.data[: segment.end - segment.start].tobytes(), None
                        if segment.type[-1] == EventType.ROTATE:
                            rotate = data[-int(segment.size[-1]) :]
                        last = len(segment.type) - (rotate is not None)
                        writer.append(b"".join(converter.segment(segment, data, last)))
                    progress(segment.end - segment.start)
                writer.append(converter.release())
                reader.check_end(last=name == names[-1])
                if rotate is None:
                    writer.end()
                else:
                    writer.rotate(EventHeader.unpack(rotate).timestamp)
    return counts


def _second(fd: FormatDescription, before: _Converter, segment: Segment) -> _Converter:
    """Return the converter for the events after a format description event in the middle of a relay log."""
    if not (fd.checksum and before.new.checksum):
        raise BinlogUnsupported(
            "a relay log without checksums, or with and without", file=segment.file, position=segment.start
        )
    return _Converter(fd, before.extended, before.counts)


class _Converter:
    """Converts the events of one file to the other format, in order.

    The converter buffers each BEGIN until it knows the next event. If this event is the CREATE TABLE of a CREATE …
    SELECT in row format, BEGIN and COMMIT name the new table, too. A filter then sends or drops the whole statement
    (section 4.1).
    """

    def __init__(self, old: FormatDescription, extended: bool, counts: Converted) -> None:
        self._as_it_is = has_tables_info(old) == extended
        self.new = old if self._as_it_is else announce_tables_info(old, extended)
        self.extended = extended
        self.counts = counts
        self._old = old
        self._begin: bytes | None = None
        self._created: tuple[TableName, ...] = ()
        """The table that the CREATE … SELECT of the open transaction made, with its database."""

    def segment(self, segment: Segment, data: bytes, last: int) -> Iterator[bytes]:
        """Yield the converted events of a segment before number ``last``. ``data`` has the segment's bytes."""
        if self._as_it_is:
            last_byte = (
                len(data) if last == len(segment.offset) else int(segment.offset[last]) - segment.start
            )
            yield data[:last_byte]
            return
        done = 0
        for i in np.flatnonzero(np.isin(segment.type[:last], _REWRITTEN)):
            yield self._others(segment, data, done, int(i))
            done = int(i) + 1
            start = int(segment.offset[i]) - segment.start
            event = data[start : start + int(segment.size[i])]
            try:
                if event[4] in _QUERIES:
                    yield self.query(event, ends=bool(segment.role[i] & R.ENDS))
                else:
                    yield self.release() + self._payload(event)
            except BinlogError as error:
                raise error.located(segment.file, int(segment.offset[i])) from error
        yield self._others(segment, data, done, last)

    def _others(self, segment: Segment, data: bytes, first: int, end: int) -> bytes:
        """Return the events from number ``first`` to ``end``. The conversion changes none of these events."""
        if first == end:
            return b""
        ends = bool((segment.role[first:end] & R.ENDS).any())
        start = int(segment.offset[first]) - segment.start
        stop = int(segment.offset[end - 1] + segment.size[end - 1]) - segment.start
        return self.release(ends=ends) + data[start:stop]

    def query(self, event: bytes, *, ends: bool = False) -> bytes:
        """Return a converted Query event, after a buffered BEGIN.

        ``ends`` says whether a transaction ends with the event.
        """
        self.counts.queries += 1
        if not self.extended:
            return encode_query_event(event, self._old, self.new)
        query = self._decode(event)
        keyword = query.raw.upper() if len(query.raw) <= 8 else b""
        if keyword == b"BEGIN":
            before = self.release(ends=True)
            self._begin = event
            return before
        if keyword in (b"COMMIT", b"ROLLBACK"):
            tables = self._named(self._created, query)
        else:
            told = query_tables_info(query, self._old)
            self.counts.untold += told is None
            tables = told or ()
            if self._creates(query):
                self._created = tuple(qualified(name, query.db or None) for name in tables)
        return self.release(ends=ends) + encode_query_event(event, self._old, self.new, tables)

    def release(self, *, ends: bool = False) -> bytes:
        """Return the buffered BEGIN, empty if there is none.

        ``ends`` says whether the transaction ends with the next event.
        """
        held, self._begin = self._begin, None
        before = b""
        if held is not None:
            tables = self._named(self._created, self._decode(held))
            before = encode_query_event(held, self._old, self.new, tables)
        if ends:
            self._created = ()
        return before

    def _creates(self, query: QueryEvent) -> bool:
        """Tell whether a statement inside a transaction is the CREATE of a CREATE … SELECT in row format.

        Every other CREATE TABLE, except for temporary tables, commits and is a transaction of its own.
        """
        sql_mode = query.status.sql_mode or 0
        parsed = read_text(query.text, family=self._old.family, sql_mode=sql_mode)
        return parsed.kind is StatementKind.CREATE_TABLE and not parsed.temporary

    def _named(self, tables: tuple[TableName, ...], query: QueryEvent) -> tuple[TableName, ...]:
        return tuple(relative(name, query.db or None) for name in tables)

    def _decode(self, event: bytes) -> QueryEvent:
        return decode_statement_event(EventType(event[4]), self._old.body(event), self._old)

    def _payload(self, event: bytes) -> bytes:
        """Return a Transaction_payload event whose inner events are converted."""
        header = EventHeader.unpack(event)
        inner = _Converter(_unchecked(self._old), self.extended, self.counts)
        events = [
            inner.query(one) if one[4] in _QUERIES else inner.release() + one
            for _, one in events_inside(decode_transaction_payload(self._old.body(event)).open())
        ]
        made = encode_transaction_payload(b"".join([*events, inner.release()]))
        return with_body(header, made, checksum=self.new.checksum)


def _unchecked(fd: FormatDescription) -> FormatDescription:
    """Return the format of the events inside a Transaction_payload event, which have no checksums."""
    return replace(fd, checksum=False)
