"""The filters of real MariaDB replicas behind dumpfilter: adopted, compared, and changed while the replica runs.

With ``DUMPFILTER_MYSQL_ROOT`` the tests run with MySQL as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pymysql
import pytest

from tests.real.behind import Dumpfilter
from tests.real.server import MYSQL_ROOT, RealServer, Servers
from tests.slave.driven import wait_until
from tests.slave.processes import Launcher

DATABASES = ("shop", "hr", "logs")
BACK = "back-secret"
PASSWORD = "replica-secret"
CONFIG = """
[[console_user]]
name = "root"
password = "console-secret"
role = "all"

[[replica]]
user = "adopted"
password = "replica-secret"
adopt = true
connect = {{ user = "reader", password_file = "{file}", tls = "{tls}" }}

[[replica]]
user = "warned"
password = "replica-secret"
rules = ["replicate-do-db=shop"]
connect = {{ user = "reader", password_file = "{file}", tls = "{tls}" }}

[[replica]]
user = "refused"
password = "replica-secret"
rules = ["replicate-do-db=shop"]
on_drift = "refuse"
connect = {{ user = "reader", password_file = "{file}", tls = "{tls}" }}

[[replica]]
user = "plain"
password = "replica-secret"
rules = {plain}

[[replica]]
user = "xa"
password = "replica-secret"
rules = {plain}
"""


class Chain:
    """A real source, dumpfilter beside it, and a real replica behind dumpfilter."""

    def __init__(self, servers: Servers, launcher: Launcher, directory: Path) -> None:
        self.source: RealServer = servers.new("source", 1)
        own = ["--performance-schema=ON"] if servers.family == "mysql" else []
        self.replica: RealServer = servers.new("replica", 2, *own)
        self.directory = directory
        for server in (self.source, self.replica):
            server.start()
        self.replica.sql("SET SESSION sql_log_bin = 0", f"CREATE USER reader IDENTIFIED BY '{BACK}'")
        grant = "REPLICA MONITOR ON *.*"
        if servers.family == "mysql":
            grant = "SELECT ON performance_schema.replication_applier_filters"
        self.replica.sql(f"GRANT {grant} TO reader", "SET SESSION sql_log_bin = 1")
        for server in (self.source, self.replica):
            # Filters would keep the statements from the replica.
            server.sql("SET SESSION sql_log_bin = 0")
            for database in DATABASES:
                server.sql(f"CREATE DATABASE {database}", f"CREATE TABLE {database}.t (a INT PRIMARY KEY)")
            if server is self.replica:
                server.sql("CREATE DATABASE none", "CREATE TABLE none.t (a INT PRIMARY KEY)")
            server.sql("SET SESSION sql_log_bin = 1")
        self._rows = 0
        launcher.directory = directory
        self.dumpfilter = Dumpfilter(launcher, directory / "dumpfilter")
        self.configure()
        self.start()

    def configure(self, plain: str = '["replicate-do-db=shop"]') -> None:
        file = self.directory / "password"
        file.touch(mode=0o600)
        file.write_text(BACK)
        config = self.directory / "dumpfilter" / "master.toml"
        config.touch(mode=0o600)
        # Without TLS the master gives MySQL's default plugin no password.
        tls = "required" if self.replica.family == "mysql" else "disabled"
        config.write_text(CONFIG.format(file=file, plain=plain, tls=tls))

    def start(self) -> None:
        note = self.directory / "console-port"
        note.unlink(missing_ok=True)
        state = str(self.directory / "state")
        console = ("--console-port", "0", "--console-port-file", str(note), "--state-dir", state)
        self.dumpfilter.start(self.source.data / "bin.index", *console)
        self.console_port = int(note.read_text())

    def console(self, statement: str) -> tuple[list[Any], str]:
        """Run a statement on dumpfilter's console. Return the rows and the text of the warnings."""
        with (
            pymysql.connect(
                host="127.0.0.1",
                port=self.console_port,
                user="root",
                password="console-secret",
                autocommit=None,
            ) as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute(statement)
            rows = list(cursor.fetchall())
            return rows, " ".join(str(one[2]) for one in connection.show_warnings())

    def attach(self, user: str, *rules: str) -> None:
        """Let the replica start anew as a user, with a filter of its own."""
        replica = self.replica
        replica.control("STOP")
        replica.set_filter([f"--replicate-{rule}" for rule in rules])
        replica.follow(self.dumpfilter.port, user, PASSWORD)
        replica.control("START")

    def write(self) -> int:
        """Write one row into the table of each database, and wait until the replica is there. Return the row."""
        self._rows += 1
        for database in DATABASES:
            self.source.sql(f"USE {database}", f"INSERT INTO t VALUES ({self._rows})")
        written = self.source.binlog_gtids()
        wait_until(lambda: self.replica.applied_gtids() == written, lambda: str(self.replica.status()))
        return self._rows

    def applied(self, row: int) -> set[str]:
        """Return the databases whose table has a row on the replica."""
        return {
            database
            for database in DATABASES
            if self.replica.sql(f"SELECT COUNT(*) FROM {database}.t WHERE a = {row}") == [(1,)]
        }

    def rules(self, user: str) -> str:
        """Return the rules by which dumpfilter sends events to the running replica of a user."""
        rows, _ = self.console(f"SELECT rules FROM dumpfilter.slaves WHERE user = '{user}' AND dumping = 1")
        return str(rows[0][0]) if rows else ""

    def file_rules(self, user: str) -> str:
        """Return the rules of a user's ``[[replica]]`` table that are in force."""
        return str(
            self.console(f"SELECT rules FROM dumpfilter.replica_filters WHERE user = '{user}'")[0][0][0]
        )

    def replica_log(self) -> str:
        """Return the replica's error log."""
        return self.replica.log.read_text(errors="replace")


@pytest.fixture(scope="module", params=["mariadb", *(["mysql"] if MYSQL_ROOT else [])])
def chain(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, one_launcher: Launcher
) -> Iterator[Chain]:
    directory = tmp_path_factory.mktemp("filters")
    with Servers(request.param, directory) as servers:
        yield Chain(servers, one_launcher, directory)
        one_launcher.kill_all()


def test_the_replicas_own_filter_is_adopted(chain: Chain) -> None:
    chain.attach("adopted", "do-db=shop")
    assert chain.applied(chain.write()) == {"shop"}
    assert chain.rules("adopted") == "--replicate-do-db=shop"
    chain.attach("adopted", "do-db=hr")
    assert chain.applied(chain.write()) == {"hr"}
    assert chain.rules("adopted") == "--replicate-do-db=hr"
    for rules, kept in (
        (["wild-do-table=sh%.t"], {"shop"}),
        (["ignore-table=hr.t", "ignore-db=logs"], {"shop"}),
        (["do-table=hr.t", "do-table=shop.t"], {"shop", "hr"}),
        (["ignore-table=hr.t", "ignore-table=shop.t"], {"logs"}),
        (["wild-do-table=%.t", "rewrite-db=hr->none", "wild-ignore-table=none.%"], {"shop", "hr", "logs"}),
    ):
        chain.attach("adopted", *rules)
        row = chain.write()
        if "rewrite-db" in " ".join(rules):
            kept = kept - {"hr"}
            assert chain.replica.sql(f"SELECT COUNT(*) FROM none.t WHERE a = {row}") == [(1,)]
        assert chain.applied(row) == kept, rules
    chain.attach("adopted", "do-db=hr")
    chain.attach("adopted", "do-db=logs")
    assert chain.applied(chain.write()) == {"logs"}
    assert "adopted filter widened" in chain.dumpfilter.log()


def test_drift_is_logged_by_both_sides(chain: Chain) -> None:
    chain.attach("warned", "do-db=shop", "do-db=hr")
    assert chain.applied(chain.write()) == {"shop"}
    told = "the replica would apply statements with the current database 'hr'"
    wait_until(lambda: told in chain.replica_log(), chain.replica_log)
    wait_until(lambda: told in chain.dumpfilter.log(), chain.dumpfilter.log)


def test_drift_is_refused_by_option(chain: Chain) -> None:
    chain.attach("refused", "do-db=shop", "do-db=logs")

    def error() -> tuple[int, str]:
        status = chain.replica.status()
        assert status is not None
        return status.io_error

    wait_until(lambda: "logs" in error()[1], lambda: str(error()))
    assert "1236" in str(error())
    chain.attach("refused", "do-db=shop")
    assert chain.applied(chain.write()) == {"shop"}


def test_the_console_changes_the_filter_of_a_running_replica(chain: Chain) -> None:
    chain.attach("plain")
    assert chain.applied(chain.write()) == {"shop"}
    change = "CHANGE REPLICATION FILTER REPLICATE_DO_DB = ({}) FOR REPLICA 'plain'"
    _, warnings = chain.console(change.format("shop, hr"))
    assert "does not come back" in warnings
    assert "the new filter passes statements with the current database 'hr' from " in warnings
    assert chain.applied(chain.write()) == {"shop", "hr"}
    _, warnings = chain.console(change.format("hr"))
    assert "does not come back" not in warnings
    assert chain.applied(chain.write()) == {"hr"}
    chain.dumpfilter.kill()
    chain.start()
    assert chain.applied(chain.write()) == {"hr"}
    columns = "origin, rules, dumping"
    rows, _ = chain.console(f"SELECT {columns} FROM dumpfilter.replica_filters WHERE user = 'plain'")
    assert rows == [("console", "--replicate-do-db=hr", 1)]
    chain.configure('["replicate-do-db=logs"]')
    chain.dumpfilter.reload()
    wait_until(lambda: chain.rules("plain") == "--replicate-do-db=logs", chain.dumpfilter.log)
    assert chain.applied(chain.write()) == {"logs"}


def test_tables_of_a_widened_filter_come_with_a_new_copy(chain: Chain) -> None:
    """The steps of docs/filters.md, "Widening the filter of a real replica"."""
    source, replica = chain.source, chain.replica
    is_mysql = source.family == "mysql"
    chain.configure()
    chain.dumpfilter.reload()
    wait_until(lambda: chain.file_rules("plain") == "--replicate-do-db=shop", chain.dumpfilter.log)
    chain.attach("plain", "do-db=shop")
    chain.write()
    replica.control("STOP")
    for row in (100, 101):
        source.sql("USE shop", f"INSERT INTO t VALUES ({row})", "USE hr", f"INSERT INTO t VALUES ({row})")
    # A copy of the tables of hr, and the place to which the copy belongs
    copied, place, gtids = source.sql("SELECT a FROM hr.t"), source.binlog_end(), source.binlog_gtids()
    source.sql("USE hr", "INSERT INTO t VALUES (102)", "DELETE FROM t WHERE a = 100", "USE shop")
    source.sql("INSERT INTO t VALUES (102)")
    until = f"SQL_AFTER_GTIDS = '{gtids}'"
    if not is_mysql:
        until = f"MASTER_LOG_FILE = '{place.file}', MASTER_LOG_POS = {place.position}"
    replica.sql(f"START REPLICA UNTIL {until}")

    def has_stopped() -> bool:
        status = replica.status()
        return status is not None and not status.sql_running

    wait_until(has_stopped, replica.status)
    replica.control("STOP")
    if is_mysql:
        # The relay log may have later events, which the old filter chose. MariaDB discards it by itself.
        replica.sql("RESET REPLICA")
    else:
        # The last transactions before the place were dropped. The replica hears of their GTIDs later.
        replica.sql(f"SET GLOBAL gtid_slave_pos = '{gtids}'")
    replica.sql("SET SESSION sql_log_bin = 0", "DELETE FROM hr.t")
    for (row,) in copied:
        replica.sql(f"INSERT INTO hr.t VALUES ({row})")
    replica.sql("SET SESSION sql_log_bin = 1")
    replica.set_filter(["--replicate-do-db=shop", "--replicate-do-db=hr"])
    chain.console("CHANGE REPLICATION FILTER REPLICATE_DO_DB = (shop, hr) FOR REPLICA 'plain'")
    replica.control("START")
    chain.write()
    for database in ("shop", "hr"):
        rows = "SELECT a FROM {}.t ORDER BY a".format
        assert replica.sql(rows(database))[-3:] == source.sql(rows(database))[-3:]
    assert replica.sql("SELECT a FROM hr.t ORDER BY a") == source.sql("SELECT a FROM hr.t ORDER BY a")


def test_the_end_of_an_xa_transaction_follows_the_filter_of_its_prepared_part(chain: Chain) -> None:
    """The filter changes while the replica is away, between XA PREPARE and XA COMMIT."""
    source, replica = chain.source, chain.replica
    chain.configure()
    chain.dumpfilter.reload()
    chain.attach("xa")
    wait_until(lambda: chain.rules("xa") == "--replicate-do-db=shop", chain.dumpfilter.log)
    chain.write()
    for xid, database in (("kept", "shop"), ("dropped", "hr"), ("neither", "logs")):
        # The transaction belongs to its session until the session ends.
        with source.connect() as session, session.cursor() as cursor:
            for statement in (
                f"USE {database}",
                f"XA START '{xid}'",
                f"INSERT INTO {database}.t VALUES (200)",
                f"XA END '{xid}'",
                f"XA PREPARE '{xid}'",
            ):
                cursor.execute(statement)

    def caught_up() -> bool:
        return replica.applied_gtids() == source.binlog_gtids()

    wait_until(caught_up, lambda: str(replica.status()))
    assert len(replica.prepared()) == 1
    replica.control("STOP")
    chain.configure('["replicate-do-db=hr"]')
    chain.dumpfilter.reload()
    wait_until(lambda: chain.file_rules("xa") == "--replicate-do-db=hr", chain.dumpfilter.log)
    replica.control("START")
    for xid in ("kept", "dropped", "neither"):
        source.sql(f"XA COMMIT '{xid}'")
    wait_until(caught_up, lambda: str(replica.status()))
    assert replica.prepared() == []
    assert chain.applied(200) == {"shop"}
