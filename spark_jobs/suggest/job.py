"""The suggestion of filter rules for a binlog set: the tables with the most bytes, and the few rules that save most."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from dumpfilter.analyse.lint.knowledge import SetKnowledge
from dumpfilter.analyse.traffic.facts import flags_of
from dumpfilter.base.errors import OptionError
from dumpfilter.base.printable import replace_invalid_utf8
from dumpfilter.filter import Filter, FilterSemantics
from dumpfilter.filter.flags import FILTER_BINLOG_SEND_F, TableFlags
from dumpfilter.filter.rules import Rule, RuleKind, make_rule
from dumpfilter.index.subjects import Subjects, TableSubject
from dumpfilter.spark_jobs.engines import Amount, Runner
from dumpfilter.spark_jobs.options import SuggestOptions
from dumpfilter.spark_jobs.ranges import IndexedSet, index_set
from dumpfilter.spark_jobs.suggest.results import Plan, RuleStep, Suggestions, TableWeight
from dumpfilter.spark_jobs.suggest.search import Found, Search, Slave, Traffic, measure, option_line
from dumpfilter.topology.slaves_file import SlaveDefinition

_NOT_WHOLE = (
    "the set has more changes of definitions than lint looks at: a suggested rule may have a fault that only a later "
    "event shows"
)

NOBODY = SlaveDefinition("", (), FilterSemantics.CLASSIC, 0)
"""A replica without rules, for which rules are suggested if the user gives no slave."""


def suggest(
    source: str | Path | Sequence[str | Path],
    definitions: Sequence[SlaveDefinition],
    run: Runner,
    options: SuggestOptions | None = None,
    gather: Callable[[], SetKnowledge] | None = None,
) -> Suggestions:
    """Return the tables with the most bytes in a binlog set, and the filter rules that would save most for each slave
    and for all slaves.

    Parameters:
        source: the set's index file, a directory with an index file, or a list of binlog files.
        definitions: the slaves with their present rules. If it is empty, the suggestions are for a replica that takes
            everything.
        run: executes the tasks, in threads of this process.
        gather: a function that reads the set for ``dumpfilter lint``. Rules that would break replication are then
            rejected. None: no rule is rejected.

    Raises BinlogError with file and position for a damaged binlog, and OptionError for a bad pattern.
    """
    options = options or SuggestOptions()
    indexed = index_set(source, run, options)
    facts, is_estimate = measure(indexed, None, run, options, "measuring")
    traffic = Traffic(facts)
    kept, unmatched = _kept(traffic, indexed, options.keep)
    knowledge = None if gather is None else gather()
    search = Search(traffic, indexed.newest.names, kept, knowledge)
    slaves = _grouped(definitions or [NOBODY], traffic, search)
    served = [one for one in slaves if not traffic.nothing_passes(one.flags)]
    groups = [[one] for one in served] + ([served] if len(served) > 1 else [])
    found = run(
        partial(search.plan, most=options.most_rules), groups, "searching for rules", amount=Amount("filters")
    )
    found_for = {tuple(group): one for group, one in zip(groups, found, strict=True)}
    plans = [((one,), found_for.get((one,), Found())) for one in slaves]
    together = [(tuple(served), found[-1])] if len(served) > 1 else []
    planned = dict.fromkeys(
        one for group, plan in (*plans, *together) for stage in _stages(group, plan) for one in stage
    )
    exact = {one: one.nbytes for one in planned}
    if is_estimate:
        filters = [one.filter(indexed.newest.names) for one in planned]
        facts, _ = measure(indexed, filters, run, options, "cutting transactions")
        for number, (slave, rules) in enumerate(zip(planned, filters, strict=True)):
            sent = facts.sent(flags_of(rules, facts.subjects), slave.definition.origin, number)
            exact[slave] = int(facts.bytes[sent].sum())
    tables = _tables(Traffic(facts).by_name(None, None), traffic, slaves)
    return Suggestions(
        files=len(indexed.files),
        checked=knowledge is not None,
        bytes=traffic.bytes(None, None),
        server_version=replace_invalid_utf8(indexed.newest.server_version),
        estimates=is_estimate,
        tables=tables,
        plans=tuple(_plan(group, plan, exact, traffic) for group, plan in plans),
        together=_plan(*together[0], exact, traffic) if together else None,
        without_reader=sum(one.bytes_with_parts for one in tables if not one.slaves),
        warnings=(
            *unmatched,
            *indexed.warnings("sent to every slave"),
            *([] if knowledge is None or knowledge.is_whole else [_NOT_WHOLE]),
        ),
    )


def _grouped(definitions: Sequence[SlaveDefinition], traffic: Traffic, search: Search) -> list[Slave]:
    """Return the slaves in groups that receive equal streams: with equal rules, and wanting the same servers of this
    set.
    """
    groups: dict[tuple[object, ...], list[SlaveDefinition]] = {}
    for one in definitions:
        key = (one.rules, one.semantics, one.lower_case_table_names, traffic.wanted_origins(one.origin))
        groups.setdefault(key, []).append(one)
    return [search.measured(Slave(tuple(one.name for one in group), group[0])) for group in groups.values()]


def _kept(
    traffic: Traffic, indexed: IndexedSet, patterns: Sequence[str]
) -> tuple[list[TableSubject], list[str]]:
    """Return the tables that match the patterns of ``--keep``, and warnings about patterns without a match.

    Raises OptionError for a pattern without a dot.
    """
    found: dict[TableSubject, None] = {}
    warnings = []
    for pattern in patterns:
        if "." not in pattern:
            raise OptionError(
                f"--keep={pattern}: it is not in the form db_pattern.table_pattern; write --keep='{pattern}.%' for all "
                "tables of a database"
            )
        rule = make_rule(RuleKind.WILD_DO_TABLE, pattern)
        flags = TableFlags(Filter((rule,), names=indexed.newest.names), Subjects())
        matched = [table for table in traffic.tables if flags.bits(table) & FILTER_BINLOG_SEND_F]
        found.update(dict.fromkeys(matched))
        if not matched:
            warnings.append(f"--keep={pattern}: no table of this set matches")
    return list(found), warnings


def _stages(slaves: Sequence[Slave], found: Found) -> list[Sequence[Slave]]:
    """Return the slaves before the first suggested rule, and after each rule."""
    return [slaves, *(step.slaves for step in found.steps)]


def _plan(
    slaves: Sequence[Slave],
    found: Found,
    exact: Mapping[Slave, int],
    traffic: Traffic,
) -> Plan:
    stages = _stages(slaves, found)
    nbytes = [sum(one.count * exact[one] for one in stage) for stage in stages]
    tables = [sum(one.count * one.tables for one in stage) for stage in stages]
    # Slaves with one filter lose the same tables.
    shown_as = slaves[0].count if len(slaves) == 1 else 1
    semantics = slaves[0].definition.semantics
    rules: list[Rule] = [step.candidate.rule(semantics) for step in found.steps]
    return Plan(
        slaves=tuple(name for one in slaves for name in one.names if name),
        semantics=semantics.value,
        rules=slaves[0].definition.rules if len(slaves) == 1 else (),
        bytes=nbytes[0],
        tables=tables[0] // shown_as,
        nothing_passes=all(traffic.nothing_passes(one.flags) for one in slaves),
        steps=tuple(
            RuleStep(
                rule=str(rule),
                saving=nbytes[n] - nbytes[n + 1],
                bytes_after=nbytes[n + 1],
                slaves=sum(
                    one.count for one, after in zip(stages[n], stages[n + 1], strict=True) if one != after
                ),
                tables_dropped=(tables[n] - tables[n + 1]) // shown_as,
            )
            for n, rule in enumerate(rules)
        ),
        option_lines=tuple(option_line(rule) for rule in rules),
        rejected=found.rejected,
    )


def _tables(whole: Mapping[str, int], traffic: Traffic, slaves: Sequence[Slave]) -> tuple[TableWeight, ...]:
    """Return the tables of the set with their exact bytes, ``whole``, and with their shares in ``traffic``."""
    with_parts = traffic.by_name(None, None)
    readers: dict[str, int] = {}
    for one in slaves:
        for name in traffic.by_name(one.flags, one.definition.origin):
            readers[name] = readers.get(name, 0) + one.count
    total = max(sum(whole.values()), 1)
    found = [
        TableWeight(
            name=name,
            bytes=whole.get(name, 0),
            bytes_with_parts=with_parts.get(name, 0),
            share=with_parts.get(name, 0) / total,
            slaves=readers.get(name, 0),
        )
        for name in dict.fromkeys([*whole, *with_parts])
    ]
    return tuple(sorted(found, key=lambda one: (-one.bytes_with_parts, -one.bytes, one.name)))
