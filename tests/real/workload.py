"""A random workload on a real source: rows, statements, DDL, XA, temporary tables, GTIDs of many kinds.

Each writer has tables of its own in each database, so that the writers of MariaDB can have domains of their own. A
replica with one of the filters of :data:`FILTERS` applies the workload without an error. The tables ``notes`` are
written by INSERT alone, in statements with any current database, so that a change of a filter breaks nothing.
"""

from __future__ import annotations

import contextlib
import random
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pymysql

from tests.real.server import RealServer, as_text

DATABASES = ("shop", "hr", "logs")

FILTERS = (
    ("--replicate-do-db=shop",),
    ("--replicate-ignore-db=logs", "--replicate-wild-ignore-table=hr.tmp%"),
    ("--replicate-wild-do-table=shop.%", "--replicate-wild-do-table=hr.t%"),
    ("--replicate-do-db=shop", "--replicate-do-db=hr", "--replicate-ignore-table=hr.t1"),
    ("--replicate-wild-ignore-table=logs.%", "--replicate-wild-ignore-table=hr.t_"),
    (),
)
"""Filters under which a replica applies the workload without an error."""

NARROWER = "--replicate-wild-ignore-table=%.notes%"
"""A rule that can come and go, since only INSERT statements touch these tables."""

LARGE_EVENT = 17 << 20
"""The size of a value whose rows event takes more than one packet, bytes."""

PAUSE_TIMEOUT = 120.0

DEFINITIONS = ("ddl", "select", "account", "call")
"""Operations that create, alter or drop objects."""

XA = "xa"
"""The operation that runs an XA transaction, or rolls one back that a lost connection has left."""

_PAUSE = 0.01
"""The time between two attempts to log in, seconds."""


def prepare_replica(replica: RealServer, writers: int) -> None:
    """Make the databases, which a CREATE PROCEDURE needs that passes a filter on tables, and the tables ``notes``.

    A statement for a table ``notes`` passes a filter on databases that its CREATE TABLE did not pass.
    """
    replica.empty(DATABASES)
    replica.sql("SET SESSION sql_log_bin = 0")
    _make_notes(replica, writers)
    replica.sql("SET SESSION sql_log_bin = 1")


def _make_notes(server: RealServer, writers: int) -> None:
    for database in DATABASES:
        for n in range(writers):
            server.sql(
                f"CREATE TABLE IF NOT EXISTS {database}.notes{n} (id INT PRIMARY KEY, v VARCHAR(250)) ENGINE=InnoDB"
            )


def prepare(source: RealServer, writers: int) -> None:
    """Make the databases and tables."""
    for database in DATABASES:
        source.sql(f"CREATE DATABASE IF NOT EXISTS {database}", f"USE {database}")
        for n in range(writers):
            source.sql(
                f"CREATE TABLE t{n} (id INT PRIMARY KEY, v VARCHAR(250), n INT DEFAULT 0, KEY (n)) ENGINE=InnoDB",
                f"CREATE TABLE tmp{n} (id INT PRIMARY KEY, v LONGBLOB) ENGINE=InnoDB",
                f"CREATE TABLE x{n} (id INT PRIMARY KEY, v VARCHAR(250)) ENGINE=InnoDB",
                f"CREATE TABLE auto{n} (id INT PRIMARY KEY AUTO_INCREMENT, v DOUBLE, w VARCHAR(80)) ENGINE=InnoDB",
                f"CREATE TABLE audit{n} (ref INT) ENGINE=InnoDB",
                f"CREATE TRIGGER tr{n} AFTER INSERT ON auto{n} FOR EACH ROW "
                f"INSERT INTO audit{n} (ref) VALUES (NEW.id)",
            )
    _make_notes(source, writers)


