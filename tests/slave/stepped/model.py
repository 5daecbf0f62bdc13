"""The judge of a stepped slave: what a slave has that receives everything, and filters on its own side.

The model knows a binlog set, and what the operator did at which positions: changes of filter, RESET, new processes. It
says which rows, GTIDs and counters a slave has at a position. Every place where an applier stops is compared with that.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from dumpfilter.binlog.format import Family, NameRules
from dumpfilter.binlog.gtid import Gtid, GtidSet, parse_gtid_set
from dumpfilter.binlog.reader import Event, iter_events
from dumpfilter.filter.filter import Filter, make_filter
from dumpfilter.filter.rules import BaseRuleKind, FilterSemantics, Rule
from dumpfilter.index.fileset import BinlogSet
from dumpfilter.slave.applier import EventApplier
from dumpfilter.slave.targets import SummaryTarget

Place = tuple[str, int]
"""A binlog file of the master and a position in that file."""

Filtering = tuple[tuple[Rule, ...], FilterSemantics]


class Unit(NamedTuple):
    """Events that no position divides: a transaction, or an event between two transactions."""

    place: Place
    """The place where the first event begins."""
    end: Place
    events: tuple[Event, ...]
    gtid: Gtid | None


class _Nothing(SummaryTarget):
    """A target that ignores its transactions."""

    def rows(self, *_: object) -> None:
        pass

    def statement(self, *_: object) -> None:
        pass


class Recording:
    """A recorded binlog set, in units."""

    def __init__(self, source: Path) -> None:
        binlogs = BinlogSet.open(source)
        self.names = list(binlogs.names)
        self.data = {name: binlogs.path(name).read_bytes() for name in self.names}
        self.units: list[Unit] = []
        gtids: list[Gtid] = []
        self.family: Family = "mysql"
        self.checksum = False
        for name in self.names:
            pending: list[Event] = []
            applier = EventApplier(Filter(), _Nothing(), on_complete=gtids.append)
            with binlogs.path(name).open("rb") as file:
                for event in iter_events(file, file=name):
                    self.family = event.fd.family
                    self.checksum = event.fd.checksum
                    pending.append(event)
                    applier.feed(event, file=name)
                    if applier.inside:
                        continue
                    place, end = (name, pending[0].offset), (name, event.offset + len(event.raw))
                    self.units.append(Unit(place, end, tuple(pending), gtids.pop() if gtids else None))
                    pending = []
        self._places = [unit.place for unit in self.units]
        self._ends = [unit.end for unit in self.units]
        self.transactions = [number for number, unit in enumerate(self.units) if unit.gtid is not None]

    def number(self, place: Place) -> int:
        """Return the number of the first unit that does not end at or before a place."""
        return bisect_right(self._ends, place)

    def is_boundary(self, place: Place) -> bool:
        at = bisect_left(self._places, place)
        return at == len(self.units) or self._places[at] == place or place in self._ends or place[1] <= 4

    def gtids(self, numbers: Iterable[int]) -> GtidSet:
        found = parse_gtid_set("", self.family)
        for number in numbers:
            gtid = self.units[number].gtid
            if gtid is not None:
                found.add(gtid)
        return found


@lru_cache
def recording(source: Path) -> Recording:
    return Recording(source)


@dataclass(frozen=True)
class Known:
    """The data and counters of a slave before the unit with this number."""

    number: int
    summary: dict[str, Any]
    counters: Counter[BaseRuleKind]


@dataclass
class Change:
    """A filter, and the number of the unit from which it has been in force."""

    number: int
    filtering: Filtering


@dataclass
class Model:
    """The history of one channel."""

    recording: Recording
    changes: list[Change] = field(default_factory=list)
    known: list[Known] = field(default_factory=lambda: [Known(0, {}, Counter())])
    """States that the slave has been compared with, in the order of their numbers."""
    excluded: GtidSet | None = None
    """GTIDs that the master does not send, since the slave has told that it has them."""

    def reset(self, number: int, known: Known, excluded: GtidSet | None) -> None:
        """Begin at a unit, with the data that the slave has."""
        self.known = [Known(number, known.summary, known.counters)]
        self.excluded = excluded
        self.changes = [Change(0, change.filtering) for change in self.changes[-1:]]

    def at(self, number: int) -> Known:
        """Return what a slave has before the unit with this number."""
        known = max((one for one in self.known if one.number <= number), key=lambda one: one.number)
        target = SummaryTarget()
        target.restore(known.summary)
        counters = Counter(known.counters)
        here = known.number
        while here < number:
            change = max((one for one in self.changes if one.number <= here), key=lambda one: one.number)
            until = min([one.number for one in self.changes if one.number > here] + [number])
            self._apply(change.filtering, here, until, target, counters)
            here = until
        return Known(number, target.state(), counters)

    def _apply(
        self,
        filtering: Filtering,
        first: int,
        end: int,
        target: SummaryTarget,
        counters: Counter[BaseRuleKind],
    ) -> None:
        rules, semantics = filtering
        names = NameRules(self.recording.family)
        applier = EventApplier(make_filter(semantics, rules, names=names), target)
        for unit in self.recording.units[first:end]:
            if self.excluded is not None and unit.gtid is not None and unit.gtid in self.excluded:
                continue
            for event in unit.events:
                applier.feed(event, file=unit.place[0])
        counters.update(applier.take_hits())

    def remember(self, known: Known) -> None:
        self.known = [*(one for one in self.known if one.number < known.number), known]

    def change(self, number: int, filtering: Filtering, changed: Callable[[BaseRuleKind], bool]) -> None:
        """Note a filter that is in force from a unit on. The counters of changed kinds of rules begin again."""
        self.changes = [*(one for one in self.changes if one.number < number), Change(number, filtering)]
        here = self.at(number)
        counters = Counter({kind: n for kind, n in here.counters.items() if not changed(kind)})
        self.remember(Known(number, here.summary, counters))

    def executed(self, number: int, executed_before: GtidSet | None) -> GtidSet:
        """Return the GTIDs of a slave that has executed everything before a unit."""
        first = self.known[0].number
        found = self.recording.gtids(range(first, number))
        if executed_before is not None:
            found.update(executed_before)
        return found
