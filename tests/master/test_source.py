"""A master's source: errors never end the thread, an empty store waits for its first file, and everybody is told."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from structlog.testing import capture_logs

from dumpfilter.base.errors import (
    ConnectionLost,
    DirectoryBusy,
    OutputError,
    SourceRefused,
    SourceReplaced,
    SourceStreamDamaged,
)
from dumpfilter.binlog.gtid import MariadbGtid
from dumpfilter.console.sql.commands import parse_statement
from dumpfilter.index.fileset import BinlogSet
from dumpfilter.master import source as source_module
from dumpfilter.master.console import MasterConsole
from dumpfilter.master.facts import Source
from dumpfilter.master.metrics import MasterCollector
from dumpfilter.master.server import MasterServer
from dumpfilter.master.sharing import SharedReader
from dumpfilter.master.source import FollowedSource, LoopTurns, SourceThread, following
from dumpfilter.master.store import BinlogStore
from dumpfilter.receiver.url import parse_source_url
from dumpfilter.v1 import dumpfilter_pb2 as pb
from tests.console.metrics.series import family_of
from tests.master.client import Client
from tests.master.replicas.serving import MYSQL
from tests.receiver.fake_source import FakeSource, error_packet, events_of, packet, result, small_set
from tests.slave.driven import wait_until


@pytest.fixture
def source() -> Iterator[FakeSource]:
    """A server with two small files."""
    made = FakeSource(small_set())
    yield made
    made.close()


def followed(source: FakeSource, directory: Path) -> FollowedSource:
    """Return the description of a source to follow."""
    return FollowedSource(parse_source_url(source.url), directory)


@contextlib.contextmanager
def taking_turns(taken: list[bytes]) -> Iterator[tuple[socket.socket, socket.socket, Callable[[], int]]]:
    """Yield a source's connection, its far end, and a turn that adds the next byte, if there is one, to ``taken``."""
    near, far = socket.socketpair()

    def turn() -> int:
        with contextlib.suppress(BlockingIOError):
            taken.append(near.recv(1))
            return 1
        return 0

    with near, far:
        near.setblocking(False)
        yield near, far, turn


@pytest.mark.parametrize(("has_dumps", "turns"), [(True, 3), (False, 1)])
def test_the_loop_takes_fewer_turns_while_no_dump_runs(
    has_dumps: bool, turns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_module, "_BETWEEN_TURNS", 0.0)
    monkeypatch.setattr(source_module, "_BETWEEN_IDLE_TURNS", 3600.0)
    taken = list[bytes]()

    async def receive() -> None:
        with taking_turns(taken) as (near, far, turn):
            loop = asyncio.get_running_loop()
            loop_turns = LoopTurns(loop, lambda file, offset, data: None, lambda: has_dumps)
            receiving = asyncio.ensure_future(loop_turns._receive(near, turn, lambda: None))
            far.send(b"abc")
            for _ in range(100):
                await asyncio.sleep(0)
            loop_turns.close()
            await receiving

    asyncio.run(receive())
    assert taken == [b"a", b"b", b"c"][:turns]


class HeldTimers:
    """An asyncio loop whose timers run when the test says so."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.held: list[Callable[[], None]] = []
        self.is_watched = False
        """Whether the loop watches a socket."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)

    def call_at(self, when: float, run: Callable[[], None]) -> None:
        del when
        self.held.append(run)

    def add_reader(self, stream: socket.socket, run: Callable[[], None]) -> None:
        self.is_watched = True
        self._loop.add_reader(stream, run)

    def remove_reader(self, stream: socket.socket) -> bool:
        self.is_watched = False
        return self._loop.remove_reader(stream)


def test_a_timer_alone_begins_turns_while_commits_come_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """To watch the socket between two turns would wake the process twice for each."""
    monkeypatch.setattr(source_module, "_BETWEEN_TURNS", 3600.0)
    taken, watched = list[bytes](), list[bool]()

    async def receive() -> None:
        with taking_turns(taken) as (near, far, turn):
            loop = HeldTimers(asyncio.get_running_loop())
            turns = LoopTurns(loop, lambda file, offset, data: None, lambda: True)  # type: ignore[arg-type]
            receiving = asyncio.ensure_future(turns._receive(near, turn, lambda: None))
            far.send(b"abcd")
            while len(watched) < 4:
                while not loop.held:
                    await asyncio.sleep(0)
                loop.held.pop()()
                watched.append(loop.is_watched)
            turns.close()
            await receiving

    asyncio.run(asyncio.wait_for(receive(), 60))
    assert taken == [b"a", b"b", b"c", b"d"]
    assert watched == [True, False, False, True]


