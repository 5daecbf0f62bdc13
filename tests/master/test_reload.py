"""Users and imposed filters that change while a master runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from structlog.testing import capture_logs

from dumpfilter.base.errors import OptionError
from dumpfilter.base.security.passwords import Sha2Crypt
from dumpfilter.binlog.format import DEFAULT_NAMES
from dumpfilter.console.sql.commands import parse_statement
from dumpfilter.console.sql.server_errors import SqlError
from dumpfilter.filter.base import AllFilters
from dumpfilter.filter.filter import Filter
from dumpfilter.master.config import Account, MasterConfig, load_config
from dumpfilter.master.console import MasterConsole
from dumpfilter.master.process import _reload
from dumpfilter.master.server import MasterServer
from dumpfilter.master.store import BinlogStore
from dumpfilter.v1 import dumpfilter_pb2 as pb
from tests.master.client import Client
from tests.master.test_service import files_of
from tests.oracle.dumping import dump
from tests.support import DATA

MYSQL_ROW = DATA / "oracle" / "mysql-row"
HASHES = {password: str(Sha2Crypt.of(password)) for password in ("pa", "pb", "new")}


def user(name: str, password: str) -> str:
    return f'[[user]]\nname = "{name}"\npassword_hash = "{HASHES[password]}"\n'


def imposed(rule: str = "replicate-ignore-db=hr", more: str = "") -> str:
    return f'[[imposed]]\nname = "x"\nrules = ["{rule}"]\n{more}'


class Reloaded:
    """A master with a configuration file, its console, and a client."""

    def __init__(self, file: Path, text: str) -> None:
        self.file = file
        self.write(text)
        self.server = MasterServer(BinlogStore(MYSQL_ROW), config=load_config(file))
        self.server.start()
        self.server.service.load = lambda names: load_config(file, names=names)
        self.console = MasterConsole(self.server.service)
        self.client = Client(self.server)

    def write(self, text: str) -> None:
        self.file.write_text(text)

    def flush(self, text: str) -> None:
        self.write(text)
        self.console.execute(parse_statement("FLUSH PRIVILEGES"))

    def follow(self, **registration: Any) -> Iterator[pb.Chunk]:
        """Register a slave, and begin a dump that follows the binlog. Return its stream after the first chunk."""
        slave = self.client.register(**registration)
        stream = self.client.dump(slave.slave_id, once=False, heartbeat_period_ms=50)
        next(stream)
        return stream


@pytest.fixture
def master(tmp_path: Path) -> Iterator[Callable[[str], Reloaded]]:
    started: list[Reloaded] = []

    def start(text: str) -> Reloaded:
        started.append(Reloaded(tmp_path / "master.toml", text))
        return started[-1]

    yield start
    for one in started:
        one.client.channel.close()
        one.server.stop(0)


@contextmanager
def ends_with(code: grpc.StatusCode, text: str = "") -> Iterator[None]:
    with pytest.raises(grpc.RpcError) as caught:
        yield
    assert caught.value.code() is code
    assert text in caught.value.details()


def test_users_who_are_gone_or_have_another_password_end(master: Callable[[str], Reloaded]) -> None:
    one = master(user("stays", "pa") + user("goes", "pa") + user("changes", "pa"))
    streams = {
        name: one.follow(user=name, password="pa", server_id=number)
        for number, name in enumerate(("stays", "goes", "changes"), 1)
    }
    one.flush(user("stays", "pa") + user("changes", "new") + user("comes", "pb"))
    for name in ("goes", "changes"):
        with ends_with(grpc.StatusCode.UNAUTHENTICATED, f"no longer has this password for user '{name}'"):
            list(streams[name])
        with ends_with(grpc.StatusCode.UNAUTHENTICATED):
            one.client.register(user=name, password="pa")
    for _ in range(10):
        next(streams["stays"])
    one.client.register(user="changes", password="new", server_id=3)
    one.client.register(user="comes", password="pb", server_id=4)


def test_a_master_that_gets_its_first_user_ends_the_slaves_without_one(
    master: Callable[[str], Reloaded],
) -> None:
    one = master("")
    stream = one.follow()
    one.flush(user("a", "pa"))
    with ends_with(grpc.StatusCode.UNAUTHENTICATED):
        list(stream)
    with ends_with(grpc.StatusCode.UNAUTHENTICATED):
        one.client.register()


@pytest.mark.parametrize(
    ("before", "after"),
    [("", imposed()), (imposed(), ""), (imposed(), imposed("replicate-ignore-db=logs"))],
    ids=["added", "removed", "changed"],
)
def test_a_dump_ends_when_the_imposed_filters_change(
    master: Callable[[str], Reloaded], before: str, after: str
) -> None:
    one = master(before)
    stream = one.follow()
    one.flush(after)
    with ends_with(grpc.StatusCode.NOT_FOUND, "imposed on this slave have changed: register again"):
        list(stream)
    rules = [load_config(one.file).imposed[0].boundary] if after else []
    slave = one.client.register()
    assert len(slave.imposed) == len(rules)
    wanted = dump(sorted(MYSQL_ROW.glob("bin.0*")), AllFilters([Filter(), *rules])).files
    assert files_of(one.client.dump(slave.slave_id)) == wanted


def test_other_slaves_filters_and_the_same_ones_end_no_dump(master: Callable[[str], Reloaded]) -> None:
    one = master(imposed(more="server_ids = [7]\n"))
    stream = one.follow(server_id=7)
    one.flush(imposed(more="server_ids = [7, 8]\n"))
    one.flush(imposed(more="server_ids = [7]\n") + imposed(more="server_ids = [9]\n").replace('"x"', '"y"'))
    for _ in range(10):
        next(stream)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[[user]", "at line 1"),
        ('[[user]]\nname = "a"\n', "password_hash: is missing"),
        (user("a", "pa") + imposed("replicate-ignore-table=x"), "rules: "),
        ("", "no [[user]] is left"),
    ],
    ids=["syntax", "no password", "bad rule", "no user"],
)
def test_a_broken_file_keeps_the_old_configuration(
    master: Callable[[str], Reloaded], text: str, reason: str
) -> None:
    one = master(user("a", "pa") + imposed())
    stream = one.follow(user="a", password="pa")
    with capture_logs() as logs, pytest.raises(OptionError) as caught:
        one.flush(text)
    assert reason in str(caught.value)
    assert "the old configuration stays" in str(caught.value)
    assert [(line["log_level"], reason in line["reason"]) for line in logs] == [("error", True)]
    for _ in range(10):
        next(stream)
    assert one.client.register(user="a", password="pa", server_id=9).imposed


def test_without_a_file_there_is_nothing_to_read(tmp_path: Path) -> None:
    server = MasterServer(BinlogStore(MYSQL_ROW))
    with pytest.raises(OptionError, match="without --config"):
        server.service.reload(DEFAULT_NAMES)
    server.stop(0)


def test_a_registration_during_the_change_is_checked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The configuration changes between the check of the password and the entry into the register."""
    server = MasterServer(
        BinlogStore(MYSQL_ROW), config=MasterConfig(user=(Account(name="a", password_hash=HASHES["pa"]),))
    )
    server.start()
    client = Client(server)
    service = server.service
    add = service.register.add

    def change_and_add(*registration: Any, **more: Any) -> Any:
        if "b" not in service.config.users:
            service.reconfigure(MasterConfig(user=(Account(name="b", password_hash=HASHES["pb"]),)))
        return add(*registration, **more)

    monkeypatch.setattr(service.register, "add", change_and_add)
    with ends_with(grpc.StatusCode.UNAUTHENTICATED):
        client.register(user="a", password="pa")
    assert not service.register.all()
    client.channel.close()
    server.stop(0)


