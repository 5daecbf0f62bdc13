"""The follower: lost connections are made again, lasting errors are raised, and a stop is prompt."""

from __future__ import annotations

import queue
import select
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from dumpfilter.base.errors import ConnectionLost, OptionError, SourceStreamDamaged
from dumpfilter.binlog.events import EventType
from dumpfilter.console.serving_loop import ServingLoop
from dumpfilter.master.source import LoopTurns
from dumpfilter.receiver.reception import Follower, FollowOptions
from dumpfilter.receiver.store import BinlogDirectory
from dumpfilter.receiver.url import parse_source_url
from tests.receiver.fake_source import FakeSource, error_packet, event_at, framed, result, small_set
from tests.receiver.test_reception_slow import large_file, stored

SOON = 0.02


@pytest.fixture
def source() -> Iterator[FakeSource]:
    """A server with two small files."""
    made = FakeSource(small_set())
    yield made
    made.close()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[BinlogDirectory]:
    """An open store."""
    made = BinlogDirectory(tmp_path / "store")
    yield made
    made.close()


def follower(source: FakeSource, store: BinlogDirectory, options: str = "", **more: object) -> Follower:
    """Return a follower that waits hardly between two attempts."""
    settings = FollowOptions(**{"longest_wait": SOON, **more})  # type: ignore[arg-type]
    return Follower(parse_source_url(source.url + options), store, settings)


def in_pieces(size: int) -> Callable[[list[bytes]], Iterable[bytes]]:
    """Return a function that sends a part of each dump, and then ends the connection."""

    def cut(payloads: list[bytes]) -> Iterator[bytes]:
        yield framed(payloads)[:size]
        raise OSError

    return cut


def test_a_connection_that_breaks_anywhere_is_made_again(source: FakeSource, store: BinlogDirectory) -> None:
    source.raw = in_pieces(500)
    made = follower(source, store)
    made.run()
    assert stored(store.directory) == source.files
    assert made.connections > 1
    assert made.failures == made.connections - 1


def test_a_source_that_never_gets_further_is_an_error(source: FakeSource, store: BinlogDirectory) -> None:
    source.raw = in_pieces(300)
    with pytest.raises(ConnectionLost):
        follower(source, store, retries=5).run()


def test_a_source_that_is_away_at_the_start_is_an_error_at_once(
    source: FakeSource, store: BinlogDirectory
) -> None:
    source.close()
    with pytest.raises(ConnectionLost, match="cannot be reached"):
        follower(source, store).run()


def test_a_source_that_stays_away_is_an_error_in_the_end(source: FakeSource, store: BinlogDirectory) -> None:
    source.close()
    made = follower(source, store, wait_for_first=True, retries=4)
    with pytest.raises(ConnectionLost):
        made.run()
    assert made.failures == 4


def test_a_momentary_error_of_the_source_passes(source: FakeSource, store: BinlogDirectory) -> None:
    answers = [[error_packet(1053, "Server shutdown in progress")]]
    source.change = lambda payloads: answers.pop() if answers else payloads
    follower(source, store).run()
    assert stored(store.directory) == source.files


def test_damage_is_asked_for_again_and_lasting_damage_is_an_error(
    source: FakeSource, store: BinlogDirectory
) -> None:
    bad = 1000

    def damaged(payloads: list[bytes]) -> list[bytes]:
        nonlocal bad
        bad -= 1
        return [*payloads[:2], *payloads[3:]] if bad >= 0 else payloads

    source.change = damaged
    with pytest.raises(SourceStreamDamaged):
        follower(source, store).run()
    bad = 2
    follower(source, store).run()
    assert stored(store.directory) == source.files


