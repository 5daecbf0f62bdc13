"""The master's console: what it answers, against what a MySQL 9.7 and a MariaDB 10.11 answered of the same files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dumpfilter.binlog.gtid import MysqlGtidSet
from dumpfilter.console.sql.commands import parse_statement
from dumpfilter.console.sql.result import Result
from dumpfilter.console.sql.server_errors import SqlError
from dumpfilter.filter.effective import EffectiveFilter
from dumpfilter.filter.filter import WriteFilter
from dumpfilter.master.config import Account, MasterConfig
from dumpfilter.master.console import MasterConsole
from dumpfilter.master.server import MasterServer
from dumpfilter.master.store import BinlogStore
from dumpfilter.v1 import dumpfilter_pb2 as pb
from tests.commands.in_process import run as run_in_process
from tests.master.client import Client
from tests.master.tables import imposed_table
from tests.master.test_service import files_of, wait_for
from tests.oracle.dumping import dump
from tests.support import DATA

MYSQL = DATA / "oracle" / "mysql-row"
MARIADB = DATA / "oracle" / "mariadb-row"
SHOWN = Path(__file__).parents[1] / "analyse" / "printing" / "data" / "show-binlog-events"
UUID = "5a8b8d0a-e543-11f1-9c8d-02fc00000001"


class Master:
    """A served set with its console and a client."""

    def __init__(self, server: MasterServer, **options: int) -> None:
        self.console = MasterConsole(server.service, port=server.port, **options)
        self.client = Client(server)
        self.server = server

    def ask(self, statement: str) -> Result:
        return self.console.execute(parse_statement(statement))

    def rows(self, statement: str) -> list[list[object]]:
        return [list(row) for row in self.ask(statement).rows]

    def names(self, statement: str) -> list[str]:
        return [column.name for column in self.ask(statement).columns]

    def select(self, name: str) -> list[dict[str, object]]:
        table = self.console.tables["dumpfilter", name]()
        return [dict(zip((column.name for column in table.columns), row, strict=True)) for row in table.rows]

    def error(self, statement: str) -> str:
        with pytest.raises(SqlError) as caught:
            self.ask(statement)
        return str(caught.value)


@contextmanager
def serving(source: Path, **options: object) -> Iterator[Master]:
    server = MasterServer(BinlogStore(source), **options)  # type: ignore[arg-type]
    server.start()
    master = Master(server)
    try:
        yield master
    finally:
        master.client.channel.close()
        server.stop(0)


@pytest.fixture
def mysql() -> Iterator[Master]:
    with serving(MYSQL) as master:
        yield master


@pytest.fixture
def mariadb() -> Iterator[Master]:
    with serving(MARIADB) as master:
        yield master


def test_binary_logs(mysql: Master, mariadb: Master) -> None:
    sizes = [170340, 10278, 198]
    assert mysql.names("SHOW BINARY LOGS") == ["Log_name", "File_size", "Encrypted"]
    assert mysql.rows("SHOW MASTER LOGS") == [
        [f"bin.00000{n}", size, "No"] for n, size in enumerate(sizes, 1)
    ]
    assert mariadb.names("SHOW BINARY LOGS") == ["Log_name", "File_size"]
    assert mariadb.rows("SHOW BINARY LOGS")[1:] == [["bin.000002", 8689], ["bin.000003", 373]]


def test_binary_log_status(mysql: Master, mariadb: Master) -> None:
    columns = ["File", "Position", "Binlog_Do_DB", "Binlog_Ignore_DB"]
    assert mysql.names("SHOW BINARY LOG STATUS") == [*columns, "Executed_Gtid_Set"]
    assert mysql.rows("SHOW MASTER STATUS") == [["bin.000003", 198, "", "", f"{UUID}:1-74"]]
    assert mariadb.names("SHOW MASTER STATUS") == columns
    assert mariadb.rows("SHOW MASTER STATUS") == [["bin.000003", 373, "", ""]]


def test_executed_gtids_are_also_those_of_the_newest_file() -> None:
    tagged = DATA / "recordings" / "mysql-tagged"
    with serving(tagged) as master:
        gtids = master.rows("SHOW BINARY LOG STATUS")[0][4]
    last = [json.loads(line) for line in (SHOWN / "mysql-tagged.jsonl").read_text().splitlines()]
    told = [row[5].split("'")[1] for row in last if row[2] in ("Gtid", "Gtid_tagged_log_event")]
    assert MysqlGtidSet.parse(str(gtids)).issuperset(MysqlGtidSet.parse(",".join(told)))
    assert ",\n" in str(gtids)  # as the server separates them
    assert len(told) > 30


def test_the_rules_of_the_binlog_are_in_the_status() -> None:
    rules = WriteFilter.from_options(["--binlog-do-db=d1", "--binlog-do-db=d2", "--binlog-ignore-db=x"])
    config = MasterConfig(user=(Account(name="repl", password="secret"),))
    with serving(MYSQL, write_filter=rules, config=config) as master:
        assert master.rows("SHOW BINARY LOG STATUS")[0][2:4] == ["d1,d2", "x"]
        assert [(row["semantics"], row["rule"]) for row in master.select("write_rules")] == [
            ("server", "--binlog-do-db=d1"),
            ("server", "--binlog-do-db=d2"),
            ("server", "--binlog-ignore-db=x"),
        ]


@pytest.mark.parametrize("directory", [MYSQL, MARIADB], ids=["mysql", "mariadb"])
def test_binlog_events(directory: Path) -> None:
    """The rows themselves: tests/analyse/printing/test_show_events.py."""
    shown = [json.loads(line) for line in (SHOWN / f"{directory.name}.jsonl").read_text().splitlines()]
    with serving(directory) as master:
        assert master.names("SHOW BINLOG EVENTS") == [
            "Log_name",
            "Pos",
            "Event_type",
            "Server_id",
            "End_log_pos",
            "Info",
        ]
        assert master.rows("SHOW BINLOG EVENTS") == [row for row in shown if row[0] == "bin.000001"]
        second = [row for row in shown if row[0] == "bin.000002"]
        assert master.rows("SHOW BINLOG EVENTS IN 'bin.000002'") == second
        start = second[5][1]
        limited = f"SHOW BINLOG EVENTS IN 'bin.000002' FROM {start} LIMIT 2, 3"
        assert master.rows(limited) == second[7:10]
        for name in ("nope.000001", ""):
            assert master.error(f"SHOW BINLOG EVENTS IN '{name}'") == (
                "ERROR 1220 (HY000): Error when executing command SHOW BINLOG EVENTS: Could not find target log"
            )
        assert "1220" in master.error("SHOW RELAYLOG EVENTS")


def test_replicas(mysql: Master, mariadb: Master) -> None:
    for master in (mysql, mariadb):
        slave = str(master.client.register(server_id=101, host="h", port=3306).slave_id)
        assert slave
    uuid = str(mysql.select("slaves")[0]["uuid"])
    assert mysql.names("SHOW REPLICAS") == ["Server_Id", "Host", "Port", "Source_Id", "Replica_UUID"]
    assert mysql.names("SHOW SLAVE HOSTS") == ["Server_id", "Host", "Port", "Master_id", "Slave_UUID"]
    assert mysql.rows("SHOW REPLICAS") == [[101, "h", 3306, 11, uuid]]
    assert mariadb.names("SHOW SLAVE HOSTS") == ["Server_id", "Host", "Port", "Master_id"]
    assert mariadb.rows("SHOW SLAVE HOSTS") == [[101, "h", 3306, 11]]


def test_a_master_is_no_replica(mysql: Master, mariadb: Master) -> None:
    for statement in (
        "START REPLICA",
        "STOP REPLICA FOR CHANNEL 'x'",
        "RESET REPLICA ALL",
        "CHANGE REPLICATION FILTER REPLICATE_DO_DB = (a)",
        "CHANGE REPLICATION SOURCE TO SOURCE_HOST = 'x'",
    ):
        for master in (mysql, mariadb):
            assert "ERROR 1794 (HY000): Replica is not configured: this is a master." in master.error(
                statement
            )
    said = mysql.error("SHOW REPLICA STATUS FOR CHANNEL 'x'")
    assert said == "ERROR 3074 (HY000): Replica channel 'x' does not exist."
    assert mysql.rows("SHOW REPLICA STATUS") == []
    assert mysql.names("SHOW REPLICA STATUS")[:2] == ["Replica_IO_State", "Source_Host"]
    assert mysql.names("SHOW SLAVE STATUS")[:2] == ["Slave_IO_State", "Master_Host"]
    assert mariadb.names("SHOW REPLICA STATUS") == mysql.names("SHOW SLAVE STATUS")
    for schema, name in mysql.console.tables:
        table = mysql.console.tables[schema, name]()
        assert not table.rows
    assert ("performance_schema", "replication_applier_filters") in mysql.console.tables


def test_the_table_of_slaves() -> None:
    no_logs = imposed_table("no logs", EffectiveFilter.from_options(["--ignore=logs.%"]))
    with serving(MYSQL, config=MasterConfig(imposed=(no_logs,))) as master:
        slave = master.client.register(["--replicate-do-db=shop", "--replicate-do-db=logs"], channel="c1")
        list(master.client.dump(slave.slave_id))
        stream = master.client.dump(slave.slave_id, once=False)
        next(stream)
        wait_for(lambda: master.select("slaves")[0]["dumping"] == 1)
        (row,) = master.select("slaves")
        assert row["rules"] == "--replicate-do-db=shop --replicate-do-db=logs"
        assert (row["imposed"], row["channel"], row["filter_version"]) == ("no logs", "c1", 1)
        assert row["bytes_read"] == row["bytes_sent"] + row["bytes_dropped"] > row["bytes_sent"] > 0  # type: ignore[operator]
        stream.cancel()
        assert master.select("imposed_filters") == [
            {
                "name": "no logs",
                "server_ids": "",
                "users": "",
                "networks": "",
                "semantics": "effective",
                "rules": "--ignore=logs.%",
            }
        ]


def test_variables(mysql: Master) -> None:
    found = mysql.console.variables()
    assert found["server_id"] == 11
    assert found["server_uuid"] == mysql.server.service.master_uuid
    assert found["log_bin_basename"] == str(MYSQL / "bin")
    assert found["version"] == "9.7.4-2"
    assert found["port"] == mysql.server.port


# CHANGE BINLOG


def effective(*clauses: str) -> dict[str, bytes]:
    return dump(sorted(MYSQL.glob("bin.0*")), EffectiveFilter.from_options(list(clauses))).files


def test_change_binlog(mysql: Master) -> None:
    slave = mysql.client.register()

    def stream() -> dict[str, bytes]:
        return files_of(mysql.client.dump(slave.slave_id))

    assert mysql.ask("CHANGE BINLOG 'bin' TO IGNORE='logs.%', IGNORE='hr.%'").notes == ()
    assert stream() == effective("--ignore=logs.%", "--ignore=hr.%")
    # the kinds that are not named stay as they are
    mysql.ask("CHANGE BINLOG 'bin' TO DO='%.audit'")
    assert stream() == effective("--ignore=logs.%", "--ignore=hr.%", "--do=%.audit")
    assert {str(row["rule"]) for row in mysql.select("write_rules")} == {
        "--do=%.audit",
        "--ignore=logs.%",
        "--ignore=hr.%",
    }
    assert mysql.select("slaves")[0]["filter_version"] == 3
    mysql.ask("CHANGE BINLOG 'bin' TO DO='', IGNORE=''")
    assert stream() == effective()
    assert mysql.select("write_rules") == []


def test_change_binlog_takes_the_place_of_the_servers_rules() -> None:
    rules = WriteFilter.from_options(["--binlog-ignore-db=shop"])
    with serving(MYSQL, write_filter=rules) as master:
        (note,) = master.ask("CHANGE BINLOG 'bin' TO IGNORE='logs.%'").notes
        assert "--binlog-ignore-db=shop" in note.message
        assert files_of(master.client.dump(master.client.register().slave_id)) == effective("--ignore=logs.%")
        assert master.rows("SHOW BINARY LOG STATUS")[0][2:4] == ["", ""]


def test_change_binlog_of_another_name(mysql: Master) -> None:
    assert "ERROR 1373" in mysql.error("CHANGE BINLOG 'bar' TO DO='a.%'")
    assert mysql.select("write_rules") == []


def test_a_running_dump_goes_on_with_the_changed_binlog(tmp_path: Path) -> None:
    """And a slave's own filter and what is imposed on it stay in force."""
    recorded = (MYSQL / "bin.000002").read_bytes()
    growing = tmp_path / "bin.000002"
    whole = bytearray(recorded)
    whole[21] |= 1  # in use
    growing.write_bytes(whole[:618])
    (tmp_path / "bin.index").write_text("./bin.000002\n")
    imposed = EffectiveFilter.from_options(["--ignore=scratch.t1"])
    config = MasterConfig(imposed=(imposed_table("no t1", imposed),))
    with serving(tmp_path, config=config) as master:
        slave = master.client.register(["--replicate-ignore-db=hr"])
        stream = master.client.dump(slave.slave_id, once=False)
        received = [next(stream)]
        while received[-1].end_position < 618:
            received.append(next(stream))
        master.ask("CHANGE BINLOG 'bin' TO IGNORE='scratch.t2'")
        for begin, end in ((618, 931), (931, len(whole))):
            # the dump may be looking for the first transaction at this moment: from the second on it must be so
            with growing.open("ab") as file:
                file.write(whole[begin:end])
            while received[-1].end_position < end:
                received.append(next(stream))
        stream.cancel()
        after = [chunk for chunk in received if chunk.end_position > 931 and chunk.counts.events_read]
        again = master.client.dump(
            slave.slave_id, **{"from": pb.BinlogPosition(file="bin.000002", position=931)}
        )
        sent = b"".join(chunk.events for chunk in after)
        assert sent == b"".join(chunk.events for chunk in again)
        tables = [name for name in (b"t1", b"t2", b"t3") if b"\x07scratch\x00\x02" + name in sent]
        assert tables == [b"t3"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--console-port", "0", "--host", "0.0.0.0"], "set DUMPFILTER_CONSOLE_PASSWORD"),
        (
            ["--console-port", "0", "--console-password-file", "/nowhere/password"],
            "/nowhere/password: the password file cannot be made: No such file or directory",
        ),
        (["--config", "/nowhere/master.toml"], "/nowhere/master.toml: cannot be read"),
        (["--console-port", "0", "--tls-key", "/nowhere/key"], "--tls-key needs --tls-cert"),
        # as the servers spell it
        (
            ["--console-port", "0", "--ssl_cert=/nowhere/cert", "--ssl-key=/nowhere/key"],
            "--tls-cert=/nowhere/cert: cannot be read: No such file or directory",
        ),
    ],
)
def test_options_that_cannot_be_used(options: list[str], said: str) -> None:
    done = run_in_process("master", MYSQL, "--port", "0", *options)
    assert done.returncode == 2
    assert said in " ".join(done.stderr.split())