def test_unregister_replica(master: Callable[[str], Reloaded]) -> None:
    one = master("")
    stream, other = one.follow(server_id=101), one.follow(server_id=102)
    result = one.console.execute(parse_statement("UNREGISTER REPLICA 101"))
    assert result.affected == 1
    with ends_with(grpc.StatusCode.ABORTED, "UNREGISTER REPLICA"):
        list(stream)
    next(other)
    with pytest.raises(SqlError, match="served no slave with server id 101"):
        one.console.execute(parse_statement("UNREGISTER REPLICA 101"))
    (left,) = one.server.service.register.all()
    with pytest.raises(SqlError, match="served no slave with uuid"):
        one.console.execute(parse_statement(f"UNREGISTER REPLICA '{left.peer.uuid}' FOR CHANNEL 'c'"))
    one.console.execute(parse_statement(f"UNREGISTER REPLICA '{left.peer.uuid.upper()}' FOR CHANNEL ''"))
    assert not one.server.service.register.all()


def test_sighup_is_in_the_audit_log_if_the_master_has_a_file(master: Callable[[str], Reloaded]) -> None:
    one = master(user("a", "pa"))
    service = one.server.service
    with capture_logs() as logs:
        _reload(service)
    service.load = None
    with capture_logs() as nothing:
        _reload(service)
    assert nothing == []
    assert [line["result"] for line in logs if line.get("what") == "SIGHUP"] == ["ok"]
