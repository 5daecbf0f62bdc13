"""Random statements for a source, with all kinds of objects in three databases, and random rules for its replicas."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

Name = tuple[str, str]
Made = tuple[str, Callable[[], None]]
"""A statement, and a function to call if the statement succeeded."""

DATABASES = ("shop", "hr", "logs")
SWITCH = ""
"""A line that changes to the other session instead of running a statement."""

_TABLES = ("a", "b", "c_1", "c_2", "d")
_NEW = {"view": ("v1", "v2", "v5"), "trigger": ("tr1", "tr5"), "procedure": ("p1", "p4"), "one": ("f4", "f5")}
_NEW |= {"event": ("e1", "e4"), "sequence": ("s1", "s4")}
"""The names of new objects by type, if they are not named like tables."""

_KINDS = (
    *("table", "view", "trigger", "procedure", "function", "one", "event", "sequence", "user", "role"),
    "package",
)
"""The types of objects. ``one`` is a function with a parameter."""

_RARE = (
    *("_view", "_trigger", "_routine", "_event", "_drop", "_database", "_account", "_rename", "_special"),
    *(
        "_copy",
        "_key",
        "_partition",
        "_joined_view",
        "_several",
        "_body",
        "_accounts",
        "_sequences",
        "_package",
    ),
    *("_swap", "_tablespace", "_xa"),
)


def _read_forms(family: str) -> dict[str, list[str]]:
    """Return the forms of statements that a family understands, by theme."""
    found: dict[str, list[str]] = {}
    for line in Path(__file__).with_name("statements.txt").read_text().splitlines():
        if line.startswith("["):
            forms = found[line[1:-1]] = []
        elif line and not line.startswith("#"):
            only, _, form = line.rpartition(": ")
            if only in ("", family):
                forms.append(form)
    return {theme: forms for theme, forms in found.items() if forms}


@dataclass
class _Session:
    current: str = ""
    temporary: list[Name] = field(default_factory=list)


def _nothing() -> None:
    pass


class Workload:
    """A generator of statements, which knows roughly what the source has. Some of its statements fail there."""

    def __init__(self, seed: int, family: str, *, lower_case: bool = False) -> None:
        """Draw a workload. ``lower_case`` is for servers with lower_case_table_names=1: some names have capitals."""
        self._random = random.Random(seed)
        self._family = family
        self._lower_case = lower_case
        self._pending: list[str] = []
        """Statements that must follow the last one."""
        self.format = self._random.choices(("ROW", "MIXED", "STATEMENT"), (65, 15, 20))[0]
        self._databases: list[str] = []
        self._has: dict[str, list[Name]] = {kind: [] for kind in _KINDS}
        self._sessions = [_Session(), _Session()]
        self._number = 0
        self._row = 0
        self._left_out = {name for name in _RARE if self._random.random() < 0.45}
        """The makers of statements that this workload lacks, so that rare statements come before the first stop."""
        self._forms = _read_forms(family)
        self._themes = self._random.sample(list(self._forms), self._random.randint(3, len(self._forms)))

    @property
    def _session(self) -> _Session:
        return self._sessions[self._number]

    def statements(self, most: int) -> Iterator[Made]:
        """Yield statements, each with a function to call if the statement succeeded."""
        for name in self._random.sample(DATABASES, self._random.choice((2, 3, 3))):
            yield f"CREATE DATABASE {name}", self._add_database(name)
        for _ in range(most):
            if self._random.random() < 0.12:
                self._number = 1 - self._number
                yield SWITCH, _nothing
            if self._databases and self._random.random() < (0.25 if self._session.current else 0.6):
                yield self._use(self._random.choice(self._databases))
            made = self._statement()
            if made is not None:
                yield made
            while self._pending:
                yield self._pending.pop(0), _nothing

    def _statement(self) -> Made | None:
        makers: dict[Callable[[], Made | None], int] = {
            self._create_table: 16,
            self._insert: 22,
            self._change_rows: 8,
            self._rename: 6,
            self._alter_table: 5,
            self._drop_table: 5,
            self._view: 5,
            self._trigger: 5,
            self._routine: 7,
            self._event: 3,
            self._drop: 6,
            self._database: 3,
            self._account: 5,
            self._index: 2,
            self._sequence: 3 if self._family == "mariadb" else 0,
            self._temporary: 3 if self.format != "ROW" else 0,
            self._call: 3,
            self._special: 4,
            self._copy: 3,
            self._key: 3,
            self._swap: 2,
            self._partition: 3,
            self._joined_view: 4,
            self._several: 3,
            self._body: 4,
            self._use_function: 2,
            self._accounts: 3,
            self._sequences: 3 if self._family == "mariadb" else 0,
            self._package: 2 if self._family == "mariadb" else 0,
            self._tablespace: 1 if self._family == "mysql" else 0,
            self._xa: 1,
            self._form: 40,
        }
        weights = [0 if maker.__name__ in self._left_out else weight for maker, weight in makers.items()]
        return self._random.choices(list(makers), weights)[0]()

    # Names.

    def _use(self, name: str) -> Made:
        session = self._session
        return f"USE {name}", lambda: setattr(session, "current", name)

    def _place(self) -> str:
        if self._session.current and self._random.random() < 0.5:
            return self._session.current
        return self._random.choice(self._databases or DATABASES)

    def _new(self, *names: str) -> Name:
        return self._place(), self._random.choice(names)

    def _shown(self, name: Name) -> str:
        if self._random.random() < 0.1:
            name = name[0], f"`{name[1]}`"
        if self._lower_case and self._random.random() < 0.3:
            name = name[0].title(), name[1].upper()
        if name[0].lower() == self._session.current and self._random.random() < 0.6:
            return name[1]
        return ".".join(name)

    def _one(self, kind: str) -> Name | None:
        return self._random.choice(self._has[kind]) if self._has[kind] else None

    def _add_database(self, name: str) -> Callable[[], None]:
        return lambda: self._databases.append(name)

    def _change(
        self, kind: str, *, add: Name | None = None, remove: tuple[Name, ...] = ()
    ) -> Callable[[], None]:
        def done() -> None:
            self._has[kind] = [one for one in self._has[kind] if one not in (*remove, add)]
            if add is not None:
                self._has[kind].append(add)

        return done

    def _maybe(self, text: str, chance: float = 0.2) -> str:
        return text if self._random.random() < chance else ""

    def _form(self) -> Made | None:
        """Fill in a random form of one of the workload's themes."""
        form = self._random.choice(self._forms[self._random.choice(self._themes)])
        self._row += 1
        shown = {"row": str(self._row)}
        done: list[Callable[[], None]] = []
        for word, number, becomes, is_dropped in re.findall(r"{([a-z]+)(\d?)(?:=(\w+))?(!?)}", form):
            if word + number in shown:
                continue
            name = self._named(word, becomes)
            if name is None:
                return None
            shown[word + number] = (
                self._shown(name) if name[0] else name[1] + "@'%'" * ("user" in (word, becomes))
            )
            if word == "database" and is_dropped:
                done.append(self._gone(name[1]))
            elif becomes:
                done.append(self._change(becomes, add=name))
            elif is_dropped:
                done.append(self._change(word, remove=(name,)))
        filled = re.sub(r"{(\w+)[^}]*}", lambda found: shown[found[1]], form)
        first, *self._pending = filled.split(" ;; ")

        def succeeded() -> None:
            for one in done:
                one()

        return first, succeeded

    def _named(self, word: str, becomes: str) -> Name | None:
        if word == "database":
            return "", self._random.choice(self._databases or DATABASES)
        if becomes == "user":
            return "", self._random.choice(("u1", "u4"))
        return self._new(*_NEW.get(becomes, _TABLES)) if word == "new" else self._one(word)

    # Tables.

    def _create_table(self) -> Made:
        name = self._new(*_TABLES)
        condition = self._maybe("IF NOT EXISTS ", 0.15)
        replaces = self._maybe("OR REPLACE ", 0.1) if self._family == "mariadb" and not condition else ""
        head = f"CREATE {replaces}TABLE {condition}{self._shown(name)}"
        other = self._one("table")
        way = self._random.random()
        key = ""
        if other and way < 0.1:
            return f"{head} LIKE {self._shown(other)}", self._change("table", add=name)
        if other and way < 0.2:
            text = f"{head} (id INT PRIMARY KEY) SELECT id, v FROM {self._shown(other)}"
            return text, self._change("table", add=name)
        if other and way < 0.35:
            key = f", FOREIGN KEY (v) REFERENCES {self._shown(other)} (id)"
        return f"{head} (id INT PRIMARY KEY, v INT{key})", self._change("table", add=name)

    def _insert(self) -> Made | None:
        name, other = self._one("table"), self._one("table")
        if name is None or other is None:
            return None
        self._row += 1
        value = "NULL"
        if self._random.random() < 0.25:
            value = f"(SELECT MIN(id) FROM {self._shown(other)} AS o)"
        function = self._one("function")
        if function and self._random.random() < 0.3:
            value = f"{'.'.join(function)}()"
        return f"INSERT INTO {self._shown(name)} (id, v) VALUES ({self._row}, {value})", _nothing

    def _change_rows(self) -> Made | None:
        one, two = self._one("table"), self._one("table")
        if one is None or two is None:
            return None
        a, b = self._shown(one), self._shown(two)
        joined = f"{a} AS x JOIN {b} AS y ON x.id = y.id"
        forms = [
            f"UPDATE {a} SET v = NULL WHERE id % 2 = 0",
            f"DELETE FROM {a} WHERE id % 3 = 0",
            f"TRUNCATE TABLE {a}",
            f"UPDATE {joined} SET x.v = NULL",
            f"DELETE x, y FROM {joined}",
            f"REPLACE INTO {a} (id, v) VALUES ({self._random.randint(1, 9)}, NULL)",
            f"INSERT IGNORE INTO {a} (id) SELECT id + 100 FROM {b} AS o",
            f"INSERT INTO {a} (id) VALUES ({self._row}) ON DUPLICATE KEY UPDATE v = 2",
            f"DELETE FROM {a} WHERE id IN (SELECT id FROM {b} AS o)",
            f"ANALYZE TABLE {a}",
        ]
        if view := self._one("view"):
            forms.append(f"UPDATE {self._shown(view)} SET v = NULL")
        return self._random.choice(forms), _nothing

    def _rename(self) -> Made | None:
        kind = "table" if self._random.random() < 0.9 else "view"
        old, more = self._one(kind), self._one(kind)
        if old is None or more is None:
            return None
        new = self._new(*_TABLES, "moved")
        done = self._change(kind, add=new, remove=(old,))
        if self._random.random() < 0.5:
            return f"ALTER TABLE {self._shown(old)} RENAME TO {self._shown(new)}", done
        text = f"RENAME TABLE {self._shown(old)} TO {self._shown(new)}"
        if more == old or self._random.random() < 0.8:
            return text, done
        last = (more[0], "swapped")

        def both() -> None:
            done()
            self._change(kind, add=last, remove=(more,))()

        return f"{text}, {self._shown(more)} TO {self._shown(last)}", both

    def _alter_table(self) -> Made | None:
        name = self._one("table")
        if name is None:
            return None
        self._row += 1
        changes = (
            f"ADD COLUMN w{self._row} INT",
            f"ADD INDEX i{self._row} (v)",
            "MODIFY v BIGINT",
            "ENGINE=InnoDB",
        )
        return f"ALTER TABLE {self._shown(name)} {self._random.choice(changes)}", _nothing

    def _drop_table(self) -> Made | None:
        name, more = self._one("table"), self._one("table")
        if name is None or more is None:
            return None
        names = (name, more) if more != name and self._random.random() < 0.3 else (name,)
        listed = ", ".join(map(self._shown, names))
        return f"DROP TABLE {self._maybe('IF EXISTS ', 0.3)}{listed}", self._change("table", remove=names)

    def _index(self) -> Made | None:
        name = self._one("table")
        if name is None:
            return None
        self._row += 1
        return f"CREATE INDEX x{self._row} ON {self._shown(name)} (v)", _nothing

    def _temporary(self) -> Made | None:
        own = self._session.temporary
        if not own or self._random.random() < 0.4:
            name = self._new("tmp", "tmp2", "a")
            text = f"CREATE TEMPORARY TABLE {self._shown(name)} (id INT PRIMARY KEY)"
            return text, lambda: own.append(name)
        name = self._random.choice(own)
        shown = self._shown(name)
        if self._random.random() < 0.5:
            target = self._one("table") or name
            return f"INSERT IGNORE INTO {self._shown(target)} (id) SELECT id + 500 FROM {shown}", _nothing
        text = f"DROP {self._maybe('TEMPORARY ', 0.5)}TABLE {self._maybe('IF EXISTS ')}{shown}"
        return text, lambda: own.remove(name)

    def _special(self) -> Made | None:
        name, other = self._one("table"), self._one("table")
        if name is None or other is None:
            return None
        self._row += 1
        new = self._new("m1", "m2")
        index = f"x{self._random.randint(1, self._row)}"
        shown, made = self._shown(name), f"CREATE TABLE {self._shown(new)} (id INT PRIMARY KEY, v INT)"
        makes = (
            f"{made} PARTITION BY HASH (id) PARTITIONS 1",
            f"{made} ENGINE=MyISAM",
            f"CREATE TABLE {self._shown(new)} (id INT, v INT) ENGINE=MERGE UNION=({shown})",
        )
        others = (
            *("SET SESSION foreign_key_checks = 0", "SET SESSION foreign_key_checks = 1", "BEGIN", "COMMIT"),
            f"DROP INDEX {index} ON {shown}",
            f"ALTER TABLE {shown} ADD UNIQUE INDEX {index} (v)",
            f"ALTER TABLE {shown} DROP COLUMN v",
            f"ALTER TABLE {shown} EXCHANGE PARTITION p0 WITH TABLE {self._shown(other)}",
        )
        text = self._random.choice((*makes, *others))
        return text, self._change("table", add=new) if text in makes else _nothing

    def _copy(self) -> Made | None:
        one, view = self._one("table"), self._one("view")
        if one is None:
            return None
        new, of = self._new(*_TABLES), self._shown(one)
        sources = [
            f"LIKE {of}",
            f"SELECT * FROM {of}",
            f"SELECT 1 AS id, (SELECT MAX(id) FROM {of}) AS v",
            f"(id INT PRIMARY KEY, v INT, g INT AS (id + 1) STORED, CHECK (id > -1)) SELECT id, v FROM {of}",
            f"SELECT x.id, y.v FROM {of} AS x LEFT JOIN {self._shown(self._one('table') or one)} AS y USING (id)",
        ]
        if view:
            sources.append(f"SELECT id, v FROM {self._shown(view)}")
        if self._session.temporary:
            sources.append(f"LIKE {self._shown(self._random.choice(self._session.temporary))}")
        if sequence := self._one("sequence"):
            sources.append(f"(id INT PRIMARY KEY, v INT DEFAULT NEXTVAL({self._shown(sequence)}))")
        text = f"CREATE TABLE {self._shown(new)} {self._random.choice(sources)}"
        return text, self._change("table", add=new)

    def _key(self) -> Made | None:
        one, two = self._one("table"), self._one("table")
        if one is None or two is None:
            return None
        self._row += 1
        key = f"fk{self._random.randint(1, self._row)}"
        head, new = f"ALTER TABLE {self._shown(one)}", self._new(*_TABLES)
        if self._random.random() < 0.15:
            return f"{head} ADD COLUMN w{self._row} INT, RENAME TO {self._shown(new)}", self._change(
                "table", add=new, remove=(one,)
            )
        changes = (
            f"ADD CONSTRAINT fk{self._row} FOREIGN KEY (v) REFERENCES {self._shown(two)} (id)",
            f"ADD CONSTRAINT fk{self._row} FOREIGN KEY (v) REFERENCES {self._shown(two)} (id) ON DELETE CASCADE",
            f"DROP FOREIGN KEY {key}",
            f"ADD COLUMN g{self._row} INT AS (id * 2)",
            f"ADD CHECK (id <> {self._row + 90000})",
            f"RENAME COLUMN v TO v{self._row}, RENAME INDEX i{self._row} TO j",
        )
        return f"{head} {self._random.choice(changes)}", _nothing

    def _swap(self) -> Made | None:
        one, two = self._one("table"), self._one("table")
        if one is None or two is None or one == two:
            return None
        a, b, free = self._shown(one), self._shown(two), self._shown((one[0], "free"))
        return f"RENAME TABLE {a} TO {free}, {b} TO {a}, {free} TO {b}", _nothing

    def _partition(self) -> Made | None:
        new, table = self._new("part", "d"), self._one("table")
        if table is None or self._random.random() < 0.3:
            parts = "PARTITION p0 VALUES LESS THAN (100000), PARTITION p1 VALUES LESS THAN MAXVALUE"
            text = f"CREATE TABLE {self._shown(new)} (id INT PRIMARY KEY, v INT) PARTITION BY RANGE (id) ({parts})"
            return text, self._change("table", add=new)
        parted = next((one for one in self._has["table"] if one[1] == "part"), table)
        head, other = f"ALTER TABLE {self._shown(parted)}", self._new("a", "m3")
        if self._family == "mariadb" and self._random.random() < 0.4:
            if self._random.random() < 0.5:
                text = f"{head} CONVERT PARTITION p0 TO TABLE {self._shown(other)}"
                return text, self._change("table", add=other)
            text = f"{head} CONVERT TABLE {self._shown(table)} TO PARTITION p2 VALUES LESS THAN (200000)"
            return text, self._change("table", remove=(table,))
        changes = (
            *("DROP PARTITION p1", "TRUNCATE PARTITION p0", "REMOVE PARTITIONING", "PARTITION BY KEY (id)"),
            f"EXCHANGE PARTITION p0 WITH TABLE {self._shown(table)} WITHOUT VALIDATION",
        )
        return f"{head} {self._random.choice(changes)}", _nothing

    def _several(self) -> Made | None:
        kind = self._random.choice(("table", "table", "view", "user", "sequence"))
        names = tuple(self._random.sample(self._has[kind], min(3, len(self._has[kind]))))
        if len(names) < 2:
            return None
        shown = ", ".join(f"{name[1]}@'%'" if kind == "user" else self._shown(name) for name in names)
        done = self._change(kind, remove=names)
        return f"DROP {kind} {self._maybe('IF EXISTS ', 0.4)}{shown}", done

    # Other objects.

    def _joined_view(self) -> Made | None:
        one, two = self._one("table"), self._one("view") or self._one("table")
        old = self._one("view")
        if one is None or two is None:
            return None
        if old and self._random.random() < 0.5:
            view = self._shown(old)
            forms = (
                f"INSERT IGNORE INTO {view} (id) VALUES ({self._row + 3000})",
                f"DELETE FROM {view} WHERE id % 2 = 1",
                f"UPDATE {view} AS x JOIN {self._shown(one)} AS y ON x.id = y.id SET y.v = NULL",
                f"INSERT IGNORE INTO {self._shown(one)} (id) SELECT id + 7000 FROM {view} AS o",
            )
            return self._random.choice(forms), _nothing
        new = self._new("v1", "v2", "v4")
        a, b = self._shown(one), self._shown(two)
        queries = (
            f"SELECT x.id, y.v FROM {a} AS x JOIN {b} AS y ON x.id = y.id",
            f"SELECT id, v FROM {a} UNION ALL SELECT id, v FROM {b}",
            f"SELECT id, v FROM {a} WHERE id IN (SELECT id FROM {b}) WITH CHECK OPTION",
            f"WITH q AS (SELECT id, v FROM {b}) SELECT * FROM q",
            f"SELECT id, (SELECT MAX(v) FROM {b}) AS v FROM {a}",
        )
        verb = self._random.choice(("CREATE", "CREATE OR REPLACE", "CREATE ALGORITHM=MERGE", "ALTER"))
        text = f"{verb} VIEW {self._shown(new)} AS {self._random.choice(queries)}"
        return text, self._change("view", add=new)

    def _body(self) -> Made | None:
        one, routine, function = self._one("table"), self._one("procedure"), self._one("function")
        if one is None:
            return None
        self._row += 1
        other = self._one("table") or one
        lines = [
            f"UPDATE {'.'.join(one)} SET v = NULL",
            f"DELETE FROM {'.'.join(other)} WHERE id = {self._row}",
            f"REPLACE INTO {'.'.join(one)} (id) SELECT id FROM {'.'.join(other)} AS o",
            f"IF EXISTS (SELECT 1 FROM {'.'.join(other)}) THEN DELETE FROM {'.'.join(one)}; END IF",
            f"INSERT IGNORE INTO {one[1]} (id) VALUES (3)",
        ]
        if routine:
            lines.append(f"CALL {'.'.join(routine)}()")
        if function:
            lines.append(f"SET @x = {'.'.join(function)}()")
        body = f"BEGIN {'; '.join(self._random.sample(lines, 2))}; END"
        way = self._random.random()
        replaces = self._maybe("OR REPLACE ", 0.3) if self._family == "mariadb" else ""
        if way < 0.4:
            when = self._random.choice(("BEFORE INSERT", "AFTER UPDATE", "AFTER DELETE", "BEFORE UPDATE"))
            name = (other[0], self._random.choice(("tr3", "tr4")))
            head = f"CREATE {replaces}TRIGGER {self._shown(name)} {when} ON {self._shown(other)}"
            return f"{head} FOR EACH ROW {body}", self._change("trigger", add=name)
        if way < 0.65:
            name = self._new("p1", "p3")
            made = f"CREATE {replaces}PROCEDURE {self._shown(name)}(IN x INT) {body}"
            return made.replace("(IN x INT)", "()"), self._change("procedure", add=name)
        if way < 0.85:
            name = self._new("f1", "f3")
            body = f"{body[:-3]}RETURN 1; END"
            text = f"CREATE {replaces}FUNCTION {self._shown(name)}() RETURNS INT {body}"
            return text, self._change("function", add=name)
        name, old = self._new("e1", "e3"), self._one("event")
        if old and self._random.random() < 0.4:
            done = self._change("event", add=name, remove=(old,))
            return f"ALTER EVENT {self._shown(old)} RENAME TO {self._shown(name)}", done
        head = f"CREATE {replaces}EVENT {self._shown(name)} ON SCHEDULE EVERY 1 DAY STARTS '2037-01-01'"
        return f"{head} DO {body}", self._change("event", add=name)

    def _use_function(self) -> Made | None:
        function, table = self._one("function"), self._one("table")
        if function is None or table is None:
            return None
        call = f"{'.'.join(function)}()"
        forms = (
            f"DO {call}",
            f"SELECT {call}",
            f"SET @x = {call}",
            f"UPDATE {self._shown(table)} SET v = NULL WHERE id = {call}",
            f"DELETE FROM {self._shown(table)} WHERE {call} = 5",
        )
        return self._random.choice(forms), _nothing

    def _sequences(self) -> Made | None:
        old, table = self._one("sequence"), self._one("table")
        name = self._new("s1", "s2", "a")
        if old is None or table is None:
            text = f"CREATE OR REPLACE SEQUENCE {self._shown(name)} START 5"
            return text, self._change("sequence", add=name)
        if self._random.random() < 0.3:
            done = self._change("sequence", add=name, remove=(old,))
            return f"RENAME TABLE {self._shown(old)} TO {self._shown(name)}", done
        shown = self._shown(old)
        forms = (
            f"INSERT INTO {self._shown(table)} (id) VALUES (NEXT VALUE FOR {shown} + 20000)",
            f"ALTER SEQUENCE IF EXISTS {shown} RESTART 50",
            f"ALTER TABLE {self._shown(table)} ADD COLUMN w{self._row} INT DEFAULT NEXTVAL({shown})",
            f"ALTER TABLE {self._shown(table)} ALTER v SET DEFAULT NEXTVAL({shown})",
            f"INSERT INTO {self._shown(table)} (id) VALUES ({self._row + 40000})",
        )
        self._row += 1
        return self._random.choice(forms), _nothing

    def _package(self) -> Made:
        self._pending.append("SET SESSION sql_mode = DEFAULT")
        name = self._new("k1", "k2")
        if (old := self._one("package")) and self._random.random() < 0.6:
            name = old
            text = self._random.choice(("DROP PACKAGE {}", "DROP PACKAGE BODY {}", "CALL {}.p()")).format(
                self._shown(name)
            )
        else:
            text = f"CREATE {self._maybe('OR REPLACE ')}PACKAGE {self._shown(name)} AS PROCEDURE p; END"
            write = f"INSERT IGNORE INTO {'.'.join(self._one('table') or name)} (id) VALUES (77);"
            body = f"CREATE PACKAGE BODY {self._shown(name)} AS PROCEDURE p AS BEGIN {write} END; END"
            self._pending.insert(0, body)
        self._pending.insert(0, text)
        return "SET SESSION sql_mode = ORACLE", self._change("package", add=name)

    def _tablespace(self) -> Made:
        name = self._new(*_TABLES)
        forms = (
            "CREATE TABLESPACE ts1 ADD DATAFILE 'ts1.ibd'",
            "DROP TABLESPACE ts1",
            f"CREATE TABLE {self._shown(name)} (id INT PRIMARY KEY, v INT) TABLESPACE ts1",
        )
        text = self._random.choice(forms)
        return text, self._change("table", add=name) if text.startswith("CREATE TABLE ") else _nothing

    def _xa(self) -> Made | None:
        one, two = self._one("table"), self._one("table")
        if one is None or two is None:
            return None
        self._row += 1
        self._pending += [
            f"INSERT INTO {self._shown(one)} (id) VALUES ({self._row + 60000})",
            f"INSERT INTO {self._shown(two)} (id) VALUES ({self._row + 70000})",
            *("XA END 'x'", "XA PREPARE 'x'", self._random.choice(("XA COMMIT 'x'", "XA ROLLBACK 'x'"))),
        ]
        return "XA START 'x'", _nothing

    def _accounts(self) -> Made | None:
        user, table = self._one("user"), self._one("table")
        function = self._one("function")
        if user is None or table is None:
            text = f"CREATE USER {self._maybe('IF NOT EXISTS ')}u1@'%', u2@'%'"
            return text, lambda: self._has["user"].extend({("", "u1"), ("", "u2")} - {*self._has["user"]})
        account, shown = f"{user[1]}@'%'", ".".join(table)
        forms = [
            f"REVOKE ALL PRIVILEGES, GRANT OPTION FROM {account}",
            f"GRANT SELECT (id), UPDATE (v) ON {shown} TO {account} WITH GRANT OPTION",
            f"REVOKE SELECT (id) ON {shown} FROM {account}",
            f"SET PASSWORD FOR {account} = {'PASSWORD' if self._family == 'mariadb' else ''}('Secret-2')",
            f"SET DEFAULT ROLE r1 {'FOR' if self._family == 'mariadb' else 'TO'} {account}",
            *("CREATE ROLE IF NOT EXISTS r1", "CREATE ROLE r2", "GRANT r1 TO r2", "DROP ROLE r1"),
            *("DROP ROLE IF EXISTS r1, r2", f"REVOKE r1 FROM {account}", f"GRANT r1, r2 TO {account}"),
            f"GRANT PROXY ON u1@'%' TO {account}",
            f"GRANT CREATE, DROP ON {table[0]}.* TO u1@'%', u2@'%'",
            "ALTER USER IF EXISTS u1@'%' ACCOUNT LOCK",
            f"GRANT SELECT ON {shown} TO r1",
        ]
        if self._family == "mysql":
            forms += [
                f"REVOKE IF EXISTS SELECT ON {shown} FROM {account}",
                f"REVOKE SELECT ON {shown} FROM {account} IGNORE UNKNOWN USER",
                f"SET PASSWORD FOR {account} = 'Secret-3'",
            ]
        else:
            forms += [f"CREATE OR REPLACE USER {account}", "CREATE OR REPLACE ROLE r1"]
        if function:
            forms.append(f"GRANT EXECUTE ON FUNCTION {'.'.join(function)} TO {account}")
        return self._random.choice(forms), _nothing

    def _view(self) -> Made | None:
        of = self._one("table") if self._random.random() < 0.8 else self._one("view")
        if of is None:
            return None
        name = self._new("v1", "v2", "v3")
        verb = self._random.choice(("CREATE", "CREATE", "CREATE OR REPLACE", "ALTER"))
        function = self._one("function")
        more = f", {'.'.join(function)}() AS f" if function and self._random.random() < 0.3 else ""
        text = f"{verb} VIEW {self._shown(name)} AS SELECT id, v{more} FROM {self._shown(of)}"
        return text, self._change("view", add=name)

    def _trigger(self) -> Made | None:
        table, other = self._one("table"), self._one("table")
        if table is None or other is None:
            return None
        name = (table[0], self._random.choice(("tr1", "tr2")))
        self._row += 1
        verb = self._random.choice(("INSERT", "UPDATE", "DELETE"))
        insert = f"INSERT IGNORE INTO {'.'.join(other)} (id) VALUES ({self._row + 1000})"
        body = self._random.choice(("SET @x = 1", insert))
        head = f"CREATE TRIGGER {self._maybe('IF NOT EXISTS ', 0.1)}{'.'.join(name)}"
        text = f"{head} AFTER {verb} ON {'.'.join(table)} FOR EACH ROW {body}"
        return text, self._change("trigger", add=name)

    def _routine(self) -> Made:
        table = self._one("table")
        write = f"INSERT IGNORE INTO {'.'.join(table)} (id) VALUES (1)" if table else "SET @x = 1"
        condition = self._maybe("IF NOT EXISTS ", 0.1)
        if self._random.random() < 0.5:
            name = self._new("p1", "p2")
            text = f"CREATE PROCEDURE {condition}{self._shown(name)}() {write}"
            return text, self._change("procedure", add=name)
        name = self._new("f1", "f2")
        body = self._random.choice(("RETURN NULL", f"BEGIN {write}; RETURN NULL; END"))
        text = f"CREATE FUNCTION {condition}{self._shown(name)}() RETURNS INT {body}"
        return text, self._change("function", add=name)

    def _call(self) -> Made | None:
        name = self._one("procedure")
        return None if name is None else (f"CALL {self._shown(name)}()", _nothing)

    def _event(self) -> Made:
        if (old := self._one("event")) and self._random.random() < 0.5:
            return f"ALTER EVENT {self._shown(old)} COMMENT 'c'", _nothing
        name = self._new("e1", "e2")
        head = f"CREATE EVENT {self._maybe('IF NOT EXISTS ', 0.1)}{self._shown(name)}"
        text = f"{head} ON SCHEDULE EVERY 1 DAY STARTS '2037-01-01' DO SET @x = 1"
        return text, self._change("event", add=name)

    def _sequence(self) -> Made:
        if (old := self._one("sequence")) and self._random.random() < 0.6:
            forms = "SELECT NEXTVAL({})", "SELECT SETVAL({}, 100)", "ALTER SEQUENCE {} INCREMENT 2"
            return self._random.choice(forms).format(self._shown(old)), _nothing
        name = self._new("s1", "s2")
        text = f"CREATE SEQUENCE {self._maybe('IF NOT EXISTS ', 0.1)}{self._shown(name)}"
        return text, self._change("sequence", add=name)

    def _drop(self) -> Made | None:
        kind = self._random.choice(("view", "trigger", "procedure", "function", "event", "sequence"))
        name = self._one(kind)
        if name is None:
            return None
        if kind in ("procedure", "function") and self._random.random() < 0.2:
            return f"ALTER {kind} {self._shown(name)} COMMENT 'c'", _nothing
        text = f"DROP {kind} {self._maybe('IF EXISTS ', 0.25)}{self._shown(name)}"
        return text, self._change(kind, remove=(name,))

    def _database(self) -> Made:
        missing = [name for name in DATABASES if name not in self._databases]
        if missing and self._random.random() < 0.7:
            name = self._random.choice(missing)
            return f"CREATE DATABASE {self._maybe('IF NOT EXISTS ', 0.3)}{name}", self._add_database(name)
        name = self._random.choice(self._databases or DATABASES)
        if self._random.random() < 0.3:
            return f"ALTER DATABASE {name} CHARACTER SET latin1", _nothing

        return f"DROP DATABASE {self._maybe('IF EXISTS ', 0.3)}{name}", self._gone(name, stays=False)

    def _gone(self, name: str, *, stays: bool = True) -> Callable[[], None]:
        def done() -> None:
            if not stays:
                self._databases = [one for one in self._databases if one != name]
            self._has = {kind: [one for one in names if one[0] != name] for kind, names in self._has.items()}
            for session in self._sessions:
                session.current = "" if session.current == name else session.current

        return done

    def _account(self) -> Made:
        user, way = self._one("user"), self._random.random()
        if user is None or way < 0.25:
            name = ("", self._random.choice(("u1", "u2")))
            return f"CREATE USER {self._maybe('IF NOT EXISTS ')}{name[1]}@'%'", self._change("user", add=name)
        account = f"{user[1]}@'%'"
        if way < 0.35:
            return f"DROP USER {self._maybe('IF EXISTS ')}{account}", self._change("user", remove=(user,))
        if way < 0.45:
            return f"ALTER USER {account} IDENTIFIED BY 'Secret-1'", _nothing
        if way < 0.5:
            return f"RENAME USER {account} TO u3@'%'", self._change("user", add=("", "u3"), remove=(user,))
        if way < 0.6:
            if self._has["role"]:
                return f"GRANT r1 TO {account}", _nothing
            return "CREATE ROLE r1", self._change("role", add=("", "r1"))
        table, routine = self._one("table"), self._one("procedure")
        objects = ["*.*", f"{self._random.choice(DATABASES)}.*", *([".".join(table)] * 2 if table else ())]
        verb, direction = self._random.choice((("GRANT", "TO"), ("GRANT", "TO"), ("REVOKE", "FROM")))
        if routine and self._random.random() < 0.3:
            return f"{verb} EXECUTE ON PROCEDURE {'.'.join(routine)} {direction} {account}", _nothing
        return f"{verb} SELECT ON {self._random.choice(objects)} {direction} {account}", _nothing


