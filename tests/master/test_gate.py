"""The bounds that hold before a client has shown a password, over real gRPC."""

from __future__ import annotations

import socket
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from dumpfilter.base.errors import OptionError
from dumpfilter.master import limits
from dumpfilter.master.limits import (
    MAX_DUMPS,
    MAX_GTID_TEXT,
    MAX_IDS,
    MAX_REQUEST,
    MAX_RULES_TEXT,
    MAX_SMALL_REQUEST,
    Kind,
    Overloaded,
    Places,
    open_connections,
)
from dumpfilter.master.server import MasterServer, ServerDied
from dumpfilter.master.store import BinlogStore
from dumpfilter.v1 import dumpfilter_pb2 as pb
from tests.master.client import Client
from tests.master.test_service import code_of, wait_for
from tests.support import DATA

METHODS = "/dumpfilter.v1.DumpFilter/"
EXHAUSTED = grpc.StatusCode.RESOURCE_EXHAUSTED
BAD = grpc.StatusCode.INVALID_ARGUMENT


@contextmanager
def serving(max_dumps: int = MAX_DUMPS, **others: float) -> Iterator[tuple[MasterServer, Client]]:
    with pytest.MonkeyPatch.context() as patch:
        for name, limit in others.items():
            patch.setattr(limits, name, limit)
        server = MasterServer(BinlogStore(DATA / "oracle" / "mysql-row"), max_dumps=max_dumps)
        server.start()
        client = Client(server)
        yield server, client
        client.channel.close()
        server.stop(0)


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with serving() as (_, client):
        yield client


def refusal(call: Callable[[], object]) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.RpcError) as caught:
        call()
    return code_of(caught)


def registration(**definition: Any) -> pb.RegisterRequest:
    return pb.RegisterRequest(
        protocol=2, server_id=7, uuid=str(uuid.uuid4()), filter=pb.FilterDefinition(**definition)
    )


def raw(client: Client, method: str, body: bytes) -> bytes:
    call = client.channel.unary_unary(
        METHODS + method, request_serializer=lambda data: data, response_deserializer=lambda data: data
    )
    return call(body, timeout=240)


class Silent:
    """Calls that are open, and whose clients send no request."""

    def __init__(self, client: Client, method: str, number: int) -> None:
        self._end = threading.Event()
        open_call = client.channel.stream_stream(METHODS + method, request_serializer=lambda data: data)
        self.calls = [open_call(self._nothing()) for _ in range(number)]

    def _nothing(self) -> Iterator[bytes]:
        self._end.wait(240)
        yield from ()

    def end(self) -> None:
        self._end.set()
        for call in self.calls:
            call.cancel()


@pytest.mark.parametrize("name", ["ignore_server_ids", "do_domain_ids", "ignore_domain_ids"])
def test_a_list_of_ids_is_bounded(client: Client, name: str) -> None:
    ids = list(range(1, MAX_IDS + 2))
    origin = pb.OriginFilter(**{name: ids[:-1]})
    assert client.stub.Register(registration(origin=origin)).slave_id
    code, text = refusal(lambda: client.stub.Register(registration(origin=pb.OriginFilter(**{name: ids}))))
    assert (code, text) == (BAD, f"{name}: {MAX_IDS + 1} elements: at most {MAX_IDS}")


def test_the_rules_of_a_filter_are_bounded_together(client: Client) -> None:
    rules = [pb.Rule(kind=pb.REPLICATE_WILD_DO_TABLE, value=f"{n}{'x' * 400}.%") for n in range(3000)]
    code, text = refusal(lambda: client.stub.Register(registration(rules=rules)))
    assert code is BAD
    assert f"more than {MAX_RULES_TEXT} characters together; use wild rules" in text


