"""Servers: the address of one that runs already, its binlog files, and a delay that no server takes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dumpfilter.base.errors import OptionError
from dumpfilter.receiver.url import parse_source_url
from dumpfilter.testbed.errors import NodeIsDown
from dumpfilter.testbed.node import Feed, Ground
from dumpfilter.testbed.nodes import RunningServerNode, StartedServer
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
