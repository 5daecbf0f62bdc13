"""Changes of real replicas' filters that an operator made on the console, which hold in place of the file's rules."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from dumpfilter.errors import OptionError
from dumpfilter.filter import FilterSemantics, ReplicationFilter, make_filter, parse_option
from dumpfilter.master.replica_entry import ReplicaEntry
from dumpfilter.master.who import Who


@dataclass(frozen=True)
class ChangedFilter:
    """The rules that an operator gave to the replicas of one ``[[replica]]``."""

    who: Who
    """The replicas that the table selects, by which the table is the same after the file has changed."""
    semantics: FilterSemantics
    rules: tuple[str, ...]
    in_place_of: tuple[str, ...]
    """The file's rules at the time of the change. When the file's rules change later, the file holds again."""
    changed_at: float


class FilterChanges:
    """The changed filters of real replicas, by the tables of the configuration. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._changed: dict[Who, tuple[ChangedFilter, ReplicationFilter]] = {}
        self.on_change: list[Callable[[], None]] = []
        """Functions that are called after each change, to save the changes."""

    def filter_of(self, entry: ReplicaEntry) -> ReplicationFilter | None:
        """Return the filter that an operator gave to an entry's replicas, or None without such a change."""
        with self._lock:
            found = self._changed.get(entry.who)
            return None if found is None else found[1]

    def all(self) -> list[ChangedFilter]:
        """Return the changes, in their order."""
        with self._lock:
            return [changed for changed, _ in self._changed.values()]

    def set(self, entry: ReplicaEntry, rule_filter: ReplicationFilter, *, now: float) -> None:
        """Note that an operator gave a filter to the replicas of an entry, which has rules of its own.

        With the rules of the file the change is over.
        """
        rules = tuple(map(str, rule_filter.rules))
        changed = ChangedFilter(entry.who, entry.semantics, rules, _rules(entry), now)
        with self._lock:
            if rules == changed.in_place_of:
                self._changed.pop(changed.who, None)
            else:
                self._changed[changed.who] = changed, rule_filter
        self._tell()

    def restore(self, saved: Iterable[ChangedFilter], entries: Sequence[ReplicaEntry]) -> list[ChangedFilter]:
        """Use these changes alone. Return those that do not hold, whose entries are gone or have other rules."""
        by_who = {entry.who: entry for entry in entries}
        filters = {changed.who: (changed, _filter(changed, by_who.get(changed.who))) for changed in saved}
        with self._lock:
            self._changed = {who: (one, made) for who, (one, made) in filters.items() if made is not None}
        return [changed for changed, made in filters.values() if made is None]

    def keep(self, entries: Sequence[ReplicaEntry]) -> list[ChangedFilter]:
        """Forget the changes of entries that are gone, or have other rules in the file. Return these changes."""
        dropped = self.restore(self.all(), entries)
        if dropped:
            self._tell()
        return dropped

    def _tell(self) -> None:
        for tell in self.on_change:
            tell()


def _rules(entry: ReplicaEntry) -> tuple[str, ...]:
    return () if entry.filter is None else tuple(map(str, entry.filter.rules))


def _filter(changed: ChangedFilter, entry: ReplicaEntry | None) -> ReplicationFilter | None:
    """Return the filter of a change, or None when the change does not hold for the entry in the file."""
    if entry is None or entry.filter is None:
        return None
    if changed.in_place_of != _rules(entry) or changed.semantics is not entry.semantics:
        return None
    try:
        rules = [parse_option(rule, changed.semantics) for rule in changed.rules]
        return make_filter(changed.semantics, rules, names=entry.filter.names)
    except OptionError:
        return None
