"""The MariaDB servers of the demonstration."""

from __future__ import annotations

import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dumpfilter.demo import mariadb
from dumpfilter.demo.mariadb import Programs, Server, end_servers, find_programs, make_data
from dumpfilter.errors import DumpfilterError


@pytest.fixture(scope="module")
def template() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="d-") as folder:
        make_data(find_programs(), Path(folder) / "template")
        yield Path(folder) / "template"


@pytest.fixture
def server(template: Path) -> Iterator[Callable[..., Server]]:
    """Return a function that makes a server. All of them end with the test."""
    made: list[Server] = []
    with tempfile.TemporaryDirectory(prefix="d-") as folder:

        def make(**more: object) -> Server:
            directory = Path(folder) / str(len(made))
            directory.mkdir()
            number = len(made) + 1
            made.append(
                Server(
                    find_programs(), template, directory, directory / "error.log", server_id=number, **more
                )  # type: ignore[arg-type]
            )
            made[-1].start()
            return made[-1]

        yield make
        end_servers(made)


def test_servers_run_beside_one_another(server: Callable[..., Server]) -> None:
    both = [server(), server(options=["--log-bin=bin"], networked=True)]
    for one in both:
        one.wait()
    assert [one.sql("SELECT @@server_id, @@log_bin") for one in both] == [[(1, 0)], [(2, 1)]]
    assert both[0].sql(
        "CREATE DATABASE a",
        "USE a",
        "CREATE TABLE t (i INT)",
        "INSERT INTO t VALUES (1), (2)",
        "SELECT * FROM t",
    ) == [(1,), (2,)]
    with socket.create_connection(("127.0.0.1", both[1].port)):
        pass
    with pytest.raises(DumpfilterError, match=r"refused a statement .*: SELEC"):
        both[0].sql("SELEC")
    end_servers(both)
    assert [one.process and one.process.returncode for one in both] == [0, 0]


def test_a_port_that_another_process_took_first_is_no_trouble(
    server: Callable[..., Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        ports = iter([taken])
        free_port = mariadb.free_port
        monkeypatch.setattr(mariadb, "free_port", lambda: next(ports, None) or free_port())
        found = server(networked=True)
        found.wait()
        assert found.port != taken


def test_a_server_that_does_not_start_tells_why(server: Callable[..., Server]) -> None:
    with pytest.raises(DumpfilterError, match=r"did not start[^$]*no-such-option"):
        server(options=["--no-such-option"]).wait()


def test_a_data_directory_that_cannot_be_made_tells_why(tmp_path: Path) -> None:
    false = shutil.which("false")
    assert false is not None
    with pytest.raises(DumpfilterError, match="false failed"):
        make_data(Programs("mariadbd", false, "10.11.0"), tmp_path / "template")
