"""Random statements for a source, with all kinds of objects in three databases, and random rules for its replicas."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

Name = tuple[str, str]
Made = tuple[str, Callable[[], None]]
"""A statement, and a function to call if the statement succeeded."""

DATABASES = ("shop", "hr", "logs")
SWITCH = ""
"""A line that changes to the other session instead of running a statement."""

_TABLES = ("a", "b", "c_1", "c_2", "d")
_KINDS = ("table", "view", "trigger", "procedure", "function", "event", "sequence", "user", "role")
_RARE = ("_view", "_trigger", "_routine", "_event", "_drop", "_database", "_account", "_rename", "_special")


@dataclass
class _Session:
    current: str = ""
    temporary: list[Name] = field(default_factory=list)


def _nothing() -> None:
    pass


class Workload:
    """A generator of statements, which knows roughly what the source has. Some of its statements fail there."""

    def __init__(self, seed: int, family: str) -> None:
        self._random = random.Random(seed)
        self._family = family
        self.format = self._random.choices(("ROW", "MIXED", "STATEMENT"), (65, 15, 20))[0]
        self._databases: list[str] = []
        self._has: dict[str, list[Name]] = {kind: [] for kind in _KINDS}
        self._sessions = [_Session(), _Session()]
        self._number = 0
        self._row = 0
        self._left_out = {name for name in _RARE if self._random.random() < 0.45}
        """The makers of statements that this workload lacks, so that rare statements come before the first stop."""

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
        if name[0] == self._session.current and self._random.random() < 0.6:
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

    # Other objects.

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

        def done() -> None:
            self._databases = [one for one in self._databases if one != name]
            self._has = {kind: [one for one in names if one[0] != name] for kind, names in self._has.items()}
            for session in self._sessions:
                session.current = "" if session.current == name else session.current

        return f"DROP DATABASE {self._maybe('IF EXISTS ', 0.3)}{name}", done

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


def rule_sets(seed: int, number: int) -> list[list[str]]:
    """Return different random lists of rules, in the forms that people and ``dumpfilter suggest`` write."""
    draw = random.Random(seed * 7919 + 1)
    forms = ("do-db", "ignore-db", "wild-do-table", "wild-ignore-table", "do-table", "ignore-table")
    found: list[list[str]] = []
    while len(found) < number:
        kind = draw.choice(forms)
        more = draw.choice(("ignore-table", "wild-ignore-table"))
        kinds = draw.choices(([kind], [kind, kind], [kind, more]), (5, 3, 2))[0]
        rules = sorted({_rule(draw, one) for one in kinds})
        if draw.random() < 0.08:
            rules.append("--replicate-rewrite-db=shop->store")
        if rules not in found:
            found.append(rules)
    return found


def _rule(draw: random.Random, kind: str) -> str:
    database = draw.choice(DATABASES)
    if kind.endswith("-db"):
        return f"--replicate-{kind}={database}"
    table = draw.choice((*_TABLES, "v1", "s1"))
    if not kind.startswith("wild"):
        return f"--replicate-{kind}={database}.{table}"
    patterns = f"{database}.%", f"{database}.%", f"{database}._%", f"{database}.c%", f"%.{table}"
    return f"--replicate-{kind}={draw.choice(patterns)}"
