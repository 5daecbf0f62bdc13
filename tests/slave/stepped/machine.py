"""The slave, its operator and its master in a :class:`World`, and the comparison of the slave with its model."""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from dumpfilter.base import files
from dumpfilter.base.errors import BinlogError, OutputError
from dumpfilter.binlog.gtid import Gtid, GtidSet, parse_gtid_set
from dumpfilter.binlog.reader import Event, iter_events
from dumpfilter.console.sql.commands import parse_statement
from dumpfilter.filter.rules import BaseRuleKind
from dumpfilter.slave import connection, io_thread
from dumpfilter.slave.applier import EventApplier
from dumpfilter.slave.channels import Channel, Slave
from dumpfilter.slave.console import SlaveConsole
from dumpfilter.slave.options import SlaveOptions
from dumpfilter.slave.relay_log import read_index
from dumpfilter.slave.state import RelayLogInfo, SourceInfo
from tests.slave.driven import filters_of
from tests.slave.stepped.disk import Disk
from tests.slave.stepped.model import Known, Model, Place, Recording, Unit
from tests.slave.stepped.network import PATCHES, Connection, Network, Stub
from tests.slave.stepped.world import Actor, World

SLAVE = "slave"
"""The process to which the slave's threads and its operator belong."""

_MOST_DAMAGES = 3

_FILE_CALLS = ("create", "truncate", "sync", "sync_path", "rename", "remove")


@dataclass(frozen=True)
class Setup:
    """The settings of a schedule that no step changes."""

    chunk_size: int = 0
    capacity: int = 3
    """The most messages of a dump that are under way at a time."""
    sync: int = 0
    """``--sync-relay-log``."""
    auto_position: bool = False
    begin: int = 5
    """The units that the binlog has at the beginning."""
    option: str = ""
    """The filter option of the slave's first process."""


@dataclass(frozen=True)
class Reset:
    """A statement that makes the slave forget its position, and that a kill may interrupt."""

    begin: Place
    before: GtidSet
    known: Known


class GrowingBinlog:
    """A copy of a recording that grows unit by unit. A unit is a transaction or an event between two."""

    def __init__(self, recording: Recording, directory: Path) -> None:
        directory.mkdir()
        self.index = directory / "bin.index"
        self._recording = recording
        self._directory = directory
        self.units = 0

    @property
    def end(self) -> tuple[str, int]:
        return self._recording.units[self.units - 1].end

    def grow(self, units: int) -> None:
        for unit in self._recording.units[self.units : self.units + units]:
            name, offset = unit.place
            data = self._recording.data[name]
            with (self._directory / name).open("ab") as file:
                file.write(data[0 if offset == 4 else offset : unit.end[1]])
            if offset == 4:
                with self.index.open("a") as index:
                    index.write(f"./{name}\n")
            self.units += 1
        # A server writes the first event of a file together with the events that say what was before.
        if self.units < len(self._recording.units) and self._of_head(self._recording.units[self.units]):
            self.grow(1)

    @staticmethod
    def _of_head(unit: Unit) -> bool:
        return unit.gtid is None and unit.events[0].offset < 400 and unit.events[0].offset > 4


