"""Strangers at the master's gRPC port: registrations of others, lists, status, and guesses of passwords."""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import grpc
import pytest
from structlog.testing import capture_logs

from dumpfilter.filter.filter import Filter
from dumpfilter.master.config import Account, MasterConfig
from dumpfilter.master.limits import REFUSALS_LOGGED
from dumpfilter.master.server import MasterServer
from dumpfilter.master.service import FREE_GUESSES
from dumpfilter.master.store import BinlogStore
from dumpfilter.v1 import dumpfilter_pb2 as pb
from tests.master.client import Client
from tests.master.tables import hashed, imposed_table
from tests.support import DATA

UUID = str(uuid.UUID(int=5))
MINE, THEIRS = b"m" * 32, b"t" * 32
UNAUTHENTICATED = grpc.StatusCode.UNAUTHENTICATED
ALREADY_EXISTS = grpc.StatusCode.ALREADY_EXISTS
USERS = (hashed("a", "pa"), Account(name="b", password="pb"))


@contextmanager
def master(config: MasterConfig | None = None) -> Iterator[Client]:
    server = MasterServer(BinlogStore(DATA / "oracle" / "mysql-row"), config=config)
    server.start()
    client = Client(server)
    try:
        yield client
    finally:
        client.channel.close()
        server.stop(0)


def code(call: Any, *arguments: Any, **more: Any) -> grpc.StatusCode:
    with pytest.raises(grpc.RpcError) as caught:
        call(*arguments, **more)
    return caught.value.code()


def following(client: Client, slave: pb.RegisterResponse) -> Iterator[pb.Chunk]:
    """Begin a dump that follows the binlog, and return its stream after the first chunk."""
    stream = client.dump(slave.slave_id, once=False, heartbeat_period_ms=50)
    next(stream)
    return stream


def test_a_stranger_does_not_fill_the_disk_with_refusals() -> None:
    calls = 3 * REFUSALS_LOGGED
    with master(MasterConfig(user=USERS)) as client, capture_logs() as logs:
        stub, seldom = client.stub, client.service._refusals
        # All calls are in one period, however long a busy machine takes for them.
        seldom._next, seldom.left = math.inf, REFUSALS_LOGGED
        for _ in range(calls):
            for call, request in (
                (stub.Register, pb.RegisterRequest()),
                (stub.Unregister, pb.UnregisterRequest(slave_id="guess")),
                (stub.Status, pb.StatusRequest(slave_id="guess")),
            ):
                code(call, request)
        # Other lines are suppressed by the log itself.
        assert len([line for line in logs if line["event"] == "audit"]) <= REFUSALS_LOGGED
        seldom._next = 0.0
        code(stub.Unregister, pb.UnregisterRequest(slave_id="guess"))
        *_, last = [line for line in logs if line["event"] == "audit"]
        assert last["lines_held_back"] >= 2 * calls - REFUSALS_LOGGED


def still_runs(stream: Iterator[pb.Chunk]) -> bool:
    return all(next(stream) is not None for _ in range(10))


@pytest.mark.parametrize("users", [(), USERS])
def test_lists_and_status_tell_strangers_nothing(users: tuple[Account, ...]) -> None:
    with master(MasterConfig(user=users)) as client:
        login = {"user": "a", "password": "pa"} if users else {}
        slave = client.register(host="secret-host", **login)
        for proof in (
            {},
            {"slave_id": "guess"},
            {"user": "a", "password": "wrong"},
            {"slave_id": "guess", **login},
        ):
            with pytest.raises(grpc.RpcError) as caught:
                client.stub.Status(pb.StatusRequest(**proof))
            assert caught.value.code() is UNAUTHENTICATED, proof
            assert "secret-host" not in caught.value.details()
            assert slave.slave_id not in caught.value.details()


def test_a_slave_is_told_of_itself_and_a_user_of_his_slaves() -> None:
    with master(MasterConfig(user=USERS)) as client:
        mine = client.register(server_id=1, user="a", password="pa")
        client.register(server_id=2, user="a", password="pa")
        client.register(server_id=3, user="b", password="pb")
        own = client.stub.Status(pb.StatusRequest(slave_id=mine.slave_id))
        assert [slave.server_id for slave in own.slaves] == [1]
        users = client.stub.Status(pb.StatusRequest(user="a", password="pa"))
        assert [slave.server_id for slave in users.slaves] == [1, 2]
        assert mine.slave_id not in str(own) + str(users)


