"""The counts of slaves: they outlive registrations, and are bounded."""

from __future__ import annotations

import uuid
from dataclasses import replace

import grpc
import pytest

from dumpfilter.dump.chunk import Counts
from dumpfilter.master.console import MasterConsole
from dumpfilter.master.metrics import MasterCollector
from dumpfilter.master.register import CounterBook, SlaveCounts
from dumpfilter.master.server import MasterServer
from dumpfilter.master.who import Peer
from dumpfilter.v1 import dumpfilter_pb2 as pb
from tests.master.client import Client

SOME = Counts(
    events_read=10, events_sent=7, events_dropped=3, bytes_read=1000, bytes_sent=900, bytes_dropped=100
)


class Slave:
    """A registered slave, as far as the book knows it."""

    def __init__(self, book: CounterBook, uuid: str, *, user: str = "u", channel: str = "") -> None:
        self.book = book
        self.peer = Peer(user, channel, uuid=uuid, host="h")
        self.record = book.record(self.peer)

    @property
    def counts(self) -> Counts:
        return self.record.counts

    def begin_dump(self, server_id: int = 7) -> None:
        self.record = self.book.begin_dump(self.record, replace(self.peer, server_id=server_id))

    def add(self, counts: Counts) -> None:
        self.book.add(self.record, "", 0, counts)


def test_a_slave_goes_on_with_its_counts() -> None:
    book = CounterBook()
    first = Slave(book, "a")
    first.begin_dump()
    first.add(SOME)
    second = Slave(book, "a")
    second.begin_dump(8)
    second.add(SOME)
    assert second.counts.events_read == 20
    (record,) = book.records()
    assert (record.counts, record.dumps, record.peer.server_id) == (second.counts, 2, 8)
    assert record.counts is not second.counts


@pytest.mark.parametrize(
    "other", [{"user": "v"}, {"channel": "c"}, {"uuid": "b"}], ids=lambda one: next(iter(one))
)
def test_counts_belong_to_user_channel_and_uuid(other: dict[str, str]) -> None:
    book = CounterBook()
    slave = Slave(book, "a")
    slave.begin_dump()
    slave.add(SOME)
    assert Slave(book, **{"uuid": "a", **other}).counts == Counts()


def test_two_registrations_before_the_first_dump_count_together() -> None:
    book = CounterBook()
    slaves = [Slave(book, "a") for _ in range(2)]
    for slave in slaves:
        slave.begin_dump()
        slave.add(SOME)
    assert book.records()[0].counts.events_read == 20


def test_buffered_events_count_once_they_are_sent_or_dropped() -> None:
    book = CounterBook()
    slave = Slave(book, "a")
    half = Counts(
        events_read=9, events_sent=2, events_dropped=3, bytes_read=900, bytes_sent=200, bytes_dropped=300
    )
    slave.add(half)
    # The stream breaks, and the next dump reads the four buffered events again.
    assert (slave.counts.events_read, slave.counts.bytes_read) == (5, 500)
    slave.add(Counts(events_read=4, bytes_read=400))
    assert (slave.counts.events_read, slave.counts.bytes_read) == (5, 500)
    slave.add(Counts(events_sent=4, bytes_sent=400))
    assert (slave.counts.events_read, slave.counts.bytes_read) == (9, 900)


def test_a_registration_alone_is_not_remembered() -> None:
    book = CounterBook()
    for name in "abc":
        Slave(book, name)
    assert not book.records()
    assert book.generation == 0


def test_the_slave_not_seen_for_longest_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CounterBook, "most", 2)
    book = CounterBook()
    slaves = {name: Slave(book, name) for name in "abc"}
    for name in "abac":
        slaves[name].begin_dump()
        slaves[name].add(SOME)
    assert [record.peer.uuid for record in book.records()] == ["a", "c"]
    # A forgotten slave comes back with its counts, as long as its registration lasts.
    slaves["b"].begin_dump()
    assert [record.counts.events_read for record in book.records()] == [10, 10]


def test_loaded_counts_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CounterBook, "most", 2)
    old = [
        SlaveCounts(Peer("u", uuid=name), counts=replace(SOME), last_seen_at=float(seen), first_seen_at=1.0)
        for name, seen in (("a", 3), ("b", 1), ("c", 2))
    ]
    book = CounterBook(old)
    assert [record.peer.uuid for record in book.records()] == ["c", "a"]
    assert Slave(book, "a").counts == SOME
    Slave(book, "a").begin_dump()
    assert book.records()[-1].first_seen_at == 1.0


def test_counts_outlive_a_connection(server: MasterServer, client: Client) -> None:
    own, secret = str(uuid.uuid4()), bytes(range(32))

    def dump() -> pb.Counts:
        slave_id = client.register(uuid=own, secret=secret, options=["--replicate-ignore-db=hr"]).slave_id
        list(client.dump(slave_id))
        counts = client.listed(slave_id).counts
        client.stub.Unregister(pb.UnregisterRequest(slave_id=slave_id))
        return counts

    first, second = dump(), dump()
    assert first.events_dropped
    for field in pb.Counts.DESCRIPTOR.fields:
        assert getattr(second, field.name) == 2 * getattr(first, field.name)
    (record,) = server.service.register.counters.records()
    assert (record.peer.uuid, record.dumps, record.counts.events_dropped) == (own, 2, second.events_dropped)


def test_bytes_for_gtids_are_shown_everywhere(server: MasterServer, client: Client) -> None:
    slave_id = client.register().slave_id
    register = server.service.register
    (slave,) = register.all()
    register.begin_dump(slave)
    for _ in range(2):
        register.progress(slave, "bin.000001", 4, Counts(events_read=4, events_sent=4, bytes_gtid=109))
    listed = client.listed(slave_id)
    assert (listed.bytes_gtid, listed.counts.events_read) == (218, 8)
    console = MasterConsole(server.service)
    table = console.tables["dumpfilter", "slaves"]()
    (row,) = [dict(zip((column.name for column in table.columns), row, strict=True)) for row in table.rows]
    assert row["bytes_gtid"] == 218
    samples = [sample for family in MasterCollector(server).collect() for sample in family.samples]
    assert [one.value for one in samples if one.name == "dumpfilter_master_bytes_gtid_total"] == [218]


def test_another_secret_is_the_same_slave(client: Client) -> None:
    """A slave that lost its relay directory keeps its uuid only if somebody restores it, and then goes on."""
    own = str(uuid.uuid4())
    list(client.dump(client.register(uuid=own, secret=bytes(32)).slave_id))
    other = client.register(uuid=own, secret=bytes(range(32)))
    assert client.listed(other.slave_id).counts.events_read
    with pytest.raises(grpc.RpcError):
        client.listed("guess")
