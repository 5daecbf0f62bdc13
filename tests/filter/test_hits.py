"""Hit counts agree with MySQL 9.7's (recorded by tests/filter/data/record-hits)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dumpfilter.binlog.compression import decode_transaction_payload
from dumpfilter.binlog.events import EventType
from dumpfilter.binlog.format import FormatDescription
from dumpfilter.binlog.query import decode_statement_event
from dumpfilter.binlog.reader import iter_events
from dumpfilter.binlog.rows_events import decode_table_map
from dumpfilter.binlog.statement.parse import make_statement, parse_statement
from dumpfilter.filter.base import AllFilters, ReplicationFilter
from dumpfilter.filter.convert import kind_from_number, kind_number
from dumpfilter.filter.effective import EffectiveFilter
from dumpfilter.filter.filter import Filter
from dumpfilter.filter.rules import SLAVE_RULE_KINDS, BaseRuleKind, EffectiveRuleKind, RuleKind
from dumpfilter.index.subjects import Subject, TableSubject, statement_of
from dumpfilter.slave.applier import keyword

DATA = Path(__file__).parent / "data"
RECORDED: dict[str, Any] = json.loads((DATA / "hits-mysql.json").read_text())
CASES = RECORDED["cases"]


def _subject(kind: int, body: bytes | memoryview, fd: FormatDescription) -> Subject | None:
    if kind == EventType.TABLE_MAP:
        table = decode_table_map(body)
        return TableSubject(table.database, table.table)
    if kind in (EventType.QUERY, EventType.EXECUTE_LOAD_QUERY):
        query = decode_statement_event(EventType(kind), body, fd)
        if keyword(query.text) is None:
            return statement_of(query, fd)
    return None


def _subjects() -> Iterator[tuple[int, Subject]]:
    """Yield end position and subject of each event that a filter is asked about."""
    path = DATA / "hits-mysql.000001"
    with path.open("rb") as source:
        for event in iter_events(source, file=path.name):
            end = event.offset + len(event.raw)
            found = []
            if event.header.type == EventType.TRANSACTION_PAYLOAD:
                for header, raw in decode_transaction_payload(event.body).events():
                    found.append(_subject(header.type, raw[19:], event.fd))
            else:
                found.append(_subject(event.header.type, event.body, event.fd))
            for one in found:
                if one is not None:
                    yield end, one


SUBJECTS = list(_subjects())


_TABLE_KINDS = {
    RuleKind.DO_TABLE,
    RuleKind.IGNORE_TABLE,
    RuleKind.WILD_DO_TABLE,
    RuleKind.WILD_IGNORE_TABLE,
}
MORE: dict[str, set[RuleKind]] = {
    "row: savepoint": {RuleKind.REWRITE_DB},
    "statement: savepoint": {RuleKind.REWRITE_DB},
    "statement: savepoint, another current database": {RuleKind.REWRITE_DB},
    "call of a function in statement format": {RuleKind.DO_DB},
    "statement: insert with a trigger": {RuleKind.DO_DB},
    "drop routines": _TABLE_KINDS,
    "drop trigger": _TABLE_KINDS,
}
"""The kinds of hits that MySQL counts besides, by step, since it counts while it executes statements.

Such hits are of keywords with a rewritten current database, of functions, and of triggers. Others are of the grants
that DROP PROCEDURE revokes, and of DROP TRIGGER, whose table only a replica finds.
"""


def _differences(case: dict[str, Any]) -> Iterator[tuple[str, RuleKind, int, int]]:
    """Yield the differences from the recorded counts as step, kind, recorded count, count here."""
    rules = Filter.from_options(case["options"])
    begin = 0
    for (name, end), recorded in zip(RECORDED["steps"], case["hits"], strict=False):
        subjects = [subject for at, subject in SUBJECTS if begin < at <= end]
        counts = Counter(kind for subject in subjects for kind in rules.hits(subject))
        begin = end
        for kind in RuleKind:
            count = recorded.get(kind.value.removeprefix("replicate-"), 0)
            if count != counts[kind]:
                yield name, kind, count, counts[kind]


@pytest.mark.parametrize(
    "case", CASES, ids=[f"{' '.join(case['options'])} {case['workers']}" for case in CASES]
)
def test_recorded(case: dict[str, Any]) -> None:
    assert case["hits"]
    wrong = [
        (name, kind, recorded, counted)
        for name, kind, recorded, counted in _differences(case)
        if kind not in MORE.get(name, ()) or recorded < counted
    ]
    assert not wrong


def test_every_difference_is_there() -> None:
    assert {name for case in CASES for name, *_ in _differences(case)} == set(MORE)


def test_the_number_of_workers_makes_no_difference() -> None:
    by_options: dict[tuple[str, ...], list[Any]] = {}
    for case in CASES:
        by_options.setdefault(tuple(case["options"]), []).append(case["hits"])
    several = [hits for hits in by_options.values() if len(hits) > 1]
    assert len(several) == 5
    assert all(hits == one[0] for one in several for hits in one)


def _table(rules: ReplicationFilter, database: str, table: str) -> tuple[BaseRuleKind, ...]:
    return rules.hits(TableSubject(database, table))


def test_effective() -> None:
    rules = EffectiveFilter.from_options(["--ignore=a.%", "--do=%.t", "--rewrite=b.%->a.%"])
    do, ignore, rewrite = EffectiveRuleKind.DO, EffectiveRuleKind.IGNORE, EffectiveRuleKind.REWRITE
    assert _table(rules, "a", "x") == (ignore,)
    assert _table(rules, "a", "t") == (do,)
    assert _table(rules, "b", "x") == (rewrite, ignore)
    assert _table(rules, "c", "x") == ()
    statement = make_statement(parse_statement("INSERT INTO x VALUES (1)"), current_database="b")
    assert rules.hits(statement) == (rewrite, ignore)
    statement = make_statement(parse_statement("INSERT INTO a.x VALUES (1)"), current_database="c")
    assert rules.hits(statement) == (ignore,)


def test_what_another_filter_keeps_out_is_no_hit() -> None:
    own = Filter.from_options(["--replicate-ignore-db=a", "--replicate-ignore-table=b.t"])
    both = AllFilters([own, Filter.from_options(["--replicate-ignore-db=b", "--replicate-do-db=a"])])
    assert _table(both, "a", "t") == (RuleKind.IGNORE_DB,)
    assert _table(both, "b", "t") == ()
    assert _table(own, "b", "t") == (RuleKind.IGNORE_TABLE,)
    statement = make_statement(parse_statement("DROP TABLE t"), current_database="b")
    assert own.hits(statement) == (RuleKind.IGNORE_TABLE,)
    assert both.hits(statement) == ()


@pytest.mark.parametrize("kind", SLAVE_RULE_KINDS, ids=str)
def test_numbers_of_kinds(kind: BaseRuleKind) -> None:
    assert kind_from_number(kind_number(kind)) is kind
    assert kind_from_number(99) is None
