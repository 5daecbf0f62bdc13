"""From what was measured to the results: sums over units, a slave at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dumpfilter.binlog.format import DEFAULT_NAMES, NameRules
from dumpfilter.dump.conditions import Mask
from dumpfilter.dump.tallied import SubjectFlags, Tallied, flags_of
from dumpfilter.filter.flags import FILTER_BINLOG_SEND_F, TableFlags
from dumpfilter.index.subjects import Subject, Subjects, TableSubject
from dumpfilter.printable import replace_invalid_utf8
from dumpfilter.spark_jobs.bandwidth.results import (
    Figures,
    MasterCost,
    Peak,
    RuleSaving,
    SlaveFigures,
    TableFigures,
    TableShare,
)
from dumpfilter.spark_jobs.bandwidth.slaves import SlaveDefinition
from dumpfilter.spark_jobs.bandwidth.tasks import GivenFilter, Measured, Timing
from dumpfilter.spark_jobs.split.names import REST, decode_name
from dumpfilter.spark_jobs.split.ownership import encoded_schemas, schemas_of

Ints = npt.NDArray[np.int64]

SEVERAL = "(several tables)"
NO_TABLE = "(no table)"


@dataclass(frozen=True)
class Asked:
    """A slave, and the numbers under which its filter and those without one rule each were measured."""

    definition: SlaveDefinition
    number: int
    without: tuple[int, ...]
    """A rule each."""


def ask(
    definitions: Sequence[SlaveDefinition],
    names: NameRules = DEFAULT_NAMES,
) -> tuple[list[Asked], list[GivenFilter]]:
    """The slaves, and all filters to measure with: theirs first, one each."""
    filters: list[GivenFilter] = [(one.filter(names), one.origin) for one in definitions]
    asked = []
    known: dict[tuple[object, ...], int] = {}
    for number, one in enumerate(definitions):
        without = []
        for k in range(len(one.rules)):
            rules = tuple(rule for j, rule in enumerate(one.rules) if j != k)
            key = (rules, one.semantics, one.lower_case_table_names, one.origin)
            if key not in known:
                known[key] = len(filters)
                filters.append((one.filter(names, without=k), one.origin))
            without.append(known[key])
        asked.append(Asked(one, number, tuple(without)))
    return asked, filters


class Tables:
    """What units are about, as reports name it."""

    def __init__(self, tallied: Tallied) -> None:
        names: dict[str, int] = {}
        self.places: list[tuple[str | None, str | None]] = []
        """Database and table of each name."""
        of_condition = np.zeros(len(tallied.conditions), np.int64)
        bare = len(tallied.conditions)
        for condition in range(bare):
            subject = tallied.table_of(condition)
            if subject is not None:
                name, place = _name(subject)
            else:
                several = len(tallied.conditions.members(condition)) > 0
                name, place = (SEVERAL if several else NO_TABLE), (None, None)
            if name not in names:
                names[name] = len(names)
                self.places.append(place)
            of_condition[condition] = names[name]
        self.names = list(names)
        self.of_unit: Ints = of_condition[tallied.condition]

    def bytes(self, tallied: Tallied, mask: Mask) -> Ints:
        """Bytes of each name among some units."""
        return _sums(self.of_unit[mask], tallied.bytes[mask], len(self.names))

    def figures(self, tallied: Tallied, mask: Mask) -> tuple[TableFigures, ...]:
        """What each weighs, the heaviest first."""
        columns = [
            _sums(self.of_unit[mask], column[mask], len(self.names))
            for column in (tallied.bytes, tallied.events, tallied.transactions)
        ]
        found = [
            TableFigures(
                name=name,
                database=self.places[k][0],
                table=self.places[k][1],
                bytes=int(columns[0][k]),
                events=int(columns[1][k]),
                transactions=int(columns[2][k]),
            )
            for k, name in enumerate(self.names)
            if columns[1][k]
        ]
        return tuple(sorted(found, key=lambda one: (-one.bytes, one.name)))


def _name(subject: Subject) -> tuple[str, tuple[str | None, str | None]]:
    if isinstance(subject, TableSubject):
        database, table = replace_invalid_utf8(subject.database), replace_invalid_utf8(subject.table)
        return f"{database}.{table}", (database, table)
    schemas = [replace_invalid_utf8(one) for one in schemas_of(subject)]
    if not schemas:
        return NO_TABLE, (None, None)
    if len(schemas) > 1:
        return SEVERAL, (None, None)
    return f"{schemas[0]} (statements)", (schemas[0], None)


def _sums(places: Ints, values: Ints, length: int) -> Ints:
    # sums of bytes stay far below 2**53, up to which floats are exact
    return np.bincount(places, weights=values, minlength=length).astype(np.int64)


@dataclass(frozen=True)
class FlagsOf:
    """Asks a filter about every subject of a tally. Picklable: with many slaves this is what takes long."""

    subjects: tuple[Subject, ...]

    def __call__(self, given: GivenFilter) -> SubjectFlags | None:
        """Its flags, as :meth:`~dumpfilter.dump.tallied.Tallied.flags` has them."""
        return flags_of(TableFlags(given[0], Subjects()), self.subjects)


class Evaluate:
    """Works slaves out. ``flags``: of each filter that was measured with.

    What the filters do not tell apart is put together first, so that a slave costs little whatever the binlogs' size.
    """

    def __init__(self, measured: Measured, flags: Sequence[SubjectFlags | None]) -> None:
        tallied = self.tallied = measured.tallied.folded(flags)
        self._flags = flags
        self._schema_bytes = measured.schema_bytes
        self._an_event, _, self._a_byte = costs(measured.timing)
        self.buckets: Ints = np.unique(tallied.bucket[tallied.bucket > 0])
        """Those there are, ascending."""
        self.tables = Tables(tallied)
        self._ratios = np.full(len(tallied.conditions), measured.ratio())
        """What compression leaves of what is sent under each condition: by the schema it is about."""
        for condition in range(len(self._ratios)):
            subject = tallied.table_of(condition)
            schemas = () if subject is None else encoded_schemas(subject)
            if len(schemas) == 1:
                self._ratios[condition] = measured.ratio(schemas[0])

    @property
    def everything(self) -> Mask:
        """All units: what a slave without rules is sent."""
        return self.tallied.sent(None)

    def series(self, mask: Mask) -> Ints:
        """Bytes of some units in each bucket."""
        tallied = self.tallied
        places = np.clip(np.searchsorted(self.buckets, tallied.bucket[mask]), 0, len(self.buckets) - 1)
        return _sums(places, tallied.bytes[mask], len(self.buckets))

    def __call__(self, asked: Asked) -> tuple[SlaveFigures, tuple[int, ...]]:
        """The slave's figures, and its bytes in each bucket."""
        tallied, definition = self.tallied, asked.definition
        origin = definition.origin
        flags = self._flags[asked.number]
        everything = tallied.sent(None, origin)
        sent = tallied.sent(flags, origin, asked.number)
        unsure = sent & tallied.unsure(flags)
        figures = _figures(tallied, sent)
        tables = self.tables
        weights = tables.bytes(tallied, sent)
        order = sorted(np.flatnonzero(weights).tolist(), key=lambda k: (-int(weights[k]), tables.names[k]))
        of_time = self.series(sent)
        sets = self._sets(flags)
        savings = []
        for rule, number in zip(definition.rules, asked.without, strict=True):
            without = int(tallied.bytes[tallied.sent(self._flags[number], origin, number)].sum())
            savings.append(RuleSaving(rule=rule, bytes_without=without, saving=without - figures.bytes))
        made = SlaveFigures(
            name=definition.name,
            server_id=definition.server_id,
            semantics=definition.semantics.value,
            rules=definition.rules,
            no_filter=_figures(tallied, everything),
            applied=figures,
            master_side=figures,
            undecided_events=int(tallied.undecided[unsure].sum()),
            compressed_no_filter=self._compressed(everything),
            compressed=self._compressed(sent),
            split=sum(self._schema_bytes[name] for name in sets),
            split_sets=tuple(
                REST if name == REST else replace_invalid_utf8(decode_name(name)) for name in sets
            ),
            peak_no_filter=self._peak(self.series(everything)),
            peak=self._peak(of_time),
            rule_savings=tuple(savings),
            tables=tuple(TableShare(table=tables.names[k], bytes=int(weights[k])) for k in order),
            cpu_seconds=self._an_event * int(tallied.events[everything].sum()) + self._a_byte * figures.bytes,
        )
        return made, tuple(of_time.tolist())

    def _peak(self, series: Ints) -> Peak | None:
        if not len(series) or not series.any():
            return None
        k = int(np.argmax(series))
        seconds = self.tallied.bucket_seconds
        return Peak(
            start=int(self.buckets[k]) * seconds,
            bytes=int(series[k]),
            bytes_per_second=int(series[k]) / seconds,
        )

    def _sets(self, flags: SubjectFlags | None) -> list[str]:
        """The schemas' binlogs that hold anything the slave applies, by encoded name."""
        needed: set[str] = set()
        for number, subject in enumerate(self.tallied.subjects):
            if flags is None or flags[number] & FILTER_BINLOG_SEND_F:
                needed.update(encoded_schemas(subject) or (REST,))
        if flags is None:
            needed.update(self._schema_bytes)
        return sorted(needed & self._schema_bytes.keys())

    def _compressed(self, mask: Mask) -> int:
        tallied = self.tallied
        return round(float((tallied.bytes[mask] * self._ratios[tallied.condition[mask]]).sum()))


def _figures(tallied: Tallied, mask: Mask) -> Figures:
    return Figures(
        bytes=int(tallied.bytes[mask].sum()),
        events=int(tallied.events[mask].sum()),
        transactions=int(tallied.transactions[mask].sum()),
    )


def costs(timing: Timing) -> tuple[float, float, float]:
    """CPU seconds of deciding an event with a filter, and without one, and of copying a byte."""
    return (
        timing.decide_seconds / max(timing.decide_events, 1),
        timing.plain_seconds / max(timing.plain_events, 1),
        timing.render_seconds / max(timing.render_bytes, 1),
    )


def master_cost(timing: Timing, slaves: Sequence[SlaveFigures]) -> MasterCost:
    """What the master does for these slaves."""
    _, plain, a_byte = costs(timing)
    return MasterCost(
        scan_seconds=timing.scan_seconds,
        decide_seconds=sum(one.cpu_seconds for one in slaves),
        unfiltered_seconds=sum(plain * one.no_filter.events + a_byte * one.no_filter.bytes for one in slaves),
    )