def test_no_turn_begins_after_an_error_has_ended_the_reception(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the error the source's thread closes the connection and the store, in which a late turn would write."""
    monkeypatch.setattr(source_module, "_BETWEEN_TURNS", 3600.0)
    monkeypatch.setattr(source_module, "_TICK_SECONDS", 0.001)
    taken = list[bytes]()

    async def receive() -> None:
        with taking_turns(taken) as (near, far, turn):
            loop = HeldTimers(asyncio.get_running_loop())

            def tick() -> None:
                if loop.held:
                    raise OutputError("bin.000001: cannot be written: No space left on device")

            far.send(b"abc")
            turns = LoopTurns(loop, lambda file, offset, data: None, lambda: True)  # type: ignore[arg-type]
            with pytest.raises(OutputError):
                await turns._receive(near, turn, tick)
            for resume in loop.held:
                resume()
            assert not loop.remove_reader(near)

    asyncio.run(receive())
    assert taken == [b"a"]


def test_a_store_has_a_file_before_it_is_served(source: FakeSource, tmp_path: Path) -> None:
    with following(followed(source, tmp_path)) as thread:
        assert thread is not None
        assert BinlogSet.open(tmp_path).names[0] == "bin.000001"
        wait_until(lambda: thread.progress.file == "bin.000002")
        assert thread.state == "receiving"
    assert BinlogSet.open(tmp_path).names == list(source.files)


def test_an_empty_store_without_a_source_is_an_error(source: FakeSource, tmp_path: Path) -> None:
    source.close()
    with pytest.raises(ConnectionLost), following(followed(source, tmp_path)):
        pytest.fail("there is nothing to serve")


def test_a_torn_tail_is_cut_before_the_store_is_served(source: FakeSource, tmp_path: Path) -> None:
    """A power failure leaves zeros after the last whole event. The source may be down when the master starts again."""
    with following(followed(source, tmp_path)) as thread:
        wait_until(lambda: thread.progress.position == len(source.files["bin.000002"]))
    source.close()
    newest = tmp_path / "bin.000002"
    whole = newest.read_bytes()
    newest.write_bytes(whole + bytes(500))
    with following(followed(source, tmp_path)):
        assert newest.read_bytes() == whole
    newest.write_bytes(bytes(500))
    with following(followed(source, tmp_path)):
        assert BinlogSet.open(tmp_path).names == list(source.files)


def test_a_refused_login_is_an_error_at_the_start_and_passes_later(
    source: FakeSource, tmp_path: Path
) -> None:
    source.change = lambda payloads: [error_packet(1045, "Access denied")]
    with (
        capture_logs() as logs,
        pytest.raises(SourceRefused),
        following(followed(source, tmp_path)),
    ):
        pytest.fail("there is nothing to serve")
    assert not any("tries the source again" in str(line) for line in logs)
    source.change = lambda payloads: payloads
    with following(followed(source, tmp_path)):
        pass
    source.change = lambda payloads: [error_packet(1045, "Access denied")]
    thread = SourceThread(followed(source, tmp_path), retry_seconds=0.05)
    try:
        thread.wait_for_files()
        wait_until(lambda: thread.failures > 2)
        assert isinstance(thread.error, SourceRefused)
        source.change = lambda payloads: payloads
        wait_until(lambda: thread.state == "receiving")
    finally:
        thread.close()


def test_the_store_is_free_after_the_end(source: FakeSource, tmp_path: Path) -> None:
    with following(followed(source, tmp_path)), pytest.raises(DirectoryBusy):
        SourceThread(followed(source, tmp_path))
    with following(followed(source, tmp_path)):
        pass


def test_an_unforeseen_error_is_shown_and_the_source_is_tried_again(
    source: FakeSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with following(followed(source, tmp_path)):
        pass
    with monkeypatch.context() as patched:
        patched.setattr("dumpfilter.receiver.login.ask_facts", lambda connection: 1 // 0)
        thread = SourceThread(followed(source, tmp_path), retry_seconds=0.05)
        wait_until(lambda: thread.state == "failed")
        assert "ZeroDivisionError" in str(thread.error)
    try:
        wait_until(lambda: thread.state == "receiving")
    finally:
        thread.close()


def test_a_store_that_was_away_is_followed_again(source: FakeSource, tmp_path: Path) -> None:
    store, away = tmp_path / "store", tmp_path / "away"
    with contextlib.closing(SourceThread(followed(source, store), retry_seconds=0.05)) as thread:
        thread.wait_for_files()
        wait_until(lambda: thread.progress.position == len(source.files["bin.000002"]))
        store.rename(away)
        source.cut()
        wait_until(lambda: thread.state == "failed")
        away.rename(store)
        wait_until(lambda: thread.state == "receiving")


class SlowSource:
    """A server that sends the packets of its dump one by one, when the test says so."""

    def __init__(self, source: FakeSource) -> None:
        self._packets: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self.packets: list[bytes] = []
        source.raw = self._raw

    def _raw(self, payloads: list[bytes]) -> Iterator[bytes]:
        self.packets = [packet(payload, number & 0xFF) for number, payload in enumerate(payloads, 1)]
        yield from iter(self._packets.get, None)
        self._packets.put(None)  # for the next connection

    def send(self, *packets: bytes) -> None:
        for each in packets:
            self._packets.put(each)

    def end(self) -> None:
        self._packets.put(None)


def test_a_loop_receives_what_comes_slowly(
    source: FakeSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop stores all events but those that begin or end a file. An error in the loop is one of the source."""
    slow = SlowSource(source)
    received: list[tuple[str, int, int]] = []

    def note(reader: SharedReader, file: str, offset: int, data: bytes) -> None:
        assert threading.current_thread().name == "grpc-loop"
        received.append((file, offset, len(data)))

    monkeypatch.setattr(SharedReader, "received", note)
    thread = SourceThread(followed(source, tmp_path), retry_seconds=0.05)
    try:
        wait_until(lambda: slow.packets)
        slow.send(*slow.packets[:2])
        thread.wait_for_files()
        server = MasterServer(BinlogStore(tmp_path), source=thread)
        try:
            sent = 2
            for file, data in source.files.items():
                # Two packets begin a file, and all but the newest have an event that ends them.
                count = len(events_of(data)) - 1 - (file != "bin.000002")
                if file == "bin.000002":
                    slow.send(*slow.packets[sent : sent + 3])
                    sent += 3
                    wait_until(lambda: thread.progress.file == "bin.000002")
                for each in slow.packets[sent : sent + count]:
                    size = thread.progress.bytes + len(each) - 5
                    slow.send(each)
                    wait_until(lambda size=size: thread.progress.bytes == size)  # type: ignore[misc]
                sent += count
            assert sent == len(slow.packets)
            assert len(received) >= 10
            wrong = bytearray(slow.packets[-1])
            wrong[3] = len(slow.packets) + 1 & 0xFF
            slow.send(bytes(wrong))
            wait_until(lambda: thread.failures == 1)
            assert "come again" in thread.last_error
        finally:
            server.stop()
        for file, data in source.files.items():
            assert (tmp_path / file).read_bytes()[30:] == data[30:]
    finally:
        slow.end()
        thread.close()


def test_console_and_metrics_tell_of_the_source(source: FakeSource, tmp_path: Path) -> None:
    with following(followed(source, tmp_path)) as thread:
        assert thread is not None
        wait_until(lambda: thread.progress.position == len(source.files["bin.000002"]))
        server = MasterServer(BinlogStore(tmp_path), source=thread)
        try:
            table = MasterConsole(server.service, source=thread).tables["dumpfilter", "source"]()
            ((address, state, file, position, *_),) = table.rows
            assert (address, state, file) == (source.url, "receiving", "bin.000002")
            assert position == len(source.files["bin.000002"])
            families = {each.name: each for each in MasterCollector(server).collect()}
        finally:
            server.stop()
    assert {name for name in families if "_source_" in name} == {family_of(each) for each in Source.metrics}
    values = {name: each.samples[0].value for name, each in families.items() if each.samples}
    assert values["dumpfilter_master_source_connected"] == 1
    assert values["dumpfilter_master_source_received_bytes"] == sum(map(len, source.files.values())) - 8


def test_a_master_without_a_source_has_an_empty_table(source: FakeSource, tmp_path: Path) -> None:
    with following(followed(source, tmp_path)):
        pass
    server = MasterServer(BinlogStore(tmp_path))
    try:
        table = MasterConsole(server.service).tables["dumpfilter", "source"]()
        assert list(table.rows) == []
    finally:
        server.stop()


def _answer(source: FakeSource, **variables: str) -> None:
    for name, value in variables.items():
        source.answers[f"SELECT @@GLOBAL.{name}"] = lambda value=value: [result(["v"], [[value]])]  # type: ignore[misc]


def test_the_source_tells_its_gtids(source: FakeSource, tmp_path: Path) -> None:
    with following(followed(source, tmp_path)) as thread:
        assert thread is not None
        _answer(source, gtid_executed=f"{source.uuid}:1-7")
        logged = thread.ask_logged()
        assert str(logged.gtids) == f"{source.uuid}:1-7"
        assert logged.end == ("bin.000002", len(source.files["bin.000002"]))
        source.may_list = False
        assert thread.ask_logged().end is None
        source.answers["SELECT @@GLOBAL.gtid_executed"] = lambda: [result(["v"], [])]
        with pytest.raises(SourceStreamDamaged, match="gtid_executed"):
            thread.ask_logged()
        source.uuid = "99999999-2222-3333-4444-555555555555"
        with pytest.raises(SourceReplaced):
            thread.ask_logged()


def test_mariadb_tells_its_state_and_its_position_as_a_replica(tmp_path: Path) -> None:
    source = FakeSource(small_set(), version="10.11.6-MariaDB", uuid="")
    _answer(source, gtid_binlog_state="0-2-5,0-1-9,3-1-1", gtid_slave_pos="0-7-4")
    try:
        with following(followed(source, tmp_path)) as thread:
            assert thread is not None
            logged = thread.ask_logged()
    finally:
        source.close()
    assert logged.last == {(0, 2): 5, (0, 1): 9, (3, 1): 1}
    assert logged.newest(0) == 9
    assert logged.has(MariadbGtid(0, 7, 4))
    assert not logged.has(MariadbGtid(0, 7, 3))


@pytest.mark.parametrize("keeps_waiting", [False, True])
def test_a_source_that_began_anew_ends_dumps_after_all_that_the_store_has(
    tmp_path: Path, keeps_waiting: bool
) -> None:
    source = FakeSource({path.name: path.read_bytes() for path in sorted(MYSQL.glob("bin.0*"))})
    *_, newest = source.files
    end = len(source.files[newest])
    what = FollowedSource(parse_source_url(source.url), tmp_path, keeps_waiting=keeps_waiting)
    with contextlib.closing(source), following(what) as thread:
        assert thread is not None
        wait_until(lambda: (thread.progress.file, thread.progress.position) == (newest, end))
        server = MasterServer(BinlogStore(tmp_path), source=thread)
        server.start()
        client = Client(server)
        try:
            chunks = client.dump(client.register().slave_id, once=False, heartbeat_period_ms=10)
            while (chunk := next(chunks)).file != newest or chunk.end_position != end:
                pass
            source.files = {"bin.000001": source.files["bin.000001"]}
            source.cut()
            wait_until(lambda: thread.state == "failed")
            if keeps_waiting:
                assert all(next(chunks).heartbeat for _ in range(3))
                return
            _check_ends(chunks)
            # A slave that comes later receives all that the store has, and then the error.
            later = client.dump(client.register(server_id=8).slave_id, once=False)
            while next(later).end_position != end:
                pass
            _check_ends(later)
        finally:
            client.close()
            server.stop()


def _check_ends(chunks: Iterator[pb.Chunk]) -> None:
    with pytest.raises(grpc.RpcError) as refused:
        list(chunks)
    assert refused.value.code() is grpc.StatusCode.DATA_LOSS
    assert "the source of this master cannot go on after this place" in refused.value.details()


def test_a_purge_of_an_own_store_does_not_warn_of_its_writer(source: FakeSource, tmp_path: Path) -> None:
    with following(followed(source, tmp_path)) as thread:
        assert thread is not None
        wait_until(lambda: thread.progress.position == len(source.files["bin.000002"]))
        server = MasterServer(BinlogStore(tmp_path), source=thread)
        try:
            assert BinlogSet.open(tmp_path).file("bin.000002").in_use
            purge = parse_statement("PURGE BINARY LOGS TO 'bin.000002'")
            assert MasterConsole(server.service, source=thread).execute(purge).notes == ()
            assert BinlogSet.open(tmp_path).names == ["bin.000002"]
        finally:
            server.stop()
