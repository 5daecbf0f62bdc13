"""A slave in this process that statements drive, and a master in this process that can be stopped and started.

:func:`expected` computes the result of a slave that receives everything and filters on its own side. The law says that
every slave ends with that result.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from dumpfilter.binlog.format import NameRules
from dumpfilter.binlog.gap_events import is_gap_event
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.binlog.reader import iter_events
from dumpfilter.console.sql.commands import parse_statement
from dumpfilter.console.sql.result import Result
from dumpfilter.filter.base import OriginFilter
from dumpfilter.filter.channels import ChannelFilters, split_channel
from dumpfilter.filter.filter import make_filter
from dumpfilter.filter.rules import EffectiveRuleKind, FilterSemantics, Hits, Rule, RuleKind, make_rule
from dumpfilter.index.fileset import BinlogFile, BinlogSet, SegmentReader
from dumpfilter.index.subjects import Subjects
from dumpfilter.master.config import MasterConfig
from dumpfilter.master.server import ListenAddress, MasterServer
from dumpfilter.master.store import BinlogStore
from dumpfilter.slave.applier import EventApplier
from dumpfilter.slave.channels import RelayReader, Slave
from dumpfilter.slave.console import SlaveConsole
from dumpfilter.slave.options import SlaveOptions
from dumpfilter.slave.targets import SummaryTarget

DEADLINE = 240.0
"""The longest wait for a state, seconds. A test whose state does not come fails."""

UUID = "5a8b8d0a-e543-11f1-9c8d-02fc00000001"
"""The server UUID in the GTIDs of the recording mysql-row, whose transactions have the numbers 1 to 74."""

OLD_OPTION = "--replicate-ignore-db=hr"
"""The filter option with which a slave starts."""

Place = tuple[str, int]
"""A binlog file of the master and a position in that file."""


def wait_until(condition: Callable[[], object], what: Callable[[], object] = lambda: "") -> None:
    """Wait until a condition is true. On a timeout the test fails with the text ``what()``."""
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline, what()
        threading.Event().wait(0.005)


class HasPort(Protocol):
    """A program that serves slaves at a port."""

    @property
    def port(self) -> int: ...


class Master:
    """A master over a binlog set. After :meth:`stop`, :meth:`start` uses the same port again."""

    def __init__(self, binlogs: Path, config: MasterConfig | None = None) -> None:
        self.binlogs = binlogs
        self.config = config
        self.port = 0
        self._server: MasterServer | None = None

    def start(self) -> None:
        self._server = MasterServer(
            BinlogStore(self.binlogs),
            listen=ListenAddress(port=self.port),
            config=self.config,
        )
        self.port = self._server.port
        self._server.start()

    def stop(self) -> None:
        if self._server is not None:
            self._server.stop(0)
            self._server = None

    @property
    def end(self) -> Place:
        """The end of the newest file, as slaves are told."""
        binlogs = BinlogSet.open(self.binlogs)
        newest = binlogs.file(binlogs.names[-1])
        return place_in(newest)(newest.size)

    def reconfigure(self, config: MasterConfig) -> None:
        """Change users and imposed filters without a restart."""
        assert self._server is not None
        self.config = config
        self._server.service.reconfigure(config)

    def slaves(self) -> list[tuple[int, str]]:
        """Return server id and channel of the slaves with a running dump."""
        assert self._server is not None
        return [
            (one.peer.server_id, one.peer.channel) for one in self._server.service.register.all() if one.dump
        ]


@contextmanager
def serving(binlogs: Path, config: MasterConfig | None = None) -> Iterator[Master]:
    """Run a master as long as the block runs."""
    master = Master(binlogs, config)
    master.start()
    try:
        yield master
    finally:
        master.stop()


def filters_of(options: Sequence[str]) -> ChannelFilters:
    """Make the filters of startup options such as ``--replicate-do-db=ch1:db1``."""
    filters = ChannelFilters()
    kinds = {kind.value: kind for kind in (*RuleKind, *EffectiveRuleKind)}
    for option in options:
        name, _, value = option.removeprefix("--").partition("=")
        channel, rule = split_channel(value)
        filters.startup(channel, [make_rule(kinds[name], rule)])
    return filters


@dataclass(frozen=True)
class Since:
    """A filter, and the position from which it has been in force."""

    place: Place
    rules: tuple[Rule, ...]
    semantics: FilterSemantics = FilterSemantics.CLASSIC


@dataclass
class Driven:
    """A slave with a console. ``history`` holds the filters of each channel and their first positions."""

    directory: Path
    options: Sequence[str] = ()
    server_id: int = 1001
    more: Mapping[str, Any] = field(default_factory=dict)
    history: dict[str, list[Since]] = field(default_factory=dict)
    readers: Mapping[str, RelayReader] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.open()

    def open(self) -> None:
        self.filters = filters_of(self.options)
        slave_options = SlaveOptions(
            relay_dir=self.directory, server_id=self.server_id, alone=True, **self.more
        )
        self.slave = Slave(slave_options, self.filters, readers=self.readers)
        self.warnings = self.slave.warnings
        self.console = SlaveConsole(self.slave)
        for name in self.channels:
            self.note(name)

    def close(self) -> None:
        self.slave.close()

    def restart(self, *options: str) -> None:
        """Stop the slave and start it with other filter options."""
        self.close()
        self.options = options
        self.open()

    @property
    def channels(self) -> list[str]:
        return [one.info.channel for one in self.slave.channels]

    def channel(self, name: str = "") -> Any:
        return self.slave.get(name)

    def sql(self, text: str) -> Result:
        result = self.console.execute(parse_statement(text))
        for name in self.channels:
            self.note(name)
        return result

    def note(self, name: str) -> None:
        """Add the filter in force to the history, unless it is the newest entry already."""
        current = self.filters.current(name)
        history = self.history.setdefault(name, [Since(("", 0), ())])
        if (current.rules, current.semantics) != (history[-1].rules, history[-1].semantics):
            history.append(Since(self.place(name), current.rules, current.semantics))

    def follow(self, master: HasPort, channel: str = "", **options: str) -> None:
        """Execute CHANGE REPLICATION SOURCE TO with short waits. ``options`` are more options, as SQL literals."""
        given = {"SOURCE_HOST": "'127.0.0.1'", "SOURCE_PORT": str(master.port)}
        given |= {"SOURCE_HEARTBEAT_PERIOD": "0.2", "SOURCE_CONNECT_RETRY": "1"}
        given |= options
        clauses = ", ".join(f"{name} = {value}" for name, value in given.items())
        name = channel.replace("'", "''")
        self.sql(f"CHANGE REPLICATION SOURCE TO {clauses} FOR CHANNEL '{name}'")

    def place(self, name: str = "") -> Place:
        """Return the applier's position."""
        info = self.channel(name).relay_log_info
        return info.source_file, info.source_position

    def received(self, name: str = "") -> Place:
        """Return the I/O thread's position."""
        info = self.channel(name).master_info
        return info.source_file, info.source_position

    def status(self, name: str = "") -> dict[str, Any]:
        result = self.sql(f"SHOW REPLICA STATUS FOR CHANNEL '{name}'")
        ((*values,),) = result.rows
        return dict(zip((column.name for column in result.columns), values, strict=True))

    def table(self, schema: str, name: str) -> list[dict[str, Any]]:
        table = self.console.tables[schema, name]()
        names = [column.name for column in table.columns]
        return [dict(zip(names, row, strict=True)) for row in table.rows]

    def summary(self, name: str = "") -> dict[str, Any]:
        return self.channel(name).target.state()  # type: ignore[no-any-return]

    def executed(self, name: str = "") -> str:
        return self.channel(name).relay_log_info.executed  # type: ignore[no-any-return]

    def counters(self, name: str = "") -> dict[str, int]:
        return {setting.kind.sql_name: setting.counter for setting in self.filters.settings(name)}

    def catch_up(self, master: Master, name: str = "", *, executed: bool = True) -> None:
        """Wait until the slave has received all of the binlog and, with ``executed``, applied it."""
        end = master.end
        where = self.place if executed else self.received

        def here() -> bool:
            assert self.slave.error is None, self.slave.error
            return where(name) == end

        wait_until(here, lambda: f"{where(name)} does not get to {end}")

    def stopped(self, name: str = "") -> None:
        """Wait until the applier has ended without being stopped."""
        wait_until(lambda: not self.channel(name).sql.running)
        error = self.channel(name).sql.error
        assert error is None, error

    def expect_law(self, master: Master, name: str = "", origin: OriginFilter | None = None) -> None:
        """Wait until the channel has applied everything, and compare its target with the expected one."""
        self.catch_up(master, name)
        self.sql(f"STOP REPLICA SQL_THREAD FOR CHANNEL '{name}'")
        wanted = expected(master.binlogs, self.history[name], origin=origin)
        assert self.summary(name) == wanted.summary


