"""A model of the objects (tables, views, routines …) of a replica that runs only the statements and row events that
pass its filter.

An object is a database, table, view, trigger, routine, event, account or grant. The model knows the objects that the
binlog set itself creates, changes or removes. Any other object is unknown, and counts as equal on source and replica,
since a replica begins with a copy of its source.
"""

from __future__ import annotations

import enum
from collections import UserDict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Generic, NamedTuple, TypeVar

from dumpfilter.binlog.query import TableName
from dumpfilter.binlog.statement.statement import Change, Mentions, StatementFacts, StatementKind, Thing, Verb
from dumpfilter.filter.base import ReplicationFilter
from dumpfilter.filter.rules import WildSet

C = TypeVar("C")
V = TypeVar("V")
K = StatementKind

Key = tuple[Thing, str, str]
"""The key of an object, such as a table or trigger: its type, its database (for an account its host), and its name. A
database has an empty name.
"""

_OF_NO_DATABASE = frozenset({Thing.ACCOUNT, Thing.GRANT})
_OF_A_DATABASE = frozenset(Thing) - _OF_NO_DATABASE - {Thing.DATABASE}
_ROUTINES = (Thing.FUNCTION, Thing.PROCEDURE)
_WITHOUT_CASE = frozenset({*_ROUTINES, Thing.PACKAGE, Thing.PACKAGE_BODY, Thing.LIBRARY, Thing.EVENT})
_NEVER_FAILS = frozenset({K.MAINTENANCE, K.FLUSH})
"""The kinds of statement that do not fail on a replica that lacks their tables."""
_OF_INDEXES = frozenset({K.CREATE_INDEX, K.DROP_INDEX})


class DatabaseNames(NamedTuple):
    """The two names of a database: on the source, and on the replica, where rewrite rules may have renamed it."""

    source: str
    replica: str


class Ref(NamedTuple):
    """The two identifiers of an object such as a table or trigger: one on the source, and one on the replica, where
    rewrite rules may have renamed it.

    An identifier is a tuple of the object's type, database and name, which this module calls a key.
    """

    source: Key
    replica: Key

    @property
    def inside(self) -> DatabaseNames:
        """The names of the database that contains the object, on the source and on the replica."""
        return DatabaseNames(self.source[1], self.replica[1])

    @property
    def is_rewritten(self) -> bool:
        """Whether rewrite rules give the object another name on the replica. The source may use this other name for
        another object.
        """
        return self.source != self.replica


@dataclass(frozen=True)
class Known(Generic[C]):
    """The state of one object (table, view, trigger …) on the replica, which follows from the binlog set. An object
    that the set does not mention has no instance of this class.

    ``has`` says whether the replica has the object. ``C`` is the type of the value by which the caller identifies a
    statement, such as a binlog position.
    """

    has: bool
    cause: C | None = None
    """The first statement after which the replica's object differs from the source's; None for an object that does not
    differ.
    """
    is_stale: bool = False
    """Whether both source and replica have the object, but with different definitions or different rows."""
    source: Key | None = None
    """The object's key (type, database, name) on the source, if the binlog set tells it. Rewrite rules can map several
    objects of the source to one object of the replica.
    """
    index_cause: C | None = None
    """The first dropped CREATE INDEX or DROP INDEX on a table whose rows and columns do not differ. None for other
    objects.
    """

    def is_of_another(self, ref: Ref) -> bool:
        """Tell whether this object is a table of the replica that holds the rows of another source table than ``ref``.

        Rewrite rules can give two source tables the same name on the replica.
        """
        return ref.source[0] is Thing.TABLE and self.source not in (None, ref.source)


@dataclass(frozen=True)
class Resolved:
    """A parsed statement whose names have been looked up: the tables and other objects that it creates, changes or
    removes.

    A name without a database means an object in the session's default database (``default``). ``session`` is the id of
    the connection that ran the statement (-1: not known).
    """

    facts: StatementFacts
    default: DatabaseNames
    session: int
    refs: tuple[Ref, ...]
    """The objects that the statement creates, changes or removes."""
    renames: tuple[tuple[Ref, Ref], ...]
    """The objects that the statement renames, as pairs of old and new object."""
    also_makes: tuple[Ref, ...]
    """Further tables that an ALTER TABLE creates."""
    absorbed: tuple[Ref, ...]
    """The tables that an ALTER TABLE turns into partitions of the altered table."""
    parents: frozenset[Ref]
    """The tables to which the statement's foreign keys refer. A name without a database means a table in the database
    of the table that has the foreign key.
    """


@dataclass(frozen=True)
class Body:
    """The objects that the text of a statement, view, trigger or routine names: tables that it reads, tables that it
    changes, and routines that it may call.

    Views are listed as tables. Objects that a named view, trigger or routine uses in turn are not listed, since each
    view, trigger or routine has its own Body.
    """

    tables: tuple[Ref, ...] = ()
    changed: tuple[tuple[Ref, Change], ...] = ()
    calls: tuple[tuple[Ref, ...], ...] = ()
    """For each name before an opening parenthesis, the stored function and the stored procedure that it may mean."""
    definer: tuple[Ref, ...] = ()
    """The account with whose rights a view, trigger or routine runs."""


@dataclass(frozen=True)
class Code(Generic[C]):
    """The definition of a view, MERGE table, trigger or routine of the source, with the objects that it uses and
    ``cause``, the caller's identifier of the statement that created it.

    ``fired_by`` has the kinds of change that fire a trigger. The field is empty for other code.
    """

    ref: Ref
    cause: C
    body: Body
    on: Ref | None = None
    """The table on which a trigger is defined; None for other code."""
    fired_by: tuple[Change, ...] = ()


