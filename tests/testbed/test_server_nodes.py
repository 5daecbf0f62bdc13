"""Servers: the address of one that runs already, its binlog files, a delay that no server takes, and a hang."""

from __future__ import annotations

import socket
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dumpfilter.base.errors import OptionError
from dumpfilter.receiver.url import parse_source_url
from dumpfilter.testbed import node as nodes
from dumpfilter.testbed import nodes as own_nodes
from dumpfilter.testbed.errors import NodeIsDown, NotCaughtUp
from dumpfilter.testbed.node import Feed, Ground
from dumpfilter.testbed.nodes import RunningServerNode, Slave, StartedServer
from dumpfilter.testbed.servers import sql
from dumpfilter.testbed.values import Place
from dumpfilter.topology import Topology, make_topology, master, running, server

URL = "mysql://repl@db1:3306/"


def node_of(directory: Path, topology: Topology) -> RunningServerNode:
    shared = SimpleNamespace(directory=directory, directory_of=directory.joinpath, topology=topology)
    ground = cast("Ground", shared)
    return RunningServerNode(ground, topology["db"], [])


@pytest.mark.parametrize("user", ["repl", "re@pl", "re:pl/?#%41"])
def test_any_users_name_is_in_the_address_for_a_master(tmp_path: Path, user: str) -> None:
    (tmp_path / "password").write_text("secret")
    (tmp_path / "password").chmod(0o600)
    spelled = "".join(f"%{byte:02X}" for byte in user.encode())
    url = f"mysql://{spelled}@db1:3306/?password-file={tmp_path / 'password'}"
    node = node_of(tmp_path, make_topology(running("db", url)))
    feed = cast("Feed", SimpleNamespace(address=("127.0.0.1", 4711)))
    found = parse_source_url(node.arguments_for_master(feed, tmp_path)[0])
    assert (found.user, found.host, found.port) == (user, "127.0.0.1", 4711)


@pytest.mark.parametrize(
    "url", ["mysql://db1:x/", "mysql://[::1/", "mysql://repl@db1/?password-file=nowhere"]
)
def test_a_wrong_address_names_the_node_and_the_key(tmp_path: Path, url: str) -> None:
    with pytest.raises(OptionError, match=r"^node db: connect: "):
        node_of(tmp_path, make_topology(running("db", url)))


def test_the_binlog_files_of_a_running_server_are_those_of_its_first_master(tmp_path: Path) -> None:
    db, replica = running("db", URL), server("end", reads="db")
    node = node_of(tmp_path, make_topology(db, replica, master("f", "db"), master("g", "db")))
    assert node.watched.source == tmp_path / "f" / "store"
    # Without a master the lag of a replica is not known. Its status is.
    with pytest.raises(NodeIsDown, match="db: there are no binlog files"):
        node_of(tmp_path, make_topology(db, replica)).watched.files()


@pytest.mark.parametrize("seconds", [-5.0, float("inf"), float("nan"), 2.0**31])
def test_a_wrong_delay_reaches_no_server(seconds: float) -> None:
    """A server would stop its replication, refuse the delay, and stay stopped."""
    asked: list[Any] = []
    dialect = SimpleNamespace(delayed=lambda channel, seconds, applies: [channel, seconds, applies])
    told = SimpleNamespace(dialect=dialect, sql=lambda *statements: asked.append(statements))
    node: Any = SimpleNamespace(
        _check_running=lambda: None, _is_paused=False, server=told, feeds=[SimpleNamespace(channel="c")]
    )
    with pytest.raises(OptionError, match=r"^delay: "):
        StartedServer._hold(node, seconds)
    StartedServer._hold(node, 2.5)
    assert asked == [("c", 3, True)]


@pytest.mark.parametrize("kind", [StartedServer, Slave])
def test_a_node_that_hangs_ends_a_wait_in_time(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name, seconds in (
        *((module, "TURN", 0.1) for module in (nodes, own_nodes)),
        *((sql, name, seconds) for name, seconds in (("CONNECT_TIMEOUT", 2.0), ("READ_TIMEOUT", 2.0))),
    ):
        monkeypatch.setattr(module, name, seconds)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        server = sql.SqlServer("r", "mariadb", *silent.getsockname(), sql.Account("root", ""))
        feed = SimpleNamespace(origin=None, fault="")
        node: Any = SimpleNamespace(
            name="r", server=server, feeds=[feed], applies=True, is_running=True, _is_paused=False
        )
        node.applied_place, node._check_running = lambda _: Place("bin.1", 4), lambda: None
        node._lack = lambda goal, timeout: kind._lack(node, goal, timeout)
        goal: Any = SimpleNamespace(origin=None, gtids="0-1-7", place=Place("bin.1", 900))
        goal.origin = feed.origin = SimpleNamespace(name="m")
        begin = time.monotonic()
        with pytest.raises(NotCaughtUp, match=r"^r: (?!r: ).*should have"):
            nodes.TestbedNode.wait_for(node, goal, begin + 0.2)
        assert time.monotonic() - begin < 2