def apply_before(slave: Driven, number: int) -> None:
    """Apply up to the transaction before this number, and wait until the applier has ended there."""
    slave.sql(f"START REPLICA SQL_THREAD UNTIL SQL_BEFORE_GTIDS = '{UUID}:{number}'")
    slave.stopped()


@contextmanager
def driven(directory: Path, *options: str, **more: Any) -> Iterator[Driven]:
    """Run a slave as long as the block runs."""
    server_id = more.pop("server_id", 1001)
    slave = Driven(directory, options, server_id, more, readers=more.pop("readers", {}))
    try:
        yield slave
    finally:
        slave.close()


def place_in(file: BinlogFile) -> Callable[[int], Place]:
    """Return the function that tells slaves' places from offsets of a binlog file or relay log file."""
    if not file.is_relay_log:
        return lambda offset: (file.name, offset)
    reader = SegmentReader(file, Subjects(), SourceNumbers())
    positions: dict[int, int] = {}
    while (segment := reader.next()) is not None:
        positions |= {
            offset: segment.position_of(offset) for offset in [*segment.offset.tolist(), segment.end]
        }
    return lambda offset: (file.begin.file, positions[max(offset, file.first_event)])


@dataclass(frozen=True)
class Expected:
    """The result of a slave."""

    summary: dict[str, Any]
    hits: Hits
    """Hits since the newest change of the filter."""
    gtids: list[str]
    """The GTIDs of the completed transactions, in their order."""


