"""The events that carry a statement: Query, MariaDB's QUERY_COMPRESSED, Execute_load_query.

In every function, ``body`` is an event without its common header and without its checksum. The decoders raise
BinlogCorrupt for a body that is too short or has an impossible value, and BinlogUnsupported for a post-header of an
unknown length. The decoders raise nothing else.

The extended format is that of WL#40, sections 1 and 2: a Query event that also names the statement's tables. Further
sources: ``libs/mysql/binlog/event/statement_events.{h,cpp}`` (``Query_event``), MariaDB's ``sql/log_event.cc``
(``Query_log_event``), recordings of both.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from dumpfilter.base.errors import BinlogCorrupt, BinlogUnsupported
from dumpfilter.binlog.charsets import CODECS, charset_name, valid_text
from dumpfilter.binlog.compression import uncompress
from dumpfilter.binlog.cursor import BytesLike, Cursor, decode_name, encode_name
from dumpfilter.binlog.events import EventType
from dumpfilter.binlog.format import FormatDescription
from dumpfilter.binlog.gtid_events import FL_COMMIT_ALTER_E1, FL_ROLLBACK_ALTER_E1, FL_START_ALTER_E1

QUERY_HEADER_LENGTH = 13
"""The length of a Query event's post-header, bytes (``QUERY_HEADER_LEN``)."""

EXTENDED_QUERY_HEADER_LENGTH = QUERY_HEADER_LENGTH + 4
"""The length of a Query event's post-header in WL#40's extended format, bytes. In this format the event also names the
statement's tables.

The format adds four bytes: the u16 length of the statement and the u16 length of the tables info (the list of the
tables' names).
"""

EXECUTE_LOAD_QUERY_EXTRA_LENGTH = 13
"""The bytes that an Execute_load_query event's post-header has after the fields of a Query event's post-header.

The server calls the number ``EXECUTE_LOAD_QUERY_EXTRA_HEADER_LEN``.
"""

MAX_DBS_IN_EVENT_MTS = 16
"""The most databases that a Query event can name in its status variable Q_UPDATED_DB_NAMES."""

_HEADER = struct.Struct("<IIBHH")
_EXTENSION = struct.Struct("<HH")
_U16_MAX = 0xFFFF
_LOAD_HEADER = struct.Struct("<IIIB")


class TableName(NamedTuple):
    """The name of a table as a statement gives it, with or without a database."""

    database: str | None
    """The database that stands before the dot in the statement, as in ``shop.orders``; None for a name without a
    database.
    """
    table: str


@dataclass(frozen=True)
class StatusVariables:
    """The settings of a statement's session (such as sql_mode), which a Query event carries as status variables.

    A variable that the event lacks is None. The comments on the fields give the variables' codes in the event. MySQL
    and MariaDB share the codes 0 to 11. The codes from 12 on are MySQL's, and the codes from 128 on are MariaDB's.
    """

    flags2: int | None = None  # The field flags2 holds the status variable with code 0.
    # The status variable with code 1 is sql_mode. Its bits above 31 have different meanings in MySQL and MariaDB.
    sql_mode: int | None = None
    catalog: str | None = None  # The status variable catalog has code 6, or 2 in MySQL 5.0.0 to 5.0.3.
    # The field auto_increment_increment holds the Query event's status variable with code 3.
    auto_increment_increment: int | None = None
    # The field auto_increment_offset holds the Query event's status variable with code 3.
    auto_increment_offset: int | None = None
    # The status variable with code 4 holds three collation ids: of the client, the connection and the server.
    charset_client: int | None = None
    # The field collation_connection holds the Query event's status variable with code 4.
    collation_connection: int | None = None
    collation_server: int | None = None  # The field collation_server holds the status variable with code 4.
    time_zone: str | None = None  # The field time_zone holds the status variable with code 5.
    # The status variable with code 7 is the number of the locale for the names of days and months.
    lc_time_names: int | None = None
    # The status variable with code 8 is the id of the default database's collation.
    charset_database: int | None = None
    # The status variable with code 9 is a bitmap. Bit n is set when the statement updates the table with number n in
    # the server's list of its tables.
    table_map_for_update: int | None = None
    # The status variable with code 10 is the size of the event on the master, bytes.
    master_data_written: int | None = None
    # The status variable with code 11 names the user and the host of the account that ran the statement.
    invoker: tuple[str, str] | None = None
    # The status variable with code 12 lists the databases that the statement updates. The field is also None for more
    # than 16 databases.
    updated_dbs: tuple[str, ...] | None = None
    # The status variable with code 13, or 128 (Q_HRNOW) in MariaDB, is the microseconds part of the statement's start
    # time.
    microseconds: int | None = None
    # The field explicit_defaults_for_timestamp holds the Query event's status variable with code 16.
    explicit_defaults_for_timestamp: int | None = None
    ddl_xid: int | None = None  # The status variable ddl_xid has code 17 in MySQL and 129 (Q_XID) in MariaDB.
    default_collation_for_utf8mb4: int | None = None  # The status variable with code 18 is a collation id.
    # The field sql_require_primary_key holds the Query event's status variable with code 19.
    sql_require_primary_key: int | None = None
    # The field default_table_encryption holds the Query event's status variable with code 20.
    default_table_encryption: int | None = None
    # MariaDB's status variable with code 130 (Q_GTID_FLAGS3) begins with a sum of the GTID event's extra flags such
    # as FL_START_ALTER_E1.
    gtid_flags_extra: int | None = None
    # MariaDB's status variable with code 130 ends with the seq_no of START ALTER for COMMIT ALTER and ROLLBACK ALTER
    # only.
    start_alter_seq_no: int | None = None
    character_set_collations: tuple[tuple[int, int], ...] | None = None
    """The default collations that the session has set for character sets, from MariaDB's Q_CHARACTER_SET_COLLATIONS
    (code 131).

    A pair stands for a character set: the id of any of its collations, and the id of its default collation.
    """