_REWRITES = ("shop->store", "hr->shop", "shop->logs", "logs->hr")


def rule_sets(seed: int, number: int) -> list[list[str]]:
    """Return different random lists of rules, in the forms that people and ``dumpfilter suggest`` write."""
    draw = random.Random(seed * 7919 + 1)
    forms = ("do-db", "ignore-db", "wild-do-table", "wild-ignore-table", "do-table", "ignore-table")
    found: list[list[str]] = []
    while len(found) < number:
        kind = draw.choice(forms)
        more = draw.choice(("ignore-table", "wild-ignore-table"))
        kinds = draw.choices(([kind], [kind, kind], [kind, more], draw.choices(forms, k=4)), (5, 3, 2, 2))[0]
        rules = sorted({_rule(draw, one) for one in kinds})
        if draw.random() < 0.15:
            rules.append(f"--replicate-rewrite-db={draw.choice(_REWRITES)}")
        if rules not in found:
            found.append(rules)
    return found


def _rule(draw: random.Random, kind: str) -> str:
    database = draw.choice((*DATABASES, *DATABASES, "store"))
    if kind.endswith("-db"):
        return f"--replicate-{kind}={database}"
    table = draw.choice((*_TABLES, "v1", "s1"))
    if not kind.startswith("wild"):
        return f"--replicate-{kind}={database}.{table}"
    patterns = (
        *(f"{database}.%", f"{database}.%", f"{database}._%", f"{database}.c%", f"%.{table}", "%.c\\_1"),
        *(f"{database}.", f"{database[:2]}%.%", "%o%.%", f"{database}.{table[0]}%"),
    )
    return f"--replicate-{kind}={draw.choice(patterns)}"