def expected(
    binlogs: Path,
    history: Sequence[Since],
    *,
    origin: OriginFilter | None = None,
    until: Place | None = None,
    transactions: int | None = None,
    start: Place = ("", 0),
    target: Mapping[str, Any] | None = None,
) -> Expected:
    """Return the result of a slave that receives everything and changes its filters at the positions of ``history``.

    The slave begins at ``start`` with the target's state ``target``. It ends at ``until``, or after a number of
    transactions, or at the end of the binlog.
    """
    summary = SummaryTarget()
    if target is not None:
        summary.restore(dict(target))
    gtids: list[str] = []
    hits: Hits = Counter()
    left = list(history)
    applier: EventApplier | None = None
    found = BinlogSet.open(binlogs)
    for name in found.names:
        place_of = place_in(found.file(name))
        with found.path(name).open("rb") as source:
            for event in iter_events(source, file=name):
                if is_gap_event(event.type, event.body):
                    continue
                here = place_of(event.offset)
                if applier is None or not applier.inside:
                    if until is not None and here >= until:
                        break
                    if transactions is not None and len(gtids) >= transactions:
                        break
                    while left and left[0].place <= here:
                        since = left.pop(0)
                        applier = EventApplier(
                            make_filter(since.semantics, since.rules, names=NameRules(event.fd.family)),
                            summary,
                            origin=origin,
                            on_complete=lambda gtid: gtids.append(str(gtid)),
                        )
                        hits.clear()
                assert applier is not None
                if here < start:
                    continue
                applier.feed(event, file=name)
                hits.update(applier.take_hits())
    if left:
        hits.clear()
    return Expected(summary.state(), hits, gtids)
