"""The text: the same events as the servers' programs list, values as they were, and the same data once it is run."""

from __future__ import annotations

import base64
import itertools
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dumpfilter.binlog.context_events import (
    DECIMAL_RESULT,
    INT_RESULT,
    REAL_RESULT,
    LoadBlock,
    UserVar,
)
from dumpfilter.binlog.events import ROWS, EventHeader, EventType
from dumpfilter.binlog.format import NameRules
from dumpfilter.binlog.reader import Event, iter_events
from dumpfilter.binlog.row_image import decimal_binary_size
from dumpfilter.binlog.rows import TableMap, encode_table_map
from dumpfilter.binlog.writer import make_event
from dumpfilter.dump.event_stream import kept_events
from dumpfilter.errors import BinlogCorrupt, OutputError
from dumpfilter.filter import Filter
from dumpfilter.filter.base import ReplicationFilter
from dumpfilter.filter.clever import CleverFilter
from dumpfilter.index.fileset import BinlogSet
from dumpfilter.printing import LoadFiles, TextPrinter
from dumpfilter.printing.literals import decimal_text, user_variable
from dumpfilter.workload.generate import generate
from tests.binlog_tools import MYSQLBINLOG
from tests.mariadb import MariaDb, mariadb_version
from tests.oracle.recordings import Recording, all_recordings
from tests.support import binlogs_in

_POSITIONS = re.compile(rb"^#\d.*end_log_pos (\d+)", re.MULTILINE)
_BINLOG = re.compile(rb"^BINLOG '\n(.*?)'/\*!\*/;$", re.MULTILINE | re.DOTALL)


def printed(
    files: list[Path],
    loads: Path,
    rules: ReplicationFilter | None = None,
    *,
    clever: bool = False,
    skip_gtids: bool = True,
) -> tuple[bytes, list[str]]:
    """The text of what passes, and the warnings."""
    rules = Filter() if rules is None else rules
    out: list[bytes] = []
    warnings: list[str] = []
    printer = TextPrinter(
        out.append,
        load_files=LoadFiles(loads),
        rewrite_db=rules.rewrite_db,
        skip_gtids=skip_gtids,
        warn=warnings.append,
    )
    follow = CleverFilter(rules, warn=warnings.append) if clever else None
    for number, kept in enumerate(kept_events(BinlogSet.open(files), rules, clever=follow)):
        if not number:
            printer.begin(kept.fd)
        printer.event(kept.event, kept.offset, kept.fd, file=kept.file)
    printer.end()
    return b"".join(out), warnings


def recording(name: str) -> Recording:
    (found,) = [one for one in all_recordings() if one.name == name]
    return found


def positions(text: bytes) -> list[bytes]:
    """Where the events listed end. Those in a compressed transaction have no place: 0 here, and in MySQL's program
    the transaction's."""
    return [place for place, _ in itertools.groupby(p for p in _POSITIONS.findall(text) if p != b"0")]


READABLE = [one for one in all_recordings() if one.family == "mariadb" or one.rows_v1 or MYSQLBINLOG]


@pytest.mark.parametrize("one", READABLE, ids=lambda one: one.name)
def test_lists_the_events_that_the_servers_program_lists(one: Recording, tmp_path: Path) -> None:
    text, warnings = printed(one.files, tmp_path)
    by_mariadb = one.family == "mariadb" or one.rows_v1
    command = ["mariadb-binlog", "--no-defaults"] if by_mariadb else [*MYSQLBINLOG, "-vv"]
    theirs = subprocess.run([*command, *map(str, one.files)], capture_output=True, check=True).stdout
    assert positions(text) == positions(theirs)
    assert warnings == []


@pytest.mark.parametrize("name", ["mysql-row", "mariadb-row"])
def test_binlog_statements_hold_the_very_events(name: str, tmp_path: Path) -> None:
    files = recording(name).files
    text, _ = printed(files, tmp_path)
    held: list[bytes] = []
    for statement in _BINLOG.findall(text):
        events = decoded(statement)
        while events:
            size = EventHeader.unpack(events).size
            held.append(events[:size])
            events = events[size:]
    wanted = ROWS | {EventType.TABLE_MAP, EventType.FORMAT_DESCRIPTION}
    assert held == [event.raw for event in _events(files) if event.type in wanted]


