"""Statements made from what they touch: the text is written around known tables, so that what a reader of the text
finds can be held to what went in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hypothesis import strategies as st

from dumpfilter.binlog.query import TableName
from dumpfilter.binlog.statement.statement import StatementKind

K = StatementKind

DATABASES = [None, None, "shop", "logs", "a_b", "select", "d.b"]
TABLES = ["orders", "t_1", "audit", "größe", "table", "a`b", "%", "1a", "x y"]
_PLAIN = {"orders", "t_1", "audit", "größe", "1a", "shop", "logs", "a_b"}


@dataclass(frozen=True)
class MadeStatement:
    """A text and what it touches."""

    text: str
    kind: StatementKind
    updated: tuple[tuple[TableName, ...], ...] | None
    """Before grant tables; of an UPDATE of several tables with the bits of ``table_map``."""
    table_map: int | None = None
    grants: bool = False


table_names = st.builds(TableName, st.sampled_from(DATABASES), st.sampled_from(TABLES))
_spaces = st.sampled_from([" ", "  ", "\n", "\t", " /* , x.y ( */ ", " -- ' `\n", "/**/ ", " #`\n"])


@st.composite
def _quoted(draw: st.DrawFn, name: str) -> str:
    if name in _PLAIN and draw(st.booleans()):
        return name
    return "`" + name.replace("`", "``") + "`"


@st.composite
def written(draw: st.DrawFn, name: TableName) -> str:
    """Draw a spelling of a table's name."""
    table = draw(_quoted(name.table))
    if name.database is None:
        return table
    dot = draw(st.sampled_from((".", ".", " . ", "/*x*/ .")))
    if table[0].isdigit() and dot != ".":
        dot = "."  # elsewhere a number would begin here
    return draw(_quoted(name.database)) + dot + table


_values = st.sampled_from(
    ["1", "NULL", "'a'", "'it''s, `x`.`y`'", "-1.5e3", "0x1F", '"d"', "NOW()", "@v", "'\\\\'", "f(1, 'x')"]
)
_value_lists = st.lists(_values, min_size=1, max_size=3).map(", ".join)
_queries = st.sampled_from(
    [
        "SELECT 1",
        "SELECT * FROM other",
        "SELECT a FROM o1 JOIN logs.o2 USING (a) WHERE b IN (SELECT 1 FROM o3)",
    ]
)


