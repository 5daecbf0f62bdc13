"""Drains: which slaves they concern, how dumps end, and what a slave and a client of the console see."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from dumpfilter.base.errors import OptionError
from dumpfilter.console.sql.commands import parse_statement
from dumpfilter.console.sql.result import Result
from dumpfilter.console.sql.server_errors import SqlError
from dumpfilter.filter.filter import Filter
from dumpfilter.master import who as drain_module
from dumpfilter.master.console import MasterConsole
from dumpfilter.master.process import StateDirectory
from dumpfilter.master.register import CounterBook
from dumpfilter.master.server import PROCESS, MasterServer
from dumpfilter.master.who import SHUTTING_DOWN, Drained, Drains, Peer, Who
from dumpfilter.v1 import dumpfilter_pb2 as pb
from tests.master.client import Client

UUID = "5a8b8d0a-e543-11f1-9c8d-02fc00000007"


def slave(peer: str = "ipv4:10.0.0.7:40000", **more: object) -> Peer:
    values: dict[str, object] = {
        "server_id": 7,
        "uuid": UUID,
        "user": "repl",
        "host": "Db7.example",
        "endpoint": peer,
        "channel": "m1",
    }
    return Peer(**(values | more))  # type: ignore[arg-type]


CHOICES = {
    "all": Who(),
    "server id": Who.of(server_id=7),
    "uuid": Who.of(uuid=UUID.upper()),
    "user": Who.of(user="repl"),
    "address": Who.of(host="10.0.0.7"),
    "reported host": Who.of(host="DB7.EXAMPLE"),
    "channel": Who(channel="m1"),
    "server id on a channel": Who.of("m1", server_id=7),
}

OTHERS = {
    "server id": slave(server_id=70),
    "uuid": slave(uuid=UUID[:-1] + "8"),
    "user": slave(user="Repl"),
    "address": slave(peer="ipv4:10.0.0.70:40000"),
    "reported host": slave(host="db70.example"),
    "channel": slave(channel="m2"),
    "server id on a channel": slave(channel=""),
}


@pytest.mark.parametrize("name", CHOICES)
def test_a_drain_concerns_its_slaves_alone(name: str) -> None:
    drains = Drains()
    drains.check(slave())
    drain = drains.drain(CHOICES[name], "maintenance")
    assert drain.who.fits(slave())
    with pytest.raises(Drained, match=r"drained: .*maintenance.*UNDRAIN"):
        drains.check(slave())
    if name in OTHERS:
        assert not drain.who.fits(OTHERS[name])
        drains.check(OTHERS[name])
    assert drains.undrain(CHOICES[name])
    assert not drains.undrain(CHOICES[name])
    drains.check(slave())


def test_an_ipv6_host_has_many_spellings() -> None:
    drains = Drains()
    drains.drain(Who.of(host="[2001:DB8::0:1]"))
    with pytest.raises(Drained):
        drains.check(slave(peer="ipv6:%5B2001:db8::1%5D:40000"))


def test_a_host_without_a_name_selects_nobody() -> None:
    assert not Who.of(host="").fits(slave(host="", peer="strange"))


def test_a_drain_of_slaves_without_a_user_is_not_shown_as_one_of_all() -> None:
    """DRAIN REPLICA USER '' concerns the slaves that registered while the master had no users."""
    assert str(Who.of("m1", user="")) == "user '' on channel 'm1'"
    assert str(Who.of()) == "all slaves"


def test_a_second_drain_changes_the_reason_and_keeps_the_time() -> None:
    drains = Drains()
    first = drains.drain(Who(), "a")
    second = drains.drain(Who(), "b\x1b[2J")
    assert second.since == first.since
    assert drains.all() == [second]
    assert drains.is_all
    assert "\x1b" not in str(second.error())
    assert drains.undrain(Who()) == 1
    assert not drains.is_all


def test_drains_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drain_module, "MOST_DRAINS", 2)
    drains = Drains()
    for server_id in (1, 2):
        drains.drain(Who.of(server_id=server_id))
    with pytest.raises(OptionError, match="2 drains are in force"):
        drains.drain(Who.of(server_id=3))
    drains.drain(Who.of(server_id=2), "another reason")
    # The error advises it, and a master that shuts down needs it.
    assert drains.drain(Who(), SHUTTING_DOWN).ends_with_master


def test_listeners_hear_each_change() -> None:
    drains, heard = Drains(), []
    drains.on_change.append(lambda: heard.append(len(drains.all())))
    drains.drain(Who())
    drains.undrain(Who())
    drains.undrain(Who())
    assert heard == [1, 0]


def test_the_last_listener_sees_the_last_change(wait_for: Callable[[Callable[[], object]], None]) -> None:
    """A state file must not lose a drain that another client of the console has given at the same moment."""
    drains, saved = Drains(), []

    def save() -> None:
        now = [drain.who for drain in drains.all()]
        wait_for(lambda: len(drains.all()) == 2)
        saved.append(now)

    drains.on_change.append(save)
    clients = [threading.Thread(target=drains.drain, args=[Who.of(server_id=number)]) for number in (1, 2)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    assert len(saved[-1]) == 2


def test_a_drain_costs_other_slaves_nothing(server: MasterServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator may drain thousands of slaves one by one, and all dumps run in one loop."""
    register, drains = server.service.register, server.service.drains
    woken: list[int] = []
    for server_id in range(1, 51):
        peer = slave(server_id=server_id, uuid=str(uuid.UUID(int=server_id)))
        register.begin_dump(register.add(peer, Filter()), lambda number=server_id: woken.append(number))  # type: ignore[misc]
    peers = [one.peer for one in register.all()]
    for server_id in range(1, 41):
        drains.drain(Who.of(server_id=server_id))
        with monkeypatch.context() as patch:
            patch.setattr(Who, "fits", lambda who, peer: pytest.fail("a look-up tests the drains again"))
            found = [one.server_id for one in peers if drains.of(one) is not None]
        assert found == list(range(1, server_id + 1))
    assert sorted(set(woken)) == found
    assert drains.undrain(Who.of(server_id=7))
    assert drains.of(peers[6]) is None
    assert drains.of(peers[7]) is not None