@dataclass(frozen=True)
class Use(Generic[C]):
    """One use of an object (table, view, routine or definer) by a statement, directly or through views, triggers and
    routines.

    ``change`` is the change of the table's rows; None if the use only reads or calls the object.
    """

    ref: Ref
    change: Change | None
    chain: tuple[Code[C], ...]
    """The triggers and routines through which the statement uses the object, in the order of the calls; empty for a
    direct use.
    """
    is_code: bool = False
    """Whether the object is a view, a routine or a definer. The objects that a view or routine uses are separate uses.
    """


class FaultKind(enum.Enum):
    """The reasons why a replica cannot execute a statement or row events that its source executed."""

    MISSING = enum.auto()
    """The replica lacks an object, such as a table, that the statement or the row events use."""
    PARENT = enum.auto()
    """The replica lacks the table that a foreign key of a new table refers to."""
    LEFT = enum.auto()
    """The replica still has an object with the name of an object that a statement creates."""
    CHILD = enum.auto()
    """The replica still has a table with a foreign key to a table that a statement drops."""
    STALE = enum.auto()
    """A table of the replica has another definition or other rows than the source's."""
    TWICE = enum.auto()
    """A DROP TABLE, CREATE … LIKE or EXCHANGE PARTITION names two tables that rewrite rules map to one name."""
    PARENT_ROWS = enum.auto()
    """The filter drops the rows to which a foreign key refers."""


@dataclass(frozen=True)
class Fault(Generic[C]):
    """A reason for which a statement, or row events, that pass the filter cannot run on the replica. ``ref`` is the
    object that the fault is about, such as a missing table. ``C`` is the type of the value by which the caller
    identifies a statement, such as a binlog position.
    """

    kind: FaultKind
    ref: Ref
    cause: C | None
    """The first statement after which the object ``ref`` (a table, for example) differs between source and replica.

    None if the filter drops all rows of the object, or if rewrite rules give the object the name of another object.
    """
    is_sure: bool = True
    """Whether the replica certainly stops with an error. If False, the rows of the tables decide."""
    is_temporary: bool = False
    through: Key | None = None
    """The stored code that uses the object, or the table at the other end of a foreign key. None if the statement
    itself names the object.
    """


class _Indexed(UserDict[Key, V]):
    """A dictionary by object keys with an index that finds the entries that name another object, such as a trigger's
    table. ``named`` is a function that returns the keys of the objects that an entry names, given the entry's key and
    value.
    """

    def __init__(self, named: Callable[[Key, V], Iterable[Key]]) -> None:
        super().__init__()
        self._named = named
        self._naming: dict[Key, dict[Key, None]] = {}

    def __setitem__(self, key: Key, value: V) -> None:
        self.pop(key, None)
        super().__setitem__(key, value)
        for name in self._named(key, value):
            self._naming.setdefault(name, {})[key] = None

    def __delitem__(self, key: Key) -> None:
        for name in set(self._named(key, self.data[key])):
            del self._naming[name][key]
            if not self._naming[name]:
                del self._naming[name]
        super().__delitem__(key)

    def naming(self, *names: Key) -> list[tuple[Key, V]]:
        """Return the entries that name an object with one of the keys ``names``."""
        keys = dict.fromkeys(chain.from_iterable(self._naming.get(name, ()) for name in names))
        return [(key, self.data[key]) for key in keys]


def _database_of(key: Key) -> Key:
    return Thing.DATABASE, key[1], ""