_NUMBERS = {
    0: (("flags2", 4),),
    1: (("sql_mode", 8),),
    3: (("auto_increment_increment", 2), ("auto_increment_offset", 2)),
    4: (("charset_client", 2), ("collation_connection", 2), ("collation_server", 2)),
    7: (("lc_time_names", 2),),
    8: (("charset_database", 2),),
    9: (("table_map_for_update", 8),),
    10: (("master_data_written", 4),),
    13: (("microseconds", 3),),
    16: (("explicit_defaults_for_timestamp", 1),),
    17: (("ddl_xid", 8),),
    18: (("default_collation_for_utf8mb4", 2),),
    19: (("sql_require_primary_key", 1),),
    20: (("default_table_encryption", 1),),
    128: (("microseconds", 3),),
    129: (("ddl_xid", 8),),
}
"""The fields of the status variables that are numbers, and their widths, bytes, by code."""


_TERMINATED_CATALOG = 2
"""The code of a catalog's name with a zero byte at its end (Q_CATALOG_CODE)."""
_NAMES = {_TERMINATED_CATALOG: "catalog", 5: "time_zone", 6: "catalog"}
"""The field of :class:`StatusVariables` for each status variable of a Query event whose value is one name, by the
variable's code.
"""


def _terminated_name(reader: Cursor) -> str:
    name, zero, _ = bytes(reader.body[reader.at :]).partition(b"\0")
    if not zero:
        raise BinlogCorrupt(f"{reader.what} event: a name does not end with a zero byte")
    reader.at += len(name) + 1
    return decode_name(name)


# The results are cached, because most statements of a session have the same status variables.
@functools.lru_cache(1024)
def decode_status_variables(data: bytes) -> StatusVariables:
    """Decode the status variables of a Query event (settings of its session). Raises BinlogCorrupt for malformed data.

    A variable is a code of one byte and a value. Only the code tells the value's length. So the decoding ends at an
    unknown code, as in the server. Most servers write the variables in the order of their codes.

    >>> decode_status_variables(bytes.fromhex("0c02610062006366")).updated_dbs
    ('a', 'b')
    """
    reader = Cursor(data, "Query")
    found: dict[str, Any] = {}
    while reader.left:
        code = reader.integer(1, "a field")
        if code in _NUMBERS:
            found.update((field, reader.integer(width, "a field")) for field, width in _NUMBERS[code])
        elif code in _NAMES:
            found[_NAMES[code]] = reader.name(1, "a name")
            if code == _TERMINATED_CATALOG:
                reader.integer(1, "a field")
        elif code == 11:  # The status variable with code 11 is the server's Q_INVOKER.
            found["invoker"] = (reader.name(1, "a name"), reader.name(1, "a name"))
        elif code == 12:  # The status variable with code 12 is the server's Q_UPDATED_DB_NAMES.
            count = reader.integer(1, "a field")
            # The server reads no names after a count over 16. The only such count that servers write is 254.
            if count <= MAX_DBS_IN_EVENT_MTS:
                found["updated_dbs"] = tuple(_terminated_name(reader) for _ in range(count))
        elif code == 130:  # The status variable with code 130 is the server's Q_GTID_FLAGS3.
            found["gtid_flags_extra"] = reader.integer(1, "a field")
            if found["gtid_flags_extra"] & (FL_COMMIT_ALTER_E1 | FL_ROLLBACK_ALTER_E1):
                found["start_alter_seq_no"] = reader.integer(8, "a field")
        elif code == 131:
            # MariaDB writes Q_CHARACTER_SET_COLLATIONS (131) before Q_CHARSET_CODE (4), not in the order of the codes.
            count = reader.integer(1, "a field")
            found["character_set_collations"] = tuple(
                (reader.integer(2, "a field"), reader.integer(2, "a field")) for _ in range(count)
            )
        else:
            break
    return StatusVariables(**found)