def test_a_silent_source_is_lost(
    source: FakeSource, store: BinlogDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dumpfilter.receiver.login._LEAST_SILENCE", 0.2)
    made = follower(source, store, "?heartbeat=0.05", stop_never=True, retries=2)
    with pytest.raises(ConnectionLost, match="silent"):
        made.run()
    assert stored(store.directory) == source.files


class ReadingLoop:
    """A loop that reads the socket in the receiving thread, and does nothing else."""

    def __init__(self) -> None:
        self.waits = threading.Event()

    def run(self, stream: socket.socket, turn: Callable[[], int | None], tick: Callable[[], None]) -> None:
        self.waits.set()
        while select.select([stream], [], [])[0] and turn() is not None:
            tick()

    def received(self, file: str, offset: int, data: bytes) -> None:
        pass


def test_an_event_after_the_one_that_closes_its_file_is_refused_while_a_loop_receives(
    source: FakeSource, store: BinlogDirectory
) -> None:
    loop, size = ReadingLoop(), len(source.files["bin.000002"])
    source.files["bin.000002"] += event_at(size, EventType.STOP, b"")
    late = event_at(size + 23, EventType.XID, bytes(8))

    def lie(payloads: list[bytes]) -> Iterator[bytes]:
        sent, early = framed([*payloads, b"\0" + late]), len(framed(payloads[:-1]))
        yield sent[:early]
        loop.waits.wait()
        yield sent[early:]

    source.raw = lie
    made = follower(source, store, stop_never=True, retries=0)
    made.turns = loop
    with pytest.raises(SourceStreamDamaged, match="after the event that closes the file"):
        made.run()
    assert stored(store.directory) == source.files


def test_a_reset_directly_behind_the_last_bytes_is_seen_at_once_by_a_loop(
    source: FakeSource, store: BinlogDirectory
) -> None:
    """The loop (uvloop) reports the bytes and the reset together, and nothing afterwards."""
    waits, is_busy, goes_on = threading.Event(), threading.Event(), threading.Event()

    class Waiting(LoopTurns):
        async def _receive(self, *arguments: Any) -> None:
            waits.set()
            await super()._receive(*arguments)

    def be_busy() -> None:
        is_busy.set()
        goes_on.wait()

    def reset_behind(payloads: list[bytes]) -> Iterator[bytes]:
        if len(source.asked) > 1:
            made.stop()
            return
        early = len(framed(payloads[:-1]))
        yield framed(payloads)[:early]
        waits.wait()
        serving.loop.call_soon_threadsafe(be_busy)
        is_busy.wait()
        yield framed(payloads)[early:]
        source.reset()
        goes_on.set()

    source.raw = reset_behind
    made = follower(source, store, stop_never=True, retries=0)
    with ServingLoop("test") as serving:
        made.turns = Waiting(serving.loop, lambda *_: None, lambda: True)
        made.run()
    assert made.failures == 1
    assert "silent" not in made.last_error
    assert stored(store.directory) == source.files


@pytest.mark.parametrize("away", [True, False])
def test_a_stop_ends_a_wait(source: FakeSource, store: BinlogDirectory, away: bool) -> None:
    if away:
        source.close()
    made = follower(source, store, stop_never=True, wait_for_first=True, retries=0, longest_wait=100.0)
    thread = threading.Thread(target=made.run)
    thread.start()
    waited = threading.Event()
    while not (made.failures if away else made.progress.position == len(source.files["bin.000002"])):
        waited.wait(0.01)
    made.stop()
    thread.join(240)
    assert not thread.is_alive()
    if not away:
        assert stored(store.directory) == source.files


def test_a_stop_by_a_signal_handler_ends_a_wait_wherever_it_interrupts(
    source: FakeSource, store: BinlogDirectory
) -> None:
    source.close()
    made = follower(source, store, wait_for_first=True, retries=0, longest_wait=100.0)

    def stop_like_a_signal_handler(frame: FrameType, event: str, called: object) -> None:
        is_of_queue = isinstance(getattr(called, "__self__", None), queue.SimpleQueue)
        begins_wait = event == "c_call" and is_of_queue and getattr(called, "__name__", "") == "get"
        if begins_wait or frame.f_code is threading.Condition.wait.__code__:
            sys.setprofile(None)
            made.stop()

    def run() -> None:
        sys.setprofile(stop_like_a_signal_handler)
        made.run()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(20)
    assert not thread.is_alive()


@pytest.mark.parametrize("options", ["?from=bin", "?to=../bin.000001", "?from=bin.1x"])
def test_names_that_are_no_binlogs_are_errors(
    source: FakeSource, store: BinlogDirectory, options: str
) -> None:
    with pytest.raises(OptionError, match="no name of a binlog file"):
        follower(source, store, options).run()


@pytest.mark.parametrize("may_list", [True, False])
@pytest.mark.parametrize(
    ("options", "why"),
    [
        ("?from=bin.000002&to=bin.000001", "to=bin.000001: lies before bin.000002"),
        ("?to=other.000002", "to=other.000002: the source has no such file"),
    ],
)
def test_a_last_file_that_never_comes_is_an_error(
    source: FakeSource, store: BinlogDirectory, may_list: bool, options: str, why: str
) -> None:
    """Nothing was received before, or everything."""
    source.may_list = may_list
    with pytest.raises(OptionError, match=why):
        follower(source, store, options).run()
    assert not store.names
    follower(source, store).run()
    with pytest.raises(OptionError, match="no such file"):
        follower(source, store, "?to=other.000001").run()


def test_from_cannot_go_before_a_store(source: FakeSource, store: BinlogDirectory) -> None:
    follower(source, store, "?from=newest").run()
    assert list(stored(store.directory)) == ["bin.000002"]
    with pytest.raises(OptionError, match="goes on there"):
        follower(source, store, "?from=bin.000001").run()


def test_the_newest_needs_the_privilege_to_list(source: FakeSource, store: BinlogDirectory) -> None:
    source.may_list = False
    with pytest.raises(OptionError, match="REPLICATION CLIENT"):
        follower(source, store, "?from=newest").run()


@pytest.mark.parametrize("rude", [True, False], ids=["reset", "silent"])
def test_a_connection_that_breaks_inside_a_large_event_is_made_again(
    source: FakeSource, store: BinlogDirectory, monkeypatch: pytest.MonkeyPatch, rude: bool
) -> None:
    if not rude:
        monkeypatch.setattr("dumpfilter.receiver.login._LEAST_SILENCE", 0.2)
    source.files = {"bin.000001": large_file(6 << 20)}
    breaks = [True]
    is_over = threading.Event()

    def broken(payloads: list[bytes]) -> Iterator[bytes]:
        whole = framed(payloads)
        if not breaks:
            yield whole
            return
        breaks.pop()
        # A busy machine may be slow to read the later answers.
        monkeypatch.setattr("dumpfilter.receiver.login._LEAST_SILENCE", 60.0)
        yield whole[: 5 << 20]
        if rude:
            source.reset()
        else:
            is_over.wait(1)

    source.raw = broken
    made = follower(source, store, "?heartbeat=0.05")
    made.run()
    # A busy machine may also take the wait before the first event for silence.
    assert made.failures == 1 or (made.failures and not rude)
    assert stored(store.directory) == source.files


def test_a_size_that_is_no_number_is_not_used(source: FakeSource, store: BinlogDirectory) -> None:
    rows = [(name, "\u00b2") for name in source.files]
    source.answers["SHOW BINARY LOGS"] = lambda: [result(["Log_name", "File_size"], rows)]
    made = follower(source, store)
    made.run()
    assert stored(store.directory) == source.files
    assert made.progress.files == []
