"""A refused login is the end of a connection, on each port that speaks MySQL's protocol."""

from __future__ import annotations

import ast
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dumpfilter.console.connection import ConsoleServer
from tests.console.small_executor import SmallExecutor
from tests.master.replicas.serving import MARIADB, MYSQL, serving

ROOT = Path(__file__).parents[2]
_CAPABILITIES = 0x1 | 0x200 | 0x8000 | 0x80000
_QUERY = b"\x03SELECT 1"


@contextmanager
def a_console() -> Iterator[int]:
    with ConsoleServer(SmallExecutor(), users={"root": "secret"}, denial_seconds=0).running() as console:
        yield console.port


@contextmanager
def a_replication_port(recording: Path) -> Iterator[int]:
    with serving(recording) as served:
        yield served.port


PORTS: dict[str, Callable[[], object]] = {
    "console": a_console,
    "replicas of MySQL": lambda: a_replication_port(MYSQL),
    "replicas of MariaDB": lambda: a_replication_port(MARIADB),
}


def packets(data: bytes) -> list[bytes]:
    found = []
    while data:
        length = int.from_bytes(data[:3], "little")
        found.append(data[4 : 4 + length])
        data = data[4 + length :]
    return found


@pytest.mark.parametrize("port", PORTS)
@pytest.mark.parametrize("plugin", [b"mysql_native_password", b"caching_sha2_password"])
@pytest.mark.parametrize("user", [b"root", b"all", b"nobody"])
def test_a_refused_login_gets_no_answer_to_a_query(port: str, plugin: bytes, user: bytes) -> None:
    """The library mysql-mimic has a server that answers such a query; dumpfilter uses its packets only."""
    length = 20 if plugin.startswith(b"mysql") else 32
    login = struct.pack("<IIB23x", _CAPABILITIES, 1 << 24, 45) + user + b"\0"
    login += bytes([length]) + b"x" * length + plugin + b"\0"
    with (
        PORTS[port]() as number,  # type: ignore[attr-defined]
        socket.create_connection(("127.0.0.1", number), timeout=60) as client,
    ):
        client.recv(4096)
        sequence = 1
        answers = []
        client.sendall(len(login).to_bytes(3, "little") + bytes([sequence]) + login)
        while True:
            answer = client.recv(4096)
            answers += packets(answer)
            if not answer or answers[-1][:1] == b"\xff":
                break
            # The port asks for the proof of another plugin.
            sequence += 2
            proof = b"x" * (20 if b"native" in answers[-1] else 32)
            client.sendall(len(proof).to_bytes(3, "little") + bytes([sequence]) + proof)
        assert answers
        assert answers[-1][:1] == b"\xff"
        assert struct.unpack_from("<H", answers[-1], 1)[0] == 1045
        later = b""
        try:
            client.sendall(len(_QUERY).to_bytes(3, "little") + b"\0" + _QUERY)
            while part := client.recv(4096):
                later += part
        except ConnectionError:
            pass
        assert not later


def test_nothing_uses_the_server_of_mysql_mimic() -> None:
    allowed = {"charset", "constants", "packets", "results", "types"}
    for package in ("dumpfilter", "master", "slave", "spark_jobs"):
        for path in sorted((ROOT / package).rglob("*.py")):
            text = path.read_text()
            if "mysql_mimic" not in text:
                continue
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.Import):
                    assert not any(name.name.startswith("mysql_mimic") for name in node.names), path
                elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("mysql_mimic"):
                    module = (node.module or "").removeprefix("mysql_mimic").lstrip(".")
                    names = {module} if module else {name.name for name in node.names}
                    assert names <= allowed, path
