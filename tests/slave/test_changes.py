"""Filters that change while slaves stream: every slave ends as one that filters for itself and switched at the
same places (WL#7057, WL#7361; the law)."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from dumpfilter.binlog.events import EventType
from dumpfilter.binlog.format import NameRules
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.binlog.reader import iter_events
from dumpfilter.binlog.rows import decode_table_map
from dumpfilter.filter import make_filter
from dumpfilter.filter.channels import ChannelFilters
from dumpfilter.filter.rules import BaseRuleKind, Rule, RuleKind, make_rule
from dumpfilter.index.fileset import BinlogSet, SegmentReader
from dumpfilter.index.subjects import Subjects
from dumpfilter.master.server import MasterServer
from dumpfilter.master.store import BinlogStore
from dumpfilter.slave.console import SlaveConsole
from dumpfilter.slave.slave import Slave, SlaveOptions
from dumpfilter.slave.state.source_info import SourceInfo
from dumpfilter.slave.targets import SummaryTarget
from dumpfilter.slave.threads.applier import EventApplier
from dumpfilter.sql.parser import parse_statement
from dumpfilter.workload.generate import generate

KINDS = list(RuleKind)
STATEMENTS_TABLES = [("shop", "orders"), ("shop", "items"), ("hr", "emp"), ("logs", "audit"), ("tmpdb", "t1")]
"""Of the recordings in statement format, which have no table maps."""


def boundaries(binlogs: BinlogSet, name: str) -> list[int]:
    """Where a file's transactions end."""
    found = []
    with binlogs.file(name) as file:
        reader = SegmentReader(file, Subjects(), SourceNumbers())
        while (segment := reader.next()) is not None:
            found += segment.offset[segment.txn_event[:-1]].tolist()[int(segment.continues) :]
            if not segment.open:
                found.append(segment.end)
    return sorted(set(found))


class GrowingBinlog:
    """A copy of a set that grows a few transactions at a time, as a server writes."""

    def __init__(self, source: Path, directory: Path, seed: int) -> None:
        directory.mkdir()
        self._random = random.Random(seed)
        self._directory = directory
        self.index = directory / "bin.index"
        binlogs = BinlogSet.open(source)
        self._files = [
            (name, binlogs.path(name).read_bytes(), boundaries(binlogs, name)) for name in binlogs.names
        ]
        self.transactions = sum(len(ends) for _, _, ends in self._files)
        self._work = self._grow()
        next(self._work)

    def _grow(self) -> Iterator[None]:
        for name, data, ends in self._files:
            path = self._directory / name
            at = ends[0]
            path.write_bytes(data[:at])
            with self.index.open("a") as index:
                index.write(f"./{name}\n")
            with path.open("ab", buffering=0) as file:
                for end in ends[1:]:
                    # also in the middle of a transaction, which nobody may see
                    half = self._random.randrange(at, end)
                    file.write(data[at:half])
                    file.write(data[half:end])
                    at = end
                    yield
                file.write(data[at:])
        while True:
            yield

    def more(self, transactions: int) -> None:
        for _ in range(transactions):
            next(self._work)