@dataclass(frozen=True)
class QueryEvent:
    """The content of a Query event: a statement, and the settings of the session that ran it."""

    thread_id: int
    """The session's id on the server that ran the statement (``slave_proxy_id``). Temporary tables belong to this
    session.
    """
    exec_time: int
    """The time that the statement took on the master, seconds."""
    error_code: int
    """The error with which the statement ended on the master; 0 for none. A slave must get the same error from the
    statement.
    """
    db: str
    """The default database, decoded from utf-8 with surrogateescape; ``""`` for none."""
    status: StatusVariables
    raw: bytes
    """The uncompressed statement in the client's character set."""
    text: str
    """The statement's decoded text. Bytes that Python cannot decode from the client's character set are kept by
    surrogateescape.
    """
    has_certain_tokens: bool
    """Whether ``text`` certainly has the tokens that the server reads.

    The tokens are uncertain if an invalid byte may hide a backslash, and for the character set swe7, in which ASCII
    symbols are letters.
    """
    tables_info: tuple[TableName, ...] | None
    """The tables that the event names in WL#40's extended format; None for an event in the servers' usual format.

    A table without a database is in the default database. The list is empty when the statement has no tables, and also
    when the writer of the event *did not know* the tables.
    """

    @property
    def is_committed_later(self) -> bool:
        """Whether the event is MariaDB's START ALTER or ROLLBACK ALTER, which change no data.

        An ALTER TABLE in two phases begins with START ALTER. The later COMMIT ALTER event carries the same statement
        again and makes the change.
        """
        return bool((self.status.gtid_flags_extra or 0) & (FL_START_ALTER_E1 | FL_ROLLBACK_ALTER_E1))

    @property
    def updated_dbs(self) -> tuple[str, ...] | None:
        """The databases that the statement updates, by the event's Q_UPDATED_DB_NAMES. None if the event lacks this
        variable, or if the statement updates more than 16 databases.
        """
        return self.status.updated_dbs


@dataclass(frozen=True)
class ExecuteLoadQueryEvent(QueryEvent):
    """The content of an Execute_load_query event: a LOAD DATA statement.

    Begin_load_query and Append_block events before the statement carry the content of its file.
    """

    file_id: int
    """The number of the statement's data file. The events that carry the file's content have the same number."""
    fn_pos_start: int
    """The offset of ``INFILE 'name' INTO`` in ``raw``, bytes. A slave replaces this part of the statement, with the
    name of its own file.
    """
    fn_pos_end: int
    """The offset of the end of ``INFILE 'name' INTO`` in ``raw``, bytes."""
    dup_handling: int
    """The treatment of duplicate rows: 0 error, 1 ignore, 2 replace (``enum_load_dup_handling``)."""


def decode_query(
    body: BytesLike, *, post_header_length: int = QUERY_HEADER_LENGTH, compressed: bool = False
) -> QueryEvent:
    """Decode the body of a Query (2) event or, with ``compressed``, of a QUERY_COMPRESSED (165) event.

    The post-header has u32 thread id, u32 exec_time, u8 length of the database, u16 error code and u16 length of the
    status variables. After the post-header come the status variables, the database with a NUL, and the statement.

    In the extended format of WL#40 (``post_header_length`` 17), the event also names the statement's tables (the tables
    info). There the post-header has two fields more: u16 length of the statement and u16 length of the tables info. The
    database has no NUL, and the tables info follows the statement (:func:`decode_tables_info`). The length of a
    statement over 65535 bytes is written as 65535, since WL#40 does not define it. Every statement ends where the
    tables info begins.

    Raises BinlogCorrupt for a malformed body, and BinlogUnsupported for any other ``post_header_length`` than 13 and
    17.
    """
    return _query(_split("Query", body, post_header_length), compressed=compressed)


