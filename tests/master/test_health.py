"""The health service and a binlog that cannot be read, over real gRPC."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from dumpfilter.master import server as server_module
from dumpfilter.master.limits import Kind
from dumpfilter.master.server import MasterServer
from dumpfilter.master.source import FollowedSource, following
from dumpfilter.master.store import BinlogStore
from dumpfilter.receiver.url import parse_source_url
from tests.master.client import Client
from tests.receiver.fake_source import FakeSource, small_set
from tests.support import DATA

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


def test_health_says_whether_the_binlog_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wait_for: Callable[[Callable[[], object]], None]
) -> None:
    monkeypatch.setattr(server_module, "_LOOKS_AT_BINLOG", 0.01)
    shutil.copy(DATA / "oracle" / "mysql-row" / "bin.000001", tmp_path)
    (tmp_path / "bin.index").write_text("./bin.000001\n")
    server = MasterServer(BinlogStore(tmp_path))
    server.start()
    client = Client(server)
    health = health_pb2_grpc.HealthStub(client.channel)

    def status(service: str) -> int:
        answer: int = health.Check(health_pb2.HealthCheckRequest(service=service)).status
        return answer

    assert status("") == SERVING
    (tmp_path / "bin.000001").rename(tmp_path / "elsewhere")
    wait_for(lambda: status("") == NOT_SERVING)
    (tmp_path / "elsewhere").rename(tmp_path / "bin.000001")
    wait_for(lambda: status("") == SERVING)
    # The file keeps its inode, so the master keeps it open. What it has scanned is no longer there.
    whole = (tmp_path / "bin.000001").read_bytes()
    (tmp_path / "bin.000001").write_bytes(b"")
    wait_for(lambda: status("") == status("dumpfilter.v1.DumpFilter") == NOT_SERVING)
    assert status("process") == SERVING
    (tmp_path / "bin.000001").write_bytes(whole)
    wait_for(lambda: status("") == status("dumpfilter.v1.DumpFilter") == SERVING)
    client.channel.close()
    server.stop(0)


def test_health_of_the_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wait_for: Callable[[Callable[[], object]], None]
) -> None:
    monkeypatch.setattr(server_module, "_LOOKS_AT_BINLOG", 0.01)
    source = FakeSource(small_set())
    with following(FollowedSource(parse_source_url(source.url), tmp_path)) as thread:
        server = MasterServer(BinlogStore(tmp_path), source=thread)
        server.start()
        client = Client(server)
        health = health_pb2_grpc.HealthStub(client.channel)

        def status(service: str) -> int:
            answer: int = health.Check(health_pb2.HealthCheckRequest(service=service)).status
            return answer

        wait_for(lambda: status("source") == SERVING)
        source.close()
        wait_for(lambda: status("source") == NOT_SERVING)
        assert status("") == SERVING
        client.channel.close()
        server.stop()


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3) + bytes((kind, flags)) + stream.to_bytes(4) + payload


def _watch_without_window() -> bytes:
    """Return the bytes of an HTTP/2 client that calls Health/Watch and allows the master no bytes of an answer."""
    headers = {
        b":method": b"POST",
        b":scheme": b"http",
        b":path": b"/grpc.health.v1.Health/Watch",
        b":authority": b"m",
        b"te": b"trailers",
        b"content-type": b"application/grpc",
    }
    packed = b"".join(b"\0%c%b%c%b" % (len(n), n, len(v), v) for n, v in headers.items())
    no_window = (4).to_bytes(2) + (0).to_bytes(4)
    return (
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
        + _frame(4, 0, 0, no_window)
        + _frame(1, 4, 1, packed)
        + _frame(0, 1, 1, bytes(5))
    )


def test_a_watcher_that_never_reads_delays_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wait_for: Callable[[Callable[[], object]], None]
) -> None:
    monkeypatch.setattr(server_module, "_LOOKS_AT_BINLOG", 0.01)
    shutil.copy(DATA / "oracle" / "mysql-row" / "bin.000001", tmp_path)
    (tmp_path / "bin.index").write_text("./bin.000001\n")
    server = MasterServer(BinlogStore(tmp_path))
    server.start()
    client = Client(server)
    health = health_pb2_grpc.HealthStub(client.channel)
    any_service = health_pb2.HealthCheckRequest()
    with socket.create_connection(("127.0.0.1", server.port)) as stranger:
        stranger.sendall(_watch_without_window())
        wait_for(lambda: server.gate.places.used(Kind.WATCH) == 1)
        watch, other = health.Watch(any_service), health.Watch(any_service)
        assert next(watch).status == next(other).status == SERVING
        other.cancel()
        wait_for(lambda: server.gate.places.used(Kind.WATCH) == 2)
        (tmp_path / "bin.000001").rename(tmp_path / "elsewhere")
        assert next(watch).status == health.Check(any_service).status == NOT_SERVING
        (tmp_path / "elsewhere").rename(tmp_path / "bin.000001")
        assert next(watch).status == SERVING
        server.stop(1)
        assert next(watch).status == NOT_SERVING
    client.channel.close()