class Changing:
    """One slave with a history of filters, and what they ought to have made of it."""

    def __init__(
        self,
        number: int,
        address: tuple[str, int],
        directory: Path,
        tables: list[tuple[str, str]],
        filter_on: str,
    ) -> None:
        self.random = random.Random(number)
        self.tables = tables
        self.filters = ChannelFilters()
        self.slave = Slave(SlaveOptions(directory, server_id=1000 + number, alone=True), self.filters)
        host, port = address
        self.slave.prepare(
            SourceInfo(host=host, port=port, heartbeat_period=0.2, connect_retry=0.05, filter_on=filter_on)
        )
        assert self.slave.open() == []
        self.channel = self.slave.get("").channel
        self.console = SlaveConsole(self.slave)
        # from when on which rules, and what is set when
        self.history: list[tuple[tuple[str, int], dict[BaseRuleKind, str]]] = [(("", 0), {})]
        self.rules: dict[RuleKind, str] = {}
        self.since: dict[str, tuple[datetime, datetime]] = {}
        self.errors: list[BaseException] = []

    def run(self, sql: str):
        return self.console.execute(parse_statement(sql))

    def clause(self) -> tuple[RuleKind, str, str]:
        """A kind, its rules as a statement has them, and as FILTER_RULE shows them."""
        kind = self.random.choice(KINDS)
        some = self.random.sample(self.tables, self.random.choice([0, 1, 2, 3]))
        if kind in (RuleKind.DO_DB, RuleKind.IGNORE_DB):
            values = list(dict.fromkeys(database for database, _ in some))
            return kind, ", ".join(f"`{value}`" for value in values), ",".join(values)
        if kind in (RuleKind.DO_TABLE, RuleKind.IGNORE_TABLE):
            values = sorted(f"{database}.{table}" for database, table in some)
            return kind, ", ".join(f"`{d}`.`{t}`" for d, t in some), ",".join(values)
        if kind is RuleKind.REWRITE_DB:
            pairs = [(database, f"new_{database}") for database in dict.fromkeys(d for d, _ in some)]
            return (
                kind,
                ", ".join(f"(`{a}`, `{b}`)" for a, b in pairs),
                ",".join(f"({a},{b})" for a, b in pairs),
            )
        values = [f"{database}.{table[:-1]}%" for database, table in some]
        return kind, ", ".join(f"'{value}'" for value in values), ",".join(values)

    def change(self) -> None:
        clauses = {
            kind: (sql, shown)
            for kind, sql, shown in [self.clause() for _ in range(self.random.choice([1, 1, 2, 3]))]
        }
        if self.random.random() < 0.2:
            self.run("STOP REPLICA")  # the I/O thread too
        else:
            self.run("STOP REPLICA SQL_THREAD")
        place = self.place()
        before = datetime.now(UTC)
        self.run(
            "CHANGE REPLICATION FILTER "
            + ", ".join(f"{kind.value.replace('-', '_')} = ({sql})" for kind, (sql, _) in clauses.items())
        )
        after = datetime.now(UTC)
        for kind, (_, shown) in clauses.items():
            self.rules[kind] = shown
            self.since[kind.value] = (before, after)
        self.history.append((place, dict.fromkeys(clauses, "set")))
        self.history[-1][1].update({kind: shown for kind, (_, shown) in clauses.items()})
        self.run("START REPLICA")

    def place(self) -> tuple[str, int]:
        info = self.channel.relay_log_info
        return info.source_file, info.source_position

    def change_often(self, times: int, pause: float) -> None:
        try:
            for _ in range(times):
                self.change()
                threading.Event().wait(self.random.random() * pause)
        except BaseException as error:
            self.errors.append(error)

    def expected(self, index: Path) -> tuple[dict, Counter[BaseRuleKind], list[str]]:
        """Summary, counters and GTIDs of a slave that is sent everything and switches at the same places."""
        target, counters = SummaryTarget(), Counter()
        binlogs = BinlogSet.open(index)
        history = list(self.history)
        now: dict[BaseRuleKind, tuple] = {}
        applier = None
        family = None
        gtids: list[str] = []

        def switch(sets: dict[BaseRuleKind, str]) -> EventApplier:
            for kind, shown in sets.items():
                now[kind] = rules_of(kind, shown)
                counters[kind] = 0
            rules = [rule for kind in now for rule in now[kind]]
            return EventApplier(
                make_filter(self.filters.semantics(""), rules, names=NameRules(family)),
                target,
                on_complete=lambda gtid: gtids.append(str(gtid)),
            )

        for name in binlogs.names:
            path = binlogs.path(name)
            with path.open("rb") as source:
                for event in iter_events(source, file=name):
                    if family is None:
                        family = event.fd.family
                    if applier is None or not applier.inside:
                        while history and history[0][0] <= (name, event.offset):
                            if applier is not None:
                                counters.update(applier.take_hits())
                            applier = switch(history.pop(0)[1])
                    applier.feed(event, file=name)
        counters.update(applier.take_hits())
        for _, sets in history:  # at the very end
            for kind in sets:
                counters[kind] = 0
        return target.state(), counters, gtids


def rules_of(kind: BaseRuleKind, shown: str) -> tuple[Rule, ...]:
    if not shown:
        return ()
    if kind is RuleKind.REWRITE_DB:
        pairs = [pair.split(",") for pair in shown[1:-1].split("),(")]
        return tuple(make_rule(kind, f"{a}->{b}") for a, b in pairs)
    return tuple(make_rule(kind, value) for value in shown.split(","))


