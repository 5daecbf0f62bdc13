"""SOURCE_POS_WAIT, WAIT_FOR_EXECUTED_GTID_SET and their kin on a slave's console, over MySQL's protocol."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pymysql
import pytest
from pymysql.constants import COMMAND

from dumpfilter.console.connection import ConsoleServer
from dumpfilter.console.sql.commands import parse_statement
from dumpfilter.console.sql.interruption import Interrupt, running
from dumpfilter.console.sql.server_errors import SqlError
from tests.slave.driven import UUID, Driven, Master, driven, serving, wait_until
from tests.slave.growing import GrowingCopy
from tests.support import DATA

FAR = f"{UUID}:1-9999"


@dataclass
class Waiting:
    """A slave with a console, over a binlog that grows."""

    slave: Driven
    copy: GrowingCopy
    master: Master
    port: int

    def connect(self) -> Any:
        return pymysql.connect(
            host="127.0.0.1", port=self.port, user="root", password="secret", ssl_disabled=True
        )

    def ask(self, expression: str, client: Any = None) -> Any:
        """Return the value of an expression. An error of the console is its number."""
        with client.cursor() if client else self.connect() as cursor_or_client:
            cursor = cursor_or_client if client else cursor_or_client.cursor()
            try:
                cursor.execute(f"SELECT {expression}")
            except pymysql.Error as error:
                return f"error {error.args[0]}"
            ((value,),) = cursor.fetchall()
            return value


@contextmanager
def asked(directory: Path, folder: str = "mysql-row", **options: str) -> Iterator[Waiting]:
    directory.mkdir(exist_ok=True)
    copy = GrowingCopy(DATA / "oracle" / folder, directory / "binlog", seed=2)
    with (
        serving(directory / "binlog") as master,
        driven(directory / "slave") as slave,
        ConsoleServer(slave.console, users={"root": "secret"}).running() as console,
    ):
        slave.follow(master, **options)
        yield Waiting(slave, copy, master, console.port)


class Later:
    """A statement that another client sends, and its value when it has one."""

    def __init__(self, waiting: Waiting, expression: str) -> None:
        self.client = waiting.connect()
        self.value: Any = None
        self._thread = threading.Thread(target=self._ask, args=(waiting, expression))
        self._thread.start()
        progress = waiting.slave.slave.progress
        wait_until(lambda: progress.waiting or not self._thread.is_alive())

    def _ask(self, waiting: Waiting, expression: str) -> None:
        self.value = waiting.ask(expression, self.client)

    def result(self) -> Any:
        self._thread.join(240)
        assert not self._thread.is_alive()
        self.client.close()
        return self.value


def test_positions_and_gtids_end_a_wait(tmp_path: Path) -> None:
    with asked(tmp_path) as here:
        here.copy.more(3)
        here.slave.sql("START REPLICA")
        here.slave.catch_up(here.master)
        file, position = here.master.end
        assert here.ask(f"SOURCE_POS_WAIT('{file}', {position})") == 0
        assert here.ask(f"SOURCE_POS_WAIT('{file}', 4, 1)") == 0
        # A number beyond the largest double was an error about memory.
        assert here.ask(f"SOURCE_POS_WAIT('{file}', '1e999', 0.01)") == -1
        assert here.ask(f"WAIT_FOR_EXECUTED_GTID_SET('{here.slave.executed()}')") == 0
        waits = [
            Later(here, f"SOURCE_POS_WAIT('{file}', {position + 1}, 60)"),
            Later(here, f"WAIT_FOR_EXECUTED_GTID_SET('{UUID}:1-20', 60)"),
            Later(here, "SOURCE_POS_WAIT('bin.000002', 4)"),
        ]
        here.copy.more(20)
        assert waits[0].result() > 0
        assert waits[1].result() == 0
        here.copy.more(60)
        assert waits[2].result() > 0
        assert not here.slave.slave.progress.waiting


def test_a_wait_ends_with_what_status_shows(tmp_path: Path) -> None:
    """The GTIDs that end a wait are in gtid_executed at once."""
    with asked(tmp_path) as here:
        here.slave.sql("START REPLICA")
        for number in range(1, 75):
            here.copy.more(1)
            if number % 10 == 0:
                assert here.ask(f"WAIT_FOR_EXECUTED_GTID_SET('{UUID}:1-{number - 3}')") == 0
                assert here.ask("WAIT_FOR_EXECUTED_GTID_SET(@@gtid_executed, 1)") == 0


@pytest.mark.parametrize(
    "expression",
    [
        "SOURCE_POS_WAIT('bin.000009', 4, 0.01)",
        pytest.param(f"SOURCE_POS_WAIT('bin.{'9' * 4301}', 4, 0.01)", id="a file with a long number"),
        "MASTER_POS_WAIT('bin.000009', 4, 0.01)",
        f"WAIT_FOR_EXECUTED_GTID_SET('{FAR}', 0.01)",
        f"WAIT_FOR_EXECUTED_GTID_SET('{FAR}', '0.01')",
        "MASTER_GTID_WAIT('0-1-5', 0)",
        "MASTER_GTID_WAIT('0-1-5', 0.01)",
    ],
)
def test_timeouts(tmp_path: Path, expression: str) -> None:
    with asked(tmp_path) as here:
        here.slave.sql("START REPLICA")
        assert here.ask(expression) == (1 if expression.startswith("WAIT") else -1)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("SOURCE_POS_WAIT('bin.000001', 100000000)", None),
        ("SOURCE_POS_WAIT('bin.000001', -5, 1)", None),
        ("SOURCE_POS_WAIT('bin', 4, 1)", None),
        ("SOURCE_POS_WAIT('', 4, 1)", None),
        ("SOURCE_POS_WAIT(NULL, 4, 1)", None),
        ("SOURCE_POS_WAIT('bin.000001', 4, 1, 'nobody')", None),
        ("SOURCE_POS_WAIT('bin.000001', 4, 1, NULL)", None),
        ("SOURCE_POS_WAIT('bin.000001', 4, -1)", "error 1210"),
        ("SOURCE_POS_WAIT('bin.000001')", "error 1582"),
        ("SOURCE_POS_WAIT('bin.000001', 4, 1, '', 1)", "error 1582"),
        ("WAIT_FOR_EXECUTED_GTID_SET('', 1)", 0),
        ("WAIT_FOR_EXECUTED_GTID_SET(NULL)", "error 1772"),
        ("WAIT_FOR_EXECUTED_GTID_SET('junk')", "error 1772"),
        ("WAIT_FOR_EXECUTED_GTID_SET(5, 1)", "error 1772"),
        (f"WAIT_FOR_EXECUTED_GTID_SET('{FAR}', -1)", "error 1210"),
        (f"WAIT_FOR_EXECUTED_GTID_SET('{FAR}', NULL)", "error 1210"),
        ("MASTER_GTID_WAIT('')", 0),
        ("MASTER_GTID_WAIT(NULL)", None),
        ("MASTER_GTID_WAIT('junk', 1)", "error 1941"),
        ("IFNULL(MASTER_GTID_WAIT('0-1-1', 0) + 1, 'x')", 0),
    ],
)
def test_answers_while_the_applier_is_stopped(tmp_path: Path, expression: str, value: object) -> None:
    with asked(tmp_path) as here:
        assert here.ask(expression) == value


def test_a_file_of_another_server(tmp_path: Path) -> None:
    with asked(tmp_path) as here:
        here.copy.more(3)
        here.slave.sql("START REPLICA")
        here.slave.catch_up(here.master)
        assert here.ask("SOURCE_POS_WAIT('other.000001', 4, 60)") is None


def test_the_end_of_the_applier_ends_waits_for_a_position(tmp_path: Path) -> None:
    with asked(tmp_path) as here:
        here.slave.sql("START REPLICA")
        position = Later(here, "SOURCE_POS_WAIT('bin.000009', 4)")
        gtids = Later(here, f"WAIT_FOR_EXECUTED_GTID_SET('{UUID}:1-3', 60)")
        here.slave.sql("STOP REPLICA SQL_THREAD")
        assert position.result() is None
        here.slave.sql("START REPLICA SQL_THREAD")
        here.copy.more(5)
        assert gtids.result() == 0


def test_kill_and_the_end_of_the_slave_end_a_wait(tmp_path: Path) -> None:
    with asked(tmp_path) as here:
        here.slave.sql("START REPLICA")
        killed = Later(here, "SOURCE_POS_WAIT('bin.000009', 4)")
        with here.connect() as other, other.cursor() as cursor:
            cursor.execute(f"KILL QUERY {killed.client.thread_id()}")
        assert killed.result() == "error 1317"
        closed = Later(here, f"WAIT_FOR_EXECUTED_GTID_SET('{FAR}')")
        here.slave.restart()
        assert closed.result() == "error 1317"


def test_max_execution_time_ends_a_wait(tmp_path: Path) -> None:
    with asked(tmp_path) as here, here.connect() as client:
        with client.cursor() as cursor:
            cursor.execute("SET max_execution_time = 50")
        assert here.ask(f"WAIT_FOR_EXECUTED_GTID_SET('{FAR}')", client) == "error 3024"


def test_waits_block_nobody(tmp_path: Path) -> None:
    with asked(tmp_path) as here:
        here.slave.sql("START REPLICA")
        waits = [Later(here, f"WAIT_FOR_EXECUTED_GTID_SET('{UUID}:1-2')") for _ in range(12)]
        assert here.ask("1 + 1") == 2
        here.copy.more(4)
        assert [one.result() for one in waits] == [0] * 12


def test_mariadb_forms(tmp_path: Path) -> None:
    with asked(tmp_path, "mariadb-row") as here:
        here.copy.more(4)
        here.slave.sql("START REPLICA")
        here.slave.catch_up(here.master)
        file, position = here.master.end
        wait_until(here.slave.executed)
        (*_, last) = here.slave.executed().split(",")
        domain, _, number = last.split("-")
        assert here.ask(f"MASTER_POS_WAIT('{file}', {position}, 60)") == 0
        assert here.ask(f"MASTER_GTID_WAIT('{last}')") == 0
        assert here.ask(f"MASTER_GTID_WAIT('{domain}-999-{number}', 60)") == 0
        wait = Later(here, f"MASTER_GTID_WAIT('{domain}-999-{int(number) + 1}')")
        here.copy.more(4)
        assert wait.result() == 0


def test_set_and_do_wait_too(tmp_path: Path) -> None:
    with asked(tmp_path) as here, here.connect() as client, client.cursor() as cursor:
        cursor.execute("SELECT MASTER_POS_WAIT('bin.000001', 4, 1)")
        assert cursor.fetchall() == ((None,),)
        assert cursor.description[0][0] == "MASTER_POS_WAIT('bin.000001', 4, 1)"
        cursor.execute("SET @done = WAIT_FOR_EXECUTED_GTID_SET('', 1)")
        cursor.execute("DO WAIT_FOR_EXECUTED_GTID_SET('', 1)")
        cursor.execute("SELECT @done")
        assert cursor.fetchall() == ((0,),)


def test_a_statement_that_holds_the_channels_keeps_nobody_from_the_console(tmp_path: Path) -> None:
    """STOP REPLICA holds the lock until the threads have ended. Its client must be able to be killed."""
    with asked(tmp_path) as here, here.connect() as early:
        with here.slave.slave.lock:
            early._execute_command(COMMAND.COM_QUERY, "SHOW REPLICA STATUS")
            with pymysql.connect(
                host="127.0.0.1", port=here.port, user="root", password="secret", read_timeout=20
            ) as late:
                assert here.ask("@@gtid_executed", late) == ""
                assert here.ask("COUNT(*) FROM dumpfilter.channels", late) == 1
        early._read_query_result()
        assert "Channel_Name" in [field.name for field in early._result.fields]


def test_a_statement_whose_client_has_left_waits_no_longer_for_the_channels(tmp_path: Path) -> None:
    with asked(tmp_path) as here:
        failures: list[int] = []
        interrupt = Interrupt()

        def show() -> None:
            running.set(interrupt)
            try:
                here.slave.console.execute(parse_statement("SHOW REPLICA STATUS"))
            except SqlError as error:
                failures.append(error.number)

        with here.slave.slave.lock:
            thread = threading.Thread(target=show, daemon=True)
            thread.start()
            interrupt.set()
            thread.join(20)
            assert failures == [1317]
        assert here.slave.console.execute(parse_statement("SHOW REPLICA STATUS")).rows