def decode_execute_load_query(
    body: BytesLike,
    *,
    post_header_length: int = QUERY_HEADER_LENGTH + EXECUTE_LOAD_QUERY_EXTRA_LENGTH,
) -> ExecuteLoadQueryEvent:
    """Decode the body of an Execute_load_query (18) event, which holds a LOAD DATA statement.

    The layout is that of a Query event with four fields more at the end of the post-header. The fields are u32 file id,
    u32 start and u32 end of ``INFILE 'name' INTO`` in the statement, and u8 duplicate handling. Raises BinlogCorrupt
    for a malformed body, and BinlogUnsupported for any other ``post_header_length`` than 26.
    """
    extra = EXECUTE_LOAD_QUERY_EXTRA_LENGTH
    query = _query(_split("Execute_load_query", body, post_header_length - extra, extra))
    file_id, start, end, dup = _LOAD_HEADER.unpack_from(body, post_header_length - extra)
    if not start <= end <= len(query.raw) or dup > 2:
        raise BinlogCorrupt(
            f"Execute_load_query event: impossible place {start} to {end} of the file's name, "
            f"or unknown duplicate handling {dup}"
        )
    return ExecuteLoadQueryEvent(
        **vars(query), file_id=file_id, fn_pos_start=start, fn_pos_end=end, dup_handling=dup
    )


def decode_statement_event(kind: EventType, body: BytesLike, fd: FormatDescription) -> QueryEvent:
    """Decode the body of a Query, Query_compressed or Execute_load_query event.

    ``kind`` is the event's type, and ``fd`` is the format description event of its binlog file. Raises BinlogCorrupt
    for a malformed body, and BinlogUnsupported for an unknown length of the post-header.
    """
    if kind == EventType.EXECUTE_LOAD_QUERY:
        return decode_execute_load_query(body, post_header_length=fd.post_header_length(kind))
    # The post-header of a compressed Query event is as long as that of a plain Query event. MariaDB's format
    # description event gives the length only for the plain one.
    length = fd.post_header_length(EventType.QUERY)
    return decode_query(body, post_header_length=length, compressed=kind == EventType.QUERY_COMPRESSED)


def encode_query(
    body: BytesLike,
    *,
    post_header_length: int,
    to: int,
    tables: Iterable[TableName] = (),
) -> bytes:
    """Translate the body of a Query or QUERY_COMPRESSED event into the usual format or the extended format of WL#40,
    which adds a list of the statement's tables. A compressed statement stays compressed.

    ``post_header_length`` is the length of the post-header in ``body``. ``to`` is the length in the result: 13 for the
    usual format, 17 for the extended format. ``tables`` are the tables of the list. The list is empty when
    :func:`encode_tables_info` cannot express it. The usual format has no list, and ``tables`` are ignored. Raises
    BinlogCorrupt for a malformed body, and BinlogUnsupported for another length.
    """
    parts = _split("Query", body, post_header_length)
    head = bytes(parts.header)
    if to == QUERY_HEADER_LENGTH:
        return b"".join((head, parts.status, parts.db, b"\0", parts.statement))
    if to != EXTENDED_QUERY_HEADER_LENGTH:
        raise BinlogUnsupported(f"a Query event cannot have a post-header of {to} bytes")
    info = encode_tables_info(tables) or b""
    lengths = _EXTENSION.pack(min(len(parts.statement), _U16_MAX), len(info))
    return b"".join((head, lengths, parts.status, parts.db, parts.statement, info))


def decode_tables_info(data: BytesLike) -> tuple[TableName, ...]:
    r"""Decode a tables info, which is the list of table names in a Query event of the extended format (a proposal of
    WL#40).

    Each table has u8 length and name of its database, then u8 length and name of the table. A database of length 0
    stands for the default database. Raises BinlogCorrupt when the list ends inside a name.

    >>> decode_tables_info(b"\0\2t1\4shop\2t2")
    (TableName(database=None, table='t1'), TableName(database='shop', table='t2'))
    """
    reader = Cursor(data, "Query")
    found = []
    while reader.left:
        database = reader.name(1, "a name")
        found.append(TableName(database or None, reader.name(1, "a name")))
    return tuple(found)


def encode_tables_info(tables: Iterable[TableName]) -> bytes | None:
    r"""Encode a list of table names for a Query event of the extended format (a proposal of WL#40). Return None when
    the format cannot express the list.

    The list has at most 65535 bytes. A name has at most 255 bytes, which is more than any server allows. Part of a list
    is never written, because a reader would take the part for the whole.

    >>> encode_tables_info([TableName(None, "t1")])
    b'\x00\x02t1'
    """
    names = [encode_name(name) for table in tables for name in (table.database or "", table.table)]
    if any(len(name) > 255 for name in names):
        return None
    info = b"".join(bytes((len(name),)) + name for name in names)
    return info if len(info) <= _U16_MAX else None


