"""The effects of a statement on tables, read from its text: what the statement makes, removes, renames and needs."""

from __future__ import annotations

import re

from dumpfilter.binlog.format import Family
from dumpfilter.binlog.query import QueryEvent, TableName
from dumpfilter.lint.knowledge import NO_EFFECTS, Effects, Routine, Trigger, View
from dumpfilter.statement import StatementKind, StatementText, statement_shape
from dumpfilter.statement.definitions import Thing, Verb, read_definition
from dumpfilter.statement.mentions import remembered_mentions
from dumpfilter.statement.reader import MOST_TOKENS, TokenReader
from dumpfilter.statement.reads import tables_read
from dumpfilter.statement.references import DERIVED, read_references
from dumpfilter.statement.shape import read_text
from dumpfilter.statement.tokens import BINLOG

K = StatementKind

DEFINING = frozenset(
    {
        *(K.CREATE_TABLE, K.CREATE_TABLE_LIKE, K.CREATE_TABLE_SELECT, K.ALTER_TABLE, K.DROP_TABLE),
        *(K.RENAME_TABLE, K.VIEW, K.CREATE_TRIGGER, K.DROP_TRIGGER, K.CREATE_INDEX, K.DROP_INDEX),
        *(K.CREATE_DATABASE, K.DROP_DATABASE, K.ROUTINE),
    }
)
"""The kinds of statement that change definitions of tables, triggers and routines. Lint
looks at each such statement of a set."""

_MAKING = frozenset({K.CREATE_TABLE, K.CREATE_TABLE_LIKE, K.CREATE_TABLE_SELECT})
_QUERYING = frozenset({K.CREATE_TABLE_SELECT, K.INSERT, K.REPLACE, K.UPDATE, K.DELETE, K.VIEW})
_ADDING = frozenset({K.INSERT, K.LOAD_DATA})
_CALLING = _QUERYING | _ADDING | {K.SELECT}
_AFTER_FROM = ("WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "WITH", "UNION", "WINDOW")

NO_FOREIGN_KEY_CHECKS = 1 << 26
"""The bit of a Query event's ``flags2`` for a session with foreign_key_checks=0 (OPTION_NO_FOREIGN_KEY_CHECKS)."""

_NAME = r"(?:`(?:[^`]|``)*`|\"(?:[^\"]|\"\")*\"|[\w$\u0080-\uffff]+)"
_QUALIFIED = rf"({_NAME})(?:\s*\.\s*({_NAME}))?"
_PARENT = re.compile(rf"\bREFERENCES\s+{_QUALIFIED}", re.IGNORECASE)
_CONDITION = re.compile(r"\bIF\s+(?:NOT\s+)?EXISTS\b|\bOR\s+REPLACE\b", re.IGNORECASE)
_CREATE_VIEW = re.compile(r"\s*(?:/\*!\d*\s*)?(?:CREATE|ALTER)\b", re.IGNORECASE)
_REPLACING = re.compile(
    r"\bON\s+DUPLICATE\s+KEY\s+UPDATE\b|^\s*LOAD\b[^`\"]*\bREPLACE\s+INTO\b", re.IGNORECASE
)


def effects_of(query: QueryEvent, family: Family) -> Effects:
    """Return the effects of a decoded statement on tables."""
    sql_mode = query.status.sql_mode or 0
    parsed = read_text(query.text, family=family, sql_mode=sql_mode)
    if parsed.kind not in DEFINING and parsed.kind not in _CALLING:
        return NO_EFFECTS
    if query.error_code:
        # The statement failed on its server, and did only a part of its work.
        return NO_EFFECTS
    shape = statement_shape(query.text, family=family, sql_mode=sql_mode)
    reads: tuple[TableName, ...] = ()
    if parsed.kind in _QUERYING or parsed.kind is K.CREATE_TABLE_LIKE:
        reads = tables_read(query.text, family=family, sql_mode=sql_mode) or ()
    checks = not (query.status.flags2 or 0) & NO_FOREIGN_KEY_CHECKS
    return _effects(parsed, shape, family, reads, checks_foreign_keys=checks)


def _effects(
    parsed: StatementText,
    shape: str,
    family: Family,
    reads: tuple[TableName, ...],
    *,
    checks_foreign_keys: bool,
) -> Effects:
    kind, named = parsed.kind, (parsed.updated or ((),))[0] if parsed.updated else (parsed.objects or ())
    makes: tuple[TableName, ...] = ()
    removes: tuple[TableName, ...] = ()
    if kind in _MAKING or (kind is K.VIEW and _CREATE_VIEW.match(shape)):
        makes = named
    elif kind in (K.DROP_TABLE, K.VIEW):
        removes = named
    parents: tuple[TableName, ...] = ()
    if checks_foreign_keys and kind in (K.CREATE_TABLE, K.ALTER_TABLE):
        parents = tuple(dict.fromkeys(_table(found) for found in _PARENT.finditer(shape)))
    routine, drops_routine = _routine(shape, family) if kind is K.ROUTINE else (None, None)
    return Effects(
        makes=makes,
        removes=removes,
        renames=parsed.renames,
        alters=kind is K.ALTER_TABLE and not parsed.renames,
        reads=reads,
        parents=parents,
        conditional=bool(_CONDITION.search(shape)),
        temporary=parsed.temporary,
        trigger=_trigger(parsed, shape, family) if kind is K.CREATE_TRIGGER else None,
        drops_trigger=(parsed.objects or (None,))[0] if kind is K.DROP_TRIGGER else None,
        replaces=kind in _ADDING and bool(_REPLACING.search(shape)),
        view=View(_changed_by_view(shape, family), reads) if kind is K.VIEW and makes else None,
        routine=routine,
        drops_routine=drops_routine,
        calls=remembered_mentions(shape, family).functions if kind in _CALLING else (),
    )


def _trigger(parsed: StatementText, shape: str, family: Family) -> Trigger | None:
    definition = read_definition(shape, family)
    if definition is None or not (parsed.updated and parsed.objects):
        return None
    body = definition.body
    return Trigger(parsed.objects[0], parsed.updated[0][0], definition.changes, body.changed, body.functions)


def _routine(shape: str, family: Family) -> tuple[Routine | None, TableName | None]:
    """Return the routine that a statement makes, and the name of the routine that the statement removes."""
    definition = read_definition(shape, family)
    if (
        definition is None
        or definition.thing not in (Thing.FUNCTION, Thing.PROCEDURE)
        or not definition.names
    ):
        return None, None
    name, body = definition.names[0], definition.body
    if definition.verb is Verb.CREATE:
        return Routine(name, body.changed, body.functions), None
    return None, name if definition.verb is Verb.DROP else None


def _changed_by_view(shape: str, family: Family) -> tuple[TableName, ...]:
    """Return the tables that stand directly in the FROM clause of a view's query."""
    reader = TokenReader(shape, dialect=BINLOG[family], most=MOST_TOKENS)
    if not (reader.skip_to("AS") and reader.skip_to("SELECT") and reader.skip_to("FROM")):
        return ()
    found = read_references(reader, frozenset(), *_AFTER_FROM, or_end=True)
    if found is None:
        return ()
    return tuple(dict.fromkeys(name for name, _ in found.top if name is not DERIVED))


def _table(found: re.Match[str]) -> TableName:
    first, second = found.groups()
    return (
        TableName(None, _unquoted(first))
        if second is None
        else TableName(_unquoted(first), _unquoted(second))
    )


def _unquoted(name: str) -> str:
    quote = name[0]
    return name[1:-1].replace(quote * 2, quote) if quote in '`"' else name
