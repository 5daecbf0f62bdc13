"""Tests of suggestions: their figures are those of a dump, and their rules save what they say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from dumpfilter.analyse.lint.knowledge import SetKnowledge, gather
from dumpfilter.base.errors import OptionError
from dumpfilter.base.options.values import FIRST_EVENT
from dumpfilter.binlog.events import LOG_EVENT_BINLOG_IN_USE_F
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.dump.thread import DumpThread
from dumpfilter.filter.base import OriginFilter
from dumpfilter.filter.flags import TableFlags
from dumpfilter.filter.rules import FilterSemantics
from dumpfilter.index.fileset import BinlogSet
from dumpfilter.index.subjects import Subjects
from dumpfilter.spark_jobs.engines import ThreadRunner
from dumpfilter.spark_jobs.options import SuggestOptions
from dumpfilter.spark_jobs.suggest.job import NOBODY, suggest
from dumpfilter.spark_jobs.suggest.results import Plan, Suggestions, print_suggestions
from dumpfilter.topology.slaves_file import SlaveDefinition
from tests.spark_jobs.here import run_here
from tests.strategies import DIALECTS, T, _Builder, query_body, rows_body, table_map_body
from tests.support import DATA

_SETS = [
    DATA / "oracle" / "mysql-mixed",
    DATA / "oracle" / "mariadb-row",
    DATA / "recordings" / "mysql-payloads",
    DATA / "recordings" / "mariadb-names",
]


def _sent(path: Path, definition: SlaveDefinition, more: Sequence[str] = ()) -> int:
    """Return the bytes that a dump sends to a slave with some more rules."""
    binlogs, subjects, sources = BinlogSet.open(path), Subjects(), SourceNumbers()
    with binlogs.file(binlogs.names[-1]) as newest:
        names = newest.format_description.names
    one = _slave(definition.name, *definition.rules, *more, like=definition)
    thread = DumpThread(TableFlags(one.filter(names), subjects), sources, origin=one.origin)
    total, file = 0, None
    for reader, segment in binlogs.segments(subjects, sources):
        if reader.file is not file:
            file = reader.file
            thread.start_file(segment.start, file.read)
        total += sum(plan.size for plan in thread.plan(segment))
    return total


def _slave(name: str, *rules: str, like: SlaveDefinition = NOBODY) -> SlaveDefinition:
    return SlaveDefinition(
        name, rules, like.semantics, like.lower_case_table_names, like.server_id, like.origin
    )


def _check(path: Path, plan: Plan, definition: SlaveDefinition) -> None:
    number = max(len(plan.slaves), 1)
    assert plan.bytes == number * _sent(path, definition)
    before = plan.bytes
    for n, step in enumerate(plan.steps):
        rules = [one.rule for one in plan.steps[: n + 1]]
        assert step.bytes_after == number * _sent(path, definition, rules)
        assert step.saving == before - step.bytes_after
        assert step.tables_dropped <= plan.tables
        before = step.bytes_after


@pytest.mark.parametrize("path", _SETS, ids=lambda path: path.name)
def test_figures_are_those_of_a_dump(path: Path) -> None:
    """Each suggested rule saves exactly the bytes that it says, for each slave."""
    definitions = [
        _slave("all"),
        _slave("shop", "--replicate-do-db=shop"),
        _slave("other", "--replicate-wild-ignore-table=shop.%", "--replicate-ignore-db=hr"),
        SlaveDefinition("effective", ("--ignore=hr.%",), FilterSemantics.EFFECTIVE, 0),
        SlaveDefinition(
            "ring", (), FilterSemantics.CLASSIC, 0, 77, OriginFilter(frozenset(), own_server_id=77)
        ),
    ]
    found = suggest(path, definitions, ThreadRunner(2), SuggestOptions(range_size=4096))
    assert sum(len(plan.slaves) for plan in found.plans) == len(definitions)
    by_name = {one.name: one for one in definitions}
    for plan in found.plans:
        _check(path, plan, by_name[plan.slaves[0]])


def test_a_server_writes_more_between_the_two_passes(tmp_path: Path) -> None:
    data = bytearray((DATA / "recordings" / "mysql-payloads" / "bin.000001").read_bytes())
    data[FIRST_EVENT + 17] |= LOG_EVENT_BINLOG_IN_USE_F
    path = tmp_path / "bin.000001"

    def run(function: Callable[[Any], Any], tasks: Sequence[Any], label: str, **given: Any) -> Any:
        if label == "cutting transactions":
            path.write_bytes(data)
        return run_here(function, tasks, label)

    path.write_bytes(data[:3000])
    definitions = [_slave("shop", "--replicate-do-db=shop")]
    found = suggest(path, definitions, run, None)
    assert path.stat().st_size == len(data)
    path.write_bytes(data[:3000])
    assert found == suggest(path, definitions, run_here, None)


def test_slaves_with_equal_filters_have_one_plan() -> None:
    path = DATA / "oracle" / "mysql-row"
    definitions = [
        _slave("all"),
        _slave("hr", "--replicate-do-db=hr"),
        _slave("hr-2", "--replicate-do-db=hr"),
    ]
    found = suggest(path, definitions, ThreadRunner(1), None)
    assert [plan.slaves for plan in found.plans] == [("all",), ("hr", "hr-2")]
    _check(path, found.plans[1], definitions[1])


def test_a_rule_that_breaks_something_is_rejected() -> None:
    """With lint, the rules that make a replica stop are named with their fault, and others are suggested."""
    path = DATA / "oracle" / "mysql-mixed"
    (without,) = _without_slaves(path).plans
    found = suggest(path, [], ThreadRunner(1), None, lambda: gather(BinlogSet.open(path)))
    assert found.checked
    (plan,) = found.plans
    rejected = {one.rule: one for one in plan.rejected}
    assert "--replicate-ignore-table=shop.customers" in {step.rule for step in without.steps}
    assert rejected["--replicate-ignore-table=shop.customers"].code == "missing-table"
    assert rejected["--replicate-ignore-table=shop.customers"].event.startswith("bin.000001:")
    assert not rejected.keys() & {step.rule for step in plan.steps}
    _check(path, plan, NOBODY)


def test_output_at_80_columns() -> None:
    """The text shows the rules as lines to copy, the rejected rules, and that nothing is claimed about reads."""
    path = DATA / "oracle" / "mysql-mixed"
    definitions = [_slave("all"), _slave("hr", "--replicate-do-db=hr")]
    found = suggest(path, definitions, ThreadRunner(1), None, lambda: gather(BinlogSet.open(path)))
    out = StringIO()
    print_suggestions(found, Console(file=out, width=80), top=3)
    text = out.getvalue()
    assert max(map(len, text.splitlines())) <= 80
    assert "\n  replicate-ignore-table=hr.emp\n" in text
    assert "not suggested: --replicate-ignore-table=shop.customers" in text
    assert "A binlog has no SELECTs." in text
    assert "1 of 2" in text


def test_a_slave_to_which_nothing_passes() -> None:
    """Rules that match nothing are named."""
    path = DATA / "oracle" / "mysql-row"
    broken = _slave("broken", "--replicate-do-table=shop.nope")
    found = suggest(
        path, [_slave("all"), broken, _slave("hr", "--replicate-do-db=hr")], ThreadRunner(1), None
    )
    assert [plan.slaves for plan in found.plans if plan.nothing_passes] == [("broken",)]
    assert found.plans[1].bytes == _sent(path, broken)
    assert not found.plans[1].steps
    out = StringIO()
    print_suggestions(found, Console(file=out, width=80), top=3)
    text = " ".join(out.getvalue().split())
    assert "no row and no statement on a table passes its rules" in text
    assert "Check the names in them: --replicate-do-table=shop.nope" in text


def _without_slaves(path: Path, **options: object) -> Suggestions:
    return suggest(path, [], ThreadRunner(1), SuggestOptions(**options))  # type: ignore[arg-type]


def test_one_replica_that_takes_everything() -> None:
    """Without slaves there are rules for one replica that takes everything."""
    path = DATA / "oracle" / "mysql-row"
    found = _without_slaves(path)
    (plan,) = found.plans
    assert plan.slaves == ()
    _check(path, plan, NOBODY)
    assert plan.steps[0].rule == "--replicate-ignore-table=hr.emp"
    assert plan.option_lines[0] == "replicate-ignore-table=hr.emp"
    assert sum(one.bytes for one in found.tables) == found.bytes


def test_tables_of_compressed_transactions_have_their_share() -> None:
    """The shares of the tables add up to the bytes of the set, and the largest table comes first."""
    found = _without_slaves(DATA / "recordings" / "mysql-payloads")
    assert abs(sum(one.bytes_with_parts for one in found.tables) - found.bytes) <= len(found.tables)
    assert found.tables[0].bytes_with_parts == max(one.bytes_with_parts for one in found.tables)
    assert sum(one.bytes for one in found.tables) == found.bytes
    assert found.estimates


@pytest.mark.parametrize(
    ("recording", "is_estimate"), [("recordings/mysql-payloads", True), ("oracle/mysql-row", False)]
)
def test_a_sign_marks_estimates(recording: str, *, is_estimate: bool) -> None:
    out = StringIO()
    print_suggestions(_without_slaves(DATA / recording), Console(file=out, width=80), top=3)
    assert ("~" in out.getvalue()) is is_estimate
    assert ("each table has its share" in " ".join(out.getvalue().split()).lower()) is is_estimate


def test_kept_tables_stay() -> None:
    """No rule drops what the user wants to keep."""
    found = _without_slaves(DATA / "oracle" / "mysql-row", keep=("hr.%",))
    (plan,) = found.plans
    assert plan.steps
    assert not any("hr" in step.rule for step in plan.steps)
    assert found.warnings == ()
    assert _without_slaves(DATA / "oracle" / "mysql-row", keep=("none.%",)).warnings == (
        "--keep=none.%: no table of this set matches",
    )
    with pytest.raises(OptionError, match=r"--keep=hr: .* write --keep='hr[.]%'"):
        _without_slaves(DATA / "oracle" / "mysql-row", keep=("hr",))


def test_kept_tables_of_another_spelling_stay(tmp_path: Path) -> None:
    """A slave with lower_case_table_names=1 drops them, too, by a rule for a database of the other spelling."""
    builder = _Builder(DIALECTS[0])
    builder.add(T.PREVIOUS_GTIDS, bytes(8))
    for number, (database, table) in enumerate(
        [("Shop", "log"), ("Shop", "log2"), ("shop", "users"), ("web", "a")], 1
    ):
        builder.add(T.GTID, b"\1" + bytes(15) + b"\1" + number.to_bytes(8, "little") + b"\2" + bytes(16))
        builder.add(T.QUERY, query_body(b"BEGIN"))
        builder.add(T.TABLE_MAP, table_map_body(number, database, table))
        rows = rows_body(DIALECTS[0], T.WRITE_ROWS, number, ends=True, rows=bytes(4000 // number))
        builder.add(T.WRITE_ROWS, rows)
        builder.add(T.XID, bytes(8))
    path = tmp_path / "made.000001"
    path.write_bytes(bytes(builder.data))
    options = SuggestOptions(keep=["shop.users"], most_rules=1)
    for lower_case, rule in (
        (0, "--replicate-wild-ignore-table=Shop.%"),
        (1, "--replicate-ignore-table=Shop.log"),
    ):
        slave = SlaveDefinition("web", (), FilterSemantics.CLASSIC, lower_case)
        (plan,) = suggest(path, [slave], ThreadRunner(1), options).plans
        assert [step.rule for step in plan.steps] == [rule]
        assert plan.rejected == ()


def test_tables_without_a_reader() -> None:
    """A table that no slave is sent has no reader among them."""
    found = suggest(
        DATA / "oracle" / "mysql-row", [_slave("shop", "--replicate-do-db=shop")], ThreadRunner(1), None
    )
    readers = {one.name: one.slaves for one in found.tables}
    assert readers["hr.emp"] == 0
    assert readers["shop.orders"] == 1
    assert found.without_reader == sum(one.bytes_with_parts for one in found.tables if not one.slaves)


def test_a_set_of_which_lint_sees_a_part_has_a_warning() -> None:
    path = DATA / "oracle" / "mysql-mixed"

    def part() -> SetKnowledge:
        return replace(gather(BinlogSet.open(path)), is_whole=False)

    (warning,) = suggest(path, [], ThreadRunner(1), None, part).warnings
    assert "more changes of definitions than lint looks at" in warning
