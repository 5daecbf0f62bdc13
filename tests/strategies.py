"""Hypothesis strategies for whole binlogs: small valid v4 files of both families, with rare forms.

A :class:`Dialect` is a server version with its format description. A :class:`MadeBinlog` holds one file's bytes.
Databases and tables come from short lists, so that the rules of :func:`rules` often match them.
"""

from __future__ import annotations

import functools
import struct
import uuid
import zlib
from dataclasses import dataclass, field
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

from dumpfilter.binlog.compression import NONE, ZSTD, encode_transaction_payload
from dumpfilter.binlog.context_events import (
    Intvar,
    Rotate,
    UserVar,
    encode_rotate,
)
from dumpfilter.binlog.cursor import encode_varlen, packed_integer
from dumpfilter.binlog.events import MAGIC, EventType
from dumpfilter.binlog.format import FormatDescription
from dumpfilter.binlog.gtid import MysqlGtidSet
from dumpfilter.binlog.gtid_events import (
    FL_EXTRA_THREAD_ID,
    GtidList,
    Xid,
    encode_gtid_list,
    encode_previous_gtids,
)
from dumpfilter.binlog.writer import make_event
from dumpfilter.filter.rules import Rule, RuleKind, make_rule
from tests.binlog.encoders import compress, encode_intvar, encode_user_var
from tests.binlog.statement.made import made_statements

T = EventType

