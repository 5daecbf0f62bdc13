"""The choice of the form in which ``dumpfilter binlog`` prints each statement of a filtered binlog, so that a client
can run the printed text without an error.

A filter may drop a CREATE TABLE and pass a statement that needs the table. A replica would stop there with an error.
A client that runs the text would stop, too. A statement that must fail, because the filter dropped its precondition,
is therefore printed as a comment. A DROP of an object whose existence is unknown gets IF EXISTS.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from dumpfilter.analyse.printing.literals import quoted_name
from dumpfilter.binlog.events import LOG_EVENT_SUPPRESS_USE_F
from dumpfilter.binlog.format import Family
from dumpfilter.binlog.query import QueryEvent, TableName
from dumpfilter.binlog.statement.facts import statement_facts
from dumpfilter.binlog.statement.statement import Mentions, StatementFacts, StatementKind, Thing, Verb
from dumpfilter.binlog.statement.tokens import BINLOG, tokens
from dumpfilter.filter.world import FaultKind, Key, World

K, F = StatementKind, FaultKind


@dataclass(frozen=True)
class Form:
    """The form in which ``dumpfilter binlog`` prints a statement, so that a client can run the printed text without an
    error. A statement is printed unchanged, with words such as IF EXISTS added, or as a comment.
    """

    reason: str = ""
    """The reason why the statement is printed as a comment. Empty for a statement that is to run."""
    text: bytes | None = None
    """The statement's changed text. None: the text is unchanged."""
    before: tuple[bytes, ...] = ()
    """The additional statements to print before the statement, such as CREATE DATABASE IF NOT EXISTS."""


AS_IT_IS = Form()
_UNDECIDED = Form("the filter cannot decide about this statement")
_TABLES_ONLY = frozenset({K.MAINTENANCE, K.FLUSH})
_IF_EXISTS_OF_ACCOUNTS = {"mysql": (5, 7), "mariadb": (10, 1)}
"""For each server family, the first version that supports DROP USER IF EXISTS."""