def decoded(statement: bytes) -> bytes:
    """The events in a BINLOG statement; each of them was encoded for itself."""
    return b"".join(base64.b64decode(line) for line in statement.splitlines())


def _events(files: list[Path]) -> Iterator[Event]:
    for path in files:
        with path.open("rb") as source:
            yield from iter_events(source, file=path.name)


def test_a_compressed_transaction_is_opened(tmp_path: Path) -> None:
    text, warnings = printed(recording("mysql-mixed").files, tmp_path)
    payloads = text.count(b"\tTransaction_payload\t")
    assert payloads > 5
    # each holds at least BEGIN and its COMMIT
    assert text.count(b"\tXid\t") >= payloads
    assert text.count(b"\nBEGIN\n") >= payloads
    assert warnings == []


def test_a_rewritten_database_is_printed(tmp_path: Path) -> None:
    rules = Filter.from_options(["--replicate-rewrite-db=shop->store"], names=NameRules("mysql"))
    text, _ = printed(recording("mysql-row").files, tmp_path, rules)
    assert b"use `store`/*!*/;" in text
    assert b"use `shop`/*!*/;" not in text
    # a table map is the first event of its statement
    names = [event[28:] for statement in _BINLOG.findall(text) if (event := decoded(statement))[4] == 19]
    assert any(name.startswith(b"\5store\0") or b"store\0" in name for name in names)
    assert not any(b"\4shop\0" in name for name in names)


def test_a_statement_that_holds_the_delimiter_gets_another(tmp_path: Path) -> None:
    one = recording("mariadb-statement")
    description = next(_events(one.files))
    query = next(event for event in _events(one.files) if b"INSERT" in event.raw)
    header = query.header
    body = bytes(query.body) + b" /* x /*!*/; y /*!0*/; */"
    out: list[bytes] = []
    printer = TextPrinter(out.append, load_files=LoadFiles(tmp_path))
    printer.event(description.raw, 4, description.fd, file="f")
    event = make_event(header.type, body, timestamp=header.timestamp, checksum=True)
    printer.event(event, 99, description.fd, file="f")
    text = b"".join(out)
    assert text.endswith(b"y /*!0*/; */\n/*!1*/;\nDELIMITER /*!*/;\n")
    assert b"\nDELIMITER /*!1*/;\n" in text


def test_what_cannot_be_printed_is_a_comment_and_a_warning(tmp_path: Path) -> None:
    description = next(_events(recording("mysql-row").files))
    out: list[bytes] = []
    warnings: list[str] = []
    printer = TextPrinter(out.append, load_files=LoadFiles(tmp_path), warn=warnings.append)
    printer.event(description.raw, 4, description.fd, file="bin.000001")
    out.clear()
    printer.event(make_event(99, b"what", checksum=True), 127, description.fd, file="bin.000001")
    printer.event(make_event(EventType.INCIDENT, b"\1\0\4gone"), 200, description.fd, file="bin.000001")
    text = b"".join(out)
    assert b"\tUnknown(99)\t" in text
    # an incident stops the client
    assert b"\nRELOAD DATABASE" in text
    assert [line for line in text.splitlines() if not line.startswith(b"#")] == [
        b"RELOAD DATABASE; # Shall generate syntax error",
        b"/*!*/;",
    ]
    assert [warning.partition(": ")[2][:8] for warning in warnings] == ["at 127: ", "at 200: "]
    assert "gone" in warnings[1]


def test_a_name_cannot_end_a_comment(tmp_path: Path) -> None:
    description = next(_events(recording("mysql-row").files))
    table = TableMap(7, 1, "d", "x\nDROP DATABASE d;\n", bytes([3]), b"", b"\0")
    out: list[bytes] = []
    printer = TextPrinter(out.append, load_files=LoadFiles(tmp_path))
    printer.event(description.raw, 4, description.fd, file="f")
    printer.event(make_event(EventType.TABLE_MAP, encode_table_map(table)), 127, description.fd, file="f")
    printer.end()
    assert not any(line.startswith(b"DROP") for line in b"".join(out).splitlines())