class _Parts(NamedTuple):
    header: bytes
    status: bytes
    db: bytes
    statement: memoryview
    tables_info: memoryview | None


def _split(what: str, body: BytesLike, post_header_length: int, extra_length: int = 0) -> _Parts:
    extended = post_header_length == EXTENDED_QUERY_HEADER_LENGTH and not extra_length
    if post_header_length != QUERY_HEADER_LENGTH and not extended:
        raise BinlogUnsupported(
            f"{what} event: a post-header of {post_header_length + extra_length} bytes is not known"
        )
    view = memoryview(body)
    reader = Cursor(view, what)
    header = reader.take(QUERY_HEADER_LENGTH, "its header")
    _, _, db_length, _, status_length = _HEADER.unpack(header)
    extension = reader.take(_EXTENSION.size if extended else extra_length, "its header")
    status = reader.take(status_length, "its status variables")
    db = reader.take(db_length, "its default database")
    if not extended:
        if reader.integer(1, "a field"):
            raise BinlogCorrupt(f"{what} event: its default database does not end with a zero byte")
        return _Parts(header, status, db, view[reader.at :], None)
    query_length, info_length = _EXTENSION.unpack(extension)
    rest = view[reader.at :]
    length = len(rest) - info_length
    if length < 0 or query_length != min(length, _U16_MAX):
        raise BinlogCorrupt(
            f"{what} event: it has {len(rest)} bytes for a statement of {query_length} bytes "
            f"and tables info of {info_length} bytes"
        )
    return _Parts(header, status, db, rest[:length], rest[length:])


def _query(parts: _Parts, *, compressed: bool = False) -> QueryEvent:
    thread_id, exec_time, _, error_code, _ = _HEADER.unpack(parts.header)
    status = decode_status_variables(parts.status)
    raw = uncompress(parts.statement) if compressed else bytes(parts.statement)
    text, is_certain = decode_statement(raw, client_charset(status.charset_client))
    tables = None if parts.tables_info is None else decode_tables_info(parts.tables_info)
    return QueryEvent(
        thread_id, exec_time, error_code, decode_name(parts.db), status, raw, text, is_certain, tables
    )


_ASCII_IN_CHARACTERS = frozenset({"big5", "cp932", "gb18030", "gbk", "sjis"})
"""The character sets in which the last byte of a character can be a backslash or a backtick."""
_EUC_TILDE = b"\x8f\xa2\xb7"
"""A character of ujis and eucjpms that Python takes for the ASCII tilde, and the servers for a part of a name."""


def decode_statement(raw: bytes, charset: str | None) -> tuple[str, bool]:
    r"""Decode a statement to text. Return the text, and whether it certainly has the tokens that the server reads.

    ``charset`` is the name of the client's character set; None if unknown. Bytes that Python cannot decode are kept by
    surrogateescape. The tokens are uncertain if such a byte may hide a backslash, and for the character set swe7.

    >>> decode_statement(b"\xd6\xd0", "gbk")
    ('中', True)
    """
    if raw.isascii():
        return raw.decode("ascii"), charset != "swe7"
    if charset in ("ujis", "eucjpms"):
        raw = raw.replace(_EUC_TILDE, b"\xff")
    text = None if charset is None else valid_text(raw, charset)
    if text is not None:
        return text, True
    codec = CODECS.get(charset or "", "ascii")
    return raw.decode(codec, "surrogateescape"), charset not in _ASCII_IN_CHARACTERS


_OF_STATEMENTS = {"binary": "utf8mb4", **dict.fromkeys(("ascii", "ucs2", "utf16", "utf16le", "utf32"))}


@functools.cache
def client_charset(collation: int | None) -> str | None:
    """Return the name of the character set in which a client with this collation id sends statements.

    The result is utf8mb4 for ``binary``, because the server reads names in binary statements as UTF-8. The result is
    None for an unknown id, and for sets such as ucs2 that no client uses. The result is also None for ascii, because
    the server makes question marks of all bytes above 0x7F.

    >>> client_charset(8), client_charset(63), client_charset(35)
    ('latin1', 'utf8mb4', None)
    """
    name = charset_name(collation, "mysql") or charset_name(collation, "mariadb")
    return _OF_STATEMENTS.get(name, name) if name else None
