"""Tables info (WL#40): the worklog's example, byte for byte, and the conversion of sets into the format and back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dumpfilter.base.errors import BinlogCorrupt, BinlogError, BinlogUnsupported, OutputError
from dumpfilter.binlog.compression import decode_transaction_payload, encode_transaction_payload
from dumpfilter.binlog.events import (
    HEADER_LENGTH,
    LOG_EVENT_BINLOG_IN_USE_F,
    MAGIC,
    EventHeader,
    EventType,
)
from dumpfilter.binlog.format import FormatDescription
from dumpfilter.binlog.query import (
    QueryEvent,
    TableName,
    decode_query,
    decode_statement_event,
    decode_tables_info,
    encode_query,
)
from dumpfilter.binlog.reader import iter_events
from dumpfilter.binlog.writer import make_event
from dumpfilter.dump.set_pass import filter_set
from dumpfilter.dump.with_tables_info import (
    Converted,
    announce_tables_info,
    encode_query_event,
    has_tables_info,
    query_tables_info,
)
from dumpfilter.filter.filter import Filter
from dumpfilter.index.fileset import BinlogSet
from dumpfilter.index.scanner import SEGMENT_SIZE
from dumpfilter.index.subjects import Subjects
from tests.binlog.encoders import compress
from tests.index.plain_index import index_events
from tests.strategies import (
    DIALECTS,
    Dialect,
    _Builder,
    execute_load_query_body,
    query_body,
    with_checksum,
)
from tests.support import RECORDED_SETS, segments

T = EventType


def with_tables_info(source: BinlogSet, output_dir: Path, base: str) -> Converted:
    """Convert a whole set. Return how many Query events were converted."""
    counts = Converted()
    filter_set(source, Filter(), output_dir, base, tables_info=counts)
    return counts


MYSQL_55 = next(dialect for dialect in DIALECTS if dialect.name == "mysql 5.5")

# The event at 00000294 in section 2 of WL#40.
EXAMPLE = bytes.fromhex(
    """
    2F A1 00 4B
    02
    64 00 00 00
    75 00 00 00
    09 03 00 00
    10 00

    01 00 00 00
    C9 00 00 00
    04
    00 00
    1A 00
    2B 00
    08 00

    00
    00 40 00 00
    01
    00 00 00 00
    00 00 00 00
    06
    03
    73 74 64
    04
    08 00
    08 00
    08 00

    74 65 73 74
    52 45 4E 41
    4D 45 20 54
    41 42 4C 45
    20 74 31 20
    54 4F 20 74
    6D 70 2C 20
    74 32 20 54
    4F 20 74 31
    2C 20 74 6D
    70 20 54 4F
    20 74 32

    00
    02
    74 31
    00
    02
    74 32
    """
)
T1_T2 = (TableName(None, "t1"), TableName(None, "t2"))


def test_the_example_is_read() -> None:
    header = EventHeader.unpack(EXAMPLE)
    assert (len(EXAMPLE), header.size, header.timestamp, header.end_log_pos) == (117, 117, 1258332463, 0x309)
    event = decode_query(EXAMPLE[19:], post_header_length=17)
    assert event.text == "RENAME TABLE t1 TO tmp, t2 TO t1, tmp TO t2"
    assert (event.thread_id, event.exec_time, event.error_code, event.db) == (1, 201, 0, "test")
    assert (event.status.flags2, event.status.sql_mode, event.status.catalog) == (0x4000, 0, "std")
    assert event.status.charset_client == event.status.collation_server == 8
    assert event.tables_info == T1_T2


def test_the_example_is_written() -> None:
    """The encoder makes the worklog's event from the usual event, with the tables that section 4.2 gives."""
    usual = FormatDescription.parse(MYSQL_55.format_description())
    extended = announce_tables_info(usual, True)
    plain = encode_query_event(EXAMPLE, extended, usual)
    assert len(plain) == 117 - 8 - 4 + 1
    query = decode_query(plain[19:])
    assert query.tables_info is None
    tables = query_tables_info(query, usual)
    assert tables == T1_T2
    assert encode_query_event(plain, usual, extended, tables) == EXAMPLE
    assert encode_query_event(EXAMPLE, extended, extended, T1_T2) == EXAMPLE


