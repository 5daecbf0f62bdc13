"""Servers in a console's place, and consoles of other versions: no answer ends in a traceback."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dumpfilter.base.errors import ConnectionLost, NotAMaster, SourceStreamDamaged
from dumpfilter.commands.server_status.of_console import master_status, slave_status
from dumpfilter.console.client import console_login
from dumpfilter.receiver.login import objects_of
from tests.receiver.fake_source import OK, FakeSource, packet, result, small_set

ASKS_FOR_FILE = b"\xfb/etc/passwd"


@pytest.fixture
def server() -> Iterator[FakeSource]:
    made = FakeSource(small_set())
    yield made
    made.close()


@pytest.mark.parametrize(
    "rows", [packet(OK, 1), result(["a"], []), result(["a", "b"], [("1", "2")])], ids=["ok", "none", "other"]
)
@pytest.mark.parametrize("role", ["master", "slave"])
def test_other_rows_and_columns_are_an_error(server: FakeSource, role: str, rows: bytes) -> None:
    comment = result(["@@version_comment"], [(f"dumpfilter 0.2.0, {role}",)])
    server.answers = {
        "SELECT @@version_comment": lambda: [comment],
        "SELECT": lambda: [rows],
        "SHOW": lambda: [rows],
    }
    login = console_login("127.0.0.1", server.port, "root", "")
    with pytest.raises(NotAMaster, match="use the dumpfilter of its version"):
        slave_status(login) if role == "slave" else master_status({}, login)


def test_a_server_that_asks_for_a_file_gets_none(server: FakeSource) -> None:
    server.answers = {"SELECT": lambda: [packet(ASKS_FOR_FILE, 1)]}
    with pytest.raises(ConnectionLost, match="local_infile"):
        slave_status(console_login("127.0.0.1", server.port, "root", ""))


@pytest.mark.parametrize("row", [("a",), ("a", "b", "c")])
def test_a_target_with_other_columns_is_an_error(server: FakeSource, row: tuple[str, ...]) -> None:
    server.answers = {"SELECT": lambda: [result(list(row), [row])]}
    with pytest.raises(SourceStreamDamaged, match="no MySQL protocol"):
        objects_of(f"{server.url}?tls=disabled")
