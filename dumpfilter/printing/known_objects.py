"""The objects that a server has after it has run the printed text, as far as the binlog set tells.

The set tells about objects that it makes or removes. All other objects are unknown, and count as present: a table that
is older than the set is on every server that the text is meant for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from dumpfilter.binlog.query import TableName
from dumpfilter.statement.definitions import Thing
from dumpfilter.statement.mentions import Change, Mentions

Key = tuple[Thing, str, str]
"""The kind of an object, its database (an account's host), and its name."""


@dataclass(frozen=True)
class Body:
    """The objects that a view, a trigger or a stored function uses when a statement uses it."""

    tables: tuple[Key, ...]
    writes: tuple[tuple[Key, Change], ...]
    functions: tuple[Key, ...]


@dataclass(frozen=True)
class Trigger:
    """A trigger of the target: the table, the changes of rows that fire the trigger, and what the trigger uses."""

    table: Key
    changes: tuple[Change, ...]
    body: Body


class KnownObjects:
    """The known objects of the target, which is the server that runs the text: present ones and missing ones.

    Parameters:
        rewrite_db: returns the name that a current database has on the target.
        lower_case: whether the server compares the names of databases and tables without case.
    """

    def __init__(self, *, rewrite_db: Callable[[str], str], lower_case: bool) -> None:
        self.rewrite_db = rewrite_db
        self._lower_case = lower_case
        self._is_present: dict[Key, bool] = {}
        self._of_database: dict[str, dict[Key, None]] = {}
        """The known objects of each database, which DROP DATABASE removes."""
        self._bodies: dict[Key, Body] = {}
        self._triggers: dict[Key, Trigger] = {}
        self._temporary: dict[int, dict[Key, bool]] = {}
        """The temporary tables of each session. They hide other tables of the same name."""
        self.lacks_any = False
        """Whether the target is known to lack any object."""

    def key(self, thing: Thing, name: TableName, current: str) -> Key:
        """Return the object that a name stands for, in a session with this current database on the target."""
        database = current if name.database is None else name.database
        table = name.table
        if thing is Thing.DATABASE:
            database, table = table, ""
        if thing in (Thing.PROCEDURE, Thing.FUNCTION, Thing.PACKAGE, Thing.LIBRARY, Thing.EVENT):
            table = table.lower()
        if self._lower_case and thing not in (Thing.ACCOUNT, Thing.GRANT):
            database, table = database.lower(), table.lower()
        return thing, database, table

    def is_present(self, key: Key, session: int = -1) -> bool | None:
        """Tell whether the target has an object; None when the set does not tell."""
        own = self._temporary.get(session)
        if own is not None and key in own:
            return own[key]
        return self._is_present.get(key)

    def lacks(self, key: Key, session: int = -1) -> bool:
        """Tell whether the target is known to lack an object."""
        return self.is_present(key, session) is False

    def tells_table_of(self, trigger: Key) -> bool:
        """Tell whether the table of a trigger is known, or the target is known to lack the trigger."""
        return trigger in self._triggers or self.lacks(trigger)

    def is_temporary(self, key: Key, session: int) -> bool:
        """Tell whether a session is known to have a temporary table of this name."""
        return bool(self._temporary.get(session, {}).get(key))

    def add(self, key: Key, body: Body | None = None) -> None:
        """Note that the target has an object."""
        self._note(key, is_present=True)
        self._bodies.pop(key, None)
        if body is not None:
            self._bodies[key] = body

    def add_trigger(self, key: Key, trigger: Trigger) -> None:
        """Note that the target has a trigger."""
        self._note(key, is_present=True)
        self._triggers[key] = trigger

    def remove(self, key: Key) -> None:
        """Note that the target lacks an object, and all that an object takes with it."""
        self._note(key, is_present=False)
        self._bodies.pop(key, None)
        self._triggers.pop(key, None)
        if key[0] is Thing.DATABASE:
            for inner in list(self._of_database[key[1]]):
                if inner != key and self._is_present[inner]:
                    self.remove(inner)
        elif key[0] is Thing.TABLE:
            for name in [name for name, trigger in self._triggers.items() if trigger.table == key]:
                self.remove(name)

    def is_never_made(self, key: Key) -> None:
        """Note that the set makes an object elsewhere only, so that the target lacks it unless it is known there."""
        if not self._is_present.get(key):
            self._note(key, is_present=False)

    def rename(self, old: Key, new: Key) -> None:
        """Note that an object of the target has another name."""
        body = self._bodies.pop(old, None)
        for name, trigger in list(self._triggers.items()):
            if trigger.table == old:
                self._triggers[name] = Trigger(new, trigger.changes, trigger.body)
        self._note(old, is_present=False)
        self.add(new, body)

    def _note(self, key: Key, *, is_present: bool) -> None:
        self._is_present[key] = is_present
        self.lacks_any |= not is_present
        if key[0] not in (Thing.ACCOUNT, Thing.GRANT):
            self._of_database.setdefault(key[1], {})[key] = None

    def set_temporary(self, key: Key, session: int, is_present: bool | None) -> None:
        """Note whether a session has a temporary table. With None the name stands for another table again."""
        own = self._temporary.setdefault(session, {})
        if is_present is None:
            own.pop(key, None)
        else:
            own[key] = is_present
            self.lacks_any |= not is_present
        if not own:
            del self._temporary[session]

    def body(self, mentions: Mentions, current: str) -> Body:
        """Return the objects that a body uses, when a session with this current database defines it."""
        return Body(
            tuple(self.key(Thing.TABLE, name, current) for name in mentions.tables),
            tuple((self.key(Thing.TABLE, name, current), change) for name, change in mentions.writes),
            tuple(self.key(Thing.FUNCTION, name, current) for name in mentions.functions),
        )

    def missing(self, body: Body, session: int) -> Key | None:
        """Return an object that a statement needs and that the target is known to lack; None when there is none.

        The statement needs what its views, its triggers and its stored functions need, too.
        """
        return next((key for key, _ in self._needed(body, session) if self.lacks(key, session)), None)

    def changed(self, body: Body, session: int) -> set[Key]:
        """Return the tables whose rows a statement may change, also through its views, triggers and functions."""
        # A key with a body is a view or a MERGE table. Its own tables are in the answer.
        return {
            key for key, is_changed in self._needed(body, session) if is_changed and key not in self._bodies
        }

    def _needed(self, body: Body, session: int) -> Iterator[tuple[Key, bool]]:
        """Yield each object that a statement needs, and whether the statement may change the object's rows."""
        seen: set[object] = set()
        waiting = [body]

        def new(things: Iterable[object]) -> bool:
            found = set(things) - seen
            seen.update(found)
            return bool(found)

        while waiting:
            one = waiting.pop()
            for table in one.tables:
                yield table, False
                if table in self._bodies and new([table]):
                    waiting.append(self._bodies[table])
            for table, change in one.writes:
                yield table, True
                view = self._bodies.get(table)
                if view is not None and new([(table, change)]):
                    waiting.append(Body((), tuple((inner, change) for inner in view.tables), ()))
                if self.is_temporary(table, session):
                    continue
                for name, trigger in self._triggers.items():
                    if trigger.table == table and change in trigger.changes and new([name]):
                        waiting.append(trigger.body)
            for function in one.functions:
                if function in self._is_present:
                    yield function, False
                if function in self._bodies and new([function]):
                    waiting.append(self._bodies[function])


def named(key: Key) -> str:
    """Return an object's name for people, such as ``table shop.orders``.

    >>> named((Thing.TABLE, "shop", "orders"))
    'table shop.orders'
    """
    thing, database, name = key
    if thing is Thing.DATABASE:
        return f"database {database}"
    if thing is Thing.ACCOUNT:
        return f"account {name}@{database}"
    return f"{thing.value} {database}.{name}"
