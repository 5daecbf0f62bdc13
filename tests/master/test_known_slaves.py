"""The slaves that a master knows: connected, gone since a time, never seen, finished; also after a restart."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from datetime import datetime

import pytest

from dumpfilter.dump.chunk import Counts
from dumpfilter.filter.filter import Filter
from dumpfilter.index.subjects import Subjects
from dumpfilter.master import register
from dumpfilter.master.config import ReplicaEntry
from dumpfilter.master.register import (
    CounterBook,
    KnownSlave,
    KnownSlaves,
    Presence,
    Register,
    RegisteredSlave,
    SlaveCounts,
)
from dumpfilter.master.who import Drains, Peer, Who
from tests.master.replicas.serving import entry

DAY = 86_400.0


class Fleet:
    """The slaves of a master without its ports."""

    def __init__(self, records: Sequence[SlaveCounts] = (), entries: Sequence[ReplicaEntry] = ()) -> None:
        self.register = Register(Subjects())
        self.register.counters = CounterBook(records)
        self.drains = Drains()
        self.slaves = KnownSlaves(self.register, self.drains, lambda: entries)

    def connect(self, server_id: int, *, user: str = "repl", name: int | None = None) -> RegisteredSlave:
        peer = Peer(user, "", server_id, "ipv4:10.0.0.7:5000", str(uuid.UUID(int=name or server_id)))
        slave = self.register.add(peer, Filter())
        self.register.begin_dump(slave)
        self.register.progress(slave, "b.000002", 4711, Counts(bytes_sent=9))
        return slave

    def restarted(self, entries: Sequence[ReplicaEntry] = ()) -> Fleet:
        return Fleet(self.register.counters.records(), entries)

    def seen(self) -> list[tuple[int, Presence]]:
        return [(one.peer.server_id, one.presence) for one in self.slaves.all()]


def record(server_id: int, days_ago: float, *, user: str = "repl", is_done: bool = False) -> SlaveCounts:
    seen = time.time() - days_ago * DAY
    peer = Peer(user, "", server_id, uuid=str(uuid.UUID(int=server_id)))
    return SlaveCounts(peer, first_seen_at=seen, last_seen_at=seen, is_done=is_done)


def only(slaves: list[KnownSlave]) -> KnownSlave:
    (slave,) = slaves
    return slave


def test_a_slave_is_connected_and_then_gone_also_after_a_restart() -> None:
    fleet = Fleet()
    before = time.time()
    slave = fleet.connect(101)
    connected = only(fleet.slaves.all())
    assert (connected.presence, connected.gone_since) == (Presence.CONNECTED, "")
    fleet.register.end_dump(slave, slave.dump)
    for one in (fleet, fleet.restarted()):
        gone = only(one.slaves.all())
        assert gone.presence is Presence.GONE
        assert int(before) <= datetime.fromisoformat(gone.gone_since).timestamp() <= time.time()
        assert (gone.place, gone.counts.bytes_sent) == (("b.000002", 4711), 9)
        assert (gone.peer.user, gone.peer.endpoint) == ("repl", "ipv4:10.0.0.7:5000")


def test_a_slave_that_comes_back_is_one_slave() -> None:
    after = Fleet([record(101, 1), record(102, 1)])
    after.connect(101)
    # A replica that was set up anew has another UUID.
    after.connect(102, name=9)
    assert after.seen() == [(101, Presence.CONNECTED), (102, Presence.CONNECTED)]


def test_a_slave_that_registers_only_is_not_back() -> None:
    fleet = Fleet([record(101, 1)])
    fleet.register.add(Peer("repl", "", 101, uuid=str(uuid.UUID(int=101))), Filter())
    assert fleet.seen() == [(101, Presence.GONE)]


def test_a_slave_that_registers_after_unregister_is_not_finished() -> None:
    fleet = Fleet([record(101, 1, is_done=True)])
    fleet.register.add(Peer("repl", "", 101, uuid=str(uuid.UUID(int=101))), Filter())
    assert fleet.seen() == [(101, Presence.REGISTERED)]


@pytest.mark.parametrize(("days", "known"), [(6.9, [(101, Presence.GONE)]), (7.1, [])])
def test_the_keeping_time(days: float, known: list[tuple[int, Presence]]) -> None:
    fleet = Fleet([record(101, days)])
    assert fleet.seen() == known
    fleet.slaves.keep_seconds = 30 * DAY
    assert fleet.seen() == [(101, Presence.GONE)]


def test_a_slave_that_read_to_the_end_is_not_gone() -> None:
    fleet = Fleet()
    slave = fleet.connect(101)
    fleet.register.finish(slave)
    fleet.register.end_dump(slave, slave.dump)
    assert fleet.seen() == [(101, Presence.FINISHED)]
    assert fleet.restarted().seen() == []
    again = fleet.restarted()
    again.connect(101)
    assert again.restarted().seen() == [(101, Presence.GONE)]


@pytest.mark.parametrize(
    ("entries", "records", "known"),
    [
        ([entry("repl", [])], [], [(0, Presence.NEVER_SEEN)]),
        ([entry("repl", [])], [record(7, 0.1)], [(7, Presence.GONE)]),
        # A table names its slave for longer than the keeping time.
        ([entry("repl", [])], [record(7, 100), record(8, 50)], [(8, Presence.GONE)]),
        ([entry("repl", [])], [record(7, 1, is_done=True)], []),
        ([entry("repl", [])], [record(7, 1, user="other")], [(7, Presence.GONE), (0, Presence.NEVER_SEEN)]),
        (
            [entry("repl", [], server_ids=frozenset([7, 8]))],
            [record(7, 1)],
            [(7, Presence.GONE), (8, Presence.NEVER_SEEN)],
        ),
        # A narrower table beside a general one: no second replica need exist.
        (
            [entry("repl", []), entry("repl", [], server_ids=frozenset([7]))],
            [record(7, 1)],
            [(7, Presence.GONE)],
        ),
        ([entry("repl", [], channel="west")], [record(7, 1)], [(7, Presence.GONE), (0, Presence.NEVER_SEEN)]),
    ],
)
def test_a_table_of_the_configuration_names_a_slave(
    entries: Sequence[ReplicaEntry], records: Sequence[SlaveCounts], known: list[tuple[int, Presence]]
) -> None:
    fleet = Fleet(records, entries)
    assert fleet.seen() == known
    for one in fleet.slaves.all():
        assert (one.entry != "") is (one.presence is Presence.NEVER_SEEN)


def test_a_refused_replica_is_refused_until_it_is_served() -> None:
    fleet = Fleet(entries=[entry("repl", [])])
    peer = Peer("repl", "", 101, "ipv4:10.0.0.7:5000", str(uuid.UUID(int=101)))
    fleet.slaves.refuse(peer, "the source purged required binary logs")
    refused = only(fleet.slaves.all())
    assert (refused.presence, refused.peer.server_id) == (Presence.REFUSED, 101)
    assert (refused.refusal, refused.gone_since != "") == ("the source purged required binary logs", True)
    slave = fleet.connect(101)
    assert only(fleet.slaves.all()).presence is Presence.CONNECTED
    fleet.register.end_dump(slave, slave.dump)
    assert (only(fleet.slaves.all()).presence, only(fleet.slaves.all()).refusal) == (Presence.GONE, "")
    fleet.slaves.refuse(peer, "again")
    known = only(fleet.slaves.all())
    assert (known.presence, known.refusal, known.place) == (Presence.REFUSED, "again", ("b.000002", 4711))
    assert [one.peer.server_id for one in fleet.slaves.forget(Who.of(server_id=101))] == [101]
    assert only(fleet.slaves.all()).presence is Presence.GONE


def test_refusals_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(register, "MOST_REFUSALS", 2)
    fleet = Fleet()
    for server_id in (1, 2, 1, 3):
        fleet.slaves.refuse(Peer("r", "", server_id), "no")
    assert fleet.seen() == [(1, Presence.REFUSED), (3, Presence.REFUSED)]


def test_a_drained_slave_is_drained_and_not_gone() -> None:
    fleet = Fleet([record(101, 1)])
    fleet.drains.drain(Who.of(server_id=101))
    drained = only(fleet.slaves.all())
    assert (drained.presence, drained.presence.is_missing) == (Presence.DRAINED, True)
    fleet.drains.undrain(Who())
    assert only(fleet.slaves.all()).presence is Presence.GONE


def test_a_drain_of_its_user_concerns_a_slave_that_was_never_seen() -> None:
    fleet = Fleet(entries=[entry("repl", [])])
    assert not only(fleet.slaves.all()).is_drained
    fleet.drains.drain(Who.of(user="repl"))
    assert only(fleet.slaves.all()).is_drained


def test_the_list_costs_a_look_at_each_slave_and_each_server_id(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = range(1, 201)
    fleet = Fleet(entries=[entry("repl", [], server_ids=list(numbers))])
    for number in numbers[::2]:
        fleet.connect(number)
    asked = 0
    fits = Who.fits

    def counted(self: Who, peer: Peer, **more: bool) -> bool:
        nonlocal asked
        asked += 1
        return fits(self, peer, **more)

    monkeypatch.setattr(Who, "fits", counted)
    presences = [presence for _, presence in fleet.seen()]
    assert presences == [Presence.CONNECTED] * 100 + [Presence.NEVER_SEEN] * 100
    assert asked <= 200