class Harmless:
    """The choice of each statement's printed form, so that a client can run the text on another server (the target)
    without an error.

    For this purpose the class tracks the objects that exist on the target. The caller must pass every statement that
    may define an object in binlog order, including those that the filter drops.

    Parameters:
        world: the model of the target's objects (databases, tables, routines …), which this class updates.
    """

    def __init__(self, world: World[QueryEvent]) -> None:
        self.world = world
        self.drifted: dict[Key, None] = {}
        """The tables whose columns on the target (the server that runs the text) may differ from those on the source,
        because the filter dropped a statement.
        """
        self._creations: dict[Key, bytes] = {}
        """The options after the name in each database's CREATE DATABASE."""

    def written_by(self, family: Family, version: tuple[int, int], *, from_first: bool) -> None:
        """Take note of the server that wrote the statements from here on, with its major and minor version. Call this
        before the first statement.

        ``from_first`` tells whether the set begins with the server's first binlog. If so, CREATE … IF NOT EXISTS
        creates every object that no earlier statement of the set created. If not, the object may be older than the set.
        """
        self._family: Family = family
        self._version = version
        self._from_first = from_first

    def left_out(self, query: QueryEvent, *, runs: bool) -> None:
        """Record a statement that is not printed.

        ``runs`` True means that the filter passes the statement, and the selection by position, time or GTID excludes
        it. The target (the server that runs the printed text) is assumed to have the statement's effect already.
        ``runs`` False means that the filter drops the statement, so that the target lacks the statement's effect.
        """
        if query.is_committed_later:
            return
        facts = self._facts(query)
        if facts.verb is not None:
            self._follow(facts, query, runs=runs)

    def form(self, query: QueryEvent, flags: int, *, undecided: bool) -> Form:
        """Return the form in which a statement that passes the filter is printed: unchanged, changed, or as a comment.

        ``flags`` are the flags of the event's header. ``undecided`` tells that the filter cannot decide about the
        statement.
        """
        facts = self._facts(query)
        if query.is_committed_later:
            facts = StatementFacts(facts.kind)
        # A replica never runs an undecided GRANT or SET DEFAULT ROLE. The replica drops the statement, or fails since
        # the table or role is missing.
        if undecided and facts.kind is K.ACCOUNT and facts.updated:
            form = _UNDECIDED
        elif facts.verb is None:
            form = self._data_form(facts, query)
        else:
            form = self._definition_form(facts, query)
        if not form.reason:
            form = self._with_database(query, flags, form, facts)
        if facts.verb is not None:
            self._follow(facts, query, runs=not form.reason)
        return form

    def missing_table(self, database: str, table: str) -> Key | None:
        """Return the key (type, database, name) of a table that the target (the server that runs the printed text) is
        known to lack. Return None if the target has the table, or may have it.

        Database and table are named as on the target, after ``--replicate-rewrite-db``.
        """
        key = self._key(Thing.TABLE, database, table)
        return key if self.world.has(key) is False else None

    def _facts(self, query: QueryEvent) -> StatementFacts:
        # A statement that ended with an error may have had its effect all the same.
        return statement_facts(replace(query, error_code=0), self._family)

    def _key(self, thing: Thing, database: str | None, name: str) -> Key:
        return self.world.ref(thing, TableName(database, name), self.world.default_database(None)).replica

    def _data_form(self, facts: StatementFacts, query: QueryEvent) -> Form:
        if facts.kind in _TABLES_ONLY:
            tables = tuple(name for names in facts.updated or () for name in names)
            facts = StatementFacts(K.OTHER, body=Mentions(tables))
        return self._fault(facts, query)

    def _fault(self, facts: StatementFacts, query: QueryEvent) -> Form:
        """Return the form in which a statement is printed, which is unchanged unless the statement would fail on the
        target (the server that runs the printed text). The form is a comment if the target lacks a needed object, or
        already has the object that the statement creates. In the second case MariaDB's CREATE TABLE gets OR REPLACE
        instead.
        """
        faults = self.world.faults(self.world.resolved(facts, query.db, query.thread_id))
        for fault in sorted(faults, key=lambda fault: fault.ref.replica[0] is Thing.GRANT):
            key = fault.ref.replica
            if key[0] is Thing.GRANT:
                return Form("the filter dropped the GRANT")
            # A statement uses the ordinary table that a missing temporary one would hide.
            is_hidden = fault.is_temporary and not fault.is_sure
            if fault.kind in (F.MISSING, F.PARENT) and key[0] is not Thing.DATABASE and not is_hidden:
                return lacking(key)
            if fault.kind is F.TWICE:
                return Form("rewrite rules give two of its tables one name")
            if fault.kind is not F.LEFT:
                continue
            if facts.renames:
                return Form(f"{named(key)} is there already")
            if facts.verb is Verb.CREATE:
                if self._family == "mariadb" and facts.is_plain_table:
                    # A replica of MariaDB replaces the table (slave_ddl_exec_mode=IDEMPOTENT).
                    return self._inserted(query, facts.after_verb, b" OR REPLACE", key)
                return Form(
                    f"{named(key)} is there already, since no statement that passes the filter removed it"
                )
        return AS_IT_IS

    # The statements that define objects.

    def _definition_form(self, facts: StatementFacts, query: QueryEvent) -> Form:
        world = self.world
        refs = world.resolved(facts, query.db).refs
        if query.error_code and facts.thing is Thing.ACCOUNT and not (facts.conditional or facts.replaces):
            # MariaDB makes or drops the other accounts of a statement that fails for some of them.
            is_known = self._version >= _IF_EXISTS_OF_ACCOUNTS[self._family]
            if is_known and facts.verb in (Verb.CREATE, Verb.DROP):
                words = b" IF NOT EXISTS" if facts.verb is Verb.CREATE else b" IF EXISTS"
                return self._inserted(query, facts.after_thing, words, refs[0].replica)
        if facts.verb is Verb.DROP:
            return self._drop_form(facts, query, [ref.replica for ref in refs])
        if facts.thing is Thing.TRIGGER and facts.verb is Verb.CREATE:
            tables = [world.ref(*needed, world.default_database(query.db)) for needed in facts.needs]
            if any(table.inside.replica != ref.inside.replica for table in tables for ref in refs):
                return Form("the trigger and its table are in two databases on the target")
        if facts.conditional and facts.is_plain_table and not facts.temporary and facts.verb is Verb.CREATE:
            # The source has the table, perhaps with other columns. A replica makes the table with these columns.
            self.drifted |= dict.fromkeys(ref.replica for ref in refs if world.has(ref.replica) is False)
        form = self._fault(facts, query)
        if form is AS_IT_IS and facts.verb is Verb.CREATE and not (facts.conditional or facts.replaces):
            # A replica of MariaDB, too, keeps a database and replaces a table that it already has.
            known = [
                ref.replica for ref in refs if world.has(ref.replica) is None and world.is_there(ref.replica)
            ]
            if known and facts.thing is Thing.DATABASE:
                return self._inserted(query, facts.after_thing, b" IF NOT EXISTS", known[0])
            if known and self._family == "mariadb" and facts.is_plain_table and not facts.temporary:
                return self._inserted(query, facts.after_verb, b" OR REPLACE", known[0])
        return form

    def _drop_form(self, facts: StatementFacts, query: QueryEvent, keys: list[Key]) -> Form:
        if len(set(keys)) < len(keys):
            return Form("rewrite rules give two of its tables one name")
        if facts.conditional:
            return AS_IT_IS
        states = [self.world.has(key, query.thread_id) for key in keys]
        # MySQL drops all objects of a statement or none. MariaDB drops those that it finds.
        enough = any if self._family == "mysql" else all
        if keys and enough(state is False for state in states):
            return lacking(keys[states.index(False)])
        if all(states):
            return AS_IT_IS
        if facts.thing is Thing.ACCOUNT and self._version < _IF_EXISTS_OF_ACCOUNTS[self._family]:
            return AS_IT_IS
        first = next(key for key, state in zip(keys, states, strict=True) if not state)
        return self._inserted(query, facts.after_thing, b" IF EXISTS", first)

    def _inserted(self, query: QueryEvent, at: int, words: bytes, key: Key) -> Form:
        head = query.text[:at]
        if not head.isascii():
            # The offset in the statement's bytes is not known where characters of several bytes stand before it.
            return Form(f"the set does not tell whether {named(key)} is there")
        return Form(text=query.raw[:at] + words + query.raw[at:])

    # The databases that objects are made in.

    def _with_database(self, query: QueryEvent, flags: int, form: Form, facts: StatementFacts) -> Form:
        """Return a copy of ``form`` (the printed form of a statement) that also has CREATE DATABASE statements. They
        are for databases that the statement needs and the target (the server that runs the printed text) lacks. Record
        that the target has these databases from here on.

        ``query`` is the statement's event, and ``facts`` are the objects that the statement names. ``flags`` are the
        flags of the event's header, which tell whether the statement depends on its default database.
        """
        default = self.world.default_database(query.db)
        names: list[TableName] = []
        if facts.thing not in (Thing.ACCOUNT, Thing.GRANT, Thing.DATABASE):
            names += [*(new for _, new in facts.renames), *facts.also_makes]
            names += facts.names if facts.verb is Verb.CREATE else ()
        needed = [self.world.ref(Thing.TABLE, name, default).inside.replica for name in names]
        if query.db and not flags & LOG_EVENT_SUPPRESS_USE_F:
            needed.append(default.replica)
        before = []
        for database in dict.fromkeys(needed):
            key = self._key(Thing.DATABASE, None, database)
            if self.world.has(key) is False:
                self.world.add(key)
                tail = self._creations.get(key, b"")
                before.append(b"CREATE DATABASE IF NOT EXISTS " + quoted_name(key[1]) + tail)
        return replace(form, before=tuple(before))

    # The effects of statements on the target.

    def _follow(self, facts: StatementFacts, query: QueryEvent, *, runs: bool) -> None:
        resolved = self.world.resolved(facts, query.db, query.thread_id)
        if facts.verb is Verb.ALTER and facts.is_plain_table and not runs:
            self.drifted |= dict.fromkeys(ref.replica for ref in resolved.refs if self.world.has(ref.replica))
        if facts.thing is Thing.DATABASE and facts.verb is Verb.CREATE and facts.names:
            name = facts.names[0].table
            # The options of the database, such as its character set, follow its name.
            tail = _behind(query, name, facts.after_thing, self._family)
            for one in (name, self.world.default_database(name).replica):
                self._creations.setdefault(self._key(Thing.DATABASE, None, one), tail)
        may_be_older = facts.verb is Verb.CREATE and (facts.conditional or facts.replaces)
        if runs or self._from_first or not may_be_older:
            self.world.follow(resolved, query, passes=runs)