class Machine:
    """A slave's machine. A kill takes a copy of the slave's directory and starts another process over it."""

    def __init__(self, world: World, recording: Recording, directory: Path, setup: Setup) -> None:
        self.world = world
        self.setup = setup
        self.recording = recording
        self._directory = directory
        self._incarnation = 0
        self.disk = Disk(self.relay_directory)
        self.binlog = GrowingBinlog(recording, directory / "binlogs")
        self.binlog.grow(setup.begin)
        self.network = Network(world, self.binlog.index, setup.capacity)
        self.model = Model(recording)
        self._before = parse_gtid_set("", recording.family)
        self._begin: Place = ("", 4)
        """The place at which the channel's first dump begins."""
        self._resetting: Reset | None = None
        self._jobs: deque[Callable[[], None]] = deque()
        self.busy = True
        self._until: int | None = None
        self._asked_to_stop = False
        self.stops = 0
        """The number of ends of the applier that were compared with the model."""
        world.on_end = self._ended
        self.begin_process([setup.option] if setup.option else [])

    # -- the process

    @property
    def relay_directory(self) -> Path:
        return self._directory / f"relay{self._incarnation}"

    def begin_process(self, options: Sequence[str]) -> None:
        self._jobs.clear()
        self.busy = True
        self._slave: Slave | None = None
        self._channel: Channel | None = None
        self._fault = 0
        """The number of the threads' next write that fails; 0 for none."""
        self._failed = False
        self._damages = 0
        """The number of times that the relay log was damaged. The slave fetches a place again three times at most."""
        self.world.spawn("operator", lambda: self._operate(options), SLAVE)

    def _operate(self, options: Sequence[str]) -> None:
        self._open(options)
        while True:
            self.busy = False
            self.world.block(lambda: bool(self._jobs), where="a statement")
            self.busy = True
            self._jobs.popleft()()

    def _open(self, options: Sequence[str]) -> None:
        setup = self.setup
        self.filters = filters_of(options)
        slave = Slave(
            SlaveOptions(
                relay_dir=self.relay_directory,
                server_id=1001,
                alone=True,
                chunk_size=setup.chunk_size,
                sync_relay_log=setup.sync,
            ),
            self.filters,
            [
                SourceInfo(
                    host="127.0.0.1",
                    port=1,
                    heartbeat_period=0.2,
                    connect_retry=0.2,
                    retry_count=0,
                    auto_position=setup.auto_position,
                    log_file=self._begin[0],
                    log_pos=self._begin[1],
                )
            ],
        )
        self._slave = slave
        # The judge must not wait for the slave's lock, which the operator may hold.
        self._channel = slave.get("")
        self.console = SlaveConsole(slave)
        with self._quietly():
            if self._resetting is not None and not self._place[0]:
                assert not self.channel.master_info.source_file, "the kill left half a RESET"
                self._was_reset(self._resetting)
            self._resetting = None
            number = self._compare()
            self.model.change(number, self._filtering(), lambda kind: True)

    def restart(self, options: Sequence[str]) -> None:
        """End the process in an orderly way, and start another one. The operator does this."""
        self._asked_to_stop = True
        self.slave.close()
        self._open(options)

    def kill(self, options: Sequence[str], power: random.Random | None = None) -> None:
        """Kill the process, and start another one with the files as they are at this moment.

        With ``power`` the machine loses its power, so that files may lack what was not synced.
        """
        old, disk = self.relay_directory, self.disk
        self._incarnation += 1
        if power is not None:
            disk.after_power_failure(self.relay_directory, power)
        elif old.exists():
            shutil.copytree(old, self.relay_directory)
        self.disk = Disk(self.relay_directory)
        self.world.kill(SLAVE)
        self.network.cut()
        _close_files_in(old)
        self._until = None
        self.begin_process(options)

    @property
    def slave(self) -> Slave:
        assert self._slave is not None
        return self._slave

    @property
    def channel(self) -> Channel:
        assert self._channel is not None
        return self._channel

    def fail(self, number: int) -> None:
        """Let one of the next writes of the slave's threads fail, as on a full disk."""
        self._fault = number

    def fail_if_asked(self, where: str) -> None:
        actor = self.world.current
        if not self._fault or actor is None or actor.name == "operator":
            return
        self._fault -= 1
        if not self._fault:
            self._failed = True
            raise OutputError(f"{where}: no space left on device (the schedule says so)")

    def damage(self, rng: random.Random) -> None:
        """Flip a bit in a file of the relay log that is not wholly applied, or cut the file."""
        end = self.channel.master_info.relay_position if self._channel is not None else None
        if end is None or self._damages == _MOST_DAMAGES:
            return
        applied = RelayLogInfo.read(self.relay_directory)
        files = read_index(self.relay_directory)
        files = files[: files.index(end.file) + 1] if end.file in files else []
        if applied.relay_file in files:
            files = files[files.index(applied.relay_file) :]
        if not files:
            return
        path = self.relay_directory / rng.choice(files)
        size = path.stat().st_size
        last = min(end.offset, size) if path.name == end.file else size
        if not last:
            return
        self._damages += 1
        at = rng.randrange(last)
        if self.recording.checksum and rng.random() < 0.5:
            with path.open("r+b") as file:
                file.seek(at)
                byte = file.read(1)[0]
                file.seek(at)
                file.write(bytes([byte ^ 1 << rng.randrange(8)]))
        else:
            events = [event.offset for event in self._events_of(path)]
            os.truncate(path, rng.choice([at, *events]) if rng.random() < 0.5 else at)

    @staticmethod
    def _events_of(path: Path) -> list[Event]:
        """Return the events of a relay log file up to the first damage."""
        found: list[Event] = []
        with suppress(BinlogError), path.open("rb") as file:
            found.extend(iter_events(file, file=str(path)))
        return found

    # -- the operator

    def ask(self, job: Callable[[], None]) -> None:
        """Give the operator a statement. He begins it when he runs; an earlier statement ends first."""
        self.finish()
        self.busy = True
        self._jobs.append(job)

    def finish(self) -> None:
        """Let all threads run until the operator's statement has ended."""
        self.world.settle(lambda: not self.busy, pauses=3)

    def sql(self, text: str) -> None:
        """Execute a statement. The operator does this."""
        command = parse_statement(text)
        if command.method == "_change_replication_filter":
            kinds = {clause.kind for clause in command.values["clauses"]}
            self.console.execute(command)
            with self._quietly():
                self.model.change(self._number(), self._filtering(), lambda kind: kind in kinds)
            return
        self.console.execute(command)

    def stop(self, threads: str) -> None:
        self._asked_to_stop |= threads in ("", "SQL_THREAD")
        self.sql(f"STOP REPLICA {threads}")

    def _place_of(self, gtid: Gtid | None, target: int) -> int:
        """Return the unit before which UNTIL stops.

        A GTID that RESET left in the executed set stops the applier at once. A GTID from before the place at which the
        slave began never comes.
        """
        if gtid is not None and gtid in self._before:
            return self._number()
        first = self.model.known[0].number
        if gtid is not None and any(unit.gtid == gtid for unit in self.recording.units[:first]):
            return len(self.recording.units)
        return max(target, self._number())

    def start(
        self, threads: str, until: str = "", target: int | None = None, gtid: Gtid | None = None
    ) -> None:
        if until:
            self.stop("SQL_THREAD")
        if not self.channel.sql.running:
            self._asked_to_stop = False
            self._until = None if target is None else self._place_of(gtid, target)
        self.sql(f"START REPLICA {threads}{until}")

    def reset(self) -> None:
        """Execute RESET REPLICA, after which the slave applies everything again."""
        self._forget("RESET REPLICA", self._begin)

    def move(self, place: Place) -> None:
        """Execute CHANGE REPLICATION SOURCE TO with another position."""
        file, position = place
        self._forget(
            f"CHANGE REPLICATION SOURCE TO SOURCE_LOG_FILE = '{file}', SOURCE_LOG_POS = {position}", place
        )

    def _forget(self, statement: str, begin: Place) -> None:
        self.stop("")
        with self._quietly():
            known = self.model.at(self._number())
            before = parse_gtid_set(self.channel.relay_log_info.executed, self.recording.family)
        self._begin = begin
        self._resetting = Reset(begin, before, known)
        self.sql(statement)
        self._was_reset(self._resetting)
        self._resetting = None

    def _was_reset(self, reset: Reset) -> None:
        self._before = reset.before
        number = self.recording.number(reset.begin) if reset.begin[0] else 0
        excluded = reset.before if self.setup.auto_position else None
        self.model.reset(number, reset.known, excluded)

    # -- the judge

    def _filtering(self) -> Any:
        current = self.filters.current("")
        return current.rules, current.semantics

    @property
    def _place(self) -> Place:
        info = self.channel.relay_log_info
        return info.source_file, info.source_position

    def _number(self) -> int:
        place = self._place
        number = self.recording.number(place) if place[0] else self.model.known[0].number
        return self._after_switch(number) if self.setup.auto_position and place[0] else number

    def _after_switch(self, number: int) -> int:
        """Return the number behind which the slave is, although its position in another master's binlog is smaller.

        The other master's binlog begins with transactions that the slave has, and the master does not send these.
        """
        executed = parse_gtid_set(self.channel.relay_log_info.executed, self.recording.family)
        for at, unit in enumerate(self.recording.units[number:], number):
            if unit.gtid is None or unit.gtid in self._before:
                continue
            if unit.gtid not in executed:
                break
            number = at + 1
        return number

    def _ended(self, actor: Actor) -> None:
        """Compare the slave with its model when its applier has ended."""
        if self._channel is None or actor.process != SLAVE:
            return
        channel = self._channel
        for worker in (channel.io, channel.sql):
            if worker.error is not None and not (self._failed and isinstance(worker.error, OutputError)):
                raise worker.error
        if actor.name.endswith("-sql"):
            self.stops += 1
            number = self._compare(counters=True)
            # After damage of the relay log the channel starts an applier with the same condition.
            is_over = not channel.sql.running and (self._asked_to_stop or not channel.sql.stopping)
            if self._until is not None and channel.sql.error is None and is_over:
                self._compare_until(number, self._until)
                self._until = None

    def _compare(self, *, counters: bool = False) -> int:
        number = self._number()
        where = f"at {self._place}, unit {number}"
        wanted = self.model.executed(number, self._before)
        executed = parse_gtid_set(self.channel.relay_log_info.executed, self.recording.family)
        assert str(executed) == str(wanted), f"GTIDs {where}: {executed} instead of {wanted}"
        known = self.model.at(number) if self.model.changes else self.model.known[0]
        assert self.channel.target.state() == (known.summary or {"tables": {}, "databases": {}}), (
            f"data {where}"
        )
        if counters and not self._failed and not self._damages:
            # After an error the applier applies transactions again, and counts their hits again.
            self._compare_counters(known.counters, where)
        self.model.remember(known)
        return number

    def _compare_counters(self, wanted: Counter[BaseRuleKind], where: str) -> None:
        for setting in self.filters.settings(""):
            assert setting.counter == wanted[setting.kind], f"COUNTER of {setting.kind.sql_name} {where}"

    def _compare_until(self, number: int, target: int) -> None:
        """Compare the place where UNTIL stopped with the place where an unfiltered replica stops.

        A run of transactions that the master dropped may lie between the two.
        """
        if number > target or not self._asked_to_stop:
            wanted = self.model.at(target).summary
            assert self.model.at(number).summary == wanted, f"UNTIL {target}: stopped at {number}"

    def expect_law(self) -> None:
        """Let the slave apply everything, and compare it with the model once more."""
        self.finish()
        self._fault = 0
        self.network.start()
        self.grow(len(self.recording.units))

        def begin() -> None:
            self.stop("")
            self.start("")

        self.ask(begin)
        self.finish()
        end = self.binlog.end
        self.world.settle(lambda: self._place == end)
        self.ask(lambda: self.stop(""))
        self.finish()
        retrieved = parse_gtid_set(self.channel.master_info.retrieved, self.recording.family)
        assert str(retrieved) == str(self.model.executed(len(self.recording.units), self._before)), (
            "retrieved"
        )

    # -- the master

    def grow(self, units: int) -> None:
        self.binlog.grow(units)
        self.network.grown()

    @contextmanager
    def _quietly(self) -> Iterator[None]:
        """Pass no pauses as long as the block runs, since the judge is no thread of the product."""
        current, self.world.current = self.world.current, None
        try:
            yield
        finally:
            self.world.current = current