@pytest.fixture
def ask(server: MasterServer) -> Callable[[str], Result]:
    """Return a function that runs a statement on the master's console."""
    console = MasterConsole(server.service)
    return lambda statement: console.execute(parse_statement(statement))


def follow(client: Client, **more: object) -> tuple[Iterator[pb.Chunk], pb.RegisterResponse]:
    """Register a slave and begin a dump. Return the dump after its first chunk, and the registration."""
    answer = client.register(**more)  # type: ignore[arg-type]
    stream = client.dump(answer.slave_id, once=False, heartbeat_period_ms=50)
    next(stream)
    return stream, answer


def rest_of(stream: Iterator[pb.Chunk]) -> tuple[list[pb.Chunk], grpc.RpcError]:
    chunks: list[pb.Chunk] = []
    with pytest.raises(grpc.RpcError) as caught:
        chunks.extend(stream)
    return chunks, caught.value


def health(client: Client, service: str = "") -> int:
    stub = health_pb2_grpc.HealthStub(client.channel)
    return int(stub.Check(health_pb2.HealthCheckRequest(service=service)).status)


def test_a_drained_slave_ends_and_stays_away_until_undrain(
    client: Client, ask: Callable[[str], Result]
) -> None:
    own, secret = str(uuid.uuid4()), bytes(range(32))
    stream, answer = follow(client, server_id=101, uuid=own, secret=secret)
    other, _ = follow(client, server_id=102)
    result = ask("DRAIN REPLICA 101 REASON 'moves to db2 until noon'")
    assert result.affected == 1
    _, error = rest_of(stream)
    assert error.code() is grpc.StatusCode.UNAVAILABLE
    assert "drained" in error.details()
    assert "server id 101" in error.details()
    assert "moves to db2 until noon" in error.details()
    with pytest.raises(grpc.RpcError, match="drained") as caught:
        client.register(server_id=101, uuid=own, secret=secret)
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    with pytest.raises(grpc.RpcError, match="drained") as caught:
        list(client.dump(answer.slave_id))
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    # Others are served, and the registration before the drain is not forgotten.
    next(other)
    assert health(client) == health_pb2.HealthCheckResponse.SERVING
    ask("UNDRAIN REPLICA 101")
    assert list(client.dump(answer.slave_id))[-1].end_of_log