def test_damage_is_told_with_file_and_position(tmp_path: Path) -> None:
    description = next(_events(recording("mysql-row").files))
    printer = TextPrinter(lambda data: None, load_files=LoadFiles(tmp_path))
    printer.event(description.raw, 4, description.fd, file="bin.000001")
    with pytest.raises(BinlogCorrupt, match=r"bin\.000001: at 127: Intvar event"):
        printer.event(make_event(EventType.INTVAR, b"x"), 127, description.fd, file="bin.000001")


# Values.


def _binary_decimal(digits: str, negative: bool, precision: int, scale: int) -> bytes:
    """``decimal2bin`` of a number with all its digits: slow and plain."""
    whole, fraction = digits[: precision - scale], digits[precision - scale :]
    width = {0: 0, 1: 1, 2: 1, 3: 2, 4: 2, 5: 3, 6: 3, 7: 4, 8: 4, 9: 4}
    head = len(whole) % 9
    groups = [whole[:head]] + [whole[at : at + 9] for at in range(head, len(whole), 9)]
    groups += [fraction[at : at + 9] for at in range(0, len(fraction), 9)]
    out = bytearray(b"".join(int(group or 0).to_bytes(width[len(group)], "big") for group in groups))
    if negative:
        out = bytearray(byte ^ 0xFF for byte in out)
    out[0] ^= 0x80
    return bytes(out)


@given(st.data())
def test_decimals(data: st.DataObject) -> None:
    precision = data.draw(st.integers(1, 65))
    scale = data.draw(st.integers(0, min(precision, 30)))
    digits = data.draw(st.text("0123456789", min_size=precision, max_size=precision))
    negative = data.draw(st.booleans())
    raw = _binary_decimal(digits, negative, precision, scale)
    assert len(raw) == decimal_binary_size(precision, scale)
    text = decimal_text(raw, precision, scale)
    whole = digits[: precision - scale].lstrip("0") or "0"
    assert text == ("-" if negative else "") + whole + ("." + digits[precision - scale :] if scale else "")


@given(st.binary(max_size=40), st.sampled_from(["mysql", "mariadb"]))
def test_no_bytes_of_a_user_variable_break_out(value: bytes, family: str) -> None:
    said = user_variable(UserVar("v", value, charset=33), family)  # type: ignore[arg-type]
    assert said == b"_utf8mb3 X'" + value.hex().encode() + b"' COLLATE `utf8mb3_general_ci`"


# Replay.


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDb]:
    root = tmp_path_factory.mktemp("m")
    made = MariaDb(root, "--local-infile=1", "--log-bin=b", "--character-set-server=utf8mb4")
    yield made
    made.close()
    shutil.rmtree(root)


