"""Printed text lists the events that the servers' programs list, and gives a real server the recorded data."""

from __future__ import annotations

import io
import itertools
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from dumpfilter.analyse.printing.literals import user_variable
from dumpfilter.analyse.printing.options import MayFail, SelectionOptions, TextOptions
from dumpfilter.analyse.printing.print_set import print_binlog
from dumpfilter.binlog.context_events import (
    DECIMAL_RESULT,
    INT_RESULT,
    REAL_RESULT,
    UserVar,
)
from dumpfilter.binlog.events import ROWS
from dumpfilter.binlog.format import NameRules
from dumpfilter.binlog.workload import generate
from dumpfilter.filter.filter import Filter, FilterOptions
from dumpfilter.filter.rules import parse_option
from dumpfilter.index.fileset import BinlogSet
from dumpfilter.receiver.login import objects_of
from tests.analyse.printing.printed import BINLOG, events_in, printed, recording
from tests.analyse.printing.running import lower_case_of, run_case, runnable, text_of, verdict
from tests.binlog_tools import MYSQLBINLOG, local_load_directory
from tests.commands.binlog_runs import invoke
from tests.mariadb import MariaDb, mariadb_version
from tests.oracle.recordings import Recording, all_recordings
from tests.oracle.replaying import MariaDbServer, Server, State
from tests.support import binlogs_in

_POSITIONS = re.compile(rb"^#\d.*end_log_pos (\d+)", re.MULTILINE)


def positions(text: bytes) -> list[bytes]:
    """Return the end positions of the listed events.

    Events in a compressed transaction have no position of their own. The position is 0 here, and the transaction's in
    MySQL's program.
    """
    return [place for place, _ in itertools.groupby(p for p in _POSITIONS.findall(text) if p != b"0")]


READABLE = [one for one in all_recordings() if one.family == "mariadb" or one.rows_v1 or MYSQLBINLOG]


@pytest.mark.parametrize("one", READABLE, ids=lambda one: one.name)
def test_lists_the_events_that_the_servers_program_lists(one: Recording, tmp_path: Path) -> None:
    text, warnings = printed(one.files, tmp_path)
    by_mariadb = one.family == "mariadb" or one.rows_v1
    command = ["mariadb-binlog", "--no-defaults"] if by_mariadb else [*MYSQLBINLOG, "-vv"]
    with local_load_directory() as local_load:
        theirs = subprocess.run(
            [*command, local_load, *map(str, one.files)], capture_output=True, check=True
        ).stdout
    assert positions(text) == positions(theirs)
    assert warnings == []


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDb]:
    root = tmp_path_factory.mktemp("m")
    made = MariaDb(
        root,
        "--local-infile=1",
        "--log-bin=b",
        "--log-bin-trust-function-creators=1",
        "--character-set-server=utf8mb4",
        "--max-allowed-packet=1G",
    )
    yield made
    made.close()
    shutil.rmtree(root)


