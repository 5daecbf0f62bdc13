"""Filters that change while slaves stream (WL#7057, WL#7361).

Each slave ends as a slave that receives everything and changes its own filter at the same positions.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from dumpfilter.binlog.events import EventType
from dumpfilter.binlog.format import NameRules
from dumpfilter.binlog.reader import iter_events
from dumpfilter.binlog.rows_events import decode_table_map
from dumpfilter.binlog.workload import generate
from dumpfilter.console.sql.commands import parse_statement
from dumpfilter.console.sql.result import Result
from dumpfilter.filter.channels import ChannelFilters
from dumpfilter.filter.filter import make_filter
from dumpfilter.filter.rules import BaseRuleKind, Rule, RuleKind, make_rule
from dumpfilter.index.fileset import BinlogSet
from dumpfilter.slave.applier import EventApplier
from dumpfilter.slave.channels import Slave
from dumpfilter.slave.console import SlaveConsole
from dumpfilter.slave.options import SlaveOptions
from dumpfilter.slave.state import SourceInfo
from dumpfilter.slave.targets import SummaryTarget
from tests.slave.driven import Place, serving, wait_until
from tests.slave.growing import GrowingCopy
from tests.slave.schedules import FACTOR, printed

KINDS = list(RuleKind)
STATEMENTS_TABLES = [("shop", "orders"), ("shop", "items"), ("hr", "emp"), ("logs", "audit"), ("tmpdb", "t1")]
"""Tables of the recordings in statement format, which have no table maps."""

FILTER_ON = ("BOTH", "BOTH", "MASTER", "SLAVE")
"""The sides on which the filters of slaves run, in turn."""

Table = tuple[str, str]
"""A database and a table in it."""


@dataclass(frozen=True)
class Clause:
    """One kind of rule in CHANGE REPLICATION FILTER."""

    kind: RuleKind
    sql: str
    """The rules as the statement writes them."""
    shown: str
    """The rules as FILTER_RULE shows them."""


@dataclass(frozen=True)
class Change:
    """One step of a slave's schedule: wait, stop, change the filter, start."""

    wait: str
    """The state to wait for: "received" or "applied" (all of the binlog so far), or "" for none."""
    stop: str
    """The statement that stops the applier, or both threads."""
    clauses: tuple[Clause, ...]


def drawn(seed: int, tables: Sequence[Table], changes: int) -> list[Change]:
    """Return the schedule of a seed. The same seed always draws the same schedule."""
    rng = random.Random(seed)
    return [
        Change(
            wait=rng.choice(["", "", "received", "applied"]),
            stop="STOP REPLICA" if rng.random() < 0.2 else "STOP REPLICA SQL_THREAD",
            clauses=tuple(
                {clause.kind: clause for clause in (_clause(rng, tables) for _ in range(count))}.values()
            ),
        )
        for count in rng.choices([1, 1, 2, 3], k=changes)
    ]


def _clause(rng: random.Random, tables: Sequence[Table]) -> Clause:
    kind = rng.choice(KINDS)
    some = rng.sample(tables, rng.choice([0, 1, 2, 3]))
    if kind in (RuleKind.DO_DB, RuleKind.IGNORE_DB):
        values = list(dict.fromkeys(database for database, _ in some))
        return Clause(kind, ", ".join(f"`{value}`" for value in values), ",".join(values))
    if kind in (RuleKind.DO_TABLE, RuleKind.IGNORE_TABLE):
        values = sorted(f"{database}.{table}" for database, table in some)
        return Clause(kind, ", ".join(f"`{d}`.`{t}`" for d, t in some), ",".join(values))
    if kind is RuleKind.REWRITE_DB:
        pairs = [(database, f"new_{database}") for database in dict.fromkeys(d for d, _ in some)]
        return Clause(
            kind, ", ".join(f"(`{a}`, `{b}`)" for a, b in pairs), ",".join(f"({a},{b})" for a, b in pairs)
        )
    values = [f"{database}.{table[:-1]}%" for database, table in some]
    return Clause(kind, ", ".join(f"'{value}'" for value in values), ",".join(values))