def test_a_request_is_bounded(client: Client) -> None:
    body = bytes(2) * (MAX_REQUEST // 2)
    assert refusal(lambda: raw(client, "Register", body))[0] is BAD  # no message, but small enough
    assert refusal(lambda: raw(client, "Register", body + b"\0"))[0] is EXHAUSTED
    code, text = refusal(lambda: raw(client, "Status", bytes(MAX_SMALL_REQUEST + 1)))
    assert code is EXHAUSTED
    assert f"{MAX_SMALL_REQUEST + 1} bytes: at most {MAX_SMALL_REQUEST}" in text


def test_a_compressed_request_is_refused_before_it_is_uncompressed(client: Client) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        client.stub.Register(
            registration(rules=[pb.Rule(value="x" * 100_000)]), compression=grpc.Compression.Gzip
        )
    assert caught.value.code() in (grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.INTERNAL)


def test_empty_rules_by_the_million_are_counted_and_forgotten(client: Client) -> None:
    definition = b"\x0a\x00" * (MAX_REQUEST // 2 - 16)
    head = pb.RegisterRequest(protocol=2, server_id=7).SerializeToString() + b"\x32"
    length = len(definition)
    size = bytes((length & 127 | 128, length >> 7 & 127 | 128, length >> 14))
    code, text = refusal(lambda: raw(client, "Register", head + size + definition))
    assert code is BAD
    assert f"rules: {MAX_REQUEST // 2 - 16} elements: at most" in text


def test_a_long_gtid_set_is_refused_and_a_chains_set_is_not(client: Client) -> None:
    slave = client.register()

    def dump(intervals: int) -> list[pb.Chunk]:
        numbers = ":".join(str(2 * n + 1) for n in range(intervals))
        return list(client.dump(slave.slave_id, gtid_set=f"{uuid.UUID(int=5)}:{numbers}"))

    assert dump(30_000)[-1].end_of_log  # 170 KB, as a long chain of masters has it
    code, text = refusal(lambda: dump(200_000))
    assert code is BAD
    assert f"at most {MAX_GTID_TEXT}; start the slave with a file and a position" in text


def test_clients_that_send_no_request_take_the_places_of_one_host_for_a_while() -> None:
    with serving(MAX_CALLS_OF_HOST=4, REQUEST_SECONDS=1.0) as (server, client):
        silent = Silent(client, "Register", 4)
        wait_for(lambda: server.places.used(Kind.CALL) == 4)
        code, text = refusal(lambda: client.register())
        assert code is EXHAUSTED
        assert (
            text
            == "the master has 4 calls of this host under way, the most it allows; try again in a few seconds"
        )
        # the master does not wait for them for ever
        wait_for(lambda: server.places.used(Kind.CALL) == 0)
        assert {call.code() for call in silent.calls} == {grpc.StatusCode.CANCELLED}
        assert client.register().slave_id
        silent.end()


def test_short_calls_without_a_request_take_the_places_of_one_host_for_a_short_while() -> None:
    with serving(MAX_SHORT_CALLS_OF_HOST=4, SHORT_REQUEST_SECONDS=1.0) as (server, client):
        check = health_pb2_grpc.HealthStub(client.channel).Check
        silent = Silent(client, "Alive", 4)
        wait_for(lambda: server.places.used(Kind.SHORT) == 4)
        code, text = refusal(lambda: check(health_pb2.HealthCheckRequest()))
        assert code is EXHAUSTED
        assert text.startswith("the master has 4 health checks and Alive calls of this host under way")
        # These calls take no places of other calls.
        assert client.register().slave_id
        wait_for(lambda: server.places.used(Kind.SHORT) == 0)
        assert {call.code() for call in silent.calls} == {grpc.StatusCode.CANCELLED}
        assert check(health_pb2.HealthCheckRequest()).status == health_pb2.HealthCheckResponse.SERVING
        silent.end()


def test_silent_dumps_do_not_take_the_places_of_dumps() -> None:
    with serving(max_dumps=1, MAX_CALLS_OF_HOST=4) as (server, client):
        silent = Silent(client, "Dump", 3)
        wait_for(lambda: server.places.used(Kind.CALL) == 3)
        assert list(client.dump(client.register().slave_id))[-1].end_of_log
        silent.end()


def test_dumps_are_bounded() -> None:
    with serving(max_dumps=2) as (server, client):
        streams = [client.dump(client.register(server_id=n).slave_id, once=False) for n in (1, 2)]
        for stream in streams:
            next(stream)
        third = client.register(server_id=3)
        code, text = refusal(lambda: next(client.dump(third.slave_id)))
        assert code is EXHAUSTED
        assert text.endswith("try again later, or start the master with a larger --max-dumps")
        streams[0].cancel()
        wait_for(lambda: server.places.used(Kind.DUMP) == 1)
        assert list(client.dump(third.slave_id))[-1].end_of_log
        streams[1].cancel()


def test_health(client: Client) -> None:
    health = health_pb2_grpc.HealthStub(client.channel)
    for service in ("", "dumpfilter.v1.DumpFilter", "process"):
        answer = health.Check(health_pb2.HealthCheckRequest(service=service))
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
    other = health_pb2.HealthCheckRequest(service="other")
    assert refusal(lambda: health.Check(other))[0] is grpc.StatusCode.NOT_FOUND
    # A thousand idle watches would cost more than they tell.
    assert refusal(lambda: next(health.Watch(other)))[0] is grpc.StatusCode.UNIMPLEMENTED


def test_methods_that_the_master_does_not_have(client: Client) -> None:
    reflect = client.channel.stream_stream("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo")
    assert refusal(lambda: list(reflect(iter([b""]))))[0] is grpc.StatusCode.UNIMPLEMENTED


def test_small_chunks_and_short_heartbeats_are_raised_to_a_floor() -> None:
    with serving(MIN_CHUNK_SIZE=4096, MIN_HEARTBEAT_PERIOD=60.0) as (_, client):
        slave = client.register()
        small = list(client.dump(slave.slave_id, chunk_size=1))
        assert len(small) == len(list(client.dump(slave.slave_id, chunk_size=4096)))
        last = len(list(client.dump(slave.slave_id)))
        stream = client.dump(slave.slave_id, once=False, heartbeat_period_ms=1)
        for _ in range(last - 1):
            assert not next(stream).heartbeat
        stream.cancel()


def test_a_chunk_is_bounded(client: Client) -> None:
    slave = client.register()
    assert refusal(lambda: next(client.dump(slave.slave_id, chunk_size=(4 << 20) + 1)))[0] is BAD


def test_connections_beyond_the_bound_are_closed_and_the_others_are_served() -> None:
    assert [open_connections(10, files) for files in (20, 150, 1 << 20)] == [16, 75, 260]
    with serving(max_dumps=10) as (server, client):
        assert client.register().slave_id
        silent = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(300)]
        assert client.register().slave_id
        for one in silent:
            one.close()
        assert Client(server).register().slave_id


def test_a_server_whose_serving_loop_has_died_says_so() -> None:
    with serving() as (server, _):
        server.check()
        server.loop.end()
        wait_for(lambda: not server.loop.is_running)
        with pytest.raises(ServerDied, match="start the master again"):
            server.check()
        assert ServerDied.exit_code == 1


def test_places_are_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_CALLS", 2)
    monkeypatch.setattr(limits, "MAX_CALLS_OF_HOST", 1)
    places = Places(1)
    with places.take(Kind.CALL, "ipv4:10.0.0.1:5"):
        with pytest.raises(Overloaded, match="of this host"), places.take(Kind.CALL, "ipv4:10.0.0.1:6"):
            pass
        with (
            places.take(Kind.CALL, "ipv4:10.0.0.2:5"),
            pytest.raises(Overloaded, match="2 calls under way"),
            places.take(Kind.CALL, "ipv6:[::1]:5"),
        ):
            pass
        with pytest.raises(OptionError), places.take(Kind.CALL, "ipv4:10.0.0.2:6"):
            raise OptionError("given back after an error, too")
    assert places.used(Kind.CALL) == 0