def tables_of(index: Path) -> list[tuple[str, str]]:
    found: dict[tuple[str, str], None] = {}
    binlogs = BinlogSet.open(index)
    for name in binlogs.names:
        with binlogs.path(name).open("rb") as source:
            for event in iter_events(source, file=name):
                if event.type == EventType.TABLE_MAP:
                    table = decode_table_map(event.body, event.fd.post_header_length(event.type))
                    found[table.database, table.table] = None
    return list(found | dict.fromkeys(STATEMENTS_TABLES))


def run(source: Path, tmp_path: Path, *, slaves: int, changes: int, step: int, pause: float) -> int:
    """Let slaves stream and change their filters; compare each with what it ought to be. How often they changed."""
    growing = GrowingBinlog(source, tmp_path / "live", seed=7)
    tables = tables_of(source)
    server = MasterServer(BinlogStore(growing.index))
    server.start()
    made = [
        Changing(
            number,
            ("127.0.0.1", server.port),
            tmp_path / f"s{number}",
            tables,
            ("BOTH", "BOTH", "MASTER", "SLAVE")[number % 4],
        )
        for number in range(slaves)
    ]
    try:
        for one in made:
            one.slave.start()
        growing.more(1)
        for one in made:
            wait_for(one, ("bin.000001", 5))
        threads = [threading.Thread(target=one.change_often, args=(changes, pause)) for one in made]
        for thread in threads:
            thread.start()
        left = growing.transactions - 1
        while any(thread.is_alive() for thread in threads):
            if left > growing.transactions // 10:  # the last of it is for the last filters
                growing.more(step)
                left -= step
            threading.Event().wait(0.01)
        growing.more(max(left, 0) + 1)
        for one in made:
            assert one.errors == []
        end = max(growing.index.parent.glob("bin.0*"))
        for one in made:
            wait_for(one, (end.name, end.stat().st_size))
            one.run("STOP REPLICA")
        for number, one in enumerate(made):
            summary, counters, gtids = one.expected(growing.index)
            assert one.channel.target.state() == summary, number
            rows = one.console.table("performance_schema", "replication_applier_filters").rows
            shown = {row[1]: row for row in rows}
            assert {name: row[2] for name, row in shown.items()} == {
                kind.value.upper().replace("-", "_"): text for kind, text in one.rules.items()
            }
            for kind, text in one.rules.items():
                row = shown[kind.value.upper().replace("-", "_")]
                assert row[3] == "CHANGE_REPLICATION_FILTER"
                before, after = one.since[kind.value]
                assert before <= row[4] <= after
                assert row[5] == counters[kind], (number, kind, text)
            whole = one.channel.relay_log_info.executed
            assert whole == made[0].channel.relay_log_info.executed
            assert len(gtids) == len(set(gtids))
            assert not one.slave.error
        # a filter changes within the stream; a machine that is very busy may still lose a connection
        assert sum(one.channel.received.connections - 1 for one in made) <= 1
        return sum(len(one.history) - 1 for one in made)
    finally:
        for one in made:
            one.slave.close()
        server.stop()


def wait_for(one: Changing, place: tuple[str, int]) -> None:
    for _ in range(3000):
        if one.place() >= place:
            return
        assert one.slave.error is None, one.slave.error
        threading.Event().wait(0.02)
    raise AssertionError(f"{one.place()} does not get to {place}")


def test_a_thousand_changes(tmp_path: Path, record_property) -> None:
    generate(tmp_path / "source", 3 << 20, schemas=4, tables=3, file_size=1 << 20)
    changed = run(tmp_path / "source" / "bin.index", tmp_path, slaves=20, changes=50, step=6, pause=0.05)
    assert changed == 1000
    record_property(
        "said", "1,000 changes of filters in 20 streaming slaves: every summary and counter as it ought to be"
    )


@pytest.mark.parametrize("folder", ["mysql-mixed", "mysql-statement-kinds", "mariadb-statement"])
def test_changes_over_statements(data: Path, tmp_path: Path, folder: str) -> None:
    changed = run(data / folder / "bin.index", tmp_path, slaves=6, changes=15, step=1, pause=0.05)
    assert changed == 90