@pytest.mark.parametrize("chunk_size", [1, 500, 5000])
def test_a_drained_dump_ends_between_two_transactions(
    server: MasterServer, client: Client, ask: Callable[[str], Result], chunk_size: int
) -> None:
    """The slave loses nothing and gets nothing twice: both parts together are the whole stream."""
    slave_id = client.register(server_id=101).slave_id
    whole = b"".join(chunk.events for chunk in client.dump(slave_id, chunk_size=chunk_size))
    stream = client.dump(slave_id, chunk_size=chunk_size, once=False)
    chunks = [next(stream) for _ in range(3)]
    ask("DRAIN REPLICA 101")
    more, error = rest_of(stream)
    assert error.code() is grpc.StatusCode.UNAVAILABLE
    last = (chunks + more)[-1]
    ask("UNDRAIN REPLICA 101")
    first = b"".join(chunk.events for chunk in chunks + more)
    beyond = len(last.events) - last.resume_bytes if last.end_position != last.resume_position else 0
    request = {"from": pb.BinlogPosition(file=last.file, position=last.resume_position)}
    second = b"".join(chunk.events for chunk in client.dump(slave_id, chunk_size=chunk_size, **request))
    assert first[: len(first) - beyond] + second == whole
    assert last.resume_bytes or last.end_position == last.resume_position


def test_draining_all_makes_the_master_unhealthy(
    server: MasterServer, client: Client, ask: Callable[[str], Result]
) -> None:
    streams = [follow(client, server_id=server_id)[0] for server_id in (101, 102)]
    assert ask("DRAIN ALL REPLICAS").affected == 2
    assert health(client) == health_pb2.HealthCheckResponse.NOT_SERVING
    # A supervisor that kills a process which does not serve must not kill this one.
    assert health(client, PROCESS) == health_pb2.HealthCheckResponse.SERVING
    for stream in streams:
        assert rest_of(stream)[1].code() is grpc.StatusCode.UNAVAILABLE
    with pytest.raises(grpc.RpcError, match="all slaves"):
        client.register(server_id=103)
    assert ask("UNDRAIN ALL REPLICAS").affected == 1
    assert health(client) == health_pb2.HealthCheckResponse.SERVING
    client.register(server_id=103)


def test_a_drain_waits_for_the_dumps(server: MasterServer, client: Client) -> None:
    stream, _ = follow(client, server_id=101)
    assert server.drain(30) == 0
    _, error = rest_of(stream)
    assert error.code() is grpc.StatusCode.UNAVAILABLE
    assert "drained: the master is shutting down" in error.details()


def test_an_operators_drain_of_all_slaves_outlives_the_master(
    server: MasterServer, client: Client, tmp_path: Path
) -> None:
    drains, directory = server.service.drains, StateDirectory(tmp_path)
    directory.keep(CounterBook(), drains)
    stream, _ = follow(client, server_id=101)
    drains.drain(Who(), "maintenance")
    assert server.drain(30) == 0
    assert rest_of(stream)[1].code() is grpc.StatusCode.UNAVAILABLE
    directory.close()
    assert [(drain.who, drain.reason) for drain in StateDirectory(tmp_path).drains.load()] == [
        (Who(), "maintenance")
    ]


def test_a_drain_ends_early(server: MasterServer, client: Client) -> None:
    stream, _ = follow(client, server_id=101)
    # Nobody reads the stream of a slave that is stuck, and the dump cannot end.
    server.service.drains.on_change.clear()
    server.service.drains.check = lambda slave: None  # type: ignore[method-assign]
    assert server.drain(30, lambda: True) == 1
    assert server.drain(0) == 1
    stream.cancel()


def test_the_table_of_drains(
    server: MasterServer,
    client: Client,
    ask: Callable[[str], Result],
    wait_for: Callable[[Callable[[], object]], None],
) -> None:
    console = MasterConsole(server.service)

    def rows() -> list[list[object]]:
        table = console.tables["dumpfilter", "drains"]()
        return [[*row[:4], *row[5:]] for row in table.rows]

    stream, _ = follow(client, server_id=101)
    ask("DRAIN REPLICA 101 FOR CHANNEL '' REASON 'r'")
    result = ask("DRAIN REPLICA USER 'nobody'")
    assert not result.affected
    assert "No slave is registered with user nobody" in result.notes[0].message
    rest_of(stream)
    wait_for(
        lambda: (
            rows()
            == [
                ["server_id", "101", "", "r", 1, 0],
                ["user", "nobody", None, "", 0, 0],
            ]
        )
    )
    with pytest.raises(SqlError, match="There is no drain of server id 101: see"):
        ask("UNDRAIN REPLICA 101")
    ask("UNDRAIN REPLICA 101 FOR CHANNEL ''")
    assert ask("UNDRAIN ALL REPLICAS").affected == 1
    assert not rows()