@pytest.mark.parametrize("at", [13, 14, 15, 16])
@pytest.mark.parametrize("change", [1, 255])
def test_lengths_that_contradict_the_event(at: int, change: int) -> None:
    body = bytearray(EXAMPLE[19:])
    body[at] = body[at] + change & 0xFF
    with pytest.raises(BinlogCorrupt):
        decode_query(body, post_header_length=17)


def test_an_event_cut_anywhere_is_corrupt() -> None:
    for length in range(len(EXAMPLE) - 19):
        with pytest.raises(BinlogCorrupt):
            decode_query(EXAMPLE[19 : 19 + length], post_header_length=17)


@pytest.mark.parametrize("info", [b"\0", b"\0\2t", b"\4sho", b"\4shop", b"\0\2t1\0"])
def test_a_tables_info_cut_inside_a_name_is_corrupt(info: bytes) -> None:
    with pytest.raises(BinlogCorrupt):
        decode_tables_info(info)


_names = st.binary(min_size=1, max_size=255).map(lambda raw: raw.decode("utf-8", "surrogateescape"))
_tables = st.lists(st.builds(TableName, st.none() | _names, _names), max_size=5).map(tuple)


@given(
    head=st.binary(min_size=8, max_size=8),
    status=st.binary(max_size=40),
    db=st.binary(max_size=255),
    text=st.binary(max_size=80),
    tables=_tables,
)
def test_any_body_there_and_back(
    head: bytes, status: bytes, db: bytes, text: bytes, tables: tuple[TableName, ...]
) -> None:
    """Encoding with tables info and back restores the bytes, even with unknown status variables."""
    header = head + bytes([len(db)]) + b"\x10\x04" + len(status).to_bytes(2, "little")
    usual = header + status + db + b"\0" + text
    extended = encode_query(usual, post_header_length=13, to=17, tables=tables)
    assert extended[:13] == usual[:13]
    assert int.from_bytes(extended[13:15], "little") == len(text)
    assert extended[17:].startswith(status + db + text)
    assert decode_tables_info(extended[17 + len(status + db + text) :]) == tables
    assert encode_query(extended, post_header_length=17, to=13) == usual
    assert encode_query(usual, post_header_length=13, to=13) == usual


@pytest.mark.parametrize("length", [0, 65534, 65535, 65536, 200_000])
def test_statements_longer_than_their_length_can_say(length: int) -> None:
    usual = query_body(b"x" * length, "db")
    extended = encode_query(usual, post_header_length=13, to=17, tables=T1_T2)
    assert int.from_bytes(extended[13:15], "little") == min(length, 65535)
    event = decode_query(extended, post_header_length=17)
    assert (event.raw, event.tables_info) == (b"x" * length, T1_T2)
    assert encode_query(extended, post_header_length=17, to=13) == usual


@pytest.mark.parametrize(
    "tables",
    [
        [TableName(None, "t"), TableName(None, "x" * 256)],
        [TableName("ü" * 128, "t")],
        [TableName(None, f"t{n:05}") for n in range(9000)],
    ],
)
def test_what_does_not_fit_is_not_said_in_part(tables: list[TableName]) -> None:
    extended = encode_query(query_body(b"DROP TABLE t", "db"), post_header_length=13, to=17, tables=tables)
    assert decode_query(extended, post_header_length=17).tables_info == ()


