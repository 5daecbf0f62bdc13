"""A dump takes up changes between two chunks, also inside a step of many chunks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from dumpfilter.filter.filter import Filter
from dumpfilter.master.advance import PlacedPlan
from dumpfilter.master.dump import Dump, DumpOptions
from dumpfilter.master.dump_start import DumpStart
from dumpfilter.master.register import DumpOver, Register, RegisteredSlave
from dumpfilter.master.store import BinlogStore
from dumpfilter.master.who import Peer
from dumpfilter.v1 import dumpfilter_pb2 as pb
from tests.master.inline import InlineReader, one_by_one
from tests.support import DATA


class Dumping:
    """A dump of small chunks, which has yielded its first three chunks with events."""

    def __init__(self) -> None:
        reader = InlineReader(BinlogStore(DATA / "oracle" / "mysql-row"))
        store = reader.store
        self.register = Register(store.subjects)
        self.slave = self.register.add(Peer(server_id=7), Filter([]))
        start = DumpStart(store.binlogs.names[0], store.first_position(store.binlogs.names[0]), None)
        options = DumpOptions(once=True, chunk_size=1)
        dump = Dump(reader, self.register, self.slave, start, options)  # type: ignore[arg-type]
        self.chunks = map(pb.Chunk.FromString, one_by_one(dump.messages()))
        for _ in range(4):
            next(self.chunks)

    def drop_everything(self) -> None:
        self.register.change_filter(self.slave.slave_id, Filter.from_options(["--replicate-do-db=none"]))


@pytest.mark.parametrize(
    "end",
    [
        lambda register, slave: register.remove(slave.slave_id),
        lambda register, slave: register.begin_dump(slave),
    ],
    ids=["unregistered", "newer dump"],
)
def test_a_dump_ends_before_its_next_chunk(end: Callable[[Register, RegisteredSlave], object]) -> None:
    dumping = Dumping()
    end(dumping.register, dumping.slave)
    place = dumping.slave.place
    with pytest.raises(DumpOver):
        next(dumping.chunks)
    assert dumping.slave.place == place


def test_a_new_filter_is_in_force_from_the_next_transaction_on() -> None:
    dumping = Dumping()
    dumping.drop_everything()
    counts = [chunk.counts for chunk in dumping.chunks]
    assert sum(each.transactions_read > each.transactions_dropped for each in counts) <= 1


def test_the_register_knows_up_to_where_the_old_filter_selected(monkeypatch: pytest.MonkeyPatch) -> None:
    """The filter may change while the dump makes a chunk with the old filter."""
    dumping = Dumping()
    make = InlineReader.messages

    async def change_before(reader: InlineReader, piece: PlacedPlan, chunk_size: int) -> Sequence[bytes]:
        monkeypatch.undo()
        dumping.drop_everything()
        return await make(reader, piece, chunk_size)

    monkeypatch.setattr(InlineReader, "messages", change_before)
    chunk = next(dumping.chunks)
    assert chunk.events
    next(dumping.chunks)
    assert dumping.slave.other_filter_until == (chunk.file, chunk.end_position)
