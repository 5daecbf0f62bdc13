"""The reader that all dumps share: what each dump gets alone, made once, and nothing left behind."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import itertools
import tempfile
import threading
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dumpfilter.base.errors import PositionError
from dumpfilter.base.memory import unfilled
from dumpfilter.binlog.gtid import GtidSet, parse_gtid_set
from dumpfilter.binlog.reader import read_format_description
from dumpfilter.dump.decision import NO_HITS, Carry
from dumpfilter.dump.stream.message import gaps_from_proto
from dumpfilter.filter.base import OriginFilter
from dumpfilter.filter.filter import Filter
from dumpfilter.index import fileset
from dumpfilter.index.fileset import BinlogFile, BinlogSet
from dumpfilter.master import advance, indexed_file, sharing
from dumpfilter.master.advance import GrpcPlan, PlacedPlan, ReplicaEncoding, Step, steps_from
from dumpfilter.master.commits import OtherEvents, cut_commits
from dumpfilter.master.dump import Dump, DumpOptions, Reached
from dumpfilter.master.dump_start import DumpStart
from dumpfilter.master.register import DumpOver, Register, RegisteredSlave
from dumpfilter.master.sharing import SharedReader
from dumpfilter.master.store import BinlogStore
from dumpfilter.master.who import Peer
from dumpfilter.v1 import dumpfilter_pb2 as pb
from tests.master.inline import InlineReader, one_by_one
from tests.support import DATA

T = TypeVar("T")

ORACLE = DATA / "oracle"
WRITER = 1
_FIRST_PLAIN = 19
"""The number of the first transaction of plain row changes in the recording."""
FILTERS = ((), ("--replicate-do-db=shop",), ("--replicate-wild-ignore-table=shop.o%",))


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(work, 240))


@contextlib.asynccontextmanager
async def shared(source: Path) -> AsyncIterator[SharedReader]:
    store = BinlogStore(source)
    reader = SharedReader(store, asyncio.get_running_loop())
    try:
        yield reader
    finally:
        await asyncio.to_thread(reader.close)
        store.close()


@dataclass(frozen=True)
class Wanted:
    """The wishes of a slave."""

    number: int = 1
    options: tuple[str, ...] = ()
    own_id: int = 0
    have: GtidSet | None = None
    position: int = 0
    chunk_size: int = 0

    def dump(self, reader: SharedReader, register: Register, **more: object) -> tuple[Dump, RegisteredSlave]:
        slave = register.add(
            Peer(server_id=self.number, uuid=str(uuid.UUID(int=self.number))),
            Filter.from_options(list(self.options)),
            origin=OriginFilter(own_server_id=self.own_id) if self.own_id else None,
        )
        store = reader.store
        file = store.binlogs.names[0]
        start = DumpStart(file, self.position or store.first_position(file), self.have)
        more.setdefault("once", True)
        options = DumpOptions(chunk_size=self.chunk_size, **more)  # type: ignore[arg-type]
        return Dump(reader, register, slave, start, options), slave


def alone(source: Path, wanted: Wanted, **more: object) -> list[bytes]:
    """Return the messages that a slave gets that shares nothing."""
    reader = InlineReader(BinlogStore(source))
    dump, _ = wanted.dump(reader, Register(reader.store.subjects), **more)
    messages = list(one_by_one(dump.messages()))
    reader.store.close()
    return messages


async def together(source: Path, all_wanted: Sequence[Wanted], pauses: Sequence[int]) -> list[list[bytes]]:
    """Return the messages that slaves get at the same time. Each pauses for a number of turns after a message."""
    async with shared(source) as reader:
        register = Register(reader.store.subjects)

        async def follow(wanted: Wanted, pause: int) -> list[bytes]:
            messages = []
            async for message in wanted.dump(reader, register)[0].messages():
                messages.append(message)
                for _ in range(pause):
                    await asyncio.sleep(0)
            return messages

        found = await asyncio.gather(*map(follow, all_wanted, pauses))
        # A step that was prepared for a dump may still be on its way when the dump has ended.
        while reader._requests or reader._making:
            await asyncio.sleep(0.001)
        assert not reader._waiting
    return found


def test_a_dump_that_has_ended_does_not_count() -> None:
    """A source is read less often while no dump runs. A dump and its waiter may refer to each other."""

    async def follow() -> None:
        async with shared(ORACLE / "mysql-row") as reader:
            dump, _ = Wanted().dump(reader, Register(reader.store.subjects))
            dump._waiter.follower = dump
            assert reader.has_dumps()
            async for _ in dump.messages():
                assert reader.has_dumps()
            assert not reader.has_dumps()

    run(follow())


def boundaries() -> list[int]:
    """Return the positions in the first file of the recording between two transactions."""
    store = BinlogStore(ORACLE / "mysql-row")
    segment = store.segment_at("bin.000001", store.first_position("bin.000001"))
    assert segment is not None
    found: list[int] = segment.offset[segment.txn_event[:-1]].tolist()
    store.close()
    return found


GTIDS = parse_gtid_set("5a8b8d0a-e543-11f1-9c8d-02fc00000001:1-20:25-30", family="mysql")


@settings(max_examples=settings().max_examples // 2)
@given(
    st.lists(
        st.builds(
            Wanted,
            options=st.sampled_from(FILTERS),
            own_id=st.sampled_from([0, WRITER, 7]),
            have=st.sampled_from([None, GTIDS]),
            position=st.sampled_from([0, *boundaries()]),
            chunk_size=st.sampled_from([0, 500, 5000]),
        ),
        min_size=1,
        max_size=8,
    ),
    st.lists(st.integers(0, 30), min_size=8, max_size=8),
    st.sampled_from(["mysql-row", "mysql-mixed", "mysql-statement-kinds", "mariadb-row"]),
)
def test_each_gets_what_it_gets_alone(all_wanted: list[Wanted], pauses: list[int], name: str) -> None:
    if name != "mysql-row":
        all_wanted = [replace(wanted, have=None, position=0) for wanted in all_wanted]
    all_wanted = [replace(wanted, number=number) for number, wanted in enumerate(all_wanted, 1)]
    found = run(together(ORACLE / name, all_wanted, pauses))
    assert found == [alone(ORACLE / name, wanted) for wanted in all_wanted]


def test_an_index_file_that_cannot_be_read_leaves_no_dump_without_an_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = ORACLE / "mysql-row"
    calls = 0
    true_refresh = BinlogSet.refresh

    def refresh(binlogs: BinlogSet) -> bool:
        nonlocal calls
        calls += 1
        # The first call opens the set.
        if calls == 2:
            raise OSError(errno.ESTALE, "Stale file handle")
        return true_refresh(binlogs)

    async def follow() -> list[list[bytes]]:
        return await together(source, [Wanted(1), Wanted(2)], [0, 0])

    expected = alone(source, Wanted())
    monkeypatch.setattr(BinlogSet, "refresh", refresh)
    assert run(follow()) == [expected, expected]
    assert calls > 2


@pytest.mark.parametrize("own_ids", [False, True])
def test_equal_slaves_share_every_step_and_message(own_ids: bool) -> None:
    source = ORACLE / "mysql-row"

    async def follow() -> tuple[int, int]:
        async with shared(source) as reader:
            # The first look of a poll counts as growth, since the set may have grown before it. In a tenth of the runs
            # the look came before the end of the dumps, whose last place then was planned once more.
            reader.store.watcher.follow_writer()
            register = Register(reader.store.subjects)
            dumps = [
                Wanted(number, FILTERS[1], own_id=1000 + number if own_ids else 0).dump(reader, register)[0]
                for number in range(1, 31)
            ]

            async def messages(dump: Dump) -> list[bytes]:
                return [message async for message in dump.messages()]

            found = await asyncio.gather(*map(messages, dumps))
            assert all(each == found[0] for each in found)
            assert all(map(lambda a, b: a is b or len(a) < 300, found[1], found[2]))
            caches = reader.caches()
            return caches["steps"].misses, len(reader._messages)

    steps, messages = run(follow())
    files = len(BinlogStore(source).binlogs.names)
    # A file of the recording is one segment. The last place is known to be the end, and is not planned.
    assert steps == 2 * files - 1
    assert messages <= files


def test_what_was_forgotten_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "_STEP_CACHE_BYTES", 0)
    monkeypatch.setattr(sharing, "MESSAGE_CACHE_BYTES", 0)
    wanted = [Wanted(number, chunk_size=300) for number in range(1, 6)]
    found = run(together(ORACLE / "mysql-row", wanted, [0, 1, 5, 40, 200]))
    assert found == [alone(ORACLE / "mysql-row", wanted[0])] * 5


def test_a_gtid_that_one_slave_has_is_left_out_for_this_slave_alone() -> None:
    wanted = [Wanted(1), Wanted(2, have=GTIDS)]
    whole, part = run(together(ORACLE / "mysql-row", wanted, [0, 0]))
    assert sum(map(len, part)) < sum(map(len, whole))
    # The recording's later files have none of these GTIDs, and are shared.
    later = pb.Chunk.FromString(whole[-2]).file
    of_later = [
        [each for each in stream if pb.Chunk.FromString(each).file == later] for stream in (whole, part)
    ]
    assert of_later[0] == of_later[1]


async def _next(reader: SharedReader, dump: Dump) -> list[pb.Chunk]:
    return [pb.Chunk.FromString(message) async for message in dump.messages()]


def test_growth_reaches_all_who_wait_and_a_dump_that_begins_then(tmp_path: Path) -> None:
    data = (ORACLE / "mysql-row" / "bin.000001").read_bytes()
    cuts = boundaries()
    (tmp_path / "bin.index").write_text("./bin.000001\n")
    path = tmp_path / "bin.000001"
    path.write_bytes(data[: cuts[4]])

    async def follow() -> None:
        async with shared(tmp_path) as reader:
            register = Register(reader.store.subjects)
            streams = [
                Wanted(number).dump(reader, register, once=False)[0].messages() for number in range(1, 11)
            ]
            places = [0] * len(streams)

            async def until(number: int, position: int) -> None:
                while places[number] < position:
                    places[number] = pb.Chunk.FromString(await anext(streams[number])).end_position

            for before, cut in itertools.pairwise(cuts[4:10]):
                # A server only appends. A file that is shorter for a moment counts as truncated.
                with path.open("ab") as file:
                    file.write(data[before:cut])
                once = [pb.Chunk.FromString(m) async for m in Wanted(99).dump(reader, register)[0].messages()]
                assert once[-1].end_position == cut
                await asyncio.gather(*(until(number, cut) for number in range(len(streams))))
            assert places == [cuts[9]] * len(streams)
            waiting = [asyncio.ensure_future(anext(stream)) for stream in streams]
            while not reader._waiting:
                await asyncio.sleep(0.001)
            assert len(reader._waiting) == 1
            for one in waiting:
                one.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
            assert not reader._requests
            assert not reader._waiting
            for stream in streams:
                await stream.aclose()

    run(follow())


@dataclass
class Sink:
    """A replica that takes events at once, or makes its dump wait, in the order of ``is_ready``."""

    is_ready: Iterator[bool]
    got: list[bytes] = field(default_factory=list)
    taken: int = 0

    def take(self, message: bytes, reached: Reached) -> bool:
        if not next(self.is_ready):
            return False
        self.got.append(message)
        self.taken += 1
        return True


@dataclass(frozen=True)
class Told:
    """The content of a dump's messages for a slave, however the dump divides it into messages."""

    events: bytes
    end: int
    completed: Counter[tuple[bytes, int]]
    """The GTIDs of all transactions: the number of times that each was named."""
    dropped: list[tuple[int, bytes, int]]
    """The GTIDs of dropped transactions, each behind the number of bytes of events before it."""
    hits: Counter[int]
    counts: pb.Counts

    @classmethod
    def by(cls, messages: Sequence[bytes]) -> Told:
        events, dropped, counts = b"", [], Counter[str]()
        completed, hits = Counter[tuple[bytes, int]](), Counter[int]()
        end = 0
        for chunk in map(pb.Chunk.FromString, messages):
            if chunk.end_of_log or chunk.heartbeat:
                continue
            end = chunk.end_position
            for member in chunk.completed.members:
                last = 0
                for step, length in zip(member.runs[::2], member.runs[1::2], strict=True):
                    completed.update((member.uuid, last + step + n) for n in range(length))
                    last += step + length - 1
            gaps, sources = gaps_from_proto(chunk.gaps), list(chunk.gaps.source)
            begin = 0
            for offset, until in zip(gaps.offset.tolist(), gaps.runs_until.tolist(), strict=True):
                for run in range(begin, until):
                    source = sources[gaps.run_source[run]]
                    numbers = range(int(gaps.run_first[run]), int(gaps.run_last[run]) + 1)
                    dropped += [(len(events) + offset, source, number) for number in numbers]
                begin = until
            for kind, count in zip(gaps.hit_kind.tolist(), gaps.hit_count.tolist(), strict=True):
                hits[kind] += count
            events += chunk.events
            counts.update({field.name: value for field, value in chunk.counts.ListFields()})
        return cls(events, end, completed, dropped, hits, pb.Counts(**counts))