class Changing:
    """One slave, its schedule, and the history of its filters."""

    def __init__(self, number: int, port: int, directory: Path, schedule: Sequence[Change]) -> None:
        self.schedule = schedule
        self.filters = ChannelFilters()
        self.slave = Slave(
            SlaveOptions(relay_dir=directory, server_id=1000 + number, alone=True),
            self.filters,
            [
                SourceInfo(
                    host="127.0.0.1",
                    port=port,
                    heartbeat_period=0.2,
                    connect_retry=0.05,
                    filter_on=FILTER_ON[number % len(FILTER_ON)],
                )
            ],
        )
        assert self.slave.warnings == []
        self.channel = self.slave.get("")
        self.console = SlaveConsole(self.slave)
        self.history: list[tuple[Place, dict[BaseRuleKind, str]]] = [(("", 0), {})]
        """The position of each change, and the rules that it set, as FILTER_RULE shows them."""
        self.since: dict[RuleKind, tuple[datetime, datetime]] = {}
        """Times before and after the newest change of each kind."""

    def run(self, sql: str) -> Result:
        return self.console.execute(parse_statement(sql))

    def applied(self) -> Place:
        info = self.channel.relay_log_info
        return info.source_file, info.source_position

    def received(self) -> Place:
        info = self.channel.master_info
        return info.source_file, info.source_position

    def wait_for(self, place: Place, *, applied: bool = True) -> None:
        """Wait until the slave has applied, or received, the binlog up to a position."""
        where = self.applied if applied else self.received

        def there() -> bool:
            assert self.slave.error is None, self.slave.error
            return where() >= place

        wait_until(there, lambda: f"{where()} does not get to {place}")

    def change(self, change: Change, end: Place) -> None:
        """Take one step of the schedule. ``end`` is the end of the binlog before the step."""
        if change.wait:
            self.wait_for(end, applied=change.wait == "applied")
        self.run(change.stop)
        place = self.applied()
        before = datetime.now(UTC)
        self.run(
            "CHANGE REPLICATION FILTER "
            + ", ".join(f"{c.kind.value.replace('-', '_')} = ({c.sql})" for c in change.clauses)
        )
        self.history.append((place, {c.kind: c.shown for c in change.clauses}))
        self.since |= dict.fromkeys((c.kind for c in change.clauses), (before, datetime.now(UTC)))
        self.run("START REPLICA")

    def expected(self, index: Path) -> tuple[dict[str, Any], Counter[BaseRuleKind], list[str]]:
        """Return summary, counters and GTIDs of a slave that receives everything and changes at the same positions."""
        target, counters = SummaryTarget(), Counter[BaseRuleKind]()
        binlogs = BinlogSet.open(index)
        history = list(self.history)
        now: dict[BaseRuleKind, tuple[Rule, ...]] = {}
        applier: EventApplier | None = None
        gtids: list[str] = []
        for name in binlogs.names:
            with binlogs.path(name).open("rb") as source:
                for event in iter_events(source, file=name):
                    while (applier is None or not applier.inside) and (
                        history and history[0][0] <= (name, event.offset)
                    ):
                        if applier is not None:
                            counters.update(applier.take_hits())
                        for kind, shown in history.pop(0)[1].items():
                            now[kind] = rules_of(kind, shown)
                            counters[kind] = 0
                        rules = [rule for kind in now for rule in now[kind]]
                        applier = EventApplier(
                            make_filter(
                                self.filters.current("").semantics, rules, names=NameRules(event.fd.family)
                            ),
                            target,
                            on_complete=lambda gtid: gtids.append(str(gtid)),
                        )
                    assert applier is not None
                    applier.feed(event, file=name)
        assert applier is not None
        counters.update(applier.take_hits())
        for _, changed in history:  # changes after the last event hit nothing
            counters.update({kind: -counters[kind] for kind in changed})
        return target.state(), counters, gtids

    def expect_law(self, index: Path) -> None:
        """Compare data, counters, GTIDs and the shown rules with the expected ones."""
        summary, counters, gtids = self.expected(index)
        assert self.channel.target.state() == summary
        assert len(gtids) == len(set(gtids))
        table = self.console.tables["performance_schema", "replication_applier_filters"]()
        shown = {row[1]: row for row in table.rows}
        rules: dict[BaseRuleKind, str] = {}
        for _, changed in self.history:
            rules |= changed
        names = {kind: kind.value.upper().replace("-", "_") for kind in rules}
        assert {name: row[2] for name, row in shown.items()} == {names[k]: text for k, text in rules.items()}
        for kind, text in rules.items():
            row = shown[names[kind]]
            assert row[3] == "CHANGE_REPLICATION_FILTER"
            before, after = self.since[kind]
            assert before <= row[4] <= after
            assert row[5] == counters[kind], (kind, text)


