"""The suggestion of filter rules for a binlog set: the tables with the most bytes, and the few rules that save most.

A pass over the binlogs makes a tally: bytes counted by the condition under which a filter sends them. From the tally,
:class:`~dumpfilter.spark_jobs.suggest.search.Search` computes the bytes that a filter passes. Each event of a
compressed transaction counts with its share of the compressed bytes, since the size of a part of the transaction is
unknown. If a compressed transaction has several tables, a second pass counts the exact bytes for the suggested rules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from dumpfilter.analyse.by_heading import Headings, flat_events
from dumpfilter.analyse.lint.knowledge import SetKnowledge
from dumpfilter.analyse.traffic.facts import Facts, flags_of, merge, wants
from dumpfilter.analyse.traffic.tally import Tally
from dumpfilter.base.errors import OptionError
from dumpfilter.base.printable import replace_invalid_utf8
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.filter.base import ReplicationFilter
from dumpfilter.filter.filter import Filter
from dumpfilter.filter.flags import FILTER_BINLOG_SEND_F, TableFlags
from dumpfilter.filter.rules import FilterSemantics, RuleKind, make_rule
from dumpfilter.index.fileset import open_file
from dumpfilter.index.segment import Segment
from dumpfilter.index.subjects import Subjects, TableSubject
from dumpfilter.spark_jobs.engines import Amount, Runner
from dumpfilter.spark_jobs.options import SuggestOptions
from dumpfilter.spark_jobs.ranges import (
    IndexedSet,
    Range,
    ReadRanges,
    parts_of,
    read_ranges,
    read_set,
    state_of_thread,
)
from dumpfilter.spark_jobs.suggest.results import Plan, RuleStep, Suggestions, TableWeight
from dumpfilter.spark_jobs.suggest.search import Found, Search, Slave, option_line, tables_among
from dumpfilter.topology.slaves_file import SlaveDefinition

_NOT_WHOLE = (
    "the set has more changes of definitions than lint looks at: a suggested rule may have a fault that only a later "
    "event shows"
)

NOBODY = SlaveDefinition("", (), FilterSemantics.CLASSIC, 0)
"""The definition of a replica without rules, for which rules are suggested if the user gives no slave."""

_BUCKET_SECONDS = 1 << 40
"""The length of the time intervals by which traffic is counted, seconds. The value exceeds any binlog's span, so that
there is one interval, because suggestions do not use times.
"""


@dataclass(frozen=True, kw_only=True)
class MeasureRanges(ReadRanges):
    """A task, for threads of this process, that counts the traffic of some ranges (parts of binlog files). The traffic
    is counted by the condition under which a filter sends it, such as "this table is sent".

    Each thread has separate counts and cached results of :attr:`filters`, so that each filter is evaluated only once
    per table and thread.
    """

    filters: Sequence[ReplicationFilter] | None
    """The filters for which the bytes of compressed transactions are counted exactly, without the events that a filter
    drops. The counts are then valid for these filters only.

    None: the events inside compressed transactions are counted, each with a part of the compressed bytes. The counts
    are then valid for every filter.
    """

    def __call__(self, ranges: Iterable[Range]) -> tuple[Facts, bool]:
        """Read the ranges (parts of binlog files), and return two values: the counted traffic, and whether its bytes
        are an estimate.

        The traffic is counted by the condition under which a filter sends it, such as "this table is sent". With
        ``filters`` None the counts must be valid for every filter. The bytes are then an estimate if a compressed
        transaction has several tables, because the compressed size of each table's part is unknown. Raises BinlogError
        with file and position.
        """
        subjects, sources, tally = state_of_thread(self.job, self._state)
        is_estimate = False
        tally.take()
        for wanted in ranges:
            with open_file(wanted.path) as file:
                for block in self.blocks(file, wanted, subjects, sources):
                    segment = block.segment
                    if self.filters is None and segment.payloads:
                        is_estimate |= any(map(_has_several_subjects, segment.payloads.values()))
                        flat = flat_events(block)
                        segment = replace(flat.segment, size=flat.stored)
                    tally.add(segment, file.read)
        return tally.take(), is_estimate

    def _state(self) -> tuple[Subjects, SourceNumbers, Tally]:
        subjects, sources = Subjects(), SourceNumbers()
        given = [TableFlags(one, subjects) for one in self.filters or ()]
        tally = Tally(subjects, sources, filters=given, bucket_seconds=_BUCKET_SECONDS)
        return subjects, sources, tally


def _has_several_subjects(segment: Segment) -> bool:
    """Tell whether the events inside a compressed transaction belong to several tables and statements, or to none. The
    bytes of each table or statement are then an estimate. ``segment`` has these events.
    """
    return len(np.unique(segment.subject[segment.subject >= 0])) != 1


def suggest(
    source: str | Path | Sequence[str | Path],
    definitions: Sequence[SlaveDefinition],
    run: Runner,
    options: SuggestOptions | None = None,
    gather: Callable[[], SetKnowledge] | None = None,
) -> Suggestions:
    """Return the tables with the most bytes in a binlog set, and the filter rules that would save most for each slave.

    Parameters:
        source: the set's index file, a directory with an index file, or a list of binlog files.
        definitions: the slaves with their present rules. If it is empty, the suggestions are for a replica that takes
            everything.
        run: executes the tasks, in threads of this process.
        gather: a function that reads the set for ``dumpfilter lint``. Rules that would break replication are then
            rejected. None: no rule is rejected.

    Raises BinlogError with file and position for a damaged binlog. Raises OptionError for a pattern without a dot in
    ``options.keep`` (LIKE patterns of the tables that no suggested rule may drop).
    """
    options = options or SuggestOptions()
    task = MeasureRanges(options=options, filters=None)
    indexed, parts = read_set(parts_of(source), run, options, lambda _: task, "measuring")
    facts, is_estimate = merge([facts for facts, _ in parts]), any(estimated for _, estimated in parts)
    names = indexed.newest.names
    kept = {pattern: _matching(pattern, indexed, facts) for pattern in options.keep}
    knowledge = None if gather is None else gather()
    search = Search(facts, names, {table for tables in kept.values() for table in tables}, knowledge)
    slaves = _grouped(definitions or [NOBODY], facts, search)
    served = [one for one in slaves if not one.nothing_passes]
    found = run(
        partial(search.plan, most=options.most_rules), served, "searching for rules", amount=Amount("filters")
    )
    of_slave = dict(zip(served, found, strict=True))
    plans = [of_slave.get(one, Found([one])) for one in slaves]
    planned = dict.fromkeys(one for plan in plans for one in plan.stages)
    exact = {one: one.nbytes for one in planned}
    if is_estimate:
        filters = [one.definition.filter(names) for one in planned]
        task = MeasureRanges(options=options, filters=filters)
        parts, _ = read_ranges(indexed, run, options, task, "cutting transactions")
        facts = merge([facts for facts, _ in parts])
        for number, (slave, rules) in enumerate(zip(planned, filters, strict=True)):
            sent = facts.sent(flags_of(rules, facts.subjects), slave.definition.origin, number)
            exact[slave] = int(facts.bytes[sent].sum())
    nobody = search.measured(Slave(("",), NOBODY))
    whole = Headings(facts).by_name(facts.bytes, facts.sent(None))
    tables = _tables(
        whole,
        search.by_name(nobody),
        Counter(name for one in slaves for name in search.by_name(one) for _ in range(one.count)),
    )
    return Suggestions(
        files=len(indexed.files),
        checked=knowledge is not None,
        bytes=nobody.nbytes,
        server_version=replace_invalid_utf8(indexed.newest.server_version),
        estimates=is_estimate,
        tables=tables,
        plans=tuple(_plan(plan, exact) for plan in plans),
        without_reader=sum(one.bytes_with_parts for one in tables if not one.slaves),
        warnings=(
            *(
                f"--keep={pattern}: no table of this set matches"
                for pattern, found in kept.items()
                if not found
            ),
            *indexed.warnings("sent to every slave"),
            *([] if knowledge is None or knowledge.is_whole else [_NOT_WHOLE]),
        ),
    )


def _grouped(definitions: Sequence[SlaveDefinition], facts: Facts, search: Search) -> list[Slave]:
    """Return one :class:`Slave` for each group of slaves that receive equal streams. The slaves of a group have equal
    rules. They also accept the transactions of the same servers and domains, among those that the binlogs contain.
    ``facts`` lists these servers and domains, and ``search`` computes the traffic of each group.
    """
    groups: dict[tuple[object, ...], list[SlaveDefinition]] = {}
    for one in definitions:
        wanted = tuple(wants(one.origin, each) for each in facts.origins)
        key = (one.rules, one.semantics, one.lower_case_table_names, wanted)
        groups.setdefault(key, []).append(one)
    return [search.measured(Slave(tuple(one.name for one in group), group[0])) for group in groups.values()]


def _matching(pattern: str, indexed: IndexedSet, facts: Facts) -> list[TableSubject]:
    """Return the tables of the binlogs that a pattern of ``--keep`` matches, such as ``shop.%``. ``facts`` has the
    tables, and ``indexed`` the rules by which the server compares names. Raises OptionError for a pattern without a
    dot.
    """
    if "." not in pattern:
        raise OptionError(
            f"--keep={pattern}: it is not in the form db_pattern.table_pattern; write --keep='{pattern}.%' for all "
            "tables of a database"
        )
    rule = make_rule(RuleKind.WILD_DO_TABLE, pattern)
    flags = TableFlags(Filter((rule,), names=indexed.newest.names), Subjects())
    return [table for table in tables_among(facts.subjects) if flags.bits(table) & FILTER_BINLOG_SEND_F]


def _plan(found: Found, exact: Mapping[Slave, int]) -> Plan:
    slave, rules = found.stages[0], found.rules
    nbytes = [slave.count * exact[one] for one in found.stages]
    tables = [one.tables for one in found.stages]
    return Plan(
        slaves=tuple(filter(None, slave.names)),
        semantics=slave.definition.semantics.value,
        rules=slave.definition.rules,
        bytes=nbytes[0],
        tables=tables[0],
        nothing_passes=slave.nothing_passes,
        steps=tuple(
            RuleStep(
                rule=str(rule),
                saving=nbytes[n] - nbytes[n + 1],
                bytes_after=nbytes[n + 1],
                tables_dropped=tables[n] - tables[n + 1],
            )
            for n, rule in enumerate(rules)
        ),
        option_lines=tuple(map(option_line, rules)),
        rejected=tuple(found.rejected),
    )


def _tables(
    whole: Mapping[str, int], with_parts: Mapping[str, int], readers: Counter[str]
) -> tuple[TableWeight, ...]:
    """Return the tables of the set with their bytes and readers, in descending order of bytes.

    All mappings have table names as keys. ``whole`` has the exact bytes, with a compressed transaction of several
    tables under ``(several tables)``. ``with_parts`` divides such a transaction among its tables, which is an estimate.
    ``readers`` has the number of slaves that receive the table.
    """
    total = max(sum(whole.values()), 1)
    found = [
        TableWeight(
            name=name,
            bytes=whole.get(name, 0),
            bytes_with_parts=with_parts.get(name, 0),
            share=with_parts.get(name, 0) / total,
            slaves=readers[name],
        )
        for name in dict.fromkeys([*whole, *with_parts])
    ]
    return tuple(sorted(found, key=lambda one: (-one.bytes_with_parts, -one.bytes, one.name)))