def is_plain(data: bytes, offset: int) -> bool:
    """Tell whether all of some transactions have a shape, so that followers take them."""
    with (ORACLE / "mysql-row" / "bin.000001").open("rb") as file, contextlib.suppress(OtherEvents):
        return bool(cut_commits(data, offset, read_format_description(file, file="bin.000001")))
    return False


@settings(max_examples=settings().max_examples // 2)
@given(
    st.lists(
        st.builds(
            Wanted,
            options=st.sampled_from(FILTERS),
            own_id=st.sampled_from([0, WRITER, 7]),
            have=st.sampled_from([None, GTIDS]),
        ),
        min_size=1,
        max_size=5,
    ),
    st.lists(st.integers(5, len(boundaries()) - 1), min_size=1, max_size=12, unique=True),
    st.lists(st.lists(st.booleans(), min_size=1, max_size=4), min_size=5, max_size=5),
)
def test_followers_get_at_once_what_each_gets_alone(
    all_wanted: list[Wanted], ends: list[int], is_ready: list[list[bool]]
) -> None:
    """Commits that this process receives go to the replicas in the same turn, if the replicas can."""
    data, cuts = (ORACLE / "mysql-row" / "bin.000001").read_bytes(), boundaries()
    encoding = ReplicaEncoding(by_gtid=True, checksum=True)
    all_wanted = [replace(wanted, number=number) for number, wanted in enumerate(all_wanted, 1)]
    sinks = [Sink(itertools.cycle(ready)) for ready, _ in zip(is_ready, all_wanted, strict=False)]

    async def follow(directory: Path) -> None:
        path = directory / "bin.000001"
        async with shared(directory) as reader:
            reader.store.watcher.follow_writer(lambda: path.name)
            register = Register(reader.store.subjects)
            dumps = [wanted.dump(reader, register, once=False, encoding=encoding)[0] for wanted in all_wanted]

            async def receive(dump: Dump, sink: Sink) -> None:
                dump.sink = sink.take
                async for message in dump.messages():
                    sink.got.append(message)

            receiving = [asyncio.ensure_future(receive(*each)) for each in zip(dumps, sinks, strict=True)]
            size = cuts[4]
            for end in [4, *sorted(ends)]:
                with path.open("ab") as file:
                    file.write(data[size : cuts[end]])
                reader.received(path.name, size, data[size : cuts[end]])
                size = cuts[end]
                while any(dump.reached.end != size for dump in dumps) or not reader._waiting:
                    await asyncio.sleep(0)
            for one in receiving:
                one.cancel()
            await asyncio.gather(*receiving, return_exceptions=True)
            assert not reader._requests
            assert not reader._waiting

    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        (directory / "bin.index").write_text("./bin.000001\n")
        (directory / "bin.000001").write_bytes(data[: cuts[4]])
        run(follow(directory))
        grown = itertools.pairwise([4, *sorted(ends)])
        plain = sum(is_plain(data[cuts[begin] : cuts[end]], cuts[begin]) for begin, end in grown)
        for wanted, sink in zip(all_wanted, sinks, strict=True):
            assert b"".join(sink.got) == b"".join(alone(directory, wanted, encoding=encoding))
            if wanted == Wanted(wanted.number, wanted.options) and all(is_ready[wanted.number - 1]):
                assert sink.taken == plain


@pytest.mark.parametrize("seconds", [3600.0, 0.001])
def test_stand_ins_wait_for_later_commits(
    seconds: float, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A replica that drops commits gets their stand-ins together, and another one gets the commits at once."""
    monkeypatch.setattr(sharing, "MAX_DROPPED_SECONDS", seconds)
    data, cuts = (ORACLE / "mysql-row" / "bin.000001").read_bytes(), boundaries()[_FIRST_PLAIN:][:6]
    assert all(is_plain(data[begin:end], begin) for begin, end in itertools.pairwise(cuts))
    encoding = ReplicaEncoding(by_gtid=True, checksum=True)
    wanted = [Wanted(1), Wanted(2, ("--replicate-do-db=nothing",))]
    path = tmp_path / "bin.000001"
    (tmp_path / "bin.index").write_text("./bin.000001\n")
    path.write_bytes(data[: cuts[0]])

    async def follow() -> None:
        async with shared(tmp_path) as reader:
            reader.store.watcher.follow_writer(lambda: path.name)
            register = Register(reader.store.subjects)
            dumps = [one.dump(reader, register, once=False, encoding=encoding)[0] for one in wanted]
            sinks = [Sink(itertools.repeat(True)) for _ in dumps]

            async def receive(dump: Dump, sink: Sink) -> None:
                dump.sink = sink.take
                async for message in dump.messages():
                    sink.got.append(message)

            receiving = [asyncio.ensure_future(receive(*each)) for each in zip(dumps, sinks, strict=True)]
            while len(reader._waiting) < len(dumps):
                await asyncio.sleep(0)
            for begin, end in itertools.pairwise(cuts):
                with path.open("ab") as file:
                    file.write(data[begin:end])
                reader.received(path.name, begin, data[begin:end])
            everything, nothing = sinks
            assert everything.taken == len(cuts) - 1
            if seconds > 1:
                assert not nothing.taken
                reader._send_late()
                assert nothing.taken == 1
            while dumps[1].reached.end < cuts[-1]:
                await asyncio.sleep(0)
            for one in receiving:
                one.cancel()
            await asyncio.gather(*receiving, return_exceptions=True)
        for one, sink in zip(wanted, sinks, strict=True):
            assert b"".join(sink.got) == b"".join(alone(tmp_path, one, encoding=encoding))

    run(follow())


@settings(max_examples=settings().max_examples // 2)
@given(
    st.lists(
        st.builds(
            Wanted,
            options=st.sampled_from(FILTERS),
            own_id=st.sampled_from([0, WRITER, 7]),
            have=st.sampled_from([None, GTIDS]),
            chunk_size=st.sampled_from([0, 400, 4000]),
        ),
        min_size=1,
        max_size=5,
    ),
    st.lists(st.integers(1, 2), min_size=4, max_size=20),
    st.lists(st.sampled_from([0, 3, 30, 60]), min_size=5, max_size=5),
)
def test_slaves_get_received_commits_as_from_the_file(
    all_wanted: list[Wanted], growth: list[int], pauses: list[int]
) -> None:
    """Received commits go to waiting slaves at once. A slave that comes later gets them from memory or the file."""
    data, cuts = (ORACLE / "mysql-row" / "bin.000001").read_bytes(), boundaries()
    all_wanted = [replace(wanted, number=number) for number, wanted in enumerate(all_wanted, 1)]
    got: list[list[bytes]] = [[] for _ in all_wanted]
    ends = [end for end in itertools.accumulate(growth, initial=_FIRST_PLAIN) if end < len(cuts)]

    async def follow(directory: Path) -> None:
        path = directory / "bin.000001"
        async with shared(directory) as reader:
            reader.store.watcher.follow_writer(lambda: path.name)
            register = Register(reader.store.subjects)
            dumps = [wanted.dump(reader, register, once=False)[0] for wanted in all_wanted]

            async def receive(dump: Dump, messages: list[bytes], pause: int) -> None:
                async for message in dump.messages():
                    messages.append(message)
                    for _ in range(pause):
                        await asyncio.sleep(0)

            receiving = [
                asyncio.ensure_future(receive(*each)) for each in zip(dumps, got, pauses, strict=False)
            ]
            size = cuts[_FIRST_PLAIN]
            for number, end in enumerate(ends):
                with path.open("ab") as file:
                    file.write(data[size : cuts[end]])
                reader.received(path.name, size, data[size : cuts[end]])
                size = cuts[end]
                for _ in range(number % 7):
                    await asyncio.sleep(0)
            while not all(sent and pb.Chunk.FromString(sent[-1]).end_position == size for sent in got):
                assert not any(one.done() for one in receiving)
                await asyncio.sleep(0)
            for one in receiving:
                one.cancel()
            await asyncio.gather(*receiving, return_exceptions=True)
            assert not reader._waiting

    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        (directory / "bin.index").write_text("./bin.000001\n")
        (directory / "bin.000001").write_bytes(data[: cuts[_FIRST_PLAIN]])
        run(follow(directory))
        for wanted, messages in zip(all_wanted, got, strict=True):
            assert Told.by(messages) == Told.by(alone(directory, wanted))


def test_a_change_of_filter_waits_for_the_end_of_the_transaction() -> None:
    reader = InlineReader(BinlogStore(ORACLE / "mysql-row"))
    register = Register(reader.store.subjects)
    dump, slave = Wanted().dump(reader, register)
    messages = one_by_one(dump.messages())
    next(messages)
    register.change_filter(slave.slave_id, Filter.from_options(["--replicate-ignore-db=shop"]))
    between = dump._place
    inside = between.thread.fork()
    inside._carry = Carry(np.empty((0, 4), np.int64), False, False, NO_HITS)
    for thread, is_due in ((inside, False), (between.thread, True)):
        dump._place = replace(between, thread=thread)
        assert dump._changed == is_due
    next(messages)
    assert dump._place.thread.flags is slave.flags
    reader.store.close()


def test_a_waiting_dump_hears_of_its_end_at_once() -> None:
    async def follow() -> None:
        async with shared(ORACLE / "mysql-row") as reader:
            register = Register(reader.store.subjects)
            dump, slave = Wanted().dump(reader, register, once=False)
            reading = asyncio.ensure_future(_next(reader, dump))
            while not reader._waiting:
                await asyncio.sleep(0.001)
            await asyncio.to_thread(register.remove, slave.slave_id)
            with pytest.raises(DumpOver):
                await reading

    run(follow())


@pytest.mark.parametrize("error", [PositionError("no", file="bin.000001", position=4), ZeroDivisionError()])
def test_an_error_reaches_every_dump_that_waits_for_the_step(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*_: object) -> Step | None:
        raise error

    async def follow() -> None:
        async with shared(ORACLE / "mysql-row") as reader:
            register = Register(reader.store.subjects)
            dumps = [Wanted(number).dump(reader, register)[0] for number in (1, 2, 3)]
            monkeypatch.setattr(sharing, "steps_from", fail)
            found = await asyncio.gather(*(_next(reader, dump) for dump in dumps), return_exceptions=True)
            assert [type(each) for each in found] == [type(error)] * 3
            monkeypatch.setattr(sharing, "steps_from", steps_from)
            assert (await _next(reader, Wanted(4).dump(reader, register)[0]))[-1].end_of_log

    run(follow())


def test_messages_are_kept_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "MESSAGE_CACHE_BYTES", 20_000)
    monkeypatch.setattr(sharing, "_LARGEST_KEPT", 5000)

    async def follow() -> None:
        async with shared(ORACLE / "mysql-row") as reader:
            register = Register(reader.store.subjects)
            another, _ = Wanted(2).dump(reader, register)
            for size in (1000, 70_000):
                await _next(reader, Wanted(chunk_size=size).dump(reader, register)[0])
                assert 0 < (reader.caches()["chunks"].bytes or 0) <= 20_000
            another.close()

    run(follow())


def test_what_a_worker_has_made_for_one_dump_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made = list[PlacedPlan]()
    messages = GrpcPlan.messages

    def count(self: GrpcPlan, *given: Any, **more: Any) -> list[bytes]:
        found = messages(self, *given, **more)
        made.append(self)
        return found

    monkeypatch.setattr(GrpcPlan, "messages", count)
    monkeypatch.setattr(BinlogFile, "read_ranges", lambda *given, **more: False)

    async def follow() -> None:
        async with shared(ORACLE / "mysql-row") as reader:
            dump, _ = Wanted(chunk_size=300).dump(reader, Register(reader.store.subjects))
            async for _ in dump.messages():
                await asyncio.sleep(0.001)

    run(follow())
    assert len(made) == len(set(made)) > 20


def test_messages_of_one_dump_alone_are_not_kept() -> None:
    async def follow() -> None:
        async with shared(ORACLE / "mysql-row") as reader:
            await _next(reader, Wanted().dump(reader, Register(reader.store.subjects))[0])
            assert reader.caches()["chunks"].bytes == 0

    run(follow())


def test_the_loop_makes_the_messages_of_one_dump_of_a_scanned_binlog(monkeypatch: pytest.MonkeyPatch) -> None:
    """Handing each message to a worker takes a fifth of a dump's time."""
    threads = set[threading.Thread]()
    messages = GrpcPlan.messages

    def noting(self: GrpcPlan, *given: Any, **more: Any) -> list[bytes]:
        threads.add(threading.current_thread())
        return messages(self, *given, **more)

    monkeypatch.setattr(GrpcPlan, "messages", noting)

    async def follow() -> int:
        async with shared(ORACLE / "mysql-row") as reader:
            store = reader.store
            assert all(list(store.segments(name)) for name in store.binlogs.names)
            dump, _ = Wanted(chunk_size=2000).dump(reader, Register(store.subjects))
            return len([message async for message in dump.messages()])

    monkeypatch.setattr(sharing, "_SMALL", 0)
    assert run(follow()) > 20
    assert threads == {threading.current_thread()}


@pytest.mark.parametrize("kind", ["all", "nothing", "some"])
@pytest.mark.parametrize("options", FILTERS)
def test_bytes_on_the_disk_are_read_by_workers(
    options: tuple[str, ...], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop_thread, reads = threading.get_ident(), set[bool]()
    looks = itertools.count()
    read_ranges = BinlogFile.read_ranges

    def look(self: BinlogFile, *given: Any, cached: bool) -> bool:
        if not cached:
            reads.add(threading.get_ident() == loop_thread)
        is_found = kind == "all" or (kind == "some" and next(looks) % 2 == 0)
        return is_found and read_ranges(self, *given, cached=cached)

    monkeypatch.setattr(BinlogFile, "read_ranges", look)
    wanted = [Wanted(number, options, chunk_size=300) for number in range(1, 4)]
    found = run(together(ORACLE / "mysql-row", wanted, [0, 0, 3]))
    # The loop itself waits for no disk.
    assert reads <= {False}
    monkeypatch.undo()
    assert found == [alone(ORACLE / "mysql-row", wanted[0])] * 3


@pytest.mark.parametrize("between", [0, 300, 1 << 20])
@pytest.mark.parametrize("encoding", [None, ReplicaEncoding(by_gtid=True, checksum=True)])
@pytest.mark.parametrize("options", FILTERS)
def test_bytes_between_those_that_a_dump_sends_are_not_used(
    options: tuple[str, ...],
    encoding: ReplicaEncoding | None,
    between: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wanted = Wanted(options=options, chunk_size=5000)
    expected = alone(ORACLE / "mysql-row", wanted, encoding=encoding)

    def stale(size: int) -> tuple[bytes, memoryview]:
        made, room = unfilled(size)
        room[:] = b"\xee" * size
        return made, room

    monkeypatch.setattr(advance, "unfilled", stale)
    monkeypatch.setattr(fileset, "_BETWEEN", np.full(between, 0xEE, np.uint8))
    monkeypatch.setattr(indexed_file.IndexedFile, "recent", lambda *given: None)
    assert alone(ORACLE / "mysql-row", wanted, encoding=encoding) == expected


def test_a_rotation_is_followed_without_another_commit(tmp_path: Path) -> None:
    """A writer in this process tells once that a file has ended and that the next one has events."""
    recording = ORACLE / "mysql-row"
    whole = {name: (recording / name).read_bytes() for name in ("bin.000001", "bin.000002")}
    (tmp_path / "bin.index").write_text("./bin.000001\n")
    first = tmp_path / "bin.000001"
    first.write_bytes(whole["bin.000001"][: boundaries()[4]])

    async def follow() -> None:
        async with shared(tmp_path) as reader:
            tell = reader.store.watcher.follow_writer()
            stream = Wanted(1).dump(reader, Register(reader.store.subjects), once=False)[0].messages()

            async def until(file: str, position: int) -> None:
                while True:
                    chunk = pb.Chunk.FromString(await anext(stream))
                    if (chunk.file, chunk.end_position) == (file, position):
                        return

            await until("bin.000001", boundaries()[4])
            following = asyncio.ensure_future(until("bin.000002", len(whole["bin.000002"])))
            while not reader._waiting:
                await asyncio.sleep(0.001)
            first.write_bytes(whole["bin.000001"])
            (tmp_path / "bin.000002").write_bytes(whole["bin.000002"])
            (tmp_path / "bin.index").write_text("./bin.000001\n./bin.000002\n")
            tell()
            async with asyncio.timeout(60):
                await following
            await stream.aclose()

    run(follow())