@st.composite
def made_statements(draw: st.DrawFn) -> MadeStatement:
    """Any statement that a server logs."""

    def name() -> tuple[TableName, str]:
        table = draw(table_names)
        return table, draw(written(table))

    def names(most: int = 3) -> tuple[tuple[TableName, ...], list[str]]:
        pairs = [name() for _ in range(draw(st.integers(1, most)))]
        return tuple(t for t, _ in pairs), [w for _, w in pairs]

    def maybe(*words: str) -> str:
        return draw(st.sampled_from(("", *(word + " " for word in words))))

    def one(*choices: str) -> str:
        return draw(st.sampled_from(choices))

    shape = draw(_shapes)
    table, text = name()
    updated: tuple[tuple[TableName, ...], ...] | None = ((table,),)
    table_map = None
    kind, made = _SHAPES[shape], ""
    if shape == "insert":
        rows = ", ".join(f"({draw(_value_lists)})" for _ in range(draw(st.integers(1, 3))))
        tail = one(
            f"VALUES {rows}", f"(a, b) VALUES {rows}", f"SET a = {draw(_values)}", f"(a) {draw(_queries)}"
        )
        made = f"INSERT {maybe('LOW_PRIORITY', 'DELAYED')}{maybe('IGNORE')}{maybe('INTO')}{text} {tail}"
        made += one("", " ON DUPLICATE KEY UPDATE a = (SELECT MAX(a) FROM other)")
    elif shape == "replace":
        made = f"REPLACE {maybe('LOW_PRIORITY')}{maybe('INTO')}{text} {one('VALUES (1)', draw(_queries))}"
    elif shape == "update":
        made = f"UPDATE {maybe('LOW_PRIORITY')}{maybe('IGNORE')}{text} {maybe('AS x', 'x')}SET a = {draw(_values)}"
        made += one("", " WHERE a IN (SELECT a FROM other)", " ORDER BY a LIMIT 5")
    elif shape == "multi update":
        made, table_map, updated = _multi_update(
            [name() for _ in range(draw(st.integers(2, 4)))], one, lambda most: draw(st.integers(1, most))
        )
    elif shape == "delete":
        made = f"DELETE {maybe('QUICK', 'IGNORE')}FROM {text} {one('', 'WHERE a = 1', 'ORDER BY a LIMIT 1')}"
    elif shape == "multi delete":
        tables = [name() for _ in range(draw(st.integers(1, 4)))]
        chosen = draw(st.lists(st.sampled_from(range(len(tables))), min_size=1, unique=True))
        targets = ", ".join(f"t{n}{one('', '.*')}" for n in chosen)
        refs = f" {one('JOIN', ',', 'CROSS JOIN')} ".join(
            f"{word} AS t{n}" for n, (_, word) in enumerate(tables)
        )
        made = one(f"DELETE {targets} FROM {refs} WHERE t0.a = 1", f"DELETE FROM {targets} USING {refs}")
        updated = (tuple(t for n, (t, _) in enumerate(tables) if n in chosen),)
    elif shape == "load":
        made = f"LOAD DATA {maybe('CONCURRENT')}{maybe('LOCAL')}INFILE 'a into table b' {maybe('REPLACE', 'IGNORE')}"
        made += f"INTO TABLE {text} FIELDS TERMINATED BY ',' (a, @b) SET c = @b"
    elif shape == "create table":
        made = f"CREATE {maybe('OR REPLACE')}TABLE {maybe('IF NOT EXISTS')}{text} (a INT DEFAULT 1 COMMENT 'AS SELECT')"
        made += one("", " ENGINE=InnoDB COMMENT='x'", " PARTITION BY HASH (a) PARTITIONS 4")
    elif shape == "create like":
        other = name()[1]
        made = f"CREATE TABLE {text} {one(f'LIKE {other}', f'(LIKE {other})')}"
    elif shape == "create select":
        made = f"CREATE {maybe('TEMPORARY')}TABLE {text} {one('', '(a INT) ')}"
        made += one("", "AS ", "IGNORE AS ") + draw(_queries)
    elif shape == "alter":
        made = f"ALTER {maybe('ONLINE')}TABLE {text} {one('ADD a INT', 'DROP COLUMN a, ADD INDEX (b)', 'ENGINE=x')}"
    elif shape == "alter rename":
        made = f"ALTER TABLE {text} ADD a INT, RENAME {maybe('TO', 'AS')}{name()[1]}"
    elif shape == "exchange":
        other_table, other = name()
        made, updated = f"ALTER TABLE {text} EXCHANGE PARTITION p WITH TABLE {other}", ((table, other_table),)
    elif shape == "drop":
        tables_dropped, words = names()
        updated = (tables_dropped,)
        made = f"DROP TABLE {maybe('IF EXISTS')}{', '.join(words)} /* generated by server */"
    elif shape == "drop temporary":
        made, updated = f"DROP TEMPORARY TABLE IF EXISTS {', '.join(names()[1])}", ()
    elif shape == "rename":
        pairs = [(name(), name()) for _ in range(draw(st.integers(1, 3)))]
        updated = (tuple(t for pair in pairs for t, _ in pair),)
        made = "RENAME TABLE " + ", ".join(f"{a[1]} TO {b[1]}" for a, b in pairs)
    elif shape == "truncate":
        made = f"TRUNCATE {maybe('TABLE')}{text}"
    elif shape == "create index":
        made = f"CREATE {maybe('UNIQUE')}INDEX i ON {text} (a)"
    elif shape == "drop index":
        made = f"DROP INDEX i ON {text}"
    elif shape == "view":
        made = (
            f"CREATE {maybe('OR REPLACE')}ALGORITHM=MERGE DEFINER=`r`@`%` SQL SECURITY INVOKER VIEW {text} "
        )
        made += f"AS {draw(_queries)}"
    elif shape == "trigger":
        made = (
            f"CREATE DEFINER=`r`@`%` TRIGGER shop.tr BEFORE INSERT ON {text} FOR EACH ROW DELETE FROM other"
        )
    elif shape == "drop trigger":
        made, updated = "DROP TRIGGER tr", None
    elif shape == "routine":
        made, updated = f"CREATE PROCEDURE {text}() BEGIN DELETE FROM t; END", ()
    elif shape == "event":
        made, updated = f"CREATE EVENT {text} ON SCHEDULE EVERY 1 DAY DO DELETE FROM t", ()
    elif shape == "maintenance":
        maintained, words = names()
        updated = (maintained,)
        made = f"{one('ANALYZE', 'OPTIMIZE', 'REPAIR')} {maybe('LOCAL')}TABLE {', '.join(words)}"
    elif shape == "flush":
        made, updated = one("FLUSH TABLES", "FLUSH PRIVILEGES", "FLUSH STATUS"), ()
    elif shape == "grant":
        made = f"{one(f'GRANT SELECT ON {text} TO', f'REVOKE UPDATE (a) ON TABLE {text} FROM')} 'u'@'%'"
    elif shape == "account":
        users = "CREATE USER 'u'@'%' IDENTIFIED BY 'on t'", "DROP USER u"
        made = one(*users, "GRANT ALL ON shop.* TO u", "GRANT r TO u")
        updated = ()
    elif shape == "select":
        made, updated = "SELECT `shop`.`f`(1, 'from x')", ()
    text = made.replace(" ", draw(_spaces), 1) if draw(st.booleans()) else made
    before, after = draw(
        st.sampled_from((("", ""), ("/* c */ ", ""), ("/*!40000 ", " */"), ("", ";"), ("-- x\n", "")))
    )
    return MadeStatement(before + text + after, kind, updated, table_map, shape in ("grant", "account"))


