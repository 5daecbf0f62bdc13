"""The health service and a binlog that cannot be read, over real gRPC."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from dumpfilter.master import server as server_module
from dumpfilter.master.server import MasterServer
from dumpfilter.master.store import BinlogStore
from tests.master.client import Client
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