def _close_files_in(directory: Path) -> None:
    """Close the file descriptors that a killed process had in its directory."""
    for name in os.listdir("/proc/self/fd"):
        try:
            if os.readlink(f"/proc/self/fd/{name}").startswith(f"{directory}/"):
                os.close(int(name))
        except OSError:
            continue


@contextmanager
def machine(recording: Recording, directory: Path, setup: Setup) -> Iterator[Machine]:
    """Run a machine, with pauses in the product's code, as long as the block runs."""
    world = World()
    kept: list[tuple[Any, str, Any]] = []

    def put(holder: Any, name: str, value: Any) -> None:
        kept.append((holder, name, getattr(holder, name)))
        setattr(holder, name, value)

    def paused(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*args: Any, **named: Any) -> Any:
            world.pause(name)
            return call(*args, **named)

        return wrapper

    def noted(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*args: Any) -> Any:
            world.pause(name)
            made[0].fail_if_asked(name)
            result = call(*args)
            paths = tuple(arg for arg in args if isinstance(arg, Path))
            made[0].disk.note(name, paths)
            return result

        return wrapper

    write = files.write

    def torn_write(path: Path, fd: int, data: bytes | memoryview) -> None:
        half = len(data) // 2
        world.pause(f"write {path.name}")
        write(path, fd, data[:half])
        world.pause(f"write {path.name}")
        if made:
            made[0].fail_if_asked(path.name)
        write(path, fd, data[half:])

    made: list[Machine] = []
    try:
        for name in _FILE_CALLS:
            put(files, name, noted(name, getattr(files, name)))
        put(files, "write", torn_write)
        put(EventApplier, "feed", paused("event", EventApplier.feed))
        put(grpc, "insecure_channel", lambda *_, **__: Connection())
        # The master of a schedule has no port that could speak TLS.
        put(connection, "speaks_tls", lambda *_: False)
        put(io_thread, "client", lambda channel: Stub(made[0].network))
        for name, (holder, value) in PATCHES.items():
            put(holder, name, value)
        with world.installed():
            made.append(Machine(world, recording, directory, setup))
            try:
                yield made[0]
            finally:
                world.kill(SLAVE)
                made[0].network.stop()
                _close_files_in(directory)
    finally:
        for holder, name, value in reversed(kept):
            setattr(holder, name, value)