def test_a_stranger_cannot_touch_a_registration() -> None:
    """A client that knows everything that is shown about a slave, but neither its id nor its secret."""
    with master() as client:
        slave = client.register(uuid=UUID, server_id=101, secret=MINE)
        stream = following(client, slave)
        shown = client.listed(slave.slave_id)
        for guess in ("", "101", UUID, str(uuid.uuid4()), slave.slave_id[:-1]):
            stub = client.stub
            assert code(stub.Unregister, pb.UnregisterRequest(slave_id=guess)) is grpc.StatusCode.NOT_FOUND
            assert code(lambda guess=guess: list(client.dump(guess))) is grpc.StatusCode.NOT_FOUND
        for secret in (b"", THEIRS):
            assert code(client.register, uuid=shown.uuid, server_id=999, secret=secret) is ALREADY_EXISTS
            assert code(client.register, server_id=101, secret=secret) is ALREADY_EXISTS
        assert still_runs(stream)
        assert client.listed(slave.slave_id).filter_version == 1
        assert client.register(uuid=UUID, server_id=101, secret=MINE).slave_id
        with pytest.raises(grpc.RpcError) as caught:
            list(stream)
        assert caught.value.code() is grpc.StatusCode.ABORTED


def test_another_user_with_the_same_uuid_is_another_slave() -> None:
    imposed = imposed_table(
        "no hr", Filter.from_options(["--replicate-ignore-db=hr"]), users=frozenset({"a"})
    )
    with master(MasterConfig(user=USERS, imposed=(imposed,))) as client:
        slave = client.register(uuid=UUID, user="a", password="pa", secret=MINE)
        stream = following(client, slave)
        other = client.register(uuid=UUID, user="b", password="pb", secret=MINE)
        assert not other.imposed
        assert still_runs(following(client, other))
        assert still_runs(stream)


def test_who_registers_first_under_a_known_uuid_does_not_keep_the_slave_out() -> None:
    with master() as client:
        for _ in range(20):
            client.register(uuid=UUID, server_id=101, secret=THEIRS)
        slave = client.register(uuid=UUID, server_id=101, secret=MINE)
        for _ in range(20):
            client.register(uuid=UUID, server_id=101, secret=THEIRS)
        assert still_runs(following(client, slave))


@pytest.mark.parametrize("length", [1, 15, 65, 1000])
def test_secrets_of_a_wrong_length_are_refused(length: int) -> None:
    with master() as client:
        assert code(client.register, secret=b"x" * length) is grpc.StatusCode.INVALID_ARGUMENT


def test_no_id_secret_or_password_is_logged() -> None:
    with capture_logs() as logs, master(MasterConfig(user=USERS)) as client:
        slave = client.register(user="a", password="pa", secret=MINE)
        list(client.dump(slave.slave_id))
        assert code(client.register, user="a", password="guessed", secret=MINE) is UNAUTHENTICATED
        assert code(client.stub.Status, pb.StatusRequest(user="b", password="guessed")) is UNAUTHENTICATED
        client.stub.Unregister(pb.UnregisterRequest(slave_id=slave.slave_id))
        text = str(logs)
    for secret in (slave.slave_id, "guessed", "'pa'", "mmmm", MINE.hex()):
        assert secret not in text
    refused = [line for line in logs if line["event"] in ("registration refused", "call refused")]
    assert [line["event"] for line in refused] == ["registration refused", "call refused"]
    assert all(line["peer"].startswith("ipv") and "Access denied" in line["reason"] for line in refused)


def test_guesses_cost_time_and_few_lines_of_log() -> None:
    with master(MasterConfig(user=USERS)) as client:
        client.register(user="a", password="pa", secret=MINE)
        with capture_logs() as logs:
            codes = [code(client.register, user="a", password=f"wrong {n}") for n in range(50)]
        assert codes.count(UNAUTHENTICATED) <= FREE_GUESSES + 3
        assert set(codes) == {UNAUTHENTICATED, grpc.StatusCode.RESOURCE_EXHAUSTED}
        assert len(logs) <= 3 * codes.count(UNAUTHENTICATED)
        client.register(user="a", password="pa", secret=MINE, server_id=8)