def replay(server: MariaDb, text: bytes, *options: str) -> None:
    command = [*server.client, "--binary-mode", "--local-infile=1", *options]
    done = subprocess.run(command, input=text, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()


def state(server: MariaDb) -> dict[str, dict[str, dict[str, object]]]:
    """Rows and checksum of each table, as oracle.json has them."""
    found: dict[str, dict[str, dict[str, object]]] = {}
    own = "('mysql', 'information_schema', 'performance_schema', 'sys')"
    for database, table in server.sql(
        f"SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA NOT IN {own} "
        "AND TABLE_TYPE = 'BASE TABLE'"
    ):
        name = f"`{database}`.`{table}`"
        counted, summed = server.sql(f"SELECT COUNT(*) FROM {name}; CHECKSUM TABLE {name}")
        found.setdefault(database, {})[table] = {"rows": int(counted[0]), "checksum": summed[1]}
    return found


FORMATS = ("row", "statement", "mixed")
RUN_AGAIN = [f"mariadb{version}-{one}" for version in ("", "118") for one in FORMATS]
RUN_AGAIN += ["mariadb118-alter"] + ["mariadb118-current"] * (mariadb_version() >= (11, 8))


@pytest.mark.parametrize("name", RUN_AGAIN)
def test_run_again_it_gives_the_sources_tables(server: MariaDb, name: str, tmp_path: Path) -> None:
    one = recording(name)
    server.empty()
    server.sql("RESET MASTER")
    text, warnings = printed(one.files, tmp_path, skip_gtids=False)
    replay(server, text)
    assert state(server) == one.oracle["source"]["state"]
    # and its GTIDs
    ((position,),) = server.sql("SELECT @@gtid_binlog_pos")
    assert set(position.split(",")) == set(one.oracle["gtid"].split(","))
    assert warnings == []


@pytest.mark.parametrize("clever", [False, True])
@pytest.mark.parametrize(
    ("name", "case"),
    [
        ("mariadb-row", "wild-ignore"),
        ("mariadb-mixed", "ignore-table"),
        ("mariadb-statement", "ignore-table"),
    ],
)
def test_filtered_it_gives_the_replicas_tables(
    server: MariaDb, name: str, case: str, clever: bool, tmp_path: Path
) -> None:
    one = recording(name)
    found = one.oracle["cases"][case]
    server.empty()
    rules = Filter.from_options(found["options"], names=NameRules("mariadb"))
    text, _ = printed(one.files, tmp_path, rules, clever=clever)
    for database in found["state"]:
        if not re.search(rf"CREATE DATABASE `?{re.escape(database)}`?\n".encode(), text):
            server.sql(f"CREATE DATABASE `{database}`")
    # statements that fire triggers on tables that are left out fail; the recorded replicas passed over them too
    replay(server, text, "--force")
    assert state(server) == {name: tables for name, tables in found["state"].items() if tables}


SESSION = r"""
CREATE DATABASE live; USE live;
CREATE TABLE t (i INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(300), d DOUBLE, w DATETIME(6));
INSERT INTO t (v, d, w) VALUES ('a', RAND(), NOW(6)), (CONCAT('it''s \\ /*!*/; ', LAST_INSERT_ID()), RAND(), NOW());
SET SESSION auto_increment_increment = 10, auto_increment_offset = 7; INSERT INTO t (v) VALUES ('b'), ('c');
SET INSERT_ID = 1000, LAST_INSERT_ID = 55; INSERT INTO t (v) VALUES (LAST_INSERT_ID());
SET INSERT_ID = 0; SET auto_increment_increment = 1, auto_increment_offset = 1;
SET @i = 18446744073709551615, @d = -0.1e-7, @x = 12345678901234567890.0123456789, @n = NULL, @`odd ``name` = 'ü;\0';
INSERT INTO t (v, d) VALUES (CONCAT_WS('|', @i, @x, @n, HEX(@`odd ``name`)), @d);
SET SESSION sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT';
INSERT INTO "t" (v) VALUES ('\' || "v"), ('two
lines');
SET SESSION sql_mode = DEFAULT, time_zone = '+05:30', lc_time_names = 'de_DE', TIMESTAMP = 1700000000.25;
INSERT INTO t (v, w) VALUES (DATE_FORMAT(NOW(), '%W %M %H:%i'), NOW(6));
SET TIMESTAMP = DEFAULT, time_zone = DEFAULT, lc_time_names = DEFAULT; SET NAMES latin1;
INSERT INTO t (v) VALUES (HEX('\xc3\xbc')), (COLLATION('x')); SET NAMES utf8mb4;
CREATE TABLE p (i INT PRIMARY KEY) ENGINE=InnoDB;
CREATE TABLE c (i INT, FOREIGN KEY (i) REFERENCES p (i)) ENGINE=InnoDB;
SET foreign_key_checks = 0; INSERT INTO c VALUES (5); SET foreign_key_checks = 1;
BEGIN; INSERT INTO p VALUES (1); SAVEPOINT `s p`; INSERT INTO t (v) VALUES ('gone'); INSERT INTO p VALUES (2);
ROLLBACK TO `s p`; INSERT INTO p VALUES (3); COMMIT;
CREATE TEMPORARY TABLE tt (i INT); INSERT INTO tt VALUES (77); INSERT INTO p SELECT i FROM tt; DROP TEMPORARY TABLE tt;
SET binlog_alter_two_phase = 1;
ALTER TABLE p ADD COLUMN j INT DEFAULT 9, ALGORITHM = COPY; SET binlog_alter_two_phase = 0;
CREATE TRIGGER g BEFORE INSERT ON p FOR EACH ROW SET NEW.j = 10; INSERT INTO p (i) VALUES (4);
LOAD DATA LOCAL INFILE '{file}' REPLACE INTO TABLE p FIELDS TERMINATED BY ',' LINES TERMINATED BY ';' (i, j);
CREATE TABLE `line
end` (i INT); INSERT INTO `line
end` VALUES (1);
"""
"""What a statement may depend on beside its text. One session."""


@pytest.mark.parametrize("binlog_format", ["statement", "mixed", "row"])
@pytest.mark.parametrize("compress", [0, 1])
def test_a_session_is_replayed(server: MariaDb, binlog_format: str, compress: int, tmp_path: Path) -> None:
    server.empty()
    server.sql(f"RESET MASTER; SET GLOBAL binlog_format = {binlog_format}, log_bin_compress = {compress}")
    server.sql("SET GLOBAL log_bin_compress_min_len = 10")
    loaded = tmp_path / "data"
    loaded.write_text("1,5;60,6;61,7;" + "".join(f"{n},{n};" for n in range(1000, 30000)))
    client = [*server.client, "--binary-mode", "--local-infile=1", "--default-character-set=utf8mb4"]
    said = SESSION.replace("{file}", str(loaded)).encode()
    done = subprocess.run(client, input=said, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    before = contents(server)
    assert len(before["t"]) > 10
    server.sql("FLUSH BINARY LOGS")
    files = binlogs_in(server.root / "d", "b")[:-1]
    text, warnings = printed(files, tmp_path / "loads")
    assert warnings == []
    server.empty()
    replay(server, text)
    assert contents(server) == before


def contents(server: MariaDb) -> dict[str, list[list[str]]]:
    return {table: server.sql(f"SELECT * FROM live.{table} ORDER BY 1") for table in "tpc"}


FOLLOWED = """
CREATE DATABASE live; USE live; CREATE TABLE t1 (i INT PRIMARY KEY); CREATE TABLE p (i INT PRIMARY KEY);
INSERT INTO t1 VALUES (1), (2); INSERT INTO p VALUES (3); CREATE TABLE t2 LIKE t1; INSERT INTO t2 VALUES (4);
CREATE TABLE t3 SELECT * FROM t1 UNION SELECT * FROM p; UPDATE t3 SET i = 5 WHERE i = 1; CREATE TABLE t LIKE p;
RENAME TABLE t1 TO tmp, t2 TO t1, tmp TO t2; INSERT INTO t2 VALUES (6); RENAME TABLE p TO q, t TO p, q TO t;
INSERT INTO p VALUES (7); ALTER TABLE t RENAME c, ADD COLUMN j INT DEFAULT 8; INSERT INTO c VALUES (9, 9);
DROP TABLE t3; CREATE TABLE t3 (i INT); INSERT INTO t3 VALUES (10); RENAME TABLE t3 TO t;
CREATE TEMPORARY TABLE x LIKE t2; INSERT INTO x VALUES (11); DROP TABLE x;
"""


@pytest.mark.parametrize("binlog_format", ["statement", "mixed", "row"])
def test_what_a_clever_filter_passes_can_be_run(server: MariaDb, binlog_format: str, tmp_path: Path) -> None:
    """WL#40, section 5: it is not good to have erroneous statements in the output. Plainly filtered, it has one."""
    server.empty()
    server.sql(f"RESET MASTER; SET GLOBAL binlog_format = {binlog_format}, log_bin_compress = 0")
    server.sql(FOLLOWED)
    before = contents(server)
    assert all(before.values())
    server.sql("FLUSH BINARY LOGS")
    files = binlogs_in(server.root / "d", "b")[:-1]
    rules = Filter.from_options(["--replicate-ignore-table=live.t1"], names=NameRules("mariadb"))
    clever, warnings = printed(files, tmp_path, rules, clever=True)
    plain, _ = printed(files, tmp_path, rules)
    server.empty()
    replay(server, clever)
    assert contents(server) == before
    assert sorted(row[0] for row in server.sql("SHOW TABLES FROM live")) == ["c", "p", "t"]
    assert warnings == []
    server.empty()
    failed = subprocess.run([*server.client, "--binary-mode"], input=plain, capture_output=True, check=False)
    assert b"Table 'live.t1' doesn't exist" in failed.stderr


def test_a_generated_set_runs(server: MariaDb, tmp_path: Path) -> None:
    """Many files, large row events: the rows of each statement come in one BINLOG."""
    made = generate(tmp_path / "in", 100_000, style="mariadb", file_size=50_000)
    text, _ = printed(made.files, tmp_path)
    assert text.count(b"\tStart: binlog v 4") == len(made.files) > 1
    ends = sum(1 for event in _events(made.files) if event.type in ROWS and event.body[6] & 1)
    assert len(_BINLOG.findall(text)) == ends + len(made.files)


# The files of LOAD DATA.


def test_load_files_are_put_together_and_never_replace_one(tmp_path: Path) -> None:
    (tmp_path / "SQL_LOAD-7-0").write_text("somebody else's")
    files = LoadFiles(tmp_path)
    files.begin(LoadBlock(7, b"a,"))
    files.begin(LoadBlock(8, b"other"))
    files.append(LoadBlock(7, b"b"))
    path = files.take(7)
    assert path.read_bytes() == b"a,b"
    assert (tmp_path / "SQL_LOAD-7-0").read_text() == "somebody else's"
    with pytest.raises(BinlogCorrupt, match="never begun"):
        files.append(LoadBlock(7, b"c"))


def test_load_files_without_a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    files = LoadFiles()
    assert list(tmp_path.iterdir()) == []
    path = files.begin(LoadBlock(1, b"data"))
    assert path.parent.parent == tmp_path
    assert path.parent == files.directory
    assert (files.take(1).read_bytes(), files.written) == (b"data", 1)


def test_load_files_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="file"):
        LoadFiles(tmp_path / "file").begin(LoadBlock(1, b""))
    with pytest.raises(OutputError, match="give another --local-load"):
        LoadFiles(tmp_path / "back\\slash").begin(LoadBlock(1, b""))


def test_user_variables_keep_their_types(server: MariaDb, tmp_path: Path) -> None:
    """What is printed for a variable has the value and the type that it had: asked of a server."""
    decimal = bytes((14, 4)) + bytes.fromhex("810dfb38d204d2")
    variables = {
        b"int": UserVar("a", (1 << 63).to_bytes(8, "little"), INT_RESULT, unsigned=True),
        b"negative": UserVar("a", (-5).to_bytes(8, "little", signed=True), INT_RESULT),
        b"real": UserVar("a", bytes.fromhex("000000000000f83f"), REAL_RESULT),
        b"decimal": UserVar("a", decimal, DECIMAL_RESULT),
        b"text": UserVar("a", "it's \\ \n ü".encode(), charset=45),
        b"null": UserVar("a", None),
    }
    said = {name: user_variable(one, "mariadb") for name, one in variables.items()}
    columns = b", ".join(b"%s AS `%s`" % (value or b"?", name) for name, value in said.items())
    server.sql("CREATE DATABASE IF NOT EXISTS v; DROP TABLE IF EXISTS v.t")
    server.sql((b"CREATE TABLE v.t AS SELECT " + columns).decode())
    assert server.sql("SELECT `int`, negative, `real`, `decimal`, HEX(`text`), `null` FROM v.t") == [
        ["9223372036854775808", "-5", "1.5", "1234567890.1234", "it's \\ \n ü".encode().hex().upper(), "NULL"]
    ]
    types = [
        row[0]
        for row in server.sql("SELECT DATA_TYPE FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = 'v'")
    ]
    assert types == ["bigint", "int", "double", "decimal", "varchar", "binary"]
