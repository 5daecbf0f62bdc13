"""Odd statements for a source and odd rules for its replicas: unusual names, comments, sessions without a database.

:mod:`tests.real.random_sets` has ordinary names and follows dependencies between objects. This module follows none: it
looks at the source for the objects that exist, and draws from all forms that a statement can have.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

Name = tuple[str, str]

DATABASES = ("shop", "s_p", "Shop", "a.b", "x y", "späß", "h`s", "sap", "t")
TABLES = (
    *("t", "t", "T", "t_1", "tx1", "t%", "a.b", "select", "é", "e", "t`q", "日本", "v-1", "1a", "lock"),
    *("history", "package", "value", "full", "lateral", "returning", "1e", "x\\"),
)
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_$]*")
_RESERVED = {"select", "lock"}
NO_DATABASE = 2
"""The number of the session that never has a default database."""


class Objects(NamedTuple):
    """The objects of the source."""

    databases: list[str]
    tables: list[Name]
    views: list[Name]
    triggers: list[Name]
    procedures: list[Name]
    functions: list[Name]
    events: list[Name]
    sequences: list[Name]


def objects_of(query: Callable[[str], Any], own: Sequence[str]) -> Objects:
    """Return the objects of a server. ``query`` runs a statement and returns its rows."""
    hidden = ", ".join(f"'{name}'" for name in own)

    def names(columns: str, table: str, more: str = "") -> list[Name]:
        schema = columns.partition(",")[0]
        rows = query(
            f"SELECT {columns} FROM information_schema.{table} WHERE {schema} NOT IN ({hidden}) {more}"
        )
        return [(str(row[0]), str(row[1])) for row in rows]

    tables = "table_schema, table_name"
    return Objects(
        [name for name, _ in names("schema_name, 1", "schemata")],
        names(tables, "tables", "AND table_type = 'BASE TABLE'"),
        names(tables, "tables", "AND table_type = 'VIEW'"),
        names("trigger_schema, trigger_name", "triggers"),
        names("routine_schema, routine_name", "routines", "AND routine_type = 'PROCEDURE'"),
        names("routine_schema, routine_name", "routines", "AND routine_type = 'FUNCTION'"),
        names("event_schema, event_name", "events"),
        names(tables, "tables", "AND table_type = 'SEQUENCE'"),
    )


class OddWorkload:
    """A generator of statements. Some of them fail at the source."""

    def __init__(self, seed: int, family: str, file: str) -> None:
        """Draw a workload. ``file`` has two lines with numbers, for LOAD DATA."""
        self._file = file
        self._random = random.Random(seed)
        self._family = family
        self._objects = Objects([], [], [], [], [], [], [], [])
        self._current: list[str | None] = [None, None, None]
        self._session = 0
        self._row = 0
        self._in_transaction = False
        self._databases = self._random.sample(DATABASES, 4)
        self._tables = list(dict.fromkeys(["t", *self._random.sample(TABLES, 6)]))

    def first(self) -> Iterator[tuple[int, str]]:
        """Yield the statements that make databases and tables."""
        for database in self._databases:
            yield 0, f"CREATE DATABASE {self._id(database)}"
            for table in dict.fromkeys(["t", *self._random.sample(self._tables, 4)]):
                yield 0, self._create(f"{self._id(database)}.{self._id(table)}")

    def next(self, objects: Objects) -> list[tuple[int, str]]:
        """Return the next statements, each with the number of its session."""
        self._objects = objects
        self._session = self._random.choices((0, 1, NO_DATABASE), (5, 3, 3))[0]
        found = []
        chance = 0.7 if self._current[self._session] is None else 0.2
        if self._session != NO_DATABASE and objects.databases and self._random.random() < chance:
            name = self._random.choice(objects.databases)
            self._current[self._session] = name
            found.append(f"USE {self._id(name)}")
        if self._random.random() < 0.12:
            found += self._transaction()
        else:
            found += self._statement()
        return [(self._session, self._decorated(text)) for text in found]

    def _transaction(self) -> list[str]:
        inner = []
        for _ in range(self._random.randint(1, 5)):
            roll = self._random.random()
            if roll < 0.2:
                inner.append(f"SAVEPOINT {self._random.choice(('s', 's2', '`s 3`'))}")
            elif roll < 0.3:
                inner.append(f"ROLLBACK TO {self._random.choice(('s', 'SAVEPOINT s2', '`s 3`'))}")
            elif roll < 0.35:
                inner.append("RELEASE SAVEPOINT s")
            else:
                inner += self._rows()
        # A MySQL replica stops at an XA transaction that its filter touches.
        if self._family == "mariadb" and self._random.random() < 0.25:
            name = self._random.choice(("'x'", "'x','b1',7", "X'6162','b'"))
            end = self._random.choice(
                ([f"XA COMMIT {name} ONE PHASE"],)
                + ([f"XA PREPARE {name}", f"XA COMMIT {name}"],) * 2
                + ([f"XA PREPARE {name}", f"XA ROLLBACK {name}"],)
            )
            inner = [text for text in inner if "SAVEPOINT" not in text and "ROLLBACK" not in text]
            return [f"XA START {name}", *inner, f"XA END {name}", *end]
        begin = self._random.choice(
            ("BEGIN", "START TRANSACTION", "START TRANSACTION WITH CONSISTENT SNAPSHOT")
        )
        return [begin, *inner, self._random.choice(("COMMIT", "COMMIT", "ROLLBACK"))]

    # Names.

    def _id(self, name: str) -> str:
        if _PLAIN.fullmatch(name) and name.lower() not in _RESERVED and self._random.random() < 0.7:
            return name
        roll = self._random.random()
        if roll < 0.05 and '"' not in name:
            return f'"{name}"'
        if roll < 0.08 and self._family == "mariadb":
            return f"[{name}]"
        return f"`{name.replace('`', '``')}`"

    def _shown(self, name: Name) -> str:
        if name[0] == self._current[self._session] and self._random.random() < 0.6:
            dot = "." if self._family == "mariadb" and self._random.random() < 0.03 else ""
            return f"{dot}{self._id(name[1])}"
        dot = self._random.choices((".", " . ", "./**/", " ."), (12, 1, 1, 1))[0]
        return f"{self._id(name[0])}{dot}{self._id(name[1])}"

    def _one(self, names: list[Name]) -> str | None:
        return self._shown(self._random.choice(names)) if names else None

    def _table(self) -> str:
        return self._one(self._objects.tables) or "nosuch.t"

    def _t(self, word: str = "t") -> str:
        """Return a table with the name ``word``, in some case and database."""
        return self._one([name for name in self._objects.tables if name[1].lower() == word]) or word

    def _new(self, *names: str) -> str:
        database = self._random.choice(self._objects.databases or ["nosuch"])
        if self._current[self._session] is not None and self._random.random() < 0.4:
            database = str(self._current[self._session])
        return self._shown((database, self._random.choice(names or self._tables)))

    def _decorated(self, text: str) -> str:
        roll = self._random.random()
        if roll > 0.25 or text.startswith(("BEGIN", "XA", "COMMIT")):
            return text
        comments = ["/* t */ ", "/*!50000 */", "-- c\n", "# d.t\n", "/**/", "/*!99999 DROP TABLE t */ "]
        comments += ["--\x7f'\n"]
        comments += ["/*M!99999 t */ ", "/*M! */ "] if self._family == "mariadb" else ["/*+ x */ "]
        comment = self._random.choice(comments)
        if roll < 0.05:
            return f"{comment}{text}"
        if roll < 0.1:
            return f"{text} {self._random.choice(('/* end */', '-- end', '# end', ';', '/*!50000 */'))}"
        spaces = [found.start() for found in re.finditer(r"(?<=[A-Za-z]) (?=[A-Za-z`])", text)]
        if not spaces:
            return text
        at = self._random.choice(spaces[:5])
        if text[: at + 1].count("'") % 2 or text[: at + 1].count("`") % 2:
            return text
        if roll < 0.2:
            return f"{text[:at]} {comment}{text[at + 1 :]}"
        word = re.match(r"[A-Z]+\b", text[at + 1 :])
        if word is None:
            return text
        mark = self._random.choice(("/*!", "/*!40000 ", "/*!50003 "))
        if self._family == "mariadb":
            mark = self._random.choice((mark, "/*M!100000 ", "/*M! "))
        return f"{text[:at]} {mark}{word[0]} */{text[at + 1 + len(word[0]) :]}"

    # Statements.

    def _create(self, shown: str) -> str:
        engine = self._random.choices(("", " ENGINE=MyISAM", " ENGINE=MEMORY"), (12, 1, 1))[0]
        return f"CREATE TABLE {shown} (id INT AUTO_INCREMENT PRIMARY KEY, v INT, w VARCHAR(40) DEFAULT 'd'){engine}"

    def _statement(self) -> list[str]:
        groups: dict[Callable[[], list[str]], int] = {
            self._rows: 30,
            self._tables_changed: 25,
            self._others: 22,
            self._database: 4,
            self._accounts: 6,
            self._temporary: 6,
            self._administration: 5,
        }
        return self._random.choices(list(groups), list(groups.values()))[0]()

    def _rows(self) -> list[str]:
        a, b, c = self._table(), self._table(), self._table()
        v = self._random.randint(1, 99)
        modifier = self._random.choice(("LOW_PRIORITY", "HIGH_PRIORITY", "IGNORE", "IGNORE INTO"))
        load = f"LOCAL INFILE '{self._file}'"
        forms = [
            f"INSERT INTO {a} (v) VALUES ({v})",
            f"INSERT INTO {a} (v) VALUES ({v})",
            f"INSERT {modifier} {a} SET v = {v}",
            f"INSERT INTO {a} (v) SELECT v FROM {b} LIMIT 2",
            f"INSERT INTO {a} (v) SELECT x.v FROM {b} AS x, {c} AS y LIMIT 1",
            f"INSERT INTO {a} (v) (SELECT 5) UNION ALL (SELECT v FROM {b} LIMIT 1)",
            f"INSERT INTO {a} (id, v) VALUES (1, 1) ON DUPLICATE KEY UPDATE v = (SELECT MAX(id) FROM {b} AS o)",
            f"INSERT INTO {a} (v) WITH q AS (SELECT id FROM {b}) SELECT MAX(id) FROM q",
            f"REPLACE INTO {a} (id, v) VALUES ({self._random.randint(1, 9)}, {v})",
            f"REPLACE {a} (v) SELECT MAX(v) FROM {b}",
            f"UPDATE {a} SET v = COALESCE(v, 0) + 1",
            f"UPDATE LOW_PRIORITY IGNORE {a} AS x SET x.v = {v} ORDER BY id LIMIT 3",
            f"UPDATE {a} SET v = (SELECT MAX(id) FROM {b} AS o) + RAND() * 5",
            f"UPDATE {a} AS x, {b} AS y SET x.v = {v} WHERE x.id <= y.id",
            f"UPDATE {a} AS x, {b} AS y SET y.v = {v} WHERE x.id <= y.id",
            f"UPDATE {a} x JOIN {b} y ON x.id = y.id SET x.v = {v}, y.v = {v}",
            f"UPDATE {a} x LEFT JOIN ({b} y, {c} z) ON x.id = y.id SET z.v = {v} + z.id",
            f"UPDATE (({a} x) JOIN ({b} y)) SET y.v = {v}",
            f"UPDATE {a} x NATURAL JOIN {b} y SET x.w = 'n{v}'",
            f"UPDATE (SELECT id FROM {a} LIMIT 2) d STRAIGHT_JOIN {b} x ON d.id = x.id SET x.v = {v}",
            f"UPDATE {a} x, (SELECT MAX(id) m FROM {b}) d, {c} z SET z.v = {v} WHERE z.id <= d.m",
            f"UPDATE {a} x, {b} y SET x.v = {v} WHERE x.id IN (SELECT id FROM {c} AS i WHERE id IN (SELECT 1))",
            f"UPDATE {a}, {b} SET {a}.v = {v}, {b}.v = {v}",
            f"UPDATE {a} x RIGHT JOIN {b} y ON x.id = y.id SET {self._random.choice('xy')}.v = {v}",
            f"UPDATE {a} x NATURAL RIGHT JOIN {b} y, {c} z SET z.v = {v}, y.w = 'r'",
            f"UPDATE {a} x, ({b} y LEFT JOIN {c} z USING (id) RIGHT JOIN {a} u USING (id)) SET y.v = {v}",
            f"UPDATE {a} x JOIN {b} y SET y.v = (SELECT MAX(o.id) FROM {c} o RIGHT JOIN {c} p USING (id))",
            f"DELETE FROM {a} ORDER BY id LIMIT 1",
            f"DELETE QUICK FROM {a} WHERE id IN (SELECT id FROM {b} AS o) LIMIT 1",
            f"DELETE x FROM {a} AS x, {b} AS y WHERE x.id = y.id AND x.id % 3 = 0",
            f"DELETE y, x FROM {a} AS x JOIN {b} AS y ON x.id = y.id WHERE x.id % 4 = 0",
            f"DELETE FROM y USING {a} AS x JOIN {b} AS y ON x.id = y.id WHERE x.id % 5 = 0",
            f"DELETE {a}, {b} FROM {a}, {b} WHERE {a}.id = {b}.id AND {a}.id % 6 = 0",
            f"DELETE {a}.* FROM {a} JOIN {b} WHERE {a}.id % 7 = 0",
            f"DELETE x, y FROM {a} AS x RIGHT JOIN {b} AS y ON x.id = y.id WHERE y.id % 8 = 0",
            f"DELETE {self._random.choice(('', 'QUICK '))}history FROM {a} x JOIN {self._t('history')} USING (id)",
            f"DELETE {self._random.choice(('t', 'T'))} FROM {a} JOIN {b} WHERE 1",
            f"DELETE FROM t USING {self._t()} JOIN {self._t()} ON 1",
            f"DELETE T FROM {self._t()} JOIN {self._t()} JOIN {a} x ON 1",
            f"LOAD DATA {load} INTO TABLE {a} (v)",
            f"LOAD DATA {load} REPLACE INTO TABLE {a} FIELDS TERMINATED BY ',' (@x) SET v = @x + 1",
            f"LOAD DATA LOW_PRIORITY {load} IGNORE INTO TABLE {a} CHARACTER SET utf8mb4 (id)",
            f"TRUNCATE {self._random.choice(('TABLE ', ''))}{a}",
            f"INSERT INTO {a} (w) VALUES ('it''s \\' \" ` -- # /* {v}'), (\"a'b\"), (_binary'x'), (N'n'), (0x41)",
        ]
        if view := self._one(self._objects.views):
            forms += [
                f"UPDATE {view} SET v = {v}",
                f"UPDATE {view} AS x, {a} AS y SET y.v = {v} WHERE x.id = y.id",
                f"UPDATE {a} AS y, {view} AS x SET x.v = {v} WHERE x.id = y.id",
                f"INSERT INTO {view} (v) VALUES ({v})",
                f"DELETE FROM {view} LIMIT 1",
                f"UPDATE {view} x JOIN {a} y USING (id) SET y.v = {v} WHERE y.id IN (SELECT id FROM {c} AS o)",
                f"UPDATE {view} x LEFT JOIN {a} y USING (id) SET x.v = {v}, y.v = (SELECT MAX(v) FROM {c} AS o)",
            ]
        if function := self._one(self._objects.functions):
            forms += [
                f"SELECT {function}(1)",
                f"DO {function}(2)",
                f"SELECT {function}(id) FROM {a} LIMIT 1",
                f"SELECT (SELECT {function}(MAX(id)) FROM {a})",
                f"INSERT INTO {a} (v) VALUES ({function}(3))",
                f"SELECT {function}(EXTRACT(YEAR FROM NOW()))",
                f"SELECT {function}(1) FROM DUAL",
                f"SELECT {function}(d.x) FROM (SELECT 1 AS x) d",
                f"SET @f = {function}(4)",
            ]
        if procedure := self._one(self._objects.procedures):
            forms += [f"CALL {procedure}({v})"] * 3
        if self._family == "mysql":
            forms += [
                f"INSERT INTO {a} (v) VALUES ROW({v}), ROW(2)",
                f"INSERT INTO {a} (v) VALUES ({v}) AS new ON DUPLICATE KEY UPDATE v = new.v",
                f"INSERT /*+ SET_VAR(sort_buffer_size = 1M) */ INTO {a} (v) VALUES ({v})",
                f"WITH q AS (SELECT id FROM {b}) UPDATE {a} SET v = {v} WHERE id IN (SELECT id FROM q)",
                f"WITH q AS (SELECT id FROM {b}) DELETE FROM {a} WHERE id IN (SELECT id FROM q) LIMIT 1",
                f"WITH q AS (SELECT id FROM {b}) UPDATE {a} x JOIN q ON q.id = x.id SET x.v = {v}",
                f"UPDATE {a} x, LATERAL (SELECT MAX(v) m FROM {b} y WHERE y.id = x.id) l SET x.v = l.m",
                f"UPDATE {a} x, JSON_TABLE('[1,2]', '$[*]' COLUMNS (k INT PATH '$')) j SET x.v = {v} WHERE x.id = j.k",
                f"UPDATE {a} x JOIN {b} y USING (id) SET y.v = {v} WHERE (y.id, y.v, y.w) IN (TABLE {c})",
                f"INSERT INTO {a} TABLE {b}",
                f"REPLACE INTO {a} TABLE {b} ORDER BY id LIMIT 2",
            ]
        else:
            forms += [
                f"INSERT INTO {a} (v) VALUES ({v}) RETURNING id",
                f"DELETE FROM {a} WHERE id = 2 RETURNING id",
                f"SET STATEMENT max_statement_time = 100 FOR INSERT INTO {a} (v) VALUES ({v})",
                f"SET STATEMENT sort_buffer_size = 100000, max_statement_time = 9 FOR UPDATE {a}, {b} SET {b}.v = {v}",
                f"EXECUTE IMMEDIATE 'INSERT INTO {a} (v) VALUES ({v})'",
                f"INSERT DELAYED INTO {a} (v) VALUES ({v})",
                f"INSERT INTO {a} (v) VALUES (VALUE(v))",
                f"UPDATE {a} SET v = {v} WHERE id IN (WITH q AS (SELECT id FROM {b}) SELECT id FROM q)",
            ]
            if sequence := self._one(self._objects.sequences):
                forms += [
                    f"SELECT NEXT VALUE FOR {sequence}",
                    f"SELECT NEXTVAL({sequence})",
                    f"DO NEXTVAL({sequence})",
                    f"SELECT SETVAL({sequence}, {1000 + self._row})",
                    f"SET @s = NEXTVAL({sequence})",
                    f"INSERT INTO {a} (v) VALUES (NEXTVAL({sequence}))",
                    f"UPDATE {a} SET v = NEXT VALUE FOR {sequence}",
                    f"INSERT INTO {a} (v) SELECT NEXTVAL({sequence})",
                    f"DELETE FROM {a} WHERE id = NEXTVAL({sequence})",
                    f"UPDATE {a} x, (SELECT LASTVAL({sequence}) s FROM {b}) d, {c} z SET z.v = {v}",
                    f"UPDATE {a} x JOIN {b} y ON (x.id < 9 OR y.id = LASTVAL({sequence})) JOIN {c} z SET z.v = {v}",
                    f"INSERT INTO {sequence} VALUES ({9000 + self._row}, 1, 999999, 5, 1, 100, 0, 0)",
                ]
        self._row += 1
        made = self._random.choice(forms + self._easily_misread(a, b, v))
        if self._random.random() < 0.08:
            return [f"SET @u = {v}", f"INSERT INTO {a} (v) VALUES (@u), (LAST_INSERT_ID()), (RAND() * 9)"]
        return [made]

    def _easily_misread(self, a: str, b: str, v: int) -> list[str]:
        alias = self._random.choice(("returning", "value", "full", "1e"))
        values = "VALUES ROW(1), ROW(2)" if self._family == "mysql" else "VALUES (1), (2)"
        forms = [
            f"UPDATE {a} x JOIN (SELECT 'a\\\\' s) d ON x.w <> {{d '2026-11-29'}} JOIN {b} y SET y.v = 1e-1",
            f"UPDATE {a} AS {alias}, {b} y SET y.v = {v}",
            f"UPDATE ({values}) d, {a} x, {b} y SET y.v = {v}",
        ]
        if self._family == "mysql":
            return [*forms, f"UPDATE (TABLE {b}) d, {a} x SET x.v = {v}"]
        return [
            *forms,
            # These are MariaDB 11's.
            f"DELETE FROM {a} {self._random.choice(('AS x', 'x', 'history', 't'))} WHERE id % 9 = 1",
            f"DELETE x FROM {a} x JOIN {b} y USING (id) ORDER BY x.id DESC LIMIT 1",
            f"DELETE FROM {a} AS x USE INDEX (PRIMARY) WHERE id IN (SELECT id FROM {b}) RETURNING id",
        ]

    def _tables_changed(self) -> list[str]:
        a, b, new, new2 = self._table(), self._table(), self._new(), self._new()
        columns = "(id INT AUTO_INCREMENT PRIMARY KEY, v INT, w VARCHAR(40))"
        n = self._row = self._row + 1
        maybe = self._random.choice(("", "IF NOT EXISTS "))
        if_exists = self._random.choice(("", "IF EXISTS "))
        parts = "PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (5), PARTITION p1 VALUES LESS THAN MAXVALUE)"
        forms = [
            *[self._create(new)] * 4,
            f"CREATE TABLE {maybe}{new} {columns} COMMENT 'LIKE {n}; RENAME TO x'",
            f"CREATE TABLE {maybe}{new} LIKE {a}",
            f"CREATE TABLE {new} (LIKE {a})",
            f"CREATE TABLE {maybe}{new} {columns} SELECT id, v FROM {a}",
            f"CREATE TABLE {new} (KEY (id)) IGNORE AS SELECT id, v FROM {a}",
            f"CREATE TABLE {new} AS (SELECT x.id, x.v, y.w FROM {a} x, {b} y)",
            f"CREATE TABLE {new} {columns} {parts}",
            f"CREATE TABLE {new} {columns[:-1]}, FOREIGN KEY (v) REFERENCES {a} (id) ON DELETE CASCADE)",
            f"ALTER TABLE {a} ADD COLUMN c{n} INT, ALGORITHM=COPY",
            f"ALTER TABLE {a} ADD COLUMN `rename` INT, COMMENT 'RENAME TO {n}'",
            f"ALTER TABLE {a} RENAME {self._random.choice(('', 'TO ', 'AS ', '= '))}{new}",
            f"ALTER TABLE {a} COMMENT = 'x', RENAME TO {new}, ADD INDEX k{n} (v)",
            f"ALTER TABLE {a} RENAME COLUMN w TO w{n}, RENAME INDEX k1 TO k2",
            f"ALTER TABLE {a} ADD CONSTRAINT f{n} FOREIGN KEY (v) REFERENCES {b} (id)",
            f"ALTER TABLE {a} ENGINE=InnoDB",
            f"ALTER TABLE {a} {parts}",
            f"ALTER TABLE {a} EXCHANGE PARTITION p0 WITH TABLE {b}",
            f"ALTER TABLE {a} TRUNCATE PARTITION p0",
            f"ALTER TABLE {a} DROP PARTITION p0",
            f"ALTER TABLE {a} REMOVE PARTITIONING",
            f"ALTER TABLE {a} {self._random.choice(('ANALYZE', 'CHECK', 'OPTIMIZE', 'REBUILD'))} PARTITION p0",
            f"ALTER TABLE {a} CONVERT TO CHARACTER SET utf8mb4",
            f"ALTER TABLE {a} ORDER BY v",
            f"RENAME TABLE {a} TO {new}",
            f"RENAME TABLE {a} TO {new}, {b} TO {new2}",
            f"RENAME TABLE {a} TO {new}, {new} TO {new2}",
            f"RENAME TABLES {a} TO {self._new('swap')}, {b} TO {a}",
            f"DROP TABLE {if_exists}{a}",
            f"DROP TABLE {if_exists}{a}, {b}",
            f"DROP TABLES IF EXISTS {a}, {self._new('nosuch')}, {b} CASCADE",
            f"CREATE INDEX i{n} ON {a} (v)",
            f"CREATE UNIQUE INDEX i{n} USING BTREE ON {a} (id, v)",
            f"DROP INDEX i{n - 1} ON {a}",
        ]
        if self._family == "mariadb":
            forms += [
                f"CREATE OR REPLACE TABLE {new} {columns}",
                f"CREATE OR REPLACE TABLE {new} LIKE {a}",
                f"CREATE OR REPLACE TABLE {new} SELECT 1 AS id, 2 AS v",
                f"ALTER TABLE IF EXISTS {a} WAIT 5 ADD COLUMN IF NOT EXISTS x{n} INT",
                f"ALTER ONLINE TABLE {a} ADD COLUMN o{n} INT",
                f"RENAME TABLE IF EXISTS {a} TO {new}, {self._new('nosuch')} TO {new2}",
                f"RENAME TABLE {a} WAIT 3 TO {new}",
                f"CREATE SEQUENCE {maybe}{self._new('seq', 's_q', 'Seq')} START {n}",
                f"CREATE OR REPLACE SEQUENCE {self._new('seq', 's_q', 'Seq')} INCREMENT 2 CACHE 3",
                f"ALTER TABLE {a} CONVERT PARTITION p0 TO TABLE {new}",
                f"ALTER TABLE {a} CONVERT TABLE {b} TO PARTITION p2 VALUES LESS THAN (50)",
                f"ALTER TABLE {a} ADD SYSTEM VERSIONING",
                f"DELETE HISTORY FROM {a}",
                f"CREATE TABLE {new} {columns} WITH SYSTEM VERSIONING",
                f"DROP TABLE IF EXISTS {a} WAIT 2, {b}",
                f"DROP INDEX IF EXISTS i{n - 1} ON {a}",
                f"CREATE INDEX IF NOT EXISTS i{n} ON {a} (v)",
                # These six are MariaDB 11's.
                f"CREATE TABLE {new} (id INT PRIMARY KEY, v INT, w VARCHAR(9), e VECTOR(2) NOT NULL, VECTOR KEY (e))",
                f"ALTER TABLE {a} EXCHANGE PARTITION p0 WITH TABLE {b} WITHOUT VALIDATION",
                f"ALTER TABLE {a} CONVERT TABLE {b} TO PARTITION p2 VALUES LESS THAN (50) WITH VALIDATION",
                f"CREATE SEQUENCE {self._new('seq', 's_q')} AS TINYINT UNSIGNED",
                f"ALTER TABLE {a} ADD COLUMN c{n} INT, ALGORITHM=COPY, LOCK=NONE",
                f"ALTER SEQUENCE {if_exists}{self._new('seq', 's_q')} AS BIGINT",
            ]
            if sequence := self._one(self._objects.sequences):
                forms += [
                    f"ALTER SEQUENCE {if_exists}{sequence} RESTART {n * 10}",
                    f"DROP SEQUENCE {if_exists}{sequence}",
                    f"ALTER TABLE {a} ADD COLUMN n{n} INT DEFAULT NEXTVAL({sequence})",
                    f"RENAME TABLE {sequence} TO {self._new('seq', 'moved')}",
                    f"DROP TABLE {sequence}",
                ]
        else:
            forms += [
                f"ALTER TABLE {a} ALTER INDEX i{n - 1} INVISIBLE",
                f"CREATE TABLE {new} TABLE {a}",
                f"CREATE TABLE {new} VALUES ROW(1, 2)",
                f"CREATE TABLE {new} (id INT PRIMARY KEY, v INT, CHECK (v > 0), g INT AS (v + 1)) SELECT 1 id, 1 v",
            ]
        return [self._random.choice(forms)]

    def _others(self) -> list[str]:
        a, b = self._table(), self._table()
        n = self._row = self._row + 1
        definer = self._random.choice(
            (
                "",
                "",
                "DEFINER=CURRENT_USER ",
                "DEFINER=CURRENT_USER() ",
                "DEFINER='x y'@'%' ",
                "DEFINER=`root`@localhost ",
            )
        )
        maybe = self._random.choice(("", "", "IF NOT EXISTS "))
        if_exists = self._random.choice(("", "IF EXISTS "))
        replaces = self._random.choice(("", "OR REPLACE ")) if self._family == "mariadb" and not maybe else ""
        view, routine = self._new("v", "V", "t", "v_w"), self._new("p", "f", "P q")
        security = self._random.choice(("", "SQL SECURITY INVOKER "))
        merge = self._random.choice(("", "ALGORITHM = MERGE "))
        body = self._random.choice(
            (
                f"INSERT INTO {a} (v) VALUES ({n})",
                f"BEGIN UPDATE {a} SET v = {n}; DELETE FROM {b} LIMIT 1; END",
                f"BEGIN UPDATE {a} x, {b} y SET x.v = {n}; END",
                "SET @x = 1",
                f"BEGIN DECLARE CONTINUE HANDLER FOR SQLEXCEPTION SET @e = 1; INSERT INTO {b} (v) VALUES (5); END",
            )
        )
        when = self._random.choice(("BEFORE INSERT", "AFTER INSERT", "AFTER UPDATE", "BEFORE DELETE"))
        forms = [
            f"CREATE {self._random.choice(('', 'OR REPLACE '))}{definer}{security}VIEW {view} AS SELECT id, v FROM {a}",
            f"CREATE {merge}{definer}VIEW {view} (id, v) AS SELECT x.id, y.v FROM {a} x JOIN {b} y",
            f"ALTER {security}VIEW {view} AS SELECT id, v FROM {a} WITH CHECK OPTION",
            f"CREATE {replaces}{definer}TRIGGER {maybe}{self._new('tr', 'Tr', 't')} {when} ON {a} FOR EACH ROW {body}",
            f"CREATE {definer}TRIGGER {self._id(f'tr{n}')} {when} ON {a} FOR EACH ROW FOLLOWS tr SET @y = 2",
            f"CREATE {replaces}{definer}TRIGGER {self._random.choice(['tr', 'tr3'])} {when} ON {a} FOR EACH ROW {body}",
            f"CREATE {definer}TRIGGER {self._qualified_trigger(n)} {when} ON t FOR EACH ROW {body}",
            f"CREATE {replaces}{definer}PROCEDURE {maybe}{routine}(x INT) {security}{body}",
            f"CREATE {replaces}{definer}FUNCTION {maybe}{routine}(x INT) RETURNS INT DETERMINISTIC {security}"
            f"BEGIN {body}; RETURN x; END",
            f"CREATE {replaces}{definer}EVENT {maybe}{self._new('ev', 'E v')} ON SCHEDULE EVERY 1 YEAR DISABLE "
            f"DO {body}",
        ]
        if self._family == "mariadb":
            # Without the mode ORACLE these are MariaDB 11's.
            package = self._new("k", "package")
            forms += [
                f"CREATE {replaces}{definer}PACKAGE {maybe}{package} PROCEDURE p(); FUNCTION f(x INT) RETURNS INT; END",
                f"CREATE {replaces}{definer}PACKAGE BODY {maybe}{package} PROCEDURE p() {body}; "
                f"FUNCTION f(x INT) RETURNS INT BEGIN {body}; RETURN x; END; END",
                f"DROP PACKAGE {self._random.choice(('', 'BODY '))}{if_exists}{package}",
                f"CALL {package}.p()",
                f"INSERT INTO {a} (v) VALUES ({package}.f(1))",
                f"CREATE {replaces}{definer}PROCEDURE {maybe}{routine}(x INT DEFAULT {n}) {security}{body}",
                f"CALL {routine}()",
                f"CREATE {replaces}FUNCTION {routine}(x INT) RETURNS ROW(a INT, b INT) "
                f"BEGIN DECLARE r ROW(a INT, b INT); {body}; RETURN r; END",
            ]
        if one := self._one(self._objects.views):
            forms += [f"DROP VIEW {if_exists}{one}", f"RENAME TABLE {one} TO {self._new('v', 'V')}"]
            forms.append(f"DROP VIEW IF EXISTS {one}, {self._new('nosuch')}")
        if one := self._one(self._objects.triggers):
            forms += [f"DROP TRIGGER {if_exists}{one}"] * 2
        if one := self._one(self._objects.procedures):
            forms += [f"DROP PROCEDURE {if_exists}{one}", f"ALTER PROCEDURE {one} COMMENT 'x'"]
        if one := self._one(self._objects.functions):
            forms += [f"DROP FUNCTION {if_exists}{one}", f"ALTER FUNCTION {one} SQL SECURITY DEFINER"]
        if one := self._one(self._objects.events):
            forms += [f"DROP EVENT {if_exists}{one}", f"ALTER EVENT {one} RENAME TO {self._new('ev')}"]
            forms.append(f"ALTER {definer}EVENT {one} DO {body}")
            forms.append(f"ALTER EVENT {one} DO ALTER TABLE {a} RENAME TO {b}")
        return [self._random.choice(forms)]

    def _qualified_trigger(self, number: int) -> str:
        return f"{self._id(self._random.choice(self._objects.databases or ['shop']))}.tr{number}"

    def _database(self) -> list[str]:
        name = self._id(self._random.choice(DATABASES))
        word = self._random.choice(("DATABASE", "SCHEMA"))
        collation = self._random.choice(("utf8mb4_bin", "utf8mb4_general_ci"))
        forms = [
            f"CREATE {word} {self._random.choice(('', 'IF NOT EXISTS '))}{name}",
            f"CREATE {word} IF NOT EXISTS {name} DEFAULT CHARACTER SET = utf8mb4",
            f"ALTER {word} {name} COLLATE {collation}",
            f"ALTER {word} {name} DEFAULT CHARACTER SET utf8mb4 DEFAULT COLLATE {collation}",
            f"ALTER {word} COLLATE {collation}",
            f"ALTER {word} DEFAULT COLLATE {collation}",
        ]
        if self._random.random() < 0.3:
            forms = [f"DROP {word} {self._random.choice(('', 'IF EXISTS '))}{name}"]
        if self._family == "mariadb":
            forms += [f"CREATE OR REPLACE {word} {self._id('repl')}", f"ALTER DATABASE {name} COMMENT 'c'"]
        return [self._random.choice(forms)]

    def _accounts(self) -> list[str]:
        a = self._table()
        user = self._random.choice(("u1", "'u2'@'%'", "u3@localhost", "`u 4`@`h`"))
        database = self._id(self._random.choice(self._objects.databases or ["shop"]))
        forms = [
            f"CREATE USER {self._random.choice(('', 'IF NOT EXISTS '))}{user}",
            "CREATE USER IF NOT EXISTS u1, 'u2'@'%', u3@localhost, `u 4`@`h`",
            f"DROP USER {self._random.choice(('', 'IF EXISTS '))}{user}",
            f"GRANT SELECT, INSERT ON {a} TO {user}",
            f"GRANT SELECT (id), UPDATE (v) ON TABLE {a} TO {user}",
            f"GRANT ALL ON {database}.* TO {user} WITH GRANT OPTION",
            f"GRANT RELOAD ON *.* TO {user}",
            f"REVOKE INSERT ON {a} FROM {user}",
            f"GRANT SELECT ON package TO {user}",
            f"REVOKE SELECT ON package FROM {user}",
            f"REVOKE ALL ON {database}.* FROM {user}",
            f"REVOKE ALL PRIVILEGES, GRANT OPTION FROM {user}",
            f"RENAME USER {user} TO u5, u5 TO {user}",
            f"ALTER USER {user} ACCOUNT LOCK",
            "CREATE ROLE IF NOT EXISTS r1",
            f"GRANT r1 TO {user}",
            f"REVOKE r1 FROM {user}",
            "DROP ROLE IF EXISTS r1",
            f"GRANT PROXY ON u1 TO {user}",
            f"SET DEFAULT ROLE r1 {'FOR' if self._family == 'mariadb' else 'TO'} {user}",
            f"SET DEFAULT ROLE NONE {'FOR' if self._family == 'mariadb' else 'TO'} {user}",
            f"SET PASSWORD FOR {user} = {'PASSWORD' if self._family == 'mariadb' else ''}('Se-1')",
            f"SET PASSWORD FOR {user} = 'Se-2'",
        ]
        if self._family == "mariadb":
            forms.append(f"GRANT SHOW CREATE ROUTINE ON {database}.* TO {user}")
            if function := self._one(self._objects.functions):
                forms.append(f"GRANT SHOW CREATE ROUTINE ON FUNCTION {function} TO {user}")
            forms.append(f"GRANT EXECUTE ON PACKAGE {self._new('k', 'package')} TO {user}")
            forms.append(f"CREATE USER {user} IDENTIFIED VIA parsec USING PASSWORD('p')")
        if routine := self._one(self._objects.procedures):
            forms.append(f"GRANT EXECUTE ON PROCEDURE {routine} TO {user}")
        if self._current[self._session] is not None:
            forms.append(f"GRANT SELECT ON * TO {user}")
        return [self._random.choice(forms)]

    def _temporary(self) -> list[str]:
        name, a = self._new("tmp", "t", "Tmp"), self._table()
        forms = [
            *[f"CREATE TEMPORARY TABLE {name} (id INT PRIMARY KEY AUTO_INCREMENT, v INT)"] * 3,
            f"CREATE TEMPORARY TABLE {name} LIKE {a}",
            f"CREATE TEMPORARY TABLE {name} SELECT id, v FROM {a}",
            f"DROP TEMPORARY TABLE IF EXISTS {name}",
            f"DROP TEMPORARY TABLE {name}",
            f"DROP TABLE IF EXISTS {name}",
            f"INSERT INTO {name} (v) VALUES (4)",
            f"INSERT INTO {a} (v) SELECT v FROM {name}",
            f"UPDATE {a} x, {name} y SET x.v = 3",
            f"TRUNCATE {name}",
            f"ALTER TABLE {name} ADD COLUMN z INT",
            f"CREATE TABLE {self._new()} LIKE {name}",
        ]
        if self._family == "mariadb":
            new = self._new("tmp", "seq")
            return self._random.choice(
                (
                    self._random.sample(forms, 3),
                    [f"CREATE TEMPORARY SEQUENCE {name}", f"ALTER TABLE {name} RENAME TO {new}"],
                    [f"DROP TEMPORARY SEQUENCE {self._random.choice(('', 'IF EXISTS '))}{name}"],
                )
            )
        return self._random.sample(forms, 3)

    def _administration(self) -> list[str]:
        a, b = self._table(), self._table()
        local = self._random.choice(("", "", "LOCAL "))
        forms = [
            f"ANALYZE {local}TABLE {a}",
            f"OPTIMIZE TABLE {a}, {b}",
            f"REPAIR TABLE {a}",
            f"CHECK TABLE {a}",
            "FLUSH TABLES",
            f"FLUSH TABLES {a}",
            f"FLUSH {local}TABLE {a}, {b}",
            "FLUSH PRIVILEGES",
            "FLUSH STATUS",
            "FLUSH LOGS",
            "FLUSH BINARY LOGS",
            "CREATE SERVER sv FOREIGN DATA WRAPPER mysql OPTIONS (USER 'x', HOST '127.0.0.1')",
            "DROP SERVER IF EXISTS sv",
            "SET SESSION sql_mode = 'ANSI_QUOTES'",
            "SET SESSION sql_mode = 'NO_BACKSLASH_ESCAPES'",
            f"SET SESSION sql_mode = '{self._random.choice(('ANSI', 'ORACLE', 'MSSQL'))}'",
            f"SET SESSION sql_mode = '{self._random.choice(('ANSI', 'MSSQL'))},NO_BACKSLASH_ESCAPES'",
            "SET SESSION sql_mode = DEFAULT",
            "SET SESSION sql_mode = DEFAULT",
            "SET SESSION foreign_key_checks = 0",
        ]
        if self._family == "mysql":
            forms += [
                f"ANALYZE TABLE {a} UPDATE HISTOGRAM ON v",
                "CREATE TABLESPACE ts ADD DATAFILE 'ts.ibd'",
                f"ALTER TABLE {a} TABLESPACE ts",
                "DROP TABLESPACE ts",
                f"CREATE LIBRARY {self._new('lib')} LANGUAGE JAVASCRIPT AS 'x'",
                f"DROP LIBRARY {self._new('lib')}",
            ]
        return [self._random.choice(forms)]


_GRANT_TABLES = ("user", "db", "tables_priv", "procs_priv", "proxies_priv", "global_priv", "roles_mapping")
_REWRITES = ("store", "people", "shop", "sap")


def odd_rules(seed: int, number: int) -> list[list[str]]:
    """Return lists of rules of all kinds and their combinations."""
    draw = random.Random(seed * 104729 + 3)
    kinds = ("do-db", "ignore-db", "do-table", "ignore-table", "wild-do-table", "wild-ignore-table")
    found: list[list[str]] = []
    while len(found) < number:
        chosen = draw.sample(kinds, draw.choices((1, 2, 3, 4), (8, 6, 2, 1))[0])
        rules = []
        for kind in chosen:
            for _ in range(draw.choices((1, 2, 3), (6, 3, 1))[0]):
                rules.append(f"--replicate-{kind}={_value(draw, kind)}")
        if draw.random() < 0.25:
            for _ in range(draw.randint(1, 3)):
                source, target = draw.choice(DATABASES), draw.choice(_REWRITES)
                rules.append(f"--replicate-rewrite-db={source}->{target}")
        rules = list(dict.fromkeys(rules))
        if rules not in found:
            found.append(rules)
    return found


def _value(draw: random.Random, kind: str) -> str:
    database = draw.choice((*DATABASES, "store", "mysql"))
    table = draw.choice(_GRANT_TABLES if database == "mysql" else (*TABLES, "v", "seq", "tmp"))
    if draw.random() < 0.1:
        database, table = _swapped(draw, database), _swapped(draw, table)
    if kind.endswith("-db"):
        return database
    if not kind.startswith("wild"):
        return f"{database}.{table}"
    roll = draw.random()
    database, table = (
        "".join(f"\\{c}" if c in "_%" and draw.random() < 0.6 else c for c in name)
        for name in (database, table)
    )
    if roll < 0.3:
        return f"{database}.%"
    if roll < 0.5:
        return f"%.{table}"
    if roll < 0.6:
        return (
            draw.choice(("%", "s%", "_hop", "%\\_%", "t", "x _", "S%p"))
            + "."
            + draw.choice(("%", "t%", "_", "t_1"))
        )
    text = f"{database}.{table}"
    changed = []
    for character in text:
        roll = draw.random()
        if character in "\\.":
            changed.append(character)
        elif roll < 0.1:
            changed.append("_")
        elif roll < 0.15:
            changed.append("%")
        elif roll < 0.22:
            changed.append(character.swapcase())
        else:
            changed.append(character)
    return "".join(changed)


def _swapped(draw: random.Random, name: str) -> str:
    return draw.choice((name.upper(), name.lower(), name.swapcase(), name.title()))
