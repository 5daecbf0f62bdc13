"""A slave in this process that is driven by statements, a master that goes away and comes back, and what a slave ends
with that is sent everything and filters for itself (the law's other side)."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dumpfilter.binlog.format import NameRules
from dumpfilter.binlog.reader import iter_events
from dumpfilter.filter import FilterSemantics, Rule, make_filter
from dumpfilter.filter.channels import ChannelFilters, split_channel
from dumpfilter.filter.hits import Hits
from dumpfilter.filter.origin import OriginFilter
from dumpfilter.filter.rules import EffectiveRuleKind, RuleKind, make_rule
from dumpfilter.index.fileset import BinlogSet
from dumpfilter.master.config import MasterConfig
from dumpfilter.master.server import MasterServer
from dumpfilter.master.store import BinlogStore
from dumpfilter.slave.console import SlaveConsole
from dumpfilter.slave.slave import Slave, SlaveOptions
from dumpfilter.slave.targets import SummaryTarget
from dumpfilter.slave.threads.applier import EventApplier
from dumpfilter.sql.parser import parse_statement
from dumpfilter.sql.result import Result

DEADLINE = 60.0
"""Seconds after which a condition that should come true counts as missed."""

Place = tuple[str, int]
"""A file of the master's and a position in it."""


def wait_until(condition: Callable[[], object], what: Callable[[], object] = lambda: "") -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline, what()
        threading.Event().wait(0.005)


class Master:
    """A master over a binlog set. :meth:`stop` and :meth:`start` again: on the same port."""

    def __init__(self, binlogs: Path, config: MasterConfig | None = None) -> None:
        self.binlogs = binlogs
        self.config = config
        self.port = 0
        self._server: MasterServer | None = None

    def start(self) -> None:
        self._server = MasterServer(BinlogStore(self.binlogs), port=self.port, config=self.config)
        self.port = self._server.port
        self._server.start()

    def stop(self) -> None:
        if self._server is not None:
            self._server.stop(0)
            self._server = None

    @property
    def end(self) -> Place:
        """Where the newest file ends."""
        binlogs = BinlogSet.open(self.binlogs)
        return binlogs.names[-1], binlogs.path(binlogs.names[-1]).stat().st_size

    def slaves(self) -> list[tuple[int, str]]:
        """Server id and channel of those that dump."""
        assert self._server is not None
        return [(one.server_id, one.channel) for one in self._server.service.register.all() if one.dump]


@contextmanager
def serving(binlogs: Path, config: MasterConfig | None = None) -> Iterator[Master]:
    """A master as long as the block runs."""
    master = Master(binlogs, config)
    master.start()
    try:
        yield master
    finally:
        master.stop()


def filters_of(options: Sequence[str]) -> ChannelFilters:
    """Startup options, ``--replicate-do-db=ch1:db1`` and so on."""
    filters = ChannelFilters()
    kinds = {kind.value: kind for kind in (*RuleKind, *EffectiveRuleKind)}
    for option in options:
        name, _, value = option.removeprefix("--").partition("=")
        channel, rule = split_channel(value)
        filters.startup(channel, [make_rule(kinds[name], rule)])
    return filters


@dataclass(frozen=True)
class Since:
    """A filter and from where on it has been in force."""

    place: Place
    rules: tuple[Rule, ...]
    semantics: FilterSemantics = FilterSemantics.CLASSIC