def rules_of(kind: BaseRuleKind, shown: str) -> tuple[Rule, ...]:
    if not shown:
        return ()
    if kind is RuleKind.REWRITE_DB:
        pairs = [pair.split(",") for pair in shown[1:-1].split("),(")]
        return tuple(make_rule(kind, f"{a}->{b}") for a, b in pairs)
    return tuple(make_rule(kind, value) for value in shown.split(","))


def tables_of(index: Path) -> list[Table]:
    found: dict[Table, None] = {}
    binlogs = BinlogSet.open(index)
    for name in binlogs.names:
        with binlogs.path(name).open("rb") as source:
            for event in iter_events(source, file=name):
                if event.type == EventType.TABLE_MAP:
                    table = decode_table_map(event.body)
                    found[table.database, table.table] = None
    return list(found | dict.fromkeys(STATEMENTS_TABLES))


def run(source: Path, tmp_path: Path, *, slaves: int, changes: int) -> None:
    """Let slaves stream a growing binlog and take their schedules, and compare each slave with the expected one.

    Between two steps the binlog grows. A tenth of the binlog is for the last filters.
    """
    growing = GrowingCopy(source, tmp_path / "live", seed=7)
    tables = tables_of(source)
    step = max(1, growing.transactions * 9 // 10 // changes)
    growing.more(1)
    with serving(growing.index) as master, ThreadPoolExecutor(slaves) as pool:
        made = [
            Changing(number, master.port, tmp_path / f"s{number}", drawn(number, tables, changes))
            for number in range(slaves)
        ]
        try:
            for one in made:
                one.slave.start()
                one.wait_for(("bin.000001", 5))
            for turn in range(changes):
                end = master.end
                growing.more(step)
                for done in [pool.submit(one.change, one.schedule[turn], end) for one in made]:
                    done.result()
            growing.more(growing.transactions)
            for one in made:
                with printed(one.schedule):
                    one.wait_for(master.end)
                    one.run("STOP REPLICA")
                    one.expect_law(growing.index)
                    executed = one.channel.relay_log_info.executed
                    assert executed == made[0].channel.relay_log_info.executed
                    assert not one.slave.error
            # A change of filter is no error. A very busy machine may still lose one connection.
            assert sum(one.channel.counters.received["io_errors"] for one in made) <= 1
        finally:
            for one in made:
                one.slave.close()


def test_changes_over_rows(tmp_path: Path) -> None:
    generate(tmp_path / "source", 1 << 19, schemas=4, tables=3, file_size=150_000)
    run(tmp_path / "source" / "bin.index", tmp_path, slaves=4, changes=12 * FACTOR)


@pytest.mark.parametrize("folder", ["mysql-mixed", "mysql-statement-kinds", "mariadb-statement"])
def test_changes_over_statements(data: Path, tmp_path: Path, folder: str) -> None:
    run(data / folder / "bin.index", tmp_path, slaves=4, changes=8 * FACTOR)