def _behind(query: QueryEvent, name: str, start: int, family: Family) -> bytes:
    """Return the bytes of a statement after the name ``name``, which is searched from character ``start`` on. After
    CREATE DATABASE and the name, these are the database's options.

    The result is empty if the name's byte position is unknown, because the text is not UTF-8.
    """
    for token in tokens(query.text, dialect=BINLOG[family]):
        if token.start >= start and token.is_name and token.value == name:
            head = query.text[: token.end].encode("utf-8", "surrogateescape")
            tail = query.raw[len(head) :].rstrip(b"; \n") if query.raw.startswith(head) else b""
            # The line end closes a comment at the end of the statement, so that the delimiter is no part of it.
            return tail + b"\n" if b"--" in tail or b"#" in tail else tail
    return b""


def lacking(key: Key) -> Form:
    """Return the form in which to print a statement that cannot run, because the target lacks the object with this key
    (type, database, name). The statement becomes a comment, which names the object. The target is the server that runs
    the printed text.
    """
    return Form(
        f"{named(key)} is missing, since the filter dropped the statement that makes it, unless the target has it "
        "(--target-has)"
    )


def named(key: Key) -> str:
    """Return an object's type and name for messages, such as ``table shop.orders``.

    >>> named((Thing.TABLE, "shop", "orders"))
    'table shop.orders'
    """
    thing, database, name = key
    if thing is Thing.DATABASE:
        return f"database {database}"
    if thing is Thing.ACCOUNT:
        return f"account {name}@{database}"
    return f"{thing.value} {database}.{name}"
