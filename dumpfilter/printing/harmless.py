"""The form in which a statement is printed, so that the filter's work never stops the client that runs the text.

A filter may drop a CREATE TABLE and pass a statement that needs the table. A replica would stop there with an error. A
client that runs text would stop, too, and never run the rest. Therefore a statement that must fail, because the target
lacks what the filter has dropped, is printed as a comment. A DROP of an object about which the binlog set does not tell
gets IF EXISTS.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from dumpfilter.binlog.events import LOG_EVENT_SUPPRESS_USE_F
from dumpfilter.binlog.format import Family
from dumpfilter.binlog.query import QueryEvent, TableName
from dumpfilter.printing.known_objects import Body, Key, KnownObjects, Trigger, named
from dumpfilter.printing.literals import quoted_name
from dumpfilter.printing.may_fail import MayFail
from dumpfilter.statement import StatementKind, read_text, statement_shape
from dumpfilter.statement.definitions import Definition, Thing, Verb, read_definition
from dumpfilter.statement.mentions import Change, Mentions, mentions, remembered_mentions
from dumpfilter.statement.shape import LONGEST_REMEMBERED, without_brackets
from dumpfilter.statement.tokens import BINLOG, tokens

K = StatementKind


@dataclass(frozen=True)
class Form:
    """The form in which a statement is printed."""

    reason: str = ""
    """The reason for which the statement is printed as a comment; empty for a statement that is to run."""
    text: bytes | None = None
    """The statement's changed text; None for the text as it is."""
    before: tuple[bytes, ...] = ()
    """Statements to print before the statement."""


AS_IT_IS = Form()
_DATA = frozenset({K.INSERT, K.REPLACE, K.UPDATE, K.DELETE, K.LOAD_DATA, K.SELECT, K.TRUNCATE_TABLE, K.SET})
"""The kinds of statement that define no object."""
_TABLES_ONLY = frozenset({K.MAINTENANCE, K.FLUSH})
_NO_FOREIGN_KEY_CHECKS = 1 << 26
_IF_EXISTS_OF_ACCOUNTS = {"mysql": (5, 7), "mariadb": (10, 1)}
"""The first versions that know DROP USER IF EXISTS."""