class Writer:
    """One connection to the source that runs random operations in a thread of its own."""

    def __init__(
        self,
        source: RealServer,
        number: int,
        seed: int,
        *,
        large: bool = True,
        xa_everywhere: bool = True,
        left_out: Sequence[str] = (),
    ) -> None:
        self.number = number
        self._xa_everywhere = xa_everywhere and source.family == "mariadb"
        self.done: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self._source = source
        self._random = random.Random(f"{seed}-{number}")
        self._key = 0
        self._columns = 0
        self._large = large
        self._left_out = left_out
        self._last_large = time.monotonic()
        self._go = threading.Event()
        self._idle = threading.Event()
        self._step_changed = threading.Condition()
        self._running = ""
        """The name of the operation that runs, or empty between operations."""
        self._held: frozenset[str] = frozenset()
        """Names of operations that the writer must not begin."""
        self._end = False
        self._connection: Any = None
        self._files = tempfile.TemporaryDirectory(prefix="dumpfilter-load-")
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    # -- control

    def resume(self) -> None:
        """Let the writer work."""
        self._idle.clear()
        self._go.set()

    def pause(self) -> None:
        """Let the writer finish its operation, and wait for that."""
        self._go.clear()
        assert self._idle.wait(PAUSE_TIMEOUT), f"writer {self.number} does not pause"
        died = [error for error in self.errors if "died" in error]
        assert not died, died

    @contextlib.contextmanager
    def without(self, *operations: str) -> Iterator[None]:
        """Let the writer end these operations, and begin none of them inside the ``with`` block."""
        with self._step_changed:
            self._held = frozenset(operations)
            ended = self._step_changed.wait_for(lambda: self._running not in self._held, PAUSE_TIMEOUT)
        try:
            assert ended, f"writer {self.number} does not end an operation of {operations}"
            yield
        finally:
            self._held = frozenset()

    def close(self) -> None:
        """End the writer."""
        self._end = True
        self._go.set()
        self._thread.join(PAUSE_TIMEOUT)
        self._files.cleanup()

    def _run(self) -> None:
        try:
            self._work()
        except Exception as error:
            self.errors[f"the writer died: {error!r}"] += 1
            self._idle.set()

    def _work(self) -> None:
        while not self._end:
            if not self._go.is_set():
                self._idle.set()
                self._go.wait()
                continue
            try:
                if self._connection is not None:
                    self._step()
                elif not self._run_operation(XA, self._login):
                    time.sleep(_PAUSE)
            except (pymysql.Error, OSError) as error:
                self.errors[str(error.args[0] if error.args else error)] += 1
                self._recover()

    def _login(self) -> None:
        self._connection = pymysql.connect(
            unix_socket=str(self._source.socket),
            user="root",
            autocommit=True,
            local_infile=True,
            max_allowed_packet=64 << 20,
            connect_timeout=5,
        )
        self._key = max(
            self._key,
            *(
                int(self._value(f"SELECT COALESCE(MAX(id), 0) FROM {database}.{table}{self.number}"))
                for database in DATABASES
                for table in ("t", "notes", "x")
            ),
        )
        if self._source.family == "mariadb":
            self._sql(f"SET SESSION gtid_domain_id = {self.number}")
        self._sql("SET SESSION lock_wait_timeout = 20")
        self._sql("SET SESSION innodb_lock_wait_timeout = 10")
        # A lost connection leaves its prepared transaction, which keeps its locks.
        with self._connection.cursor() as cursor:
            cursor.execute("XA RECOVER")
            left = [as_text(row[3]) for row in cursor.fetchall()]
        for name in left:
            if name.startswith(f"w{self.number}-"):
                self._sql(f"XA ROLLBACK '{name}'")

    def _recover(self) -> None:
        """Drop the connection after an error, with its open transaction and its temporary tables."""
        if self._connection is not None:
            with contextlib.suppress(Exception):
                self._connection.close()
        self._connection = None
        time.sleep(0.1)

    def _sql(self, statement: str, values: tuple[Any, ...] | None = None) -> None:
        with self._connection.cursor() as cursor:
            cursor.execute(statement, values)

    def _value(self, statement: str) -> Any:
        with self._connection.cursor() as cursor:
            cursor.execute(statement)
            return cursor.fetchone()[0]

    # -- operations

    def _step(self) -> None:
        chance = self._random
        name = chance.choices(
            (
                *("rows", "rows", "many", "note", "context", "savepoint", "xa", "temporary", "ddl", "select"),
                *("load", "account", "call", "mode", "large"),
            ),
            (20, 10, 10, 12, 8, 6, 6, 4, 4, 2, 2, 1, 3, 6, 1),
        )[0]
        if name in self._left_out or not self._run_operation(name, getattr(self, f"_do_{name}")):
            return
        self.done[name] += 1
        time.sleep(chance.random() * 0.02)

    def _run_operation(self, name: str, run: Callable[[], None]) -> bool:
        """Run an operation unless the operations of its name are held. Return whether it ran."""
        with self._step_changed:
            if name in self._held:
                return False
            self._running = name
        try:
            run()
        finally:
            with self._step_changed:
                self._running = ""
                self._step_changed.notify_all()
        return True

    def _database(self) -> str:
        return self._random.choice(DATABASES)

    def _use(self, database: str) -> None:
        self._connection.select_db(database)

    def _text(self) -> str:
        return self._random.choice("abcdef") * self._random.randrange(200)

    def _next(self) -> int:
        self._key += 1
        return self._key

    def _do_mode(self) -> None:
        """Change the session: the format of its events, the kind of its GTIDs."""
        chance = self._random
        self._sql(f"SET SESSION binlog_format = {chance.choice(('ROW', 'ROW', 'MIXED', 'STATEMENT'))}")
        self._sql(f"SET SESSION binlog_row_image = {chance.choice(('FULL', 'MINIMAL'))}")
        if self._source.family == "mysql":
            self._sql(f"SET SESSION binlog_transaction_compression = {chance.choice(('ON', 'OFF'))}")
            self._sql(f"SET SESSION binlog_rows_query_log_events = {chance.choice(('ON', 'OFF'))}")
            self._sql(
                f"SET gtid_next = '{chance.choice(('AUTOMATIC', 'AUTOMATIC:blue', 'AUTOMATIC:green'))}'"
            )
        else:
            self._sql(f"SET SESSION binlog_annotate_row_events = {chance.choice(('ON', 'OFF'))}")

    def _change(self, database: str) -> None:
        """Change rows of one table, which is in the current database."""
        chance, table = self._random, f"{database}.t{self.number}"
        kind = chance.randrange(4)
        if kind <= 1:
            rows = ", ".join(
                f"({self._next()}, '{self._text()}', {chance.randrange(50)})"
                for _ in range(chance.randrange(1, 9))
            )
            self._sql(f"INSERT INTO {table} (id, v, n) VALUES {rows}")
        elif kind == 2:
            low = chance.randrange(self._key + 1)
            self._sql(
                f"UPDATE {table} SET v = '{self._text()}', n = n + 1 WHERE id BETWEEN {low} AND {low + 20}"
            )
        else:
            low = chance.randrange(self._key + 1)
            self._sql(f"DELETE FROM {table} WHERE id BETWEEN {low} AND {low + 8}")

    def _do_rows(self) -> None:
        database = self._database()
        self._use(database)
        self._change(database)

    def _do_many(self) -> None:
        """Change tables of several databases in one transaction."""
        self._sql("BEGIN")
        for _ in range(self._random.randrange(1, 8)):
            database = self._database()
            self._use(database)
            self._change(database)
        self._sql(self._random.choice(("COMMIT", "COMMIT", "COMMIT", "ROLLBACK")))

    def _do_note(self) -> None:
        """Write a table from any current database, by which rules about databases take statements."""
        self._use(self._database())
        table = f"{self._database()}.notes{self.number}"
        self._sql(f"INSERT INTO {table} VALUES ({self._next()}, '{self._text()}')")

    def _do_context(self) -> None:
        """Insert with a user variable, a random number and a generated key, which need events before a statement."""
        self._use(self._database())
        self._sql(f"SET @who = '{self._text()[:40]}'")
        self._sql(f"INSERT INTO auto{self.number} (v, w) VALUES (RAND(), @who), (RAND(), 'two')")

    def _do_savepoint(self) -> None:
        self._sql("BEGIN")
        for n in range(3):
            database = self._database()
            self._use(database)
            self._change(database)
            self._sql(f"SAVEPOINT s{n}")
        self._sql(f"ROLLBACK TO s{self._random.randrange(3)}")
        database = self._database()
        self._use(database)
        self._change(database)
        self._sql("COMMIT")

    def _do_xa(self) -> None:
        """Run an XA transaction.

        MySQL runs it in ``shop`` alone, because a replica of MySQL stops at one that a filter touches. A workload with
        fail-overs does so with MariaDB, too. Otherwise a replica could go from dumpfilter to the source between XA
        PREPARE and XA COMMIT, and would lack the prepared transaction if dumpfilter dropped it.
        """
        database = self._database() if self._xa_everywhere else "shop"
        self._use(database)
        name = f"'w{self.number}-{self._next()}'"
        self._sql(f"XA START {name}")
        for _ in range(2):
            self._sql(f"INSERT INTO {database}.x{self.number} VALUES ({self._next()}, '{self._text()}')")
        self._sql(f"XA END {name}")
        self._sql(f"XA PREPARE {name}")
        time.sleep(self._random.random() * 0.05)
        self._sql(f"XA {self._random.choice(('COMMIT', 'COMMIT', 'ROLLBACK'))} {name}")

    def _do_temporary(self) -> None:
        """Fill a table from a temporary one, in row format, since a killed replica loses its temporary tables."""
        database = self._database()
        self._use(database)
        table, first = f"tmp_{self.number}", self._next()
        self._sql("SET SESSION binlog_format = ROW")
        self._sql(f"CREATE TEMPORARY TABLE {table} (id INT, v VARCHAR(200))")
        self._sql(f"INSERT INTO {table} VALUES ({first}, 'a'), ({self._next()}, 'b')")
        self._sql(f"INSERT INTO {database}.t{self.number} (id, v) SELECT id, v FROM {table}")
        self._sql(f"DROP TEMPORARY TABLE {table}")

    def _do_ddl(self) -> None:
        database = self._database()
        self._use(database)
        name, chance = f"tmp_ddl{self.number}", self._random
        self._sql(f"DROP TABLE IF EXISTS {name}, {name}_new")
        self._sql(f"CREATE TABLE {name} (id INT PRIMARY KEY, v VARCHAR(20)) ENGINE=InnoDB")
        self._sql(f"INSERT INTO {name} VALUES (1, 'one'), (2, 'two')")
        self._columns += 1
        self._sql(f"ALTER TABLE {name} ADD COLUMN c{self._columns} INT DEFAULT {chance.randrange(9)}")
        self._sql(f"INSERT INTO {name} (id, v) VALUES (3, 'three')")
        kind = chance.randrange(3)
        if kind == 0:
            self._sql(f"RENAME TABLE {name} TO {name}_new")
        elif kind == 1:
            self._sql(f"TRUNCATE TABLE {name}")
        else:
            self._sql(f"CREATE INDEX by_v ON {name} (v)")

    def _do_select(self) -> None:
        """Make a table from a query."""
        database = self._database()
        self._use(database)
        name = f"tmp_made{self.number}"
        self._sql(f"DROP TABLE IF EXISTS {name}")
        self._sql(f"CREATE TABLE {name} (PRIMARY KEY (id)) SELECT id, v FROM tmp{self.number} LIMIT 0")

    def _do_load(self) -> None:
        """Load rows from a file, which statements carry in events of their own."""
        database = self._database()
        self._use(database)
        path = Path(self._files.name) / "rows"
        path.write_text("".join(f"{self._next()}\t{self._text()}\n" for _ in range(50)))
        try:
            self._sql(f"LOAD DATA LOCAL INFILE '{path}' INTO TABLE t{self.number} (id, v)")
        except AttributeError as error:
            if self._connection.open:
                raise
            # PyMySQL uses its socket once more after the server has gone, and has none then.
            raise ConnectionError("the source has gone") from error

    def _do_account(self) -> None:
        self._use(self._database())
        name = f"'u{self.number}{self._random.randrange(3)}'@'localhost'"
        self._sql(self._random.choice((f"CREATE USER IF NOT EXISTS {name}", f"DROP USER IF EXISTS {name}")))

    def _do_call(self) -> None:
        database = self._database()
        self._use(database)
        name = f"p{self.number}"
        self._sql(f"DROP PROCEDURE IF EXISTS {name}")
        self._sql(
            f"CREATE PROCEDURE {name}(IN k INT) BEGIN INSERT INTO {database}.t{self.number} (id, v) VALUES (k, 'p'); "
            f"UPDATE {database}.t{self.number} SET n = n + 1 WHERE id = k; END"
        )
        self._sql(f"CALL {name}({self._next()})")

    def _do_large(self) -> None:
        """Write a transaction of many megabytes, at most one in half a minute."""
        if not self._large or time.monotonic() - self._last_large < 30:
            return
        self._last_large = time.monotonic()
        database = self._database()
        self._use(database)
        self._sql("SET SESSION binlog_format = ROW")
        self._sql(f"DELETE FROM tmp{self.number}")
        self._sql("BEGIN")
        size = self._random.choice((LARGE_EVENT, 1 << 20, 1 << 20))
        for _ in range(1 if size == LARGE_EVENT else 12):
            self._sql(f"INSERT INTO tmp{self.number} VALUES ({self._next()}, REPEAT('z', {size}))")
            self._change(database)
        self._sql("COMMIT")