@dataclass
class Driven:
    """A slave with a console, as statements find it. ``history`` is what filter each channel had from where on."""

    directory: Path
    options: Sequence[str] = ()
    server_id: int = 1001
    more: Mapping[str, Any] = field(default_factory=dict)
    history: dict[str, list[Since]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.open()

    def open(self) -> None:
        self.filters = filters_of(self.options)
        slave_options = SlaveOptions(self.directory, self.server_id, alone=True, **self.more)
        self.slave = Slave(slave_options, self.filters)
        self.warnings = self.slave.open()
        self.console = SlaveConsole(self.slave)
        for name in self.channels:
            self.note(name)

    def close(self) -> None:
        self.slave.close()

    def restart(self, *options: str) -> None:
        """In order, with other options."""
        self.close()
        self.options = options
        self.open()

    @property
    def channels(self) -> list[str]:
        return [one.info.channel for one in self.slave.channels]

    def channel(self, name: str = "") -> Any:
        return self.slave.get(name).channel

    def sql(self, text: str) -> Result:
        result = self.console.execute(parse_statement(text))
        for name in self.channels:
            self.note(name)
        return result

    def note(self, name: str) -> None:
        """The filter that is in force now, when it is another than before."""
        current = self.filters.current(name)
        history = self.history.setdefault(name, [Since(("", 0), ())])
        if (current.rules, current.semantics) != (history[-1].rules, history[-1].semantics):
            history.append(Since(self.place(name), current.rules, current.semantics))

    def follow(self, master: Master, channel: str = "", **options: str) -> None:
        """CHANGE REPLICATION SOURCE, with pauses for tests; more options as SQL literals."""
        given = {"SOURCE_HOST": "'127.0.0.1'", "SOURCE_PORT": str(master.port)}
        given |= {"SOURCE_HEARTBEAT_PERIOD": "0.2", "SOURCE_CONNECT_RETRY": "1"}
        given |= options
        clauses = ", ".join(f"{name} = {value}" for name, value in given.items())
        name = channel.replace("'", "''")
        self.sql(f"CHANGE REPLICATION SOURCE TO {clauses} FOR CHANNEL '{name}'")

    def place(self, name: str = "") -> Place:
        """How far the applier is."""
        info = self.channel(name).relay_log_info
        return info.source_file, info.source_position

    def received(self, name: str = "") -> Place:
        """How far the I/O thread is."""
        info = self.channel(name).master_info
        return info.source_file, info.source_position

    def status(self, name: str = "") -> dict[str, Any]:
        result = self.sql(f"SHOW REPLICA STATUS FOR CHANNEL '{name}'")
        ((*values,),) = result.rows
        return dict(zip((column.name for column in result.columns), values, strict=True))

    def table(self, schema: str, name: str) -> list[dict[str, Any]]:
        table = self.console.table(schema, name)
        assert table is not None
        names = [column.name for column in table.columns]
        return [dict(zip(names, row, strict=True)) for row in table.rows]

    def summary(self, name: str = "") -> dict[str, Any]:
        return self.channel(name).target.state()  # type: ignore[no-any-return]

    def executed(self, name: str = "") -> str:
        return self.channel(name).relay_log_info.executed  # type: ignore[no-any-return]

    def counters(self, name: str = "") -> dict[str, int]:
        return {setting.filter_name: setting.counter for setting in self.filters.settings(name)}

    def catch_up(self, master: Master, name: str = "", *, executed: bool = True) -> None:
        """Wait until all of the binlog has been received, and applied."""
        end = master.end
        where = self.place if executed else self.received

        def here() -> bool:
            assert self.slave.error is None, self.slave.error
            return where(name) == end

        wait_until(here, lambda: f"{where(name)} does not get to {end}")

    def stopped(self, name: str = "") -> None:
        """Wait until the applier has ended by itself."""
        wait_until(lambda: not self.channel(name).sql_worker.running)
        error = self.channel(name).sql_worker.error
        assert error is None, error

    def expect_law(self, master: Master, name: str = "", origin: OriginFilter | None = None) -> None:
        """The channel has applied everything and ended as one that filters for itself."""
        self.catch_up(master, name)
        self.sql(f"STOP REPLICA SQL_THREAD FOR CHANNEL '{name}'")
        wanted = expected(master.binlogs, self.history[name], origin=origin)
        assert self.summary(name) == wanted.summary


@contextmanager
def driven(directory: Path, *options: str, **more: Any) -> Iterator[Driven]:
    """A slave as long as the block runs."""
    server_id = more.pop("server_id", 1001)
    slave = Driven(directory, options, server_id, more)
    try:
        yield slave
    finally:
        slave.close()


@dataclass(frozen=True)
class Expected:
    """What a slave ends with."""

    summary: dict[str, Any]
    hits: Hits
    """Since the newest change."""
    gtids: list[str]
    """Of the transactions that were taken, in their order."""


def expected(
    binlogs: Path,
    history: Sequence[Since],
    *,
    origin: OriginFilter | None = None,
    until: Place | None = None,
    start: Place = ("", 0),
    target: Mapping[str, Any] | None = None,
) -> Expected:
    """What a slave makes of a binlog that is sent all of it and switches its filters at these places; from ``start``
    on, with what ``target`` held before."""
    summary = SummaryTarget()
    if target is not None:
        summary.restore(dict(target))
    gtids: list[str] = []
    hits: Hits = Counter()
    left = list(history)
    applier: EventApplier | None = None
    found = BinlogSet.open(binlogs)
    for name in found.names:
        with found.path(name).open("rb") as source:
            for event in iter_events(source, file=name):
                if applier is None or not applier.inside:
                    if until is not None and (name, event.offset) >= until:
                        break
                    while left and left[0].place <= (name, event.offset):
                        since = left.pop(0)
                        applier = EventApplier(
                            make_filter(since.semantics, since.rules, names=NameRules(event.fd.family)),
                            summary,
                            origin=origin,
                            on_complete=lambda gtid: gtids.append(str(gtid)),
                        )
                        hits.clear()
                assert applier is not None
                if (name, event.offset) < start:
                    continue
                applier.feed(event, file=name)
                hits.update(applier.take_hits())
    if left:
        hits.clear()
    return Expected(summary.state(), hits, gtids)
