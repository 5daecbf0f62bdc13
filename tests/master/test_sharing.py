"""The reader that all dumps share: what it must not keep after a dump."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import threading
import uuid
import weakref
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import pytest

from dumpfilter.base.errors import DumpfilterError
from dumpfilter.binlog.compression import NONE
from dumpfilter.binlog.workload import generate
from dumpfilter.dump.chunk import MessageBytes
from dumpfilter.dump.thread import DumpThread
from dumpfilter.filter.filter import Filter
from dumpfilter.filter.flags import TableFlags
from dumpfilter.index.index_file import take_out
from dumpfilter.master import sharing
from dumpfilter.master.advance import (
    DumpPlace,
    GrpcEncoding,
    GrpcPlan,
    PlacedPlan,
    ReplicaEncoding,
    Step,
    place_in,
    step_from,
    steps_from,
)
from dumpfilter.master.dump import Dump, DumpOptions
from dumpfilter.master.dump_start import DumpStart
from dumpfilter.master.indexed_file import IndexedFile, NotCached
from dumpfilter.master.register import NotRegistered, Register, RegisteredSlave
from dumpfilter.master.sharing import SharedReader
from dumpfilter.master.store import BinlogStore, Logged
from dumpfilter.master.who import Peer
from tests.dump.test_payload import made
from tests.dump.test_xa import Made
from tests.strategies import DIALECTS


@pytest.fixture
def store(tmp_path: Path) -> Iterator[BinlogStore]:
    store = BinlogStore(generate(tmp_path / "set", 600_000, file_size=300_000).index)
    yield store
    store.close()


@contextlib.asynccontextmanager
async def shared(store: BinlogStore) -> AsyncIterator[SharedReader]:
    reader = SharedReader(store, asyncio.get_running_loop())
    try:
        yield reader
    finally:
        reader.close()


def registered(register: Register, number: int = 1, *options: str) -> RegisteredSlave:
    peer = Peer(server_id=number, uuid=str(uuid.UUID(int=number)))
    return register.add(peer, Filter.from_options(options))


def begun(reader: SharedReader, register: Register, slave: RegisteredSlave) -> Dump:
    name = reader.store.binlogs.names[0]
    start = DumpStart(name, reader.store.first_position(name))
    return Dump(reader, register, slave, start, DumpOptions(once=True))


def purge_first(store: BinlogStore) -> Path:
    """Purge the first file as another process does, and return its path."""
    name = store.binlogs.names[0]
    path = store.binlogs.path(name)
    assert store.binlogs.index is not None
    take_out(store.binlogs.index, [name])
    path.unlink()
    store.refresh()
    return path


def open_files() -> list[str]:
    gc.collect()
    found = []
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found.append(os.readlink(link))
    return found


def test_a_file_that_was_purged_during_a_dump_is_closed_after_the_dump(store: BinlogStore) -> None:
    """The dump reads the purged file to its end."""

    async def read() -> None:
        async with shared(store) as reader:
            register = Register(store.subjects)
            dump = begun(reader, register, registered(register))
            messages = dump.messages()
            await anext(messages)
            path = purge_first(store)
            deleted = f"{path} (deleted)"
            size = 0
            async for message in messages:
                size += len(message)
            assert size > 500_000
            del message, messages, dump
            # The store tells the reader in the loop, and a worker may still hold its last task.
            for _ in range(100):
                if deleted not in open_files():
                    break
                await asyncio.sleep(0.05)
            assert deleted not in open_files()

    asyncio.run(asyncio.wait_for(read(), 240))


def test_the_logged_gtids_do_not_keep_a_purged_file_open(store: BinlogStore) -> None:
    index, (first, last) = store.binlogs.index, store.binlogs.names
    assert index is not None
    index.write_text(f"./{first}\n")
    store.refresh()
    assert store.logged() is not None
    index.write_text(f"./{first}\n./{last}\n")
    store.refresh()
    assert f"{purge_first(store)} (deleted)" not in open_files()


def threads_that_call(name: str, monkeypatch: pytest.MonkeyPatch) -> list[threading.Thread]:
    """Return a list that grows by the thread of each call of the method ``name`` of IndexedFile."""
    method, threads = getattr(IndexedFile, name), list[threading.Thread]()

    def noted(indexed: IndexedFile) -> object:
        threads.append(threading.current_thread())
        return method(indexed)

    monkeypatch.setattr(IndexedFile, name, noted)
    return threads


def test_workers_search_earlier_files_for_a_prepared_transaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The search may read all files of the set. Meanwhile the loop must serve the other dumps."""
    made = Made()
    made.prepare("a", "shop")
    made.next_file()
    made.prepare("b", "shop")
    size = len(made.files[-1].data)
    made.finish("a")
    store = BinlogStore(made.write(tmp_path / "set"))
    name = store.binlogs.names[-1]
    path = store.binlogs.path(name)
    data = path.read_bytes()
    path.write_bytes(data[:size])
    threads = threads_that_call("prepared_at_end", monkeypatch)

    async def follow() -> None:
        async with shared(store) as reader:
            store.watcher.follow_writer(lambda: name)
            register = Register(store.subjects)
            start = DumpStart(name, store.first_position(name))
            dump = Dump(reader, register, registered(register), start, DumpOptions())
            async with contextlib.aclosing(dump.messages()) as messages:
                while dump.reached.end < size:
                    await anext(messages)
                commit = asyncio.ensure_future(anext(messages))
                while not reader._waiting:
                    await asyncio.sleep(0)
                with path.open("ab") as file:
                    file.write(data[size:])
                reader.received(name, size, data[size:])
                assert await commit
                assert dump.reached.end == len(data)
        store.close()

    asyncio.run(asyncio.wait_for(follow(), 60))
    assert threads
    assert threading.main_thread() not in threads