class Harmless:
    """Chooses the form of each printed statement, and follows the objects that the target then has.

    The caller passes every statement that may define an object in the binlog's order, also those that the filter drops.

    Parameters:
        known: the objects of the target, which the form of each statement changes.
        family: the family of the server that wrote the binlog.
        version: the version of this server, major and minor.
        mode: the form of statements that would fail.
        from_first: whether the set begins with the server's first binlog. Then CREATE … IF NOT EXISTS makes an object
            that no earlier statement of the set has made. Otherwise the object may be older than the set.
        rows_ok: tells whether the filter passes row events of a table, which has its name on the source. None without
            rules about databases: then the filter drops all changes of a table or none.
    """

    def __init__(
        self,
        known: KnownObjects,
        family: Family,
        version: tuple[int, int],
        mode: MayFail,
        *,
        from_first: bool = True,
        rows_ok: Callable[[str, str], bool] | None = None,
    ) -> None:
        self.known = known
        self._rows_ok = rows_ok
        self._family = family
        self._version = version
        self._mode = mode
        self._from_first = from_first
        self.drifted: dict[Key, None] = {}
        """Tables whose columns on the target may differ from the source's, since the filter dropped a statement."""
        self._lost: set[Key] = set()
        """The target's tables of whose changes the filter has dropped some."""
        self.diverged: dict[Key, None] = {}
        """Tables that a statement of the text changes after the filter has dropped another change of their rows."""
        self._creations: dict[Key, tuple[bytes, bytes]] = {}
        """The CREATE DATABASE of each database that the filter has dropped: the parts before and after its name."""

    def dropped(self, query: QueryEvent) -> None:
        """Follow a statement that the filter drops."""
        found = self._definition(query)
        if found is not None:
            self._not_run(found, query)
        elif self._rows_ok is not None and not query.is_committed_later:
            self._lost |= {key for key in self._changed(query) if not self.known.lacks(key)}

    def run_before(self, query: QueryEvent) -> None:
        """Follow a statement that passes the filter and that is not printed, since the text begins later."""
        found = self._definition(query)
        if found is not None:
            self._run(found, query)

    def form(self, query: QueryEvent, flags: int, *, undecided: bool) -> Form:
        """Return the form of a statement that passes the filter. ``flags`` are those of the event's header."""
        if undecided and self._mode is MayFail.COMMENT:
            found = self._definition(query)
            if found is not None:
                self._not_run(found, query)
            return _UNDECIDED
        kind = read_text(query.text, family=self._family, sql_mode=query.status.sql_mode or 0).kind
        if kind in _DATA:
            return self._data_form(query, flags, kind)
        if kind in _TABLES_ONLY:
            return self._tables_form(query, flags)
        found = self._definition(query)
        if found is None:
            return self._with_database(query, flags, AS_IT_IS)
        form = self._definition_form(found, query, undecided=undecided)
        if form.reason:
            self._not_run(found, query)
            return form
        form = self._with_database(query, flags, form, self._databases_of(found, query))
        self._run(found, query)
        return form

    def decides(self, query: QueryEvent) -> bool:
        """Tell whether the set decides about a statement about which the filter cannot decide.

        DROP TRIGGER names no table, so that the filter cannot ask its rules. The set's CREATE TRIGGER names the table,
        and the filter has passed or dropped the CREATE TRIGGER.
        """
        found = self._definition(query)
        if found is None or found.thing is not Thing.TRIGGER or found.verb is not Verb.DROP:
            return False
        return all(self.known.tells_table_of(key) for key in self._keys(found, query))

    def missing_table(self, database: str, table: str) -> Key | None:
        """Return the table of row events, under its name on the target, if the target is known to lack it."""
        key = self.known.key(Thing.TABLE, TableName(database, table), "")
        return key if self.known.lacks(key) else None

    def changes_rows(self, database: str, table: str) -> None:
        """Note printed row events of a table, under its name on the target."""
        if self._lost:
            self._note_changed({self.known.key(Thing.TABLE, TableName(database, table), "")})

    # The statements that change rows.

    def _changed(self, query: QueryEvent) -> set[Key]:
        """Return the tables whose rows a statement may change on the target."""
        parsed = read_text(query.text, family=self._family, sql_mode=query.status.sql_mode or 0)
        if parsed.kind is K.TRUNCATE_TABLE:
            return {self.known.key(Thing.TABLE, name, self._current(query)) for name in parsed.objects or ()}
        if parsed.kind not in _DATA:
            return set()
        changed = self.known.changed(self._body(query), query.thread_id)
        return {key for key in changed if not self.known.is_temporary(key, query.thread_id)}

    def _note_changed(self, changed: set[Key]) -> None:
        self.diverged |= dict.fromkeys(sorted(changed & self._lost, key=named))

    def _data_form(self, query: QueryEvent, flags: int, kind: StatementKind) -> Form:
        if self.known.lacks_any:
            missing = self.known.missing(self._body(query), query.thread_id)
            if missing is not None:
                return _lacking(missing)
        if self._lost and kind is K.TRUNCATE_TABLE:
            self._lost -= self._changed(query)
        elif self._lost:
            self._note_changed(self._changed(query))
        return self._with_database(query, flags, AS_IT_IS)

    def _body(self, query: QueryEvent) -> Body:
        shape = statement_shape(query.text, family=self._family, sql_mode=query.status.sql_mode or 0)
        read = remembered_mentions if len(shape) <= LONGEST_REMEMBERED else mentions
        return self.known.body(read(shape, self._family), self._current(query))

    def _tables_form(self, query: QueryEvent, flags: int) -> Form:
        parsed = read_text(query.text, family=self._family, sql_mode=query.status.sql_mode or 0)
        names = tuple(name for names in parsed.updated or () for name in names)
        missing = self._missing(Mentions(names), query)
        return self._with_database(query, flags, AS_IT_IS) if missing is None else _lacking(missing)

    # The statements that define objects.

    def _definition(self, query: QueryEvent) -> Definition | None:
        if query.is_committed_later:
            return None
        text = without_brackets(query.text, family=self._family, sql_mode=query.status.sql_mode or 0)
        return read_definition(text, self._family)

    def _definition_form(self, found: Definition, query: QueryEvent, *, undecided: bool) -> Form:
        if undecided and found.thing is Thing.GRANT:
            # A replica runs no GRANT about which only the rules for grant tables differ: it either drops the GRANT, or
            # fails since the table is missing.
            return _UNDECIDED
        missing = self._missing(Mentions(found.tables), query) or self._missing_for_body(found, query)
        if missing is not None:
            return _lacking(missing)
        if found.thing is Thing.GRANT:
            return self._grant_form(found, query)
        if found.renames:
            return self._rename_form(found, query)
        if found.verb is Verb.CREATE:
            return self._create_form(found, query)
        keys = self._keys(found, query)
        if found.verb is Verb.DROP:
            return self._drop_form(found, query, keys)
        lacking = next((key for key in keys if self.known.lacks(key, query.thread_id)), None)
        if lacking is None and found.is_plain_table:
            # The server opens the table, and the tables that a MERGE table consists of.
            lacking = self._missing(Mentions((*found.names, *found.merged)), query)
        return AS_IT_IS if lacking is None or found.conditional else _lacking(lacking)

    def _missing_for_body(self, found: Definition, query: QueryEvent) -> Key | None:
        if found.thing is not Thing.TABLE:
            return None
        needed = found.body
        checked = not (query.status.flags2 or 0) & _NO_FOREIGN_KEY_CHECKS
        parents = tuple(name for name in needed.parents if name not in found.names) if checked else ()
        return self._missing(replace(needed, tables=(*needed.tables, *parents), writes=()), query)

    def _missing(self, needed: Mentions, query: QueryEvent) -> Key | None:
        if not self.known.lacks_any:
            return None
        return self.known.missing(self.known.body(needed, self._current(query)), query.thread_id)

    def _create_form(self, found: Definition, query: QueryEvent) -> Form:
        if found.thing is Thing.TRIGGER:
            place = self._keys(found, query)[0][1]
            for table in found.tables:
                if self.known.key(Thing.TABLE, table, self._current(query))[1] != place:
                    return Form("the trigger and its table are in two databases on the target")
        if found.conditional and found.is_plain_table and not found.temporary:
            # The source has the table, perhaps with other columns. A replica makes the table with these columns.
            self.drifted |= dict.fromkeys(key for key in self._keys(found, query) if self.known.lacks(key))
        if found.conditional or found.replaces or found.temporary:
            return AS_IT_IS
        there = next((key for key in self._keys(found, query) if self.known.is_present(key)), None)
        if there is None:
            return AS_IT_IS
        if self._family == "mariadb" and found.is_plain_table:
            # A replica of MariaDB replaces the table (slave_ddl_exec_mode=IDEMPOTENT).
            return self._inserted(query, found.after_verb, b" OR REPLACE", there)
        return Form(
            f"{named(there)} is there already, since the filter dropped the statement that removed it"
        )

    def _drop_form(self, found: Definition, query: QueryEvent, keys: list[Key]) -> Form:
        if found.conditional:
            return AS_IT_IS
        states = [self.known.is_present(key, query.thread_id) for key in keys]
        # MySQL drops all objects of a statement or none. MariaDB drops those that it finds.
        enough = any if self._family == "mysql" else all
        if keys and enough(state is False for state in states):
            return _lacking(keys[states.index(False)])
        if all(states):
            return AS_IT_IS
        if found.thing is Thing.ACCOUNT and self._version < _IF_EXISTS_OF_ACCOUNTS[self._family]:
            return AS_IT_IS
        first = next(key for key, state in zip(keys, states, strict=True) if not state)
        return self._inserted(query, found.after_thing, b" IF EXISTS", first)

    def _rename_form(self, found: Definition, query: QueryEvent) -> Form:
        pairs = self._pairs(found, query)
        moved: dict[Key, bool] = {}
        lacking: Key | None = None
        for before, after in pairs:
            if moved.get(before, self.known.is_present(before, query.thread_id)) is False:
                lacking = lacking or before
                continue
            if moved.get(after, self.known.is_present(after, query.thread_id)) and not (
                before == after and found.verb is Verb.ALTER and found.is_plain_table
            ):
                return Form(f"{named(after)} is there already")
            moved[before], moved[after] = False, True
        if lacking is not None:
            return AS_IT_IS if found.conditional else _lacking(lacking)
        keys = self._keys(found, query) if found.verb is Verb.ALTER else []
        missing = next((key for key in keys if self.known.lacks(key, query.thread_id)), None)
        return AS_IT_IS if missing is None else _lacking(missing)

    def _pairs(self, found: Definition, query: QueryEvent) -> list[tuple[Key, Key]]:
        current = self._current(query)
        return [
            (self.known.key(found.thing, old, current), self.known.key(found.thing, new, current))
            for old, new in found.renames
        ]

    def _grant_form(self, found: Definition, query: QueryEvent) -> Form:
        for thing, name in found.routines:
            key = self.known.key(thing, name, self._current(query))
            if self.known.lacks(key):
                return _lacking(key)
        for account in found.accounts:
            key = self.known.key(Thing.ACCOUNT, account, "")
            if self.known.lacks(key):
                return _lacking(key)
        if found.verb is Verb.REVOKE:
            grants = self._grants(found, query)
            lacking = next((key for key in grants if self.known.lacks(key)), None)
            if lacking is not None and not found.conditional:
                return Form("the filter dropped the GRANT")
        return AS_IT_IS

    def _inserted(self, query: QueryEvent, at: int, words: bytes, key: Key) -> Form:
        head = query.text[:at]
        if not head.isascii():
            # The offset in the statement's bytes is not known where characters of several bytes stand before it.
            return Form(f"the set does not tell whether {named(key)} is there")
        return Form(text=query.raw[:at] + words + query.raw[at:])

    # The current database, and databases that objects are made in.

    def _current(self, query: QueryEvent) -> str:
        return self.known.rewrite_db(query.db) if query.db else ""

    def _databases_of(self, found: Definition, query: QueryEvent) -> list[Key]:
        if found.thing in (Thing.ACCOUNT, Thing.GRANT, Thing.DATABASE):
            return []
        names = [*(new for _, new in found.renames), *found.also_makes]
        if found.verb is Verb.CREATE:
            names += found.names
        current = self._current(query)
        return [
            self.known.key(Thing.DATABASE, TableName(None, name.database or current), "") for name in names
        ]

    def _with_database(
        self, query: QueryEvent, flags: int, form: Form, more: list[Key] | None = None
    ) -> Form:
        """Add CREATE DATABASE for databases that the target lacks and that the statement needs."""
        needed = list(more or ())
        if query.db and not flags & LOG_EVENT_SUPPRESS_USE_F:
            needed.append(self.known.key(Thing.DATABASE, TableName(None, self._current(query)), ""))
        before = []
        for key in dict.fromkeys(needed):
            if self.known.lacks(key):
                self.known.add(key)
                head, tail = self._creations.get(key, (b"CREATE DATABASE", b""))
                before.append(head + b" IF NOT EXISTS " + quoted_name(key[1]) + tail)
        return replace(form, before=tuple(before)) if before else form

    # The effects of statements on the target.

    def _keys(self, found: Definition, query: QueryEvent) -> list[Key]:
        if found.thing is Thing.DATABASE and not found.names and query.db:
            return [self.known.key(Thing.DATABASE, TableName(None, self._current(query)), "")]
        return [self.known.key(found.thing, name, self._current(query)) for name in found.names]

    def _grants(self, found: Definition, query: QueryEvent) -> list[Key]:
        on = f"{self._current(query)} {found.on}"
        return [(Thing.GRANT, on, f"{one.table}@{one.database}") for one in found.accounts]

    def _run(self, found: Definition, query: QueryEvent) -> None:
        known, session, current = self.known, query.thread_id, self._current(query)
        keys = self._keys(found, query)
        if found.thing is Thing.GRANT:
            for key in self._grants(found, query):
                if found.verb is Verb.GRANT:
                    known.add(key)
            return
        if found.renames:
            for before, after in self._pairs(found, query):
                if known.lacks(before, session):
                    known.is_never_made(after)
                elif known.is_temporary(before, session):
                    known.set_temporary(before, session, None)
                    known.set_temporary(after, session, True)
                else:
                    known.rename(before, after)
                    self._follow_lost(before, after)
            if found.thing is Thing.TABLE and not found.temporary:
                self._find_tables_without_rows(found, query)
        elif found.verb is Verb.CREATE:
            for key in keys:
                self._made(found, key, query)
        elif found.verb is Verb.DROP:
            for key in keys:
                if found.temporary or known.is_temporary(key, session):
                    known.set_temporary(key, session, None)
                else:
                    known.remove(key)
                    self._lost.discard(key)
        elif found.merged:
            for key in keys:
                known.add(key, self._merged(found, query))
        for name in found.also_makes:
            known.add(known.key(found.thing, name, current))
        self._elsewhere(found, query)

    def _follow_lost(self, before: Key, after: Key) -> None:
        is_lost = before in self._lost
        self._lost -= {before, after}
        if is_lost:
            self._lost.add(after)

    def _find_tables_without_rows(self, found: Definition, query: QueryEvent) -> None:
        """Note tables that a statement moves from a database whose row events the filter drops to another one."""
        if self._rows_ok is None:
            return
        for old, new in found.renames:
            places = [
                (query.db if name.database is None else name.database, name.table) for name in (old, new)
            ]
            if not self._rows_ok(*places[0]) and self._rows_ok(*places[1]):
                self._lost.add(self.known.key(found.thing, new, self._current(query)))

    def _made(self, found: Definition, key: Key, query: QueryEvent) -> None:
        known = self.known
        if found.temporary and found.thing is Thing.TABLE:
            known.set_temporary(key, query.thread_id, True)
            return
        if found.conditional and known.is_present(key):
            return
        self._lost.discard(key)
        body = known.body(found.body, key[1])
        if found.thing is Thing.TRIGGER:
            for table in found.tables:
                changes = found.changes or tuple(Change)
                on = known.key(Thing.TABLE, table, self._current(query))
                known.add_trigger(key, Trigger(on, changes, body))
        elif found.thing is Thing.FUNCTION or (found.thing is Thing.TABLE and not found.is_plain_table):
            known.add(key, body)
        else:
            if found.replaces and found.is_plain_table:
                known.remove(key)
            known.add(key, self._merged(found, query) if found.merged else None)

    def _merged(self, found: Definition, query: QueryEvent) -> Body:
        return self.known.body(Mentions(found.merged), self._current(query))

    def _not_run(self, found: Definition, query: QueryEvent) -> None:
        known, current = self.known, self._current(query)
        if found.thing is Thing.GRANT:
            if found.verb is Verb.GRANT:
                for key in self._grants(found, query):
                    known.is_never_made(key)
            return
        self._note_kept(found, query)
        if found.verb is Verb.ALTER and found.is_plain_table:
            self.drifted |= dict.fromkeys(key for key in self._keys(found, query) if known.is_present(key))
        for name in self._made_names(found):
            known.is_never_made(known.key(found.thing, name, current))
        if found.temporary and found.thing is Thing.TABLE:
            for key in self._keys(found, query):
                if found.verb is Verb.CREATE and not known.is_temporary(key, query.thread_id):
                    known.set_temporary(key, query.thread_id, False)
                elif found.verb is Verb.DROP:
                    known.set_temporary(key, query.thread_id, None)
        self._remember_creation(found, query)
        self._elsewhere(found, query)

    def _made_names(self, found: Definition) -> list[TableName]:
        """Return the names of the objects that the source lacked before the statement, and had after it."""
        names = [*(new for _, new in found.renames), *found.also_makes]
        may_be_older = (found.conditional or found.replaces) and not self._from_first
        if found.verb is Verb.CREATE and not found.temporary and not may_be_older:
            names += found.names
        return names

    def _note_kept(self, found: Definition, query: QueryEvent) -> None:
        """Note the objects that the source removes or renames, and that the target keeps."""
        known, session = self.known, query.thread_id
        if found.verb is Verb.DROP and not (found.conditional or found.temporary):
            for key in self._keys(found, query):
                if known.is_present(key, session) is None:
                    known.add(key)
        for before, after in self._pairs(found, query):
            # A later pair may give a kept object's name to another object, as in RENAME TABLE a TO b, c TO a.
            if known.is_present(before, session) is None and not found.conditional:
                known.add(before)
            known.is_never_made(after)

    def _remember_creation(self, found: Definition, query: QueryEvent) -> None:
        if found.thing is not Thing.DATABASE or found.verb is not Verb.CREATE or not found.names:
            return
        # The options of the database, such as its character set, follow its name.
        name = found.names[0].table
        tail = _behind(query, name, found.after_thing, self._family)
        for key in {
            self.known.key(Thing.DATABASE, TableName(None, one), "")
            for one in (name, self.known.rewrite_db(name))
        }:
            self._creations.setdefault(key, (b"CREATE DATABASE", tail))

    def _elsewhere(self, found: Definition, query: QueryEvent) -> None:
        """Note objects that the source makes under one name and the target, with a rewritten database, under another.

        A statement that names the database itself finds no such object on the target.
        """
        current = self._current(query)
        if found.thing is Thing.DATABASE:
            self._remember_creation(found, query)
            if found.verb is Verb.CREATE:
                for name in found.names:
                    other = self.known.rewrite_db(name.table)
                    if other != name.table:
                        self.known.is_never_made(self.known.key(Thing.DATABASE, TableName(None, other), ""))
            return
        if found.thing in (Thing.ACCOUNT, Thing.GRANT) or found.temporary:
            return
        for name in self._made_names(found):
            database = query.db if name.database is None else name.database
            for place in {database, self.known.rewrite_db(database)}:
                key = self.known.key(found.thing, TableName(place, name.table), current)
                self.known.is_never_made(key)


def _behind(query: QueryEvent, name: str, start: int, family: Family) -> bytes:
    """Return the bytes of a statement behind a name, which stands at ``start`` of the text or later.

    Nothing is returned where the place in the bytes is not known, because the text has another encoding than UTF-8.
    """
    for token in tokens(query.text, dialect=BINLOG[family]):
        if token.start >= start and token.is_name and token.value == name:
            head = query.text[: token.end].encode("utf-8", "surrogateescape")
            tail = query.raw[len(head) :].rstrip(b"; \n") if query.raw.startswith(head) else b""
            # The line end closes a comment at the end of the statement, so that the delimiter is no part of it.
            return tail + b"\n" if b"--" in tail or b"#" in tail else tail
    return b""


def _lacking(key: Key) -> Form:
    return Form(f"{named(key)} is missing, since the filter dropped the statement that makes it")


_UNDECIDED = Form("the filter cannot decide about this statement")