EXPENSIVE = settings(max_examples=settings().max_examples * 5 // 8)
"""The settings of properties whose examples take long, and that other tests check with cheap examples, too."""

_LENGTHS_55 = [56, 13, 0, 8, 0, 18, 0, 4, 4, 4, 4, 18, 0, 0, 84, 0, 4, 26, 8, 0, 0, 0, 8, 8, 8, 2, 0]
_LENGTHS_97 = [
    *[0, 13, 0, 8, 0, 0, 0, 0, 4, 0, 4, 0, 0, 0, 99, 0, 4, 26, 8, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 10, 10, 10],
    *[42, 42, 0, 18, 52, 0, 10, 40, 0, 0],
]
_LENGTHS_MARIADB = [
    *[56, 13, 0, 8, 0, 18, 0, 4, 4, 4, 4, 18, 0, 0, 228, 0, 4, 26, 8, 0, 0, 0, 8, 8, 8, 2, 0, 0, 0],
    *[10, 10, 10, 0, 0, 0, 0, 0, 0, 10, 10, 10, *[0] * 119, 4, 19, 4, 0, 13, 8, 8, 8, 10, 10, 10],
]


@dataclass(frozen=True)
class Dialect:
    """The properties of a server that its binlogs show."""

    name: str
    version: str
    lengths: list[int] = field(repr=False)
    gtids: str
    """"mysql", "tagged", "anonymous", "mariadb" or "none"."""
    checksum: bool = True
    end_log_pos: bool = True
    """True when events inside a transaction have their end_log_pos. MariaDB 11.8 writes 0 there."""

    @property
    def family(self) -> str:
        return "mariadb" if self.gtids == "mariadb" else "mysql"

    @property
    def rows_types(self) -> list[int]:
        if self.name == "mysql 9.7":
            return [T.WRITE_ROWS, T.UPDATE_ROWS, T.DELETE_ROWS, T.PARTIAL_UPDATE_ROWS]
        if self.family == "mariadb":
            return [*range(23, 26), *range(166, 169), T.WRITE_ROWS, T.DELETE_ROWS_COMPRESSED]
        return [*range(23, 26)]

    def format_description(self, *, in_use: bool = False) -> bytes:
        """Return the Format_description event. Its checksum does not cover LOG_EVENT_BINLOG_IN_USE_F."""
        body = struct.pack("<H50sIB", 4, self.version.encode(), 1_700_000_000, 19) + bytes(self.lengths)
        knows = not self.version.startswith("5.")
        if knows:
            body += bytes([self.checksum])
        size = 19 + len(body) + 4 * knows
        event = bytearray(
            make_event(
                T.FORMAT_DESCRIPTION, body, timestamp=1, server_id=11, end_log_pos=4 + size, checksum=knows
            )
        )
        event[17] |= in_use
        return bytes(event)


DIALECTS = [
    Dialect("mysql 9.7", "9.7.4", _LENGTHS_97, gtids, checksum)
    for gtids in ("mysql", "tagged", "anonymous")
    for checksum in (True, False)
]
DIALECTS += [
    Dialect("mariadb 10.11", "10.11.19-MariaDB-log", _LENGTHS_MARIADB, "mariadb", checksum)
    for checksum in (True, False)
]
DIALECTS += [
    Dialect("mariadb 11.8", "11.8.6-MariaDB-log", _LENGTHS_MARIADB, "mariadb", checksum, end_log_pos=False)
    for checksum in (True, False)
]
DIALECTS += [
    Dialect("mysql 5.5", "5.5.62-log", _LENGTHS_55, "none", False),
]
CHECKSUMMED = [dialect for dialect in DIALECTS if dialect.checksum]

UUIDS = [uuid.UUID(int=n).bytes for n in (1, 0xAFFE << 96, (1 << 128) - 1)]
DATABASES = ["shop", "logs", "a_b", "axb", "hr"]
TABLES = ["orders", "t_1", "tx1", "audit"]
ODD_NAMES = ["", "größe", "d.b", "中文", "%", "\udcff\udcfe", "x" * 192, "S\x00P", "emoji🙂"]


class MadeBinlog:
    """One binlog file.

    ``boundaries`` are the offsets at which no transaction is open, from the first event on. ``gtids`` are the source
    key and the number of each transaction that has a GTID, in order.
    """

    def __init__(
        self, dialect: Dialect, data: bytes, boundaries: list[int], gtids: list[tuple[object, int]]
    ) -> None:
        self.dialect = dialect
        self.data = data
        self.boundaries = boundaries
        self.gtids = gtids

    def __repr__(self) -> str:
        return f"<{self.dialect.name}, {self.dialect.gtids}: bytes.fromhex({self.data.hex()!r})>"

    @property
    def fd(self) -> FormatDescription:
        return FormatDescription.parse(
            self.data[4 : 4 + int.from_bytes(self.data[13:17], "little")], file="made", position=4
        )

    @property
    def first_event(self) -> int:
        return 4 + len(self.fd.raw)


_PLACED = frozenset(
    {T.MARIADB_GTID, T.GTID_LIST, T.BINLOG_CHECKPOINT, T.XID, T.XA_PREPARE, T.INCIDENT, T.ROTATE, T.STOP}
)
"""Types of events that begin or end a transaction, or that stand between transactions."""


class _Builder:
    """A growing binlog file. It gives each event its end_log_pos."""

    def __init__(self, dialect: Dialect, *, in_use: bool = False) -> None:
        self.dialect = dialect
        self.data = bytearray(MAGIC + dialect.format_description(in_use=in_use))
        self.boundaries = [len(self.data)]
        self.gtids: list[tuple[object, int]] = []
        self.time = 1_700_000_000
        self._outside: bytearray | None = None

    def begin_payload(self) -> None:
        """Begin a compressed transaction, which the next events belong to."""
        self._outside, self.data = self.data, bytearray()

    def end_payload(self, compression: int = ZSTD) -> None:
        """End the compressed transaction and add it to the file."""
        assert self._outside is not None
        events, self.data, self._outside = bytes(self.data), self._outside, None
        self.add(T.TRANSACTION_PAYLOAD, encode_transaction_payload(events, compression=compression))

    def add(self, kind: int, body: bytes, *, server_id: int = 11, flags: int = 0) -> None:
        checksum = self.dialect.checksum and self._outside is None
        end = len(self.data) + 19 + len(body) + 4 * checksum
        self.time += 1
        self.data += make_event(
            kind,
            body,
            timestamp=self.time,
            server_id=server_id,
            end_log_pos=end if self.dialect.end_log_pos or kind in _PLACED else 0,
            flags=flags,
            checksum=checksum,
        )

    def boundary(self) -> None:
        self.boundaries.append(len(self.data))


def query_body(
    text: bytes, database: str = "", updated: list[str] | None = None, table_map: int | None = None
) -> bytes:
    """Return the body of a Query event. ``table_map`` is Q_TABLE_MAP_FOR_UPDATE."""
    status = b"" if table_map is None else b"\x09" + struct.pack("<Q", table_map)
    if updated is not None:
        status += b"\x0c" + bytes([len(updated)]) + b"".join(name.encode() + b"\0" for name in updated)
    name = database.encode("utf-8", "surrogateescape")
    return struct.pack("<IIBHH", 7, 0, len(name), 0, len(status)) + status + name + b"\0" + text


def unreadable_query_body(text: bytes, database: str) -> bytes:
    """Return the body of a Query event whose last status variable is cut off."""
    return struct.pack("<IIBHH", 7, 0, len(database), 0, 1) + b"\x01" + database.encode() + b"\0" + text


def xa_prepare_body(xid: Xid, *, one_phase: bool = False) -> bytes:
    """Return the body of an XA_prepare event."""
    head = struct.pack("<BiII", one_phase, xid.format_id, len(xid.gtrid), len(xid.bqual))
    return head + xid.gtrid + xid.bqual


def execute_load_query_body(text: bytes, database: str, file_id: int) -> bytes:
    """Return the body of an Execute_load_query event."""
    name = database.encode("utf-8", "surrogateescape")
    return struct.pack("<IIBHHIIIB", 7, 0, len(name), 0, 0, file_id, 0, 0, 0) + name + b"\0" + text


def table_map_body(number: int, database: str, table: str, columns: int = 2) -> bytes:
    """Return the body of a Table_map event with INT columns."""
    db, name = (n.encode("utf-8", "surrogateescape") for n in (database, table))
    return (
        number.to_bytes(6, "little")
        + b"\1\0"
        + bytes([len(db)])
        + db
        + b"\0"
        + bytes([len(name)])
        + name
        + b"\0"
        + packed_integer(columns)
        + b"\x03" * columns
        + b"\0"
        + b"\xff" * ((columns + 7) // 8)
    )


def rows_body(
    dialect: Dialect, kind: int, number: int, *, ends: bool, extra: bytes = b"", rows: bytes = b""
) -> bytes:
    """Return the body of a rows event of a table with 2 INT columns."""
    head = number.to_bytes(6, "little") + struct.pack("<H", ends)
    if dialect.lengths[kind - 1] == 10:
        head += struct.pack("<H", 2 + len(extra)) + extra
    update = kind in (T.UPDATE_ROWS_V1, T.UPDATE_ROWS, T.PARTIAL_UPDATE_ROWS, 167, 170)
    data = compress(rows) if 166 <= kind <= 171 else rows
    return head + b"\2" + b"\xff" * (1 + update) + data


def gtid_tagged_body(source: bytes, tag: str, number: int) -> bytes:
    """Return the body of a GTID_TAGGED event that holds the fields of its GTID alone."""
    fields = b"".join(
        [
            encode_varlen(0) + encode_varlen(1),
            encode_varlen(1) + b"".join(encode_varlen(octet) for octet in source),
            encode_varlen(2) + encode_varlen(number << 1),
            encode_varlen(3) + encode_varlen(len(tag)) + tag.encode(),
        ]
    )
    size = len(fields) + 3
    return b"".join([encode_varlen(1), encode_varlen(size), encode_varlen(0)]) + fields


_STATEMENTS = [
    "INSERT INTO t VALUES (1)",
    "UPDATE shop.orders SET a = 1",
    "CREATE TABLE shop.orders (i INT)",
    "DROP DATABASE logs",
    "create database if not exists `a_b`",
    "ALTER SCHEMA hr COLLATE utf8mb4_bin",
    "ALTER DATABASE CHARSET latin1",
    "DELETE FROM größe",
    "",
    "BEG",
    "BEGINNING",
    "COMMITTED",
    "/* BEGIN */ DO 1",
    "GRANT ALL ON *.* TO u",
]
_SAVEPOINTS = [
    "SAVEPOINT `a`",
    "savepoint b",
    "ROLLBACK TO `a`",
    "rollback to savepoint `a`",
    "RELEASE SAVEPOINT a",
]
XIDS = [Xid(1, b"a", b""), Xid(1, b"a", b"b"), Xid(7, b"\xff\x00", b"b")]

# Hypothesis validates each new strategy, which takes longer than a draw. So those that are the same in each file are
# made once.
_STEP = st.sampled_from((1, 1, 1, 2))
_UUID = st.sampled_from(UUIDS)
_CONTEXT = st.lists(st.sampled_from((T.INTVAR, T.RAND, T.USER_VAR)), max_size=2)
_UPDATED = st.lists(st.sampled_from(DATABASES), max_size=2)
_STATEMENT = st.sampled_from(_STATEMENTS)
_SAVEPOINT = st.sampled_from(_SAVEPOINTS)
_TABLE_IDS = st.lists(
    st.sampled_from((1, 2, 3, 300, 0x7FFFFFFF, (1 << 48) - 2)), min_size=1, max_size=3, unique=True
)
_EXTRA = st.sampled_from((b"", b"", b"\x01\x02\x03"))
_BEGIN = st.sampled_from((b"BEGIN", b"begin"))
_END = st.sampled_from((None, None, "COMMIT", "ROLLBACK"))
_MADE_STATEMENT = made_statements()


@functools.cache
def _names(odd: bool) -> st.SearchStrategy[str]:
    return st.sampled_from(DATABASES + ODD_NAMES if odd else DATABASES)


@functools.cache
def _tables(odd: bool) -> st.SearchStrategy[tuple[str, str]]:
    return st.tuples(_names(odd), st.sampled_from(TABLES + ODD_NAMES if odd else TABLES))


@functools.cache
def _sampled(*values: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from(values)


@dataclass
class _Source:
    """A generator of GTIDs, whose numbers rise in each GTID source, mostly by one."""

    draw: st.DrawFn
    builder: _Builder
    last: dict[object, int] = field(default_factory=dict)

    def _next(self, key: object) -> int:
        step = self.draw(_STEP)
        self.last[key] = self.last.get(key, 0) + step
        self.builder.gtids.append((key, self.last[key]))
        return self.last[key]

    def add(self, flags: int = 0, xid: bytes = b"") -> None:
        """Add the event that opens a transaction, if servers of this dialect write one."""
        gtids = self.builder.dialect.gtids
        if gtids == "mariadb":
            domain, server = self.draw(st.sampled_from(((0, 11), (0, 12), (1, 11))))
            # The numbers of a domain rise across all servers.
            number = self._next(domain)
            self.builder.gtids[-1] = ((domain, server), number)
            body = struct.pack("<QIB", number, domain, flags) + xid
            if self.builder.dialect.name == "mariadb 11.8":
                body += struct.pack("<BI", FL_EXTRA_THREAD_ID, 7)
                # MariaDB 11.8 pads the event before a large transaction to the end of a page.
                body += bytes(self.draw(st.sampled_from((1, 1, 300))))
            elif not xid:
                body += bytes(6)
            self.builder.add(T.MARIADB_GTID, body, server_id=server)
        elif gtids == "anonymous":
            self.builder.add(T.ANONYMOUS_GTID, b"\1" + bytes(24) + b"\2" + bytes(16))
        elif gtids != "none":
            source = self.draw(_UUID)
            if gtids == "tagged" and self.draw(st.booleans()):
                tag = self.draw(st.sampled_from(("blue", "g_1")))
                number = self._next((source, tag))
                self.builder.add(T.GTID_TAGGED, gtid_tagged_body(source, tag, number))
            else:
                number = self._next((source, ""))
                body = b"\1" + source + struct.pack("<q", number)
                self.builder.add(T.GTID, body + b"\2" + bytes(16))


def _mariadb_xid(xid: Xid) -> bytes:
    return struct.pack("<iBB", xid.format_id, len(xid.gtrid), len(xid.bqual)) + xid.gtrid + xid.bqual


class _Maker:
    """The parts of a binlog file. Each method draws and adds one of them."""

    def __init__(
        self, draw: st.DrawFn, dialect: Dialect, *, odd: bool, unreadable: bool, closed: bool
    ) -> None:
        self.draw = draw
        self.dialect = dialect
        self.odd = odd
        self.builder = _Builder(dialect, in_use=not closed)
        self.source = _Source(draw, self.builder)
        self.names = _names(odd)
        self.tables = _tables(odd)
        self.prepared: list[Xid] = []
        """XA transactions that are prepared and not ended."""
        pieces = [self.rows, self.rows, self.rows, self.rows, self.statement, self.statement]
        pieces += [self.load_data, self.savepoint]
        if odd:
            pieces.append(self.unknown)
        # Without a checksum an unreadable event is a damaged file, and not an event of an unknown form.
        self.unreadable = unreadable and dialect.checksum
        if self.unreadable:
            pieces.append(self.unreadable_statement)
        piece = st.sampled_from(pieces)
        self.few, self.fewer = st.lists(piece, max_size=4), st.lists(piece, max_size=3)

    def head(self) -> None:
        """Add the event that names the GTIDs of the files before."""
        if self.dialect.gtids == "mariadb":
            self.builder.add(T.GTID_LIST, encode_gtid_list(GtidList(())))
            self.builder.boundary()
        elif self.dialect.gtids != "none":
            self.builder.add(T.PREVIOUS_GTIDS, encode_previous_gtids(MysqlGtidSet()))
            self.builder.boundary()

    def query(
        self, text: str, database: str = "", updated: list[str] | None = None, table_map: int | None = None
    ) -> None:
        if self.dialect.family == "mariadb" and text and self.draw(st.integers(0, 5)) == 0:
            body = query_body(compress(text.encode()), database, None, table_map)
            self.builder.add(T.QUERY_COMPRESSED, body)
        else:
            self.builder.add(T.QUERY, query_body(text.encode(), database, updated, table_map))

    def context(self) -> None:
        for kind in self.draw(_CONTEXT):
            if kind == T.INTVAR:
                self.builder.add(kind, encode_intvar(Intvar(2, 5)))
            elif kind == T.RAND:
                self.builder.add(kind, bytes(16))
            else:
                self.builder.add(kind, encode_user_var(UserVar("v", b"x")))

    def statement(self) -> None:
        draw = self.draw
        self.context()
        updated = None
        if self.dialect.family == "mysql" and draw(st.booleans()):
            updated = draw(_UPDATED)
        if draw(st.booleans()):
            self.query(draw(_STATEMENT), draw(self.names), updated)
        else:
            made = draw(_MADE_STATEMENT)
            self.query(made.text, draw(self.names), updated, made.table_map)

    def load_data(self) -> None:
        self.builder.add(T.BEGIN_LOAD_QUERY, b"\7\0\0\0block")
        for _ in range(self.draw(st.integers(0, 2))):
            self.builder.add(T.APPEND_BLOCK, b"\7\0\0\0more")
        text = b"LOAD DATA INFILE 'x' INTO TABLE t"
        self.builder.add(T.EXECUTE_LOAD_QUERY, execute_load_query_body(text, self.draw(self.names), 7))

    def rows(self) -> None:
        if self.dialect.gtids != "none" and self.draw(st.booleans()):
            if self.dialect.family == "mariadb":
                self.builder.add(T.ANNOTATE_ROWS, b"UPDATE something")
            else:
                self.builder.add(T.ROWS_QUERY, b"\x10UPDATE something", flags=0x80)
        mapped = self.draw(_TABLE_IDS)
        for number in mapped:
            database, table = self.draw(self.tables)
            self.builder.add(T.TABLE_MAP, table_map_body(number, database, table))
        if self.odd and self.draw(st.integers(0, 9)) == 0:
            mapped.append(99)  # a number without a table map
        used = self.draw(st.lists(st.sampled_from(mapped), min_size=1, max_size=4))
        dummy = self.draw(st.integers(0, 7)) == 0
        for position, number in enumerate(used):
            kind = self.draw(_sampled(*self.dialect.rows_types))
            extra = self.draw(_EXTRA)
            data = self.draw(st.binary(max_size=12))
            ends = position == len(used) - 1 and not dummy
            self.builder.add(kind, rows_body(self.dialect, kind, number, ends=ends, extra=extra, rows=data))
            if self.odd and not ends and self.draw(st.integers(0, 7)) == 0:
                # No known server writes a table map after rows of the statement, but no rule of the format forbids it.
                late = self.draw(st.sampled_from((4, 5)))
                database, table = self.draw(self.tables)
                self.builder.add(T.TABLE_MAP, table_map_body(late, database, table))
        if dummy:
            kind = self.dialect.rows_types[0]
            number = 0xFFFFFF if self.draw(st.booleans()) else (1 << 48) - 1
            head = number.to_bytes(6, "little") + b"\1\0"
            self.builder.add(kind, head + (b"\2\0" if self.dialect.lengths[kind - 1] == 10 else b""))

    def savepoint(self) -> None:
        self.query(self.draw(_SAVEPOINT), self.draw(self.names))

    def unknown(self) -> None:
        # Types 36 and 37 are Transaction_context and View_change of group replication.
        self.builder.add(self.draw(st.sampled_from((28, 36, 37, 77, 200))), b"??", flags=0x80)

    def unreadable_statement(self) -> None:
        self.context()
        if self.dialect.family == "mariadb" and self.draw(st.booleans()):
            self.builder.add(T.QUERY_COMPRESSED, query_body(b"\x81\x09nonsense", self.draw(self.names)))
        else:
            text = self.draw(st.sampled_from((b"DROP TABLE t", b"XA COMMIT X'61',X'',1")))
            self.builder.add(T.QUERY, unreadable_query_body(text, self.draw(st.sampled_from(DATABASES))))

    def framed(self) -> None:
        self.source.add()
        self.framed_events()

    def framed_events(self) -> None:
        if self.dialect.family == "mysql":
            self.builder.add(T.QUERY, query_body(self.draw(_BEGIN), self.draw(self.names)))
        for piece in self.draw(self.few):
            piece()
        ends = self.draw(_END)
        if ends is None:
            self.builder.add(T.XID, bytes(8))
        else:
            self.builder.add(T.QUERY, query_body(ends.encode(), self.draw(self.names)))

    def alone(self) -> None:
        self.source.add(flags=1)
        kinds = [self.statement, *([self.load_data] if self.dialect.gtids == "none" else [])]
        self.draw(st.sampled_from(kinds + [self.unreadable_statement] * self.unreadable))()

    def bare_rows(self) -> None:
        # Servers before GTIDs write rows of non-transactional tables without BEGIN.
        self.rows()

    def xa(self) -> None:
        free = [xid for xid in XIDS if xid not in self.prepared]
        if not free:
            return
        xid = self.draw(st.sampled_from(free))
        if self.dialect.family == "mariadb":
            self.source.add(flags=0x40, xid=_mariadb_xid(xid))
            self.xa_events(xid)
        else:
            self.source.add()
            if self.dialect.name == "mysql 9.7" and self.draw(st.booleans()):
                self.builder.begin_payload()
                self.xa_events(xid)
                self.builder.end_payload(self.draw(st.sampled_from((ZSTD, NONE))))
            else:
                self.xa_events(xid)

    def xa_events(self, xid: Xid) -> None:
        if self.dialect.family == "mysql":
            self.builder.add(T.QUERY, query_body(f"XA START {xid}".encode()))
        for piece in self.draw(self.fewer):
            piece()
        self.query(f"XA END {xid}")
        one_phase = self.draw(st.integers(0, 3)) == 0
        self.builder.add(T.XA_PREPARE, xa_prepare_body(xid, one_phase=one_phase))
        if not one_phase:
            self.prepared.append(xid)

    def xa_finish(self) -> None:
        # The transaction may have been prepared in an earlier file.
        xid = self.draw(st.sampled_from(self.prepared or XIDS))
        if xid in self.prepared:
            self.prepared.remove(xid)
        self.source.add(flags=0x81, xid=_mariadb_xid(xid))
        self.query(f"XA {self.draw(st.sampled_from(('COMMIT', 'ROLLBACK')))} {xid}")

    def incident(self) -> None:
        if self.dialect.family == "mysql":
            self.source.add()
        self.builder.add(T.INCIDENT, b"\1\0\0")

    def payload(self) -> None:
        self.source.add()
        self.builder.begin_payload()
        self.framed_events()
        self.builder.end_payload(self.draw(st.sampled_from((ZSTD, NONE))))

    def odd_payload(self) -> None:
        self.source.add()
        how = self.draw(st.sampled_from(("two", "open", "cut", "nested", "empty", "type")))
        if how == "type":
            self.builder.add(T.TRANSACTION_PAYLOAD, b"\2\1\7\1\1\0\0")
            return
        self.builder.begin_payload()
        if how == "nested":
            outside = self.builder._outside
            self.builder.begin_payload()
            self.framed_events()
            self.builder.end_payload()
            self.builder._outside = outside
        elif how != "empty":
            self.framed_events()
        if how == "two":
            self.framed_events()
        elif how == "open":
            self.builder.add(T.QUERY, query_body(b"BEGIN"))
        elif how == "cut":
            del self.builder.data[-1:]
        self.builder.end_payload()

    def between(self) -> None:
        if self.dialect.family == "mariadb":
            self.builder.add(T.BINLOG_CHECKPOINT, b"\x04\0\0\0made")
        elif self.odd:
            self.unknown()

    def transactions(self, most: int) -> None:
        """Add up to ``most`` transactions, incidents and events between transactions."""
        kinds = [self.framed, self.framed, self.framed, self.framed, self.alone, self.incident, self.between]
        if self.dialect.gtids == "none":
            kinds.append(self.bare_rows)
        else:
            kinds += [self.xa, self.xa, self.xa_finish]
        if self.dialect.name == "mysql 9.7":
            kinds += [self.payload, self.payload]
            if self.unreadable:
                kinds.append(self.odd_payload)
        for kind in self.draw(st.lists(st.sampled_from(kinds), max_size=most)):
            kind()
            self.builder.boundary()

    def end(self) -> None:
        """Add the event that ends a closed file, or none as after a crash."""
        end = self.draw(st.sampled_from(("rotate", "stop", None)))
        if end == "rotate":
            self.builder.add(T.ROTATE, encode_rotate(Rotate("made.000002", 4)))
        elif end == "stop":
            self.builder.add(T.STOP, b"")
        if end:
            self.builder.boundary()


@st.composite
def binlogs(
    draw: st.DrawFn,
    dialects: list[Dialect] = DIALECTS,
    *,
    odd: bool = True,
    unreadable: bool = False,
    max_transactions: int = 5,
    closed: bool = True,
) -> MadeBinlog:
    """One binlog file.

    An ``odd`` file has unusual names, rows without a table map and events of unknown types. An ``unreadable`` one has
    statements and compressed transactions of an unknown form, in dialects with checksums. A file that is not ``closed``
    is in use by its server.
    """
    dialect = draw(st.sampled_from(dialects))
    maker = _Maker(draw, dialect, odd=odd, unreadable=unreadable, closed=closed)
    maker.head()
    maker.transactions(max_transactions)
    if closed:
        maker.end()
    builder = maker.builder
    return MadeBinlog(dialect, bytes(builder.data), sorted(set(builder.boundaries)), builder.gtids)


_DB_VALUES = [*DATABASES, "store"]
_TABLE_VALUES = [f"{db}.{table}" for db in DATABASES for table in TABLES] + ["store.orders"]
_WILD_VALUES = [
    "shop.%",
    "%.orders",
    "a_b.%",
    "a\\_b.%",
    "%.t_1",
    "%.t\\_1",
    "%.%",
    "logs.",
    "s%.%",
    "hr.a%",
    "%b.t%",
]


_KINDS = st.lists(st.sampled_from(list(RuleKind)), max_size=4)
_DB_VALUE, _TABLE_VALUE, _WILD_VALUE = map(st.sampled_from, (_DB_VALUES, _TABLE_VALUES, _WILD_VALUES))


@st.composite
def rules(draw: st.DrawFn) -> list[Rule]:
    """A few rules of all seven kinds, about the names that :func:`binlogs` uses."""
    made = []
    for kind in draw(_KINDS):
        if kind in (RuleKind.DO_DB, RuleKind.IGNORE_DB):
            value = draw(_DB_VALUE)
        elif kind in (RuleKind.DO_TABLE, RuleKind.IGNORE_TABLE):
            value = draw(_TABLE_VALUE)
        elif kind is RuleKind.REWRITE_DB:
            value = f"{draw(_DB_VALUE)}->{draw(_DB_VALUE)}"
        else:
            value = draw(_WILD_VALUE)
        made.append(make_rule(kind, value))
    return made


def with_checksum(event: bytes) -> bytes:
    """Return the event with a right checksum in its last 4 bytes."""
    return event[:-4] + zlib.crc32(event[:-4]).to_bytes(4, "little")
