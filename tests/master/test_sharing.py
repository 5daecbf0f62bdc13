"""The reader that all dumps share: what it must not keep after a dump."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import uuid
import weakref
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from dumpfilter.binlog.workload import generate
from dumpfilter.filter.filter import Filter
from dumpfilter.index.index_file import take_out
from dumpfilter.master import sharing
from dumpfilter.master.dump import Dump, DumpOptions
from dumpfilter.master.dump_start import DumpStart
from dumpfilter.master.register import Register, RegisteredSlave
from dumpfilter.master.sharing import SharedReader
from dumpfilter.master.store import BinlogStore
from dumpfilter.master.who import Peer


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