@pytest.mark.parametrize("post_header_length", [11, 15, 26])
def test_other_lengths_are_not_supported(post_header_length: int) -> None:
    with pytest.raises(BinlogUnsupported):
        encode_query(query_body(b"DO 1"), post_header_length=post_header_length, to=13)
    with pytest.raises(BinlogUnsupported):
        encode_query(query_body(b"DO 1"), post_header_length=13, to=post_header_length)


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda d: f"{d.name}-{d.gtids}-{d.checksum}")
def test_format_description_events(dialect: Dialect) -> None:
    usual = FormatDescription.parse(dialect.format_description())
    extended = announce_tables_info(usual, True)
    assert (has_tables_info(usual), has_tables_info(extended)) == (False, True)
    assert FormatDescription.parse(extended.raw) == extended  # FormatDescription.parse verifies the checksum.
    assert extended.post_header_length(T.QUERY) == 17
    assert extended.post_header_length(T.EXECUTE_LOAD_QUERY) == 26
    compressed = {"mariadb": 17, "mysql": 0}[dialect.family]
    assert extended.post_header_length(T.QUERY_COMPRESSED) == compressed
    assert announce_tables_info(extended, False) == usual


def plain(data: bytes) -> Iterator[tuple[object, ...]]:
    """Yield the events of a file without positions, checksums and tables info. Open compressed transactions."""
    for event in iter_events(BytesIO(data), file="made"):
        header = event.header._replace(end_log_pos=0, size=0)
        if event.type == T.TRANSACTION_PAYLOAD:
            fd = replace(event.fd, checksum=False)
            inner = whole_events(decode_transaction_payload(event.body).open())
            yield header, b"".join(_usual(one, fd) for one in inner)
        elif event.type == T.FORMAT_DESCRIPTION:
            yield (announce_tables_info(event.fd, False).raw,)
        elif event.type == T.ROTATE:
            # The writer adds this Rotate event, which names the writer's own next file.
            yield event.header.timestamp, bytes(event.body[:8])
        else:
            yield header, bytes(event.fd.body(_usual(event.raw, event.fd)))


def _usual(event: bytes, fd: FormatDescription) -> bytes:
    """Return an event without tables info."""
    is_extended = has_tables_info(fd) and event[4] in (T.QUERY, T.QUERY_COMPRESSED)
    return encode_query_event(event, fd, announce_tables_info(fd, False)) if is_extended else bytes(event)