def test_workers_scan_a_file_before_the_position_of_a_dump(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A master that was restarted has not scanned the file at whose end its slaves resume."""
    made = generate(tmp_path / "set", 300_000).index
    other = BinlogStore(made)
    (name,) = other.binlogs.names
    (segment,) = other.segments(name)
    other.close()
    store, threads = BinlogStore(made), threads_that_call("_scan_next", monkeypatch)

    async def read() -> None:
        async with shared(store) as reader:
            store.watcher.follow_writer(lambda: name)
            register = Register(store.subjects)
            start = DumpStart(name, int(segment.boundaries[-2]))
            dump = Dump(reader, register, registered(register), start, DumpOptions())
            async with contextlib.aclosing(dump.messages()) as messages:
                while dump.reached.end < segment.end:
                    await anext(messages)
            assert threads[0] is not threading.main_thread()
        store.close()

    asyncio.run(asyncio.wait_for(read(), 60))


def test_an_unforeseen_error_of_a_scan_reaches_each_dump(
    store: BinlogStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = store.binlogs.names[-1]
    position = store.first_position(name)
    source = store.open_file(name)
    assert list(store.segments(name))

    def fail(*_: object) -> None:
        raise ZeroDivisionError

    async def read() -> None:
        async with shared(store) as reader:
            store.watcher.follow_writer(lambda: name)
            monkeypatch.setattr(sharing, "_SMALL", 1 << 30)
            monkeypatch.setattr(IndexedFile, "segment_at", fail)
            for _ in range(2):
                thread = DumpThread(TableFlags(Filter(), store.subjects), store.sources)
                place = place_in(source, thread, position, encoding=GrpcEncoding())
                with pytest.raises(ZeroDivisionError):
                    await reader.step(place, 1, reader.waiter())
            assert not reader._requests
            assert not reader._queue

    asyncio.run(asyncio.wait_for(read(), 60))


def test_the_loop_logs_no_error_of_a_source_for_which_nobody_waits(store: BinlogStore) -> None:
    """A replica may leave while the master asks a source that cannot be reached."""

    async def ask() -> None:
        errors: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
        asked, left = threading.Event(), threading.Event()

        def upstream() -> Logged:
            asked.set()
            left.wait()
            raise DumpfilterError("the source cannot be reached")

        async with shared(store) as reader:
            asking = asyncio.create_task(reader.ask_source(upstream))
            await asyncio.to_thread(asked.wait)
            asking.cancel()
            await asyncio.wait([asking])
            del asking
            left.set()
            # The thread tells the loop of this error before it takes the next question.
            with pytest.raises(DumpfilterError):
                await reader.ask_source(upstream)
            gc.collect()
        assert not errors

    asyncio.run(asyncio.wait_for(ask(), 60))


def test_a_step_counts_the_compressed_transactions_that_it_changes(tmp_path: Path) -> None:
    """The master sends a part of each transaction. The cache of steps must not hold more of them than its limit."""
    dialect = next(one for one in DIALECTS if one.name == "mysql 9.7")
    binlog = made(dialect, NONE, *[("shop", "logs")] * 100)
    (tmp_path / "bin.000001").write_bytes(binlog.data)
    store = BinlogStore([tmp_path / "bin.000001"])
    thread = DumpThread(
        TableFlags(Filter.from_options(["--replicate-do-db=shop"]), store.subjects), store.sources
    )
    step = step_from(store, place_in(store.open_file("bin.000001"), thread, encoding=GrpcEncoding()))
    assert step is not None
    assert step.nbytes > len(binlog.data) / 2
    store.close()


def test_a_small_message_that_is_made_in_advance_does_not_keep_the_bytes_of_a_scan(
    store: BinlogStore,
) -> None:
    """The only dump may end before it takes the message from the cache."""

    async def read() -> None:
        async with shared(store) as reader:
            waiter = reader.waiter()
            flags = TableFlags(Filter.from_options(["--replicate-do-db=nothing"]), store.subjects)
            thread, source = DumpThread(flags, store.sources), store.open_file(store.binlogs.names[-1])
            encoding = ReplicaEncoding(by_gtid=False, checksum=True)
            step = await reader.step(place_in(source, thread, encoding=encoding), 0, waiter)
            assert isinstance(step, Step)
            (piece,) = step.pieces
            assert isinstance(piece, PlacedPlan)
            assert 0 < piece.plan.size < 1000
            (message,) = await reader.messages(piece, thread.chunk_size)
            assert isinstance(message, bytes)

    asyncio.run(asyncio.wait_for(read(), 240))


def test_the_caches_forget_filters_that_no_dump_uses(
    store: BinlogStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A filter may have 10,000 rules, and a slave may register with another one again and again."""
    monkeypatch.setattr(sharing, "_BETWEEN_CLEANUPS", 0)

    async def read() -> None:
        async with shared(store) as reader:
            register = Register(store.subjects)
            flags = []
            for number in range(1, 13):
                slave = registered(register, number, f"--replicate-ignore-db=unused{number}")
                flags.append(weakref.ref(slave.flags))
                dump = begun(reader, register, slave)
                async for _ in dump.messages():
                    pass
                register.remove(slave.slave_id)
                del dump, slave
            gc.collect()
            # The work arrays of each worker thread belong to the last filters that the thread has decided.
            assert sum(each() is not None for each in flags) <= 6

    asyncio.run(asyncio.wait_for(read(), 240))


def test_a_commit_leaves_the_work_of_slow_dumps_to_the_workers(
    store: BinlogStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop itself decides about a commit that this process has received. It must not read older events then."""
    names = store.binlogs.names
    busy, go_on = threading.Event(), threading.Event()
    threads: dict[str, list[str]] = {}

    def observed(store: BinlogStore, places: Sequence[DumpPlace]) -> list[Step | DumpfilterError | None]:
        threads.setdefault(places[0].file, []).append(threading.current_thread().name)
        if threading.current_thread() is not threading.main_thread() and not busy.is_set():
            busy.set()
            go_on.wait(240)
        return steps_from(store, places)

    monkeypatch.setattr(sharing, "steps_from", observed)

    async def read() -> None:
        async with shared(store) as reader:
            store.watcher.follow_writer(lambda: names[-1])
            flags = TableFlags(Filter(), store.subjects)
            # The loop scans only what was received just now.
            assert list(store.segments(names[-1]))

            def asked(name: str, position: int) -> asyncio.Task[object]:
                thread = DumpThread(flags, store.sources)
                place = place_in(store.open_file(name), thread, position, encoding=GrpcEncoding())
                return asyncio.create_task(reader.step(place, 0, reader.waiter()))

            slow = [asked(name, store.first_position(name)) for name in names]
            await asyncio.to_thread(busy.wait, 240)
            slow.append(asked(names[0], store.open_file(names[0]).file.size))
            at_end = asked(names[-1], store.open_file(names[-1]).file.size)
            assert await at_end is None
            go_on.set()
            assert None not in await asyncio.gather(*slow)

    asyncio.run(asyncio.wait_for(read(), 240))
    assert {name.split("_")[0] for name in threads[names[0]]} == {"dump-work"}
    assert [name.split("_")[0] for name in threads[names[1]]] == ["MainThread", "dump-work"]


def test_a_dump_that_was_ended_sends_nothing_that_its_old_filter_has_chosen(
    store: BinlogStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The operator imposes another filter while a worker reads the first chunk from the disk."""
    busy, go_on = threading.Event(), threading.Event()

    def slow(piece: GrpcPlan, chunk_size: int, *, cached: bool = False) -> Sequence[MessageBytes]:
        if cached:
            raise NotCached
        busy.set()
        go_on.wait(240)
        return messages_of(piece, chunk_size)

    messages_of = GrpcPlan.messages
    monkeypatch.setattr(GrpcPlan, "messages", slow)

    async def read() -> None:
        async with shared(store) as reader:
            register = Register(store.subjects)
            messages = begun(reader, register, registered(register)).messages()
            await anext(messages)
            following = asyncio.create_task(anext(messages))
            await asyncio.to_thread(busy.wait, 240)
            register.remove_all(lambda slave: NotRegistered("the filters imposed on this slave have changed"))
            go_on.set()
            with pytest.raises(NotRegistered, match="imposed"):
                await following

    asyncio.run(asyncio.wait_for(read(), 240))
