"""The evaluation of measurements: sums over the tally's units give each slave's figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dumpfilter.binlog.format import NameRules
from dumpfilter.dump.conditions import Mask
from dumpfilter.dump.tallied import SubjectFlags, Tallied, flags_of
from dumpfilter.filter.flags import FILTER_BINLOG_SEND_F, TableFlags
from dumpfilter.index.subjects import Subject, Subjects, TableSubject
from dumpfilter.printable import replace_invalid_utf8
from dumpfilter.spark_jobs.bandwidth.measure import GivenFilter, Measured, Timing
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
from dumpfilter.spark_jobs.split.names import REST, decode_name
from dumpfilter.spark_jobs.split.ownership import encoded_schemas, schemas_of

Ints = npt.NDArray[np.int64]

SEVERAL = "(several tables)"
NO_TABLE = "(no table)"


@dataclass(frozen=True)
class Asked:
    """A slave with the numbers of the filters that were measured for it."""

    definition: SlaveDefinition
    number: int
    """The number of the slave's own filter."""
    without: tuple[int, ...]
    """For each rule, the number of the filter without that rule."""


def ask(
    definitions: Sequence[SlaveDefinition],
    names: NameRules,
) -> tuple[list[Asked], list[GivenFilter]]:
    """Return the slaves and all filters to measure. The slaves' own filters come first, in the slaves' order."""
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
    """The tables that the units belong to, as reports name them."""

    def __init__(self, tallied: Tallied) -> None:
        names: dict[str, int] = {}
        self.places: list[tuple[str | None, str | None]] = []
        """The database and the table of each name."""
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
        """Return the bytes of each name in the units of ``mask``."""
        return _sums(self.of_unit[mask], tallied.bytes[mask], len(self.names))

    def figures(self, tallied: Tallied, mask: Mask) -> tuple[TableFigures, ...]:
        """Return the figures of each table in the units of ``mask``, the largest first."""
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
    # bincount sums in floats, which are exact up to 2**53.
    return np.bincount(places, weights=values, minlength=length).astype(np.int64)


@dataclass(frozen=True)
class FlagsOf:
    """A task that evaluates a filter for every subject of a tally. Picklable, since many slaves
    make this step long."""

    subjects: tuple[Subject, ...]

    def __call__(self, given: GivenFilter) -> SubjectFlags | None:
        """Return the filter's flags as :meth:`~dumpfilter.dump.tallied.Tallied.flags` does."""
        return flags_of(TableFlags(given[0], Subjects()), self.subjects)


class Evaluate:
    """Computes the figures of slaves. ``flags`` has the flags of every measured filter.

    Units that no filter tells apart are added up first. Therefore the cost of a slave does not depend on the binlogs'
    size.
    """

    def __init__(self, measured: Measured, flags: Sequence[SubjectFlags | None]) -> None:
        tallied = self.tallied = measured.tallied.folded(flags)
        self._flags = flags
        self._schema_bytes = measured.schema_bytes
        self._an_event, _, self._a_byte = costs(measured.timing)
        self.buckets: Ints = np.unique(tallied.bucket[tallied.bucket > 0])
        """The time buckets with traffic, ascending."""
        self.tables = Tables(tallied)
        self._ratios = np.full(len(tallied.conditions), measured.ratio())
        """The compression ratio of the events under each condition, by the schema of the events."""
        for condition in range(len(self._ratios)):
            subject = tallied.table_of(condition)
            schemas = () if subject is None else encoded_schemas(subject)
            if len(schemas) == 1:
                self._ratios[condition] = measured.ratio(schemas[0])

    @property
    def everything(self) -> Mask:
        """All units, which a slave without rules is sent."""
        return self.tallied.sent(None)

    def series(self, mask: Mask) -> Ints:
        """Return the bytes of the units of ``mask`` in each bucket."""
        tallied = self.tallied
        places = np.clip(np.searchsorted(self.buckets, tallied.bucket[mask]), 0, len(self.buckets) - 1)
        return _sums(places, tallied.bytes[mask], len(self.buckets))

    def __call__(self, asked: Asked) -> tuple[SlaveFigures, tuple[int, ...]]:
        """Return the slave's figures, and its bytes in each bucket."""
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
        """Return the encoded names of the per-schema binlogs that hold any event that the slave applies."""
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
    """Return the CPU seconds of deciding an event with a filter and without a filter, and of copying a byte."""
    return (
        timing.decide_seconds / max(timing.decide_events, 1),
        timing.plain_seconds / max(timing.plain_events, 1),
        timing.render_seconds / max(timing.render_bytes, 1),
    )


def master_cost(timing: Timing, slaves: Sequence[SlaveFigures]) -> MasterCost:
    """Return the master's cost for these slaves."""
    _, plain, a_byte = costs(timing)
    return MasterCost(
        scan_seconds=timing.scan_seconds,
        decide_seconds=sum(one.cpu_seconds for one in slaves),
        unfiltered_seconds=sum(plain * one.no_filter.events + a_byte * one.no_filter.bytes for one in slaves),
    )