def whole_events(data: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        size = EventHeader.unpack(data, at).size
        yield data[at : at + size]
        at += size


def queries(data: bytes, unpacked: bool = True) -> Iterator[QueryEvent]:
    """Yield the Query events of a file, also from compressed transactions."""
    for event in iter_events(BytesIO(data), file="made"):
        if event.type in (T.QUERY, T.QUERY_COMPRESSED):
            yield decode_statement_event(T(event.type), event.body, event.fd)
        elif event.type == T.TRANSACTION_PAYLOAD and unpacked:
            for inner in whole_events(decode_transaction_payload(event.body).open()):
                if inner[4] == T.QUERY:
                    yield decode_statement_event(T.QUERY, inner[HEADER_LENGTH:], event.fd)


def same_scan(usual: bytes, extended: bytes) -> None:
    """Check that scan and plain index each find equal types, roles and subjects in both files."""
    scans, twins = [], []
    for data in (usual, extended):
        subjects = Subjects()
        columns: list[list[int]] = [[], [], []]
        for _, segment in segments(data, SEGMENT_SIZE, subjects=subjects):
            for column, found in zip(columns, (segment.type, segment.role, segment.subject), strict=True):
                column += found.tolist()
        # Within one segment, subjects have numbers in the order of their first events.
        scans.append((columns, list(subjects.since(0))))
        twin = index_events(iter_events(BytesIO(data), file="made"))
        twins.append((twin.type, twin.role, twin.subject))
    assert scans[0] == scans[1]
    assert twins[0] == twins[1]


def made_file(dialect: Dialect, events: Iterable[tuple[int, bytes]]) -> bytes:
    builder = _Builder(dialect)
    for kind, body in events:
        builder.add(kind, body)
    return bytes(builder.data)


def converted(data: bytes, directory: Path) -> list[tuple[str, str, tuple[TableName, ...] | None]]:
    """Convert a file and return text, default database and tables info of each Query event."""
    (directory / "made.000001").write_bytes(data)
    with_tables_info(BinlogSet.open(directory / "made.000001"), directory / "out", "x")
    told = queries((directory / "out" / "x.000001").read_bytes())
    return [(q.text, q.db, q.tables_info) for q in told]


def query(text: str, database: str = "") -> tuple[int, bytes]:
    return T.QUERY, query_body(text.encode(), database)


XID = T.XID, bytes(8)
DST = (TableName("d", "t"),)
HERE = (TableName(None, "t"),)


@pytest.mark.parametrize("end", ["COMMIT", "rollback"])
def test_the_frame_of_create_select_in_row_format(end: str, tmp_path: Path) -> None:
    """BEGIN and COMMIT around CREATE … SELECT name the new table, each relative to its own default database."""
    frame = [query("BEGIN"), query("INSERT INTO u VALUES (1)", "d"), query("COMMIT", "d")]
    create = [query("BEGIN", "e"), query("CREATE TABLE t (i INT)", "d"), query("DO 1"), query(end, "d")]
    told = converted(made_file(MYSQL_55, [*frame, *create, *frame, query("BEGIN", "d"), XID]), tmp_path)
    plain_frame = [("BEGIN", "", ()), ("INSERT INTO u VALUES (1)", "d", (TableName(None, "u"),))]
    plain_frame.append(("COMMIT", "d", ()))
    assert told == [
        *plain_frame,
        ("BEGIN", "e", DST),
        ("CREATE TABLE t (i INT)", "d", HERE),
        ("DO 1", "", ()),
        (end, "d", HERE),
        *plain_frame,
        ("BEGIN", "d", ()),
    ]


@pytest.mark.parametrize(
    "create",
    [
        # CREATE TEMPORARY TABLE does not commit, and may be part of a larger transaction.
        "CREATE TEMPORARY TABLE t (i INT)",
        # Row format has no SELECT in this statement, so the server wrote statement format.
        "CREATE TABLE t SELECT 1 AS i",
    ],
)
def test_other_creates_leave_the_frame_alone(create: str, tmp_path: Path) -> None:
    told = converted(made_file(MYSQL_55, [query("BEGIN"), query(create, "d"), query("COMMIT")]), tmp_path)
    assert told == [("BEGIN", "", ()), (create, "d", HERE), ("COMMIT", "", ())]


def test_a_begin_that_the_create_does_not_follow_at_once(tmp_path: Path) -> None:
    rand = T.RAND, bytes(16)
    events = [query("BEGIN"), rand, query("CREATE TABLE t (i INT)", "d"), query("COMMIT")]
    assert [q[2] for q in converted(made_file(MYSQL_55, events), tmp_path)] == [(), HERE, DST]


def test_mariadb_opens_transactions_with_the_gtid(tmp_path: Path) -> None:
    dialect = next(d for d in DIALECTS if d.gtids == "mariadb" and d.checksum)

    def gtid(number: int, standalone: bool) -> tuple[int, bytes]:
        return T.MARIADB_GTID, number.to_bytes(8, "little") + bytes(4) + bytes([standalone]) + bytes(6)

    insert = T.QUERY_COMPRESSED, query_body(compress(b"INSERT INTO a SELECT * FROM d.b"), "d")
    data = made_file(
        dialect,
        [
            *(gtid(1, False), query("CREATE TABLE t (i INT)", "d"), query("COMMIT")),
            *(gtid(2, True), query("CREATE TABLE t (i INT)", "d")),
            *(gtid(3, False), insert, query("COMMIT")),
            *(gtid(4, False), query("CREATE TABLE t (i INT)", "d"), XID),
            *(gtid(5, False), insert, query("COMMIT", "d")),
        ],
    )
    a_b = (TableName(None, "a"), TableName(None, "b"))
    assert [q[2] for q in converted(data, tmp_path)] == [HERE, DST, HERE, a_b, (), HERE, a_b, ()]


def test_compressed_transactions_are_converted_inside(tmp_path: Path) -> None:
    dialect = DIALECTS[0]
    texts = [("BEGIN", "e"), ("CREATE TABLE t (i INT) START TRANSACTION", "d"), ("COMMIT", "d")]
    inner = [make_event(T.QUERY, query_body(t.encode(), db), checksum=False) for t, db in texts]
    gtid = T.GTID, b"\1" + bytes(16) + (1).to_bytes(8, "little") + b"\2" + bytes(16)
    data = made_file(
        dialect,
        [gtid, (T.TRANSACTION_PAYLOAD, encode_transaction_payload(b"".join(inner)))],
    )
    assert converted(data, tmp_path) == [(*texts[0], DST), (*texts[1], HERE), (*texts[2], HERE)]
    assert list(queries((tmp_path / "out" / "x.000001").read_bytes(), unpacked=False)) == []


def test_nothing_inside_a_compressed_transaction_is_lost(tmp_path: Path) -> None:
    """A compressed transaction keeps a BEGIN that is its only event."""
    begin = make_event(T.QUERY, query_body(b"BEGIN"), checksum=False)
    gtid = T.GTID, b"\1" + bytes(16) + (1).to_bytes(8, "little") + b"\2" + bytes(16)
    data = made_file(DIALECTS[0], [gtid, (T.TRANSACTION_PAYLOAD, encode_transaction_payload(begin))])
    assert converted(data, tmp_path) == [("BEGIN", "", ())]


def test_a_create_in_another_segment_than_its_begin(tmp_path: Path) -> None:
    """The converter holds BEGIN until a CREATE larger than a segment is read. At the end of a file it writes BEGIN."""
    create = query("CREATE TABLE t (i INT) COMMENT '" + "x" * SEGMENT_SIZE + "'", "d")
    data = made_file(MYSQL_55, [query("BEGIN"), create, query("COMMIT", "d")])
    assert [q[2] for q in converted(data, tmp_path)] == [DST, HERE, HERE]
    first_event = 4 + EventHeader.unpack(data, 4).size
    in_use = bytearray(data[: first_event + SEGMENT_SIZE])
    in_use[4 + 17] |= LOG_EVENT_BINLOG_IN_USE_F
    (tmp_path / "in_use").mkdir()
    assert converted(bytes(in_use), tmp_path / "in_use") == [("BEGIN", "", ())]


def test_the_scan_sees_lengths_that_contradict_the_event() -> None:
    """The scan checks the lengths even of a BEGIN, whose event it does not decode otherwise."""
    fd = announce_tables_info(FormatDescription.parse(MYSQL_55.format_description()), True)
    for change in (b"\6\0\0\0", b"\5\0\1\0", b"\5\0\xff\xff"):
        begin = bytearray(encode_query(query_body(b"BEGIN", "d"), post_header_length=13, to=17))
        begin[13:17] = change
        data = MAGIC + fd.raw + make_event(T.QUERY, begin, checksum=False)
        with pytest.raises(BinlogCorrupt):
            list(segments(data, 4096))
        with pytest.raises(BinlogCorrupt):
            index_events(iter_events(BytesIO(data), file="made"))


def test_the_shortest_load_data_is_scanned_alike(tmp_path: Path) -> None:
    data = made_file(MYSQL_55, [(T.EXECUTE_LOAD_QUERY, execute_load_query_body(b"", "", 1))])
    assert converted(data, tmp_path) == []
    same_scan(data, (tmp_path / "out" / "x.000001").read_bytes())


def test_a_compressed_transaction_cut_inside_is_corrupt(tmp_path: Path) -> None:
    whole = make_event(T.QUERY, query_body(b"BEGIN"), checksum=False)
    gtid = T.GTID, b"\1" + bytes(16) + (1).to_bytes(8, "little") + b"\2" + bytes(16)
    for cut in (whole[:-1], whole + whole[:10]):
        data = made_file(DIALECTS[0], [gtid, (T.TRANSACTION_PAYLOAD, encode_transaction_payload(cut))])
        (tmp_path / "made.000001").write_bytes(data)
        with pytest.raises(BinlogCorrupt) as raised:
            with_tables_info(BinlogSet.open(tmp_path / "made.000001"), tmp_path / "out", "x")
        payload = [e for e in iter_events(BytesIO(data), file="made") if e.type == T.TRANSACTION_PAYLOAD]
        assert (raised.value.file, raised.value.position) == ("made.000001", payload[0].offset)
        assert not (tmp_path / "out").exists()


def test_names_in_an_unknown_character_set_are_not_told() -> None:
    fd = FormatDescription.parse(MYSQL_55.format_description())
    body = query_body(b"DROP TABLE \xe9", "d")
    assert query_tables_info(decode_query(body), fd) is None
    assert query_tables_info(decode_query(query_body(b"DROP TABLE e", "d")), fd) == (TableName(None, "e"),)


def test_what_is_not_told_is_counted(tmp_path: Path) -> None:
    """The counter ``untold`` has statements with unknown tables, and with more tables than an event can name."""
    many = "DROP TABLE " + ",".join(f"t{n:x}" for n in range(11_000))
    data = made_file(MYSQL_55, [query("DROP TRIGGER r", "d"), query(many, "d"), query("DROP TABLE t", "d")])
    assert [q[2] for q in converted(data, tmp_path)] == [(), (), HERE]
    source = BinlogSet.open(tmp_path / "made.000001")
    assert with_tables_info(source, tmp_path / "again", "x") == Converted(queries=3, untold=2)


def test_what_is_converted_stays_as_it_is(tmp_path: Path) -> None:
    (folder,) = (path for path in RECORDED_SETS if path.name == "mysql-mixed")
    with_tables_info(BinlogSet.open(folder), tmp_path / "once", "x")
    counts = with_tables_info(BinlogSet.open(tmp_path / "once"), tmp_path / "twice", "x")
    assert counts == Converted(0, 0)
    for path in (tmp_path / "once").iterdir():
        assert (tmp_path / "twice" / path.name).read_bytes() == path.read_bytes()


def test_errors_name_the_event_and_leave_nothing(tmp_path: Path) -> None:
    lie = b"\0" * 11 + b"\xff\xff" + b"\0" * 9
    data = made_file(MYSQL_55, [query("DO 1"), (T.QUERY, lie)])
    (tmp_path / "made.000001").write_bytes(data)
    source = BinlogSet.open(tmp_path / "made.000001")
    with pytest.raises(BinlogCorrupt) as raised:
        with_tables_info(source, tmp_path / "out", "x")
    assert raised.value.file == "made.000001"
    assert not (tmp_path / "out").exists()
    # The scan does not notice a status variable that ends too early. The statement's decoder does.
    (tmp_path / "made.000001").write_bytes(made_file(MYSQL_55, [query("DO 1"), (T.QUERY, _bad_status())]))
    with pytest.raises(BinlogError) as raised:
        with_tables_info(source, tmp_path / "out", "x")
    assert raised.value.position is not None
    assert raised.value.position > 100
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "x.index").write_text("")
    with pytest.raises(OutputError):
        with_tables_info(source, tmp_path / "out", "x")


def _bad_status() -> bytes:
    return bytes(8) + b"\0" + bytes(2) + b"\2\0" + b"\0\0" + b"\0" + b"DO 1"


@pytest.mark.parametrize("second", ["format description", "statement"])
def test_a_relay_log(second: str, tmp_path: Path) -> None:
    head = replace(DIALECTS[0], gtids="none").format_description()
    rotate = make_event(T.ROTATE, bytes(8) + b"bin.000007")
    after = head if second == "format description" else make_event(T.QUERY, query_body(b"DROP TABLE t", "d"))
    (tmp_path / "r.000001").write_bytes(MAGIC + head + rotate + after)
    with pytest.raises(BinlogUnsupported, match="a relay log"):
        with_tables_info(BinlogSet.open(tmp_path / "r.000001"), tmp_path / "out", "x")


def test_an_event_alone_has_the_right_checksum() -> None:
    fd = FormatDescription.parse(DIALECTS[0].format_description())
    event = make_event(T.QUERY, query_body(b"DO 1"))
    extended = encode_query_event(event, fd, announce_tables_info(fd, True))
    assert with_checksum(extended) == extended