def _multi_update(
    tables: list[tuple[TableName, str]], one: Callable[..., str], number: Callable[[int], int]
) -> tuple[str, int, tuple[tuple[TableName, ...], ...]]:
    """Return an UPDATE of several tables, the bits of the tables it updates, and these tables."""
    made = f"UPDATE {tables[0][1]} AS t0"
    for n, (_, word) in enumerate(tables[1:], 1):
        on = one("", f" ON t0.a = t{n}.a AND LEFT(t0.b, 2) = t{n}.b", f" ON (t0.a, 1) = (t{n}.a, 1)")
        made += one(
            f", {word} AS t{n}",
            f" LEFT JOIN {word} t{n}{on or ' USING (a, b)'}",
            f" JOIN ({word} t{n}){on}",
        )
    made += " SET t0.a = 1 WHERE t0.b = (SELECT 1 FROM other)"
    table_map = number((1 << len(tables)) - 1)
    return made, table_map, (tuple(t for n, (t, _) in enumerate(tables) if table_map >> n & 1),)


_SHAPES = {
    "insert": K.INSERT,
    "replace": K.REPLACE,
    "update": K.UPDATE,
    "multi update": K.UPDATE,
    "delete": K.DELETE,
    "multi delete": K.DELETE,
    "load": K.LOAD_DATA,
    "create table": K.CREATE_TABLE,
    "create like": K.CREATE_TABLE_LIKE,
    "create select": K.CREATE_TABLE_SELECT,
    "alter": K.ALTER_TABLE,
    "alter rename": K.ALTER_TABLE,
    "exchange": K.ALTER_TABLE,
    "drop": K.DROP_TABLE,
    "drop temporary": K.DROP_TABLE,
    "rename": K.RENAME_TABLE,
    "truncate": K.TRUNCATE_TABLE,
    "create index": K.CREATE_INDEX,
    "drop index": K.DROP_INDEX,
    "view": K.VIEW,
    "trigger": K.CREATE_TRIGGER,
    "drop trigger": K.DROP_TRIGGER,
    "routine": K.ROUTINE,
    "event": K.EVENT,
    "maintenance": K.MAINTENANCE,
    "flush": K.FLUSH,
    "grant": K.ACCOUNT,
    "account": K.ACCOUNT,
    "select": K.SELECT,
}
_shapes = st.sampled_from(sorted(_SHAPES))