class World(Generic[C]):
    """A model of the objects of a source and of its replica, updated statement by statement. The model predicts which
    statements fail on a filtered replica, for example because a table is missing there.

    ``C`` is the type of a *cause*, a value by which the caller identifies a statement, such as a binlog position.

    Parameters:
        rules: the replica's filter. The model asks the filter for new names of objects, and whether it drops the rows
            of a table. For each statement, the caller tells whether the filter passes it.
        is_strict: True if a client runs the statements. Then it is a fault, too, to create an object twice, or to use
            an object that an earlier statement has removed. False if a replica runs them, which tolerates some errors.
        there: LIKE patterns of ``db.name`` for objects that the replica has, although the filter drops the statements
            that create them. A database is ``db.``.
    """

    def __init__(
        self, rules: ReplicationFilter, *, is_strict: bool = False, there: Sequence[str] = ()
    ) -> None:
        self._rules = rules
        self._there = WildSet(there, str.lower if rules.names.lower_case_table_names else str)
        self._emptied: set[str] = set()
        """The replica's databases that a statement has dropped. Such a database no longer has the objects that match
        the patterns ``there``, which the replica had from the beginning.
        """
        self._is_strict = is_strict
        self._is_idempotent = rules.names.family == "mariadb" and not is_strict
        """Whether CREATE TABLE replaces a table, and DROP TABLE ignores a missing one.

        A replica of MariaDB does so by default (``slave_ddl_exec_mode=IDEMPOTENT``).
        """
        self._objects = _Indexed[Known[C]](
            lambda key, _: (_database_of(key),) if key[0] in _OF_A_DATABASE else ()
        )
        self._temporary: dict[tuple[int, Key], Known[C]] = {}
        self._code = _Indexed[Code[C]](lambda key, code: (_database_of(key), *(code.on or ())))
        self._parents = _Indexed[frozenset[Ref]](
            lambda _, parents: (name for ref in parents for name in (*ref, _database_of(ref.replica)))
        )
        """The tables that foreign keys refer to. The key is the key (on the source) of the table that has the foreign
        keys.
        """

    # Names.

    def default_database(self, current: str | None) -> DatabaseNames:
        """Return the names of a session's default database on source and replica. ``current`` is the name on the
        source. For None, a session without a default database, the returned names are empty.
        """
        return DatabaseNames(current or "", self._rules.rewrite_db(current) if current else "")

    def ref(self, thing: Thing, name: TableName, default: DatabaseNames) -> Ref:
        """Return the object that a name in a statement means, by its two identifiers (type, database, name): the one on
        the source, and the one on the replica.

        ``thing`` is the object's type. ``default`` is the session's default database, which a name without a database
        gets. A name with a database is the same on both servers, because a replica does not rewrite the text of a
        statement.
        """
        if thing is Thing.DATABASE:
            key = self._key(thing, name.table, "")
            return Ref(key, key)
        if name.database is not None or thing in _OF_NO_DATABASE:
            default = DatabaseNames(name.database or "", name.database or "")
        return Ref(*(self._key(thing, database, name.table) for database in default))

    def rows_ref(self, database: str, table: str) -> Ref:
        """Return the table that row events change, by its two identifiers (type, database, name). The first is on the
        source, where the table is called ``database`` and ``table``. The second is on the replica, where rewrite rules
        may have renamed the table.
        """
        source = self._key(Thing.TABLE, database, table)
        return Ref(source, self._key(Thing.TABLE, *self._rules.rewrite_table(database, table)))

    def _key(self, thing: Thing, database: str, name: str) -> Key:
        if thing in _WITHOUT_CASE:
            name = name.lower()
        if thing in _OF_NO_DATABASE:
            return thing, database, name
        return thing, *self._rules.names.spelled(database, name)

    def _refs(self, thing: Thing, names: Iterable[TableName], default: DatabaseNames) -> tuple[Ref, ...]:
        return tuple(self.ref(thing, name, default) for name in names)

    def body(self, names: Mentions, default: DatabaseNames) -> Body:
        """Return the tables that a text reads or changes, and the routines that it may call, as objects of this model
        of a replica.

        ``names`` are the names found in the text, which is a statement or the body of a view, trigger or routine. A
        name without database belongs to ``default``, the session's default database. Unknown names are returned like
        known ones. A view is returned as a table, without the tables in the view's query, which :meth:`uses` finds.
        """
        return Body(
            self._refs(Thing.TABLE, names.tables, default),
            tuple((self.ref(Thing.TABLE, table, default), change) for table, change in names.changed),
            tuple(tuple(self.ref(thing, name, default) for thing in _ROUTINES) for name in names.functions),
        )

    def resolved(self, facts: StatementFacts, current: str | None, session: int = -1) -> Resolved:
        """Return a parsed statement together with the tables and other objects that its names mean. An object has two
        identifiers (type, database, name): one on the source, and one on the replica.

        ``facts`` is the parsed statement. ``current`` is the session's default database on the source (None: no
        database), and ``session`` its connection id (-1: not known).
        """
        default = self.default_database(current)
        thing, names = facts.thing, facts.names
        if thing is Thing.DATABASE and not names and default.source:
            names = (TableName(None, default.source),)
        elif thing is Thing.GRANT:
            on = facts.on
            if facts.granted_on is not None:
                database, name = facts.granted_on
                on = f"{on} {database or default.replica}.{name}"
            names = tuple(TableName(on, f"{one.table}@{one.database}") for one in facts.accounts)
        refs = self._refs(thing, names, default)
        old, new = (self._refs(thing, [pair[side] for pair in facts.renames], default) for side in (0, 1))
        # CREATE … IF NOT EXISTS does nothing if the table is there, and ALTER … IF EXISTS if it is not.
        is_void = facts.conditional and any(
            self.has(ref.replica) is (facts.verb is Verb.CREATE) for ref in refs
        )
        return Resolved(
            facts,
            default,
            session,
            refs,
            tuple(zip(old, new, strict=True)),
            self._refs(thing, facts.also_makes, default),
            self._refs(thing, facts.absorbed, default),
            frozenset(
                parent
                for ref in (() if is_void else refs)
                for parent in self._refs(Thing.TABLE, facts.body.parents, ref.inside)
            ),
        )

    # Questions.

    def has(self, key: Key, session: int = -1) -> bool | None:
        """Tell whether the replica has the object with this key (type, database, name). Return None if the statements
        so far do not tell.

        A temporary table of the connection with the id ``session`` (-1: not known) counts, too, and hides an ordinary
        table of the same name.
        """
        known = self._known(key, session)
        return None if known is None else known.has

    def _known(self, key: Key, session: int) -> Known[C] | None:
        return self._temporary.get((session, key)) or self._objects.get(key)

    def is_temporary(self, key: Key, session: int) -> bool:
        """Tell whether the connection with the id ``session`` has a temporary table with this key (type, database,
        name).
        """
        return (session, key) in self._temporary

    def table_of(self, trigger: Key) -> Ref | None:
        """Return the table on which a trigger is defined. ``trigger`` is the trigger's key (type, database, name) on
        the source. None if the statements so far have not created the trigger, or have dropped it.
        """
        code = self._code.get(trigger)
        return None if code is None else code.on

    def is_view(self, key: Key) -> bool:
        """Tell whether a statement of the binlog set has created a view, or a MERGE table, with this key (type,
        database, name) on the source.
        """
        return key in self._code

    def behind(self, ref: Ref) -> Iterator[Ref]:
        """Yield the tables whose rows change when a statement changes the rows of ``ref``, a table or a view.

        For a view these are the tables of its FROM clause, through all levels of views. For a MERGE table they are its
        underlying tables. Any other table, and a view whose query is not understood, is yielded itself.
        """
        met, waiting = {ref.source}, [ref]
        while waiting:
            one = waiting.pop()
            view = self._code.get(one.source)
            inner = () if view is None else tuple(table for table, _ in view.body.changed)
            if not inner:
                # A view whose query is not understood counts as a table of its own name.
                yield one
            waiting += [table for table in reversed(inner) if table.source not in met]
            met.update(table.source for table in inner)

    def uses(self, body: Body, session: int = -1, *, on_replica: bool = False) -> Iterator[Use[C]]:
        """Yield a Use for each object that a statement uses, directly or through views, triggers and stored functions.
        A Use has the object, the change of its rows if there is one, and the triggers and routines on the way.

        ``body`` has the objects that the statement names, and ``session`` is the statement's connection id (-1: not
        known). With ``on_replica`` the views, triggers and functions that the replica lacks, or has with another
        definition, are not followed. Otherwise all views, triggers and functions of the source are followed.
        """
        met: set[Key] = set()
        waiting: deque[tuple[Body, tuple[Code[C], ...]]] = deque([(body, ())])

        def enter(code: Code[C], inner: Body, chain: tuple[Code[C], ...]) -> None:
            known = self._objects.get(code.ref.replica) if on_replica else None
            differs = known is not None and (known.is_stale or not known.has)
            if code.ref.source not in met and not differs:
                met.add(code.ref.source)
                waiting.append((inner, chain))

        while waiting:
            body, chain = waiting.popleft()
            for account in body.definer:
                yield Use(account, None, chain, is_code=True)
            for table in body.tables:
                view = None if self.is_temporary(table.replica, session) else self._code.get(table.source)
                yield Use(table, None, chain, view is not None)
                if view is not None:
                    enter(view, replace(view.body, changed=()), chain)
            for name, change in body.changed:
                for table in () if self.is_temporary(name.replica, session) else self.behind(name):
                    yield Use(table, change, chain)
                    for _, code in self._code.naming(table.source):
                        if code.on and code.on.source == table.source and change in code.fired_by:
                            enter(code, code.body, (*chain, code))
            for meant in body.calls:
                routine = next((ref for ref in meant if ref.source in self._code), None)
                if routine is not None:
                    yield Use(routine, None, chain, is_code=True)
                    code = self._code[routine.source]
                    enter(code, code.body, (*chain, code))

    # Events.

    def rows(self, database: str, table: str, *, passes: bool) -> Iterator[Fault[C]]:
        """Update this model of source and replica for row events of a table. If the events pass the filter, yield a
        Fault for each reason for which they fail on the replica.

        ``database`` and ``table`` are the names on the source. ``passes`` says whether the events pass the filter. A
        missing table is reported only once.
        """
        ref = self.rows_ref(database, table)
        if passes:
            yield from self._mended(self._need(ref))
            yield from self._need_parent_rows(ref)
        self._met(ref, passes=passes)

    def statement(self, one: Resolved, cause: C, *, passes: bool) -> Iterator[Fault[C]]:
        """Update this model of source and replica for the statement ``one``. If the statement passes the filter, yield
        a Fault for each reason for which the statement fails on the replica.

        A missing object is reported only once. ``cause`` is the caller's identifier of the statement, which later
        faults return. ``passes`` says whether the statement passes the filter.
        """
        if passes:
            yield from self._mended(self.faults(one), one.session)
        self.follow(one, cause, passes=passes)
        if one.facts.verb is None and one.facts.kind not in _NEVER_FAILS:
            for table in self._refs(Thing.TABLE, one.facts.body.tables, one.default):
                if not self.is_temporary(table.replica, one.session):
                    self._met(table, passes=passes)

    def faults(self, one: Resolved) -> Iterator[Fault[C]]:
        """Yield a Fault for each reason for which the statement ``one``, which must pass the filter, fails on the
        replica. This model of the replica stays as it was before the statement.
        """
        if one.facts.verb is not None:
            yield from self._needs(one)
        elif one.facts.kind not in _NEVER_FAILS:
            body = self.body(one.facts.body, one.default)
            yield from self._used(body, one.session, checks_foreign_keys=one.facts.checks_foreign_keys)

    def twice(self, one: Resolved) -> Iterator[Fault[C]]:
        """Yield a Fault (a reason to fail on the replica) for each table that the statement ``one``, DROP TABLE, CREATE
        TABLE … LIKE or EXCHANGE PARTITION, names twice there. Rewrite rules have mapped two names to one. A server
        rejects such a statement before it evaluates table rules.
        """
        if one.facts.thing is Thing.TABLE and one.facts.verb in (Verb.CREATE, Verb.DROP, Verb.ALTER):
            named = (*one.refs, *self._refs(Thing.TABLE, one.facts.sources, one.default))
            for ref in named:
                if ref.is_rewritten and Ref(ref.replica, ref.replica) in named:
                    yield Fault(FaultKind.TWICE, ref, None)

    def follow(self, one: Resolved, cause: C, *, passes: bool) -> None:
        """Update this model of source and replica for the objects that the statement ``one`` creates, changes and
        removes, without reporting faults.

        ``cause`` is the caller's identifier of the statement. ``passes`` says whether the statement passes the filter.
        """
        if one.facts.verb is not None:
            self._follow(one, cause, passes=passes)
            if not one.facts.temporary:
                self._follow_code(one, cause, passes=passes)

    def _met(self, ref: Ref, *, passes: bool) -> None:
        """Record that an object existed before the first statement of the binlog set. This follows from a statement
        that uses the object, when no earlier one created it. An object that the model already knows keeps its state.

        ``passes`` says whether the statement that uses the object passes the filter.
        """
        self._objects.setdefault(ref.replica, Known(has=True, source=ref.source if passes else None))

    def add(self, key: Key) -> None:
        """Record that the replica has the object with this key (type, database, name), although no statement that
        passes the filter has created the object.
        """
        self._objects[key] = Known(has=True)

    def _mended(self, faults: Iterable[Fault[C]], session: int = -1) -> Iterator[Fault[C]]:
        """Yield the given faults, and record the missing objects as existing, so that each fault is reported only once.
        A missing temporary table counts as existing in the connection ``session``.
        """
        for fault in faults:
            if fault.is_temporary and fault.kind is not FaultKind.LEFT:
                known = self._temporary[session, fault.ref.replica]
                self._temporary[session, fault.ref.replica] = replace(
                    known, has=True, cause=known.cause if known.has else None, is_stale=False
                )
            elif fault.kind in (FaultKind.MISSING, FaultKind.PARENT, FaultKind.STALE):
                self.add(fault.ref.replica)
            yield fault

    def undecided(self, one: Resolved, cause: C) -> None:
        """Update this model of source and replica for the statement ``one``, about which only the replica's own filter
        can decide. The model then no longer knows the state of the statement's objects.

        ``cause`` is the caller's identifier of the statement.
        """
        if one.facts.verb is not None:
            named = self._refs(one.facts.thing, one.facts.names, one.default)
            for ref in chain(named, one.also_makes, one.absorbed, *one.renames):
                self._objects.pop(ref.replica, None)
            self._follow_code(one, cause, passes=True)

    # The needs of statements that pass.

    def _need(
        self, ref: Ref, session: int = -1, kind: FaultKind = FaultKind.MISSING, *, or_stale: bool = True
    ) -> Iterator[Fault[C]]:
        known = self._known(ref.replica, session)
        if known is None or (known.has and not or_stale):
            return
        may_fail = known.cause is not None or ref.is_rewritten or self._is_strict
        if known.has and known.is_of_another(ref):
            yield Fault(FaultKind.STALE, ref, None, is_sure=False)
        elif (known.has and not known.is_stale) or not may_fail:
            return
        elif self.is_temporary(ref.replica, session):
            # A statement uses the table that a missing temporary one would hide, or the temporary table that is left.
            ordinary = self.has(ref.replica)
            is_hidden = self.is_there(ref.replica) if ordinary is None else ordinary
            kind = FaultKind.STALE if known.has else kind
            yield Fault(kind, ref, known.cause, is_sure=not (known.has or is_hidden), is_temporary=True)
        elif known.has:
            yield Fault(FaultKind.STALE, ref, known.cause, is_sure=False)
        else:
            yield Fault(kind, ref, known.cause)

    def _need_database(self, ref: Ref) -> Iterator[Fault[C]]:
        if ref.source[0] not in _OF_NO_DATABASE:
            source, replica = ref.inside
            yield from self._need(Ref((Thing.DATABASE, source, ""), (Thing.DATABASE, replica, "")))

    def _need_name(self, ref: Ref, session: int = -1, *, is_temporary: bool = False) -> Iterator[Fault[C]]:
        """Yield a fault if the creation of ``ref`` fails because the replica already has an object of this type and
        name. For example, the filter dropped the DROP of an older object.

        With ``is_temporary`` a temporary table is created in the connection with the id ``session`` (-1: not known).
        Only temporary tables of this connection then count as older objects.
        """
        known = (
            self._temporary.get((session, ref.replica)) if is_temporary else self._objects.get(ref.replica)
        )
        if known is None or not known.has:
            return
        if known.cause is not None or ref.is_rewritten or self._is_strict or known.is_of_another(ref):
            yield Fault(
                FaultKind.LEFT,
                ref,
                known.cause,
                is_sure=is_temporary or not known.is_stale,
                is_temporary=is_temporary,
            )

    def _used(self, body: Body, session: int, *, checks_foreign_keys: bool = False) -> Iterator[Fault[C]]:
        for use in self.uses(body, session, on_replica=True):
            for fault in self._need(use.ref, session):
                # A table of a trigger or function is opened when the code runs, which depends on data.
                through = use.chain[0].ref.replica if use.chain else None
                yield fault if through is None else replace(fault, is_sure=False, through=through)
            if checks_foreign_keys and use.change not in (None, Change.DELETE):
                yield from self._need_parent_rows(use.ref)

    def _need_parent_rows(self, child: Ref) -> Iterator[Fault[C]]:
        for parent in self._parents.get(child.source, ()):
            if not self._rules.rows_ok(*parent.source[1:]):
                yield Fault(FaultKind.PARENT_ROWS, parent, None, is_sure=False, through=child.replica)

    def _needs(self, one: Resolved) -> Iterator[Fault[C]]:
        facts, session, refs = one.facts, one.session, one.refs
        is_lenient = facts.conditional or (
            self._is_idempotent
            and (facts.is_plain_table or facts.thing is Thing.DATABASE or facts.kind is K.SEQUENCE)
        )
        # A replica runs DROP TEMPORARY TABLE as if with IF EXISTS.
        is_lenient |= facts.temporary and facts.verb is Verb.DROP and not self._is_strict
        replaces = facts.replaces or (self._is_idempotent and facts.is_plain_table and not facts.conditional)
        drops = facts.verb is Verb.DROP or (facts.verb is Verb.CREATE and replaces)
        for ref in refs if drops and facts.checks_foreign_keys else ():
            if self.has(ref.replica) is not False:
                yield from self._need_no_child(ref)
        yield from self.twice(one)
        if facts.verb is Verb.CREATE:
            # MariaDB makes temporary tables in a directory of their own.
            without = facts.thing is Thing.DATABASE or (facts.temporary and self._is_idempotent)
            for ref in () if without else refs:
                yield from self._need_database(ref)
            yield from self._need_parts(one)
            for ref in () if is_lenient or facts.replaces else refs:
                yield from self._need_name(ref, session, is_temporary=facts.temporary)
        elif facts.verb is Verb.DROP:
            # A replica passes over DROP TRIGGER of a trigger that it lacks, since filters cannot be asked then.
            for ref in () if is_lenient or facts.thing is Thing.TRIGGER else refs:
                yield from self._need(ref, session, or_stale=False)
        else:
            yield from self._needs_of_renames(one)
            # A replica of MariaDB passes over ALTER SEQUENCE of a missing sequence.
            without = facts.conditional or facts.verb is Verb.GRANT
            without |= facts.kind is K.SEQUENCE and not self._is_strict
            for ref in () if without or facts.renames else refs:
                yield from self._need(ref, session)
            # EXCHANGE PARTITION names two tables, and compares their indexes.
            for ref in refs if len(refs) > 1 else ():
                known = self._objects.get(ref.replica)
                if known is not None and known.index_cause is not None:
                    yield Fault(FaultKind.STALE, ref, known.index_cause, is_sure=False)
            yield from self._need_parts(one)
            for ref in one.absorbed:
                yield from self._need(ref, session)
            for ref in one.also_makes:
                yield from self._need_database(ref)
                yield from self._need_name(ref)

    def _need_parts(self, one: Resolved) -> Iterator[Fault[C]]:
        """Yield faults for missing objects that the statement ``one`` needs besides the objects that it creates or
        changes. Examples are tables that it reads, accounts of a GRANT, and parent tables of foreign keys.
        """
        facts, default, session = one.facts, one.default, one.session
        # The tables behind a MERGE table are looked for when a statement opens the table.
        merged = self._merged(one) if facts.verb is Verb.ALTER else ()
        for ref in merged:
            yield from self._need(ref, session)
        for thing, name in facts.needs:
            yield from self._need(self.ref(thing, name, default), session)
        accounts = facts.accounts if facts.thing is Thing.GRANT else ()
        for account in self._refs(Thing.ACCOUNT, accounts, default):
            yield from self._need(account)
        if facts.thing is Thing.TABLE:
            names = Mentions(tables=facts.body.tables, functions=facts.body.functions)
            yield from self._used(self.body(names, default), session)
            for ref in one.parents if facts.checks_foreign_keys else ():
                if ref not in one.refs:
                    yield from self._need(ref, kind=FaultKind.PARENT)

    def _merged(self, one: Resolved) -> tuple[Ref, ...]:
        """Return the tables of the option UNION, by which the statement ``one`` defines a MERGE table. The result is
        empty for an ALTER TABLE of a table of another engine, which ignores UNION.
        """
        is_other = one.facts.verb is Verb.ALTER and any(
            ref.replica in self._objects and not self.is_view(ref.source) for ref in one.refs
        )
        return () if is_other else self._refs(Thing.TABLE, one.facts.merged, one.default)

    def _needs_of_renames(self, one: Resolved) -> Iterator[Fault[C]]:
        facts, session = one.facts, one.session
        made: set[Key] = set()
        freed: set[Key] = set()
        for old, new in one.renames:
            if not facts.conditional and old.replica not in made:
                yield from self._need(old, session, or_stale=False)
            is_temporary = self.is_temporary(old.replica, session)
            if not (is_temporary and self._is_idempotent):
                yield from self._need_database(new)
            if not is_temporary:
                # ALTER TABLE a RENAME TO a does nothing. Other statements fail.
                is_void = old.replica == new.replica and facts.verb is Verb.ALTER and facts.is_plain_table
                if not is_void and new.replica not in freed:
                    yield from self._need_name(new)
                freed.add(old.replica)
            made.add(new.replica)

    def _need_no_child(self, ref: Ref) -> Iterator[Fault[C]]:
        # A dropped database is the parent of each table that refers to one of its tables.
        part = slice(1, 2) if ref.replica[0] is Thing.DATABASE else slice(3)
        dropped = ref.replica[part]
        for key, parents in self._parents.naming(ref.replica):
            for _ in (parent for parent in parents if parent.replica[part] == dropped):
                child = self.rows_ref(*key[1:])
                known = self._objects.get(child.replica)
                if known is None or not known.has or known.cause is None or known.is_stale:
                    continue
                if child.replica[part] != dropped:
                    yield Fault(FaultKind.CHILD, child, known.cause, through=ref.replica)

    # The effects of statements.

    def _follow(self, one: Resolved, cause: C, *, passes: bool) -> None:
        facts, session = one.facts, one.session
        if facts.thing is Thing.GRANT and facts.verb is not Verb.GRANT:
            return
        for old, new in one.renames:
            self._renamed(old, new, session, cause, passes=passes)
        for ref in () if facts.renames else one.refs:
            key, known = (session, ref.replica), self._objects.get(ref.replica)
            hides = facts.verb is not Verb.CREATE and key in self._temporary
            if hides or (facts.temporary and facts.thing is Thing.TABLE):
                others = self._other_names(ref)
                if facts.verb is Verb.CREATE:
                    self._temporary[key] = Known(passes, None if passes else cause, source=ref.source)
                    for other in others:
                        missing = Known(False, cause, source=ref.source)
                        self._temporary.setdefault((session, other), missing)
                elif facts.verb is Verb.DROP:
                    for name in (ref.replica, *others):
                        before = self._temporary.get((session, name))
                        if before is None or (name != ref.replica and before.source != ref.source):
                            continue
                        del self._temporary[session, name]
                        if before.has and not (passes and name == ref.replica):
                            self._temporary[session, name] = replace(before, cause=cause, is_stale=True)
                        elif before.is_stale and not facts.temporary:
                            # The source dropped the ordinary table that the replica's temporary one hides.
                            self._removed(ref, cause, passes=False)
            elif facts.verb in (Verb.CREATE, Verb.GRANT):
                conditional = facts.conditional and not facts.replaces
                if facts.replaces:
                    self._remove_body(ref, cause, passes=passes)
                self._made(ref, cause, passes=passes, conditional=conditional)
                for like in self._refs(Thing.TABLE, facts.sources, one.default) if passes else ():
                    if (copied := self._objects.get(like.replica)) is not None:
                        self._objects[ref.replica] = replace(
                            self._objects[ref.replica], index_cause=copied.index_cause
                        )
            elif facts.verb is Verb.DROP:
                self._remove_body(ref, cause, passes=passes)
                self._removed(ref, cause, passes=passes, conditional=facts.conditional)
                for other in self._other_names(ref):
                    found = self._objects.get(other)
                    if found is not None and found.has and found.source == ref.source:
                        self._objects[other] = replace(found, cause=cause)
            elif (
                facts.is_plain_table and not passes and (known is None or (known.has and known.cause is None))
            ):
                self._objects[ref.replica] = Known(has=True, cause=cause, is_stale=True)
            elif facts.kind in _OF_INDEXES and not passes and (known is None or known.has):
                self._objects[ref.replica] = replace(known or Known(has=True), index_cause=cause)
        for ref in one.also_makes:
            self._made(ref, cause, passes=passes)
        for ref in one.absorbed:
            self._removed(ref, cause, passes=passes, conditional=False)

    def _made(self, ref: Ref, cause: C, *, passes: bool, conditional: bool = False) -> None:
        known = self._objects.get(ref.replica)
        if conditional and known is not None and known.has and known.cause is None:
            return
        differs = known is not None and known.cause is not None
        if passes:
            # The source had the table with other columns or rows, or the replica has an old one.
            is_stale = conditional and differs and ref.source[0] is Thing.TABLE
            before = known.cause if known is not None and is_stale else None
            self._objects[ref.replica] = Known(True, before, is_stale, ref.source)
        else:
            is_stale = known.has if known is not None else self.is_there(ref.replica)
            self._objects[ref.replica] = Known(has=is_stale, cause=cause, is_stale=is_stale)
        self._made_elsewhere(ref, cause)

    def _made_elsewhere(self, ref: Ref, cause: C) -> None:
        """Record that the replica lacks the object ``ref``, which a statement has created, under the other names by
        which later events may call it.

        Rewrite rules change the names in row events and names without a database, but no name with a database. A later
        event may therefore call the object by its name on the source, or by this name after rewrite rules. The replica
        has the object under one name only. Any other of these names is recorded as missing, because of the statement
        ``cause``.

        Names that the model already knows keep their state. Names that match the patterns ``there`` (objects that the
        replica has in any case) count as existing.
        """
        for key in self._other_names(ref):
            known = self._objects.setdefault(key, Known(has=self.is_there(key), cause=cause))
            if known.has and known.source == ref.source and known.cause is not None:
                self._objects[key] = replace(known, is_stale=True)

    def _other_names(self, ref: Ref) -> set[Key]:
        thing, database, name = ref.source
        if thing in _OF_NO_DATABASE:
            return set()
        if thing is Thing.TABLE:
            rewritten = self.rows_ref(database, name).replica
        else:
            rewritten = self._key(thing, self._rules.rewrite_db(database), name)
        return {rewritten, ref.source} - {ref.replica}

    def is_there(self, key: Key) -> bool:
        """Tell whether the patterns ``there`` match the object with this key (type, database, name). The user gives
        these patterns for objects that the replica has, although the filter drops their creation.

        The result is False after a statement that passes has dropped the object's database.
        """
        if key[0] in _OF_NO_DATABASE or key[1] in self._emptied:
            return False
        return self._there.first(f"{key[1]}.{key[2]}") is not None

    def _removed(self, ref: Ref, cause: C, *, passes: bool, conditional: bool = False) -> None:
        known = self._objects.get(ref.replica)
        was_there = known.has if known is not None else not conditional or self.is_there(ref.replica)
        is_left = was_there and not passes
        if known is not None or is_left or self.is_there(ref.replica):
            self._objects[ref.replica] = Known(is_left, cause if is_left or ref.is_rewritten else None)
        inside = [
            code.ref.replica
            for _, code in self._code.naming(ref.replica)
            if code.on and code.on.replica == ref.replica
        ]
        if ref.replica[0] is Thing.DATABASE:
            if passes:
                self._emptied.add(ref.replica[1])
            inside += [key for key, _ in self._objects.naming(ref.replica)]
        for key in inside:
            if (inner := self._objects.get(key)) is not None:
                left = not passes and inner.has
                self._objects[key] = Known(has=left, cause=cause if left else None)

    def _remove_body(self, ref: Ref, cause: C, *, passes: bool) -> None:
        """Record the removal of a package's body if ``ref`` is a package, since MariaDB removes the body together with
        its package.

        ``cause`` is the caller's identifier of the statement, and ``passes`` says whether the statement passes the
        filter.
        """
        if ref.source[0] is Thing.PACKAGE:
            source, replica = ((Thing.PACKAGE_BODY, *key[1:]) for key in ref)
            self._removed(Ref(source, replica), cause, passes=passes, conditional=True)

    def _renamed(self, old: Ref, new: Ref, session: int, cause: C, *, passes: bool) -> None:
        if (session, old.replica) in self._temporary:
            self._temporary[session, new.replica] = self._temporary.pop((session, old.replica))
        elif not passes:
            self._removed(old, cause, passes=False)
            self._made(new, cause, passes=False)
        else:
            known = self._objects.get(old.replica) or Known(has=True)
            is_table = old.source[0] is Thing.TABLE
            is_lost = is_table and not self._rules.rows_ok(*old.source[1:])
            if known.has and is_lost and self._rules.rows_ok(*new.source[1:]):
                known = Known(has=True, cause=cause, is_stale=True)
            self._objects[old.replica] = Known(has=False, cause=cause if old.is_rewritten else None)
            if known.has:
                self._objects[new.replica] = replace(known, source=new.source)
            else:  # IF EXISTS: the replica keeps what it has under the new name.
                self._made(new, known.cause or cause, passes=False)
            self._made_elsewhere(new, cause)
            if old.replica[0] is Thing.ACCOUNT:
                before, after = (f"{name}@{host}" for _, host, name in (old.replica, new.replica))
                for thing, on, account in list(self._objects):
                    if thing is Thing.GRANT and account == before:
                        self._objects[thing, on, after] = self._objects.pop((thing, on, account))

    def _follow_code(self, one: Resolved, cause: C, *, passes: bool) -> None:
        """Update the source's views, triggers, routines and foreign keys for the statement ``one``, which creates,
        drops or renames objects.

        ``cause`` is the caller's identifier of the statement, and ``passes`` says whether the statement passes the
        filter.
        """
        facts, default, refs = one.facts, one.default, one.refs
        for old, new in one.renames:
            self._move_code(old, new, passes=passes)
        for ref in refs if facts.verb is Verb.DROP or (facts.verb is Verb.CREATE and facts.replaces) else ():
            self._remove_code(ref.source)
            if self.has(self.rows_ref(*ref.source[1:]).replica) is False:
                self._parents.pop(ref.source, None)
        if facts.verb is Verb.DROP or facts.renames:
            return
        for ref in refs:
            body, known = None, self._objects.get(ref.replica)
            if facts.thing is Thing.TABLE:
                if facts.verb is Verb.CREATE and not (known is not None and known.is_stale):
                    self._parents.pop(ref.source, None)
                if one.parents:
                    self._parents[ref.source] = self._parents.get(ref.source, frozenset()) | one.parents
            if facts.thing is Thing.TRIGGER or (facts.thing in _ROUTINES and facts.verb is Verb.CREATE):
                body = self.body(facts.body, ref.inside)
            elif facts.kind is K.VIEW:
                body = self.body(facts.body, default)
            elif tables := self._merged(one):
                body = Body(tables, tuple((table, Change.UPDATE) for table in tables))
            if body is not None:
                body = replace(body, definer=self._refs(Thing.ACCOUNT, facts.definer, default))
                on = self.ref(*facts.needs[0], default) if facts.thing is Thing.TRIGGER else None
                self._code[ref.source] = Code(ref, cause, body, on, facts.fired_by)

    def _move_code(self, old: Ref, new: Ref, *, passes: bool) -> None:
        """Move views, triggers and foreign keys of a table of the source to the table's new name.

        ``passes`` says whether the RENAME passes the filter. If not, the replica's table keeps its old name.
        """

        def moved(ref: Ref) -> Ref:
            return Ref(
                new.source if ref.source == old.source else ref.source,
                new.replica if passes and ref.replica == old.replica else ref.replica,
            )

        if old.source in self._code:
            code = self._code.pop(old.source)
            self._code[new.source] = replace(code, ref=moved(code.ref))
        for key, code in self._code.naming(*old):
            if code.on is not None:
                self._code[key] = replace(code, on=moved(code.on))
        parents = self._parents.pop(old.source, None)
        self._parents.pop(new.source, None)
        if parents:
            self._parents[new.source] = parents
        for key, parents in self._parents.naming(*old):
            self._parents[key] = frozenset(map(moved, parents))

    def _remove_code(self, key: Key) -> None:
        for one, code in self._code.naming(key):
            if key[0] is Thing.DATABASE or (code.on is not None and code.on.source == key):
                del self._code[one]
        self._code.pop(key, None)