def replay(server: MariaDb, text: bytes, *options: str) -> None:
    command = [*server.client, "--binary-mode", "--local-infile=1", *options]
    done = subprocess.run(command, input=text, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()


def state(server: MariaDb) -> State:
    """Return rows and checksum of each table in the form of oracle.json. Databases without tables are left out."""
    return {name: tables for name, tables in MariaDbServer(server).state().items() if tables}


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
    # the target has the source's GTIDs, too
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
    # Statements whose triggers change dropped tables fail. The recorded replicas skipped them, too.
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
"""Statements of one session that depend on session variables, temporary tables and files."""


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


NAMED = """
CREATE DATABASE `bü`; CREATE DATABASE `bö`; CREATE DATABASE plain;
CREATE TABLE `bü`.t (v VARCHAR(9)); CREATE TABLE plain.t (v VARCHAR(9));
USE plain; SET NAMES latin1; INSERT INTO t VALUES ('a');
SET NAMES utf8mb4; USE `bü`; INSERT INTO t VALUES ('ü'); USE plain;
SET NAMES sjis; INSERT INTO t VALUES ('b');
SET NAMES utf8mb4; SET @`vü`='x', @`日本`='y'; INSERT INTO t VALUES (CONCAT(@`vü`, @`日本`)); SET NAMES latin1;
"""
"""Statements whose databases and user variables have names that clients of other character sets cannot read."""


@pytest.mark.parametrize(
    "rules", [[], [f"--replicate-wild-do-table={name}.t" for name in ("bü", "bö", "plain")]]
)
def test_names_are_read_whatever_the_clients_character_set(
    server: MariaDb, rules: list[str], tmp_path: Path
) -> None:
    server.empty()
    server.sql("RESET MASTER; SET GLOBAL binlog_format = STATEMENT, log_bin_compress = 0")
    statements = NAMED.encode() + "CREATE TABLE `bö`.t (v VARCHAR(9));".encode("latin1")
    replay(server, statements, "--default-character-set=utf8mb4")
    before = state(server)
    server.sql("FLUSH BINARY LOGS")
    out = io.BytesIO()
    print_binlog(
        BinlogSet.open(binlogs_in(server.root / "d", "b")[:-1]),
        FilterOptions(rules=tuple(map(parse_option, rules))),
        SelectionOptions(),
        TextOptions(),
        out,
        Console(file=io.StringIO()),
    )
    server.empty()
    replay(server, out.getvalue())
    assert state(server) == before
    assert set(before) == {"bü", "bö", "plain"}


def test_an_xa_transaction_without_transactional_changes_runs(server: MariaDb, tmp_path: Path) -> None:
    """The source logs an empty XA transaction, and a client that repeats one stops with error 1402."""
    server.empty()
    server.sql("RESET MASTER; SET GLOBAL binlog_format = ROW, log_bin_compress = 0")
    server.sql("CREATE DATABASE live; CREATE TABLE live.t (i INT) ENGINE=MyISAM")
    server.sql(
        "XA START 'x'; INSERT INTO live.t VALUES (1); XA END 'x'; XA PREPARE 'x'; XA COMMIT 'x'; FLUSH BINARY LOGS"
    )
    before = state(server)
    text, _ = printed(binlogs_in(server.root / "d", "b")[:-1], tmp_path)
    assert b"# XA COMMIT" in text
    server.empty()
    replay(server, text)
    assert state(server) == before


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
    """A clever filter prints no failing statement (WL#40, section 5). A plain filter prints one."""
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
    """The rows of each statement are in one BINLOG, with many files and large row events, too."""
    made = generate(tmp_path / "in", 100_000, style="mariadb", file_size=50_000)
    text, _ = printed(made.files, tmp_path)
    assert text.count(b"\tStart: binlog v 4") == len(made.files) > 1
    ends = sum(1 for event in events_in(made.files) if event.type in ROWS and event.body[6] & 1)
    assert len(BINLOG.findall(text)) == ends + len(made.files)


def test_user_variables_keep_their_types(server: MariaDb, tmp_path: Path) -> None:
    """A server gives each printed variable the value and the type that it had."""
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


SAMPLE = (
    "mariadb-mixed",
    "mariadb-row",
    "mariadb-statement",
    "mariadb-statement-kinds",
    "mariadb-rewrite-statement",
)
"""The recordings that the suite runs. ``python -m tests.analyse.printing.running`` runs all."""

SINGLE = {
    ("mariadb-forms", "do-db-ignore-b"),
    ("mariadb-forms", "rewrite-do"),
    ("mariadb-forms2", "do-a"),
    ("mariadb-statements", "rewrite+do-shop"),
    ("mariadb118-alter", "rewrite"),
}
"""Single cases of larger recordings: renamed tables, MERGE tables, a collision of keys, an ALTER in two phases."""

CASES = [
    pytest.param(name, one, case, id=name)
    for name, one, case in runnable("mariadb")
    if (one.name in SAMPLE or (one.name, case) in SINGLE) and not lower_case_of(one, case)
]


@pytest.fixture(scope="module")
def texts(server: MariaDb) -> Server:
    """Return the server for the texts of :mod:`tests.analyse.printing.running`."""
    server.sql("SET GLOBAL binlog_format = MIXED")
    return MariaDbServer(server)


@pytest.mark.parametrize(("name", "one", "case"), CASES)
def test_a_text_runs_to_its_end(texts: Server, name: str, one: Recording, case: str) -> None:
    assert verdict(name, one, case, run_case(texts, one, case)) == ""


def test_as_it_is_the_text_stops(texts: Server, tmp_path: Path) -> None:
    """With --may-fail=print the client stops at the first statement that the filter has torn apart."""
    one = recording("mariadb-statement")
    texts.empty([], one.collation)
    text, _ = text_of(one, "ignore-table", tmp_path / "loads", MayFail.PRINT)
    command = [*texts.client, "--binary-mode", "--local-infile=1"]
    done = subprocess.run(command, input=text, capture_output=True, check=False)
    assert b"ERROR 1146" in done.stderr


def test_the_target_is_asked_for_what_it_has(texts: Server) -> None:
    """The filter drops the CREATE of tables that the target has all the same."""
    one = recording("mariadb-statement")
    texts.empty([], one.collation)
    socket = next(text for text in texts.client if text.startswith("--socket=")).removeprefix("--socket=")
    address = f"mysql://root@localhost/?socket={socket}"

    def missing(*options: str) -> set[str]:
        text = invoke(*one.files, "--replicate-do-db=shop", *options).stdout
        return set(re.findall(r"# dumpfilter: not run: table (\S+) is missing", text))

    before = missing()
    assert before
    assert missing(f"--target-has={address}") == before
    for name in before:
        database, _, table = name.partition(".")
        texts.sql(f"CREATE DATABASE IF NOT EXISTS `{database}`")
        texts.sql(f"CREATE TABLE `{database}`.`{table}` (i INT)")
    assert not missing(f"--target-has={address}") & before
    texts.sql("CREATE DATABASE `a%b`")
    texts.sql("CREATE FUNCTION `a%b`.`f_` () RETURNS INT RETURN 1")
    assert {r"a\%b.", r"a\%b.f\_"} <= set(objects_of(address))
