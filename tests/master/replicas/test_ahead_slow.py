"""Replicas and slaves with GTIDs that their source does not have: refused exactly where real servers refuse them."""

from __future__ import annotations

import base64
import contextlib
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pymysql
import pytest

from dumpfilter.base.errors import ConnectionLost
from dumpfilter.binlog.events import EventType
from dumpfilter.binlog.gtid import MariadbGtidSet, MysqlGtidSet
from dumpfilter.binlog.gtid_events import encode_previous_gtids
from dumpfilter.master import dump_start
from dumpfilter.master.source import SourceEnded
from dumpfilter.master.store import Logged
from tests.master.client import Client
from tests.master.replicas.record_ahead import RECORDED, ask
from tests.master.replicas.serving import UUID, Replica, Serving, kinds, serving
from tests.slave.driven import wait_until

FAMILIES = ("mysql", "mariadb")


def recorded(family: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RECORDED / f"ahead-{family}.json").read_text())
    return found


def write(scenario: dict[str, Any], uuid: str, directory: Path, files: int = 2) -> None:
    """Write the first files of a scenario as a server's data directory."""
    names = list(scenario["files"])[:files]
    for name in names:
        # A file is empty for a moment while it is written. A running server must not read it then.
        if not (directory / name).exists():
            (directory / name).write_bytes(base64.b64decode(scenario["files"][name]))
    if uuid:
        (directory / "auto.cnf").write_text(f"[auto]\nserver-uuid={uuid}\n")
    index = directory / "bin.index.new"
    index.write_text("".join(f"./{name}\n" for name in names))
    index.rename(directory / "bin.index")


SCENARIOS = [(family, name) for family in FAMILIES for name in recorded(family)["scenarios"]]


@pytest.mark.parametrize(("family", "name"), SCENARIOS, ids=str)
def test_a_replica_is_refused_where_a_server_refuses_it(family: str, name: str, tmp_path: Path) -> None:
    found = recorded(family)
    scenario = found["scenarios"][name]
    write(scenario, found["uuid"], tmp_path)
    with serving(tmp_path) as served:
        for answer in scenario["answers"]:
            with served.connect() as replica:
                assert ask(replica, answer, family, found["uuid"]) == answer["error"], answer


@pytest.mark.parametrize(
    ("family", "gtids", "text"),
    [
        ("mysql", "{}:1-3", None),
        ("mysql", "{}:1-2:7", "Replica has more GTIDs than the source has"),
        ("mysql", "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee:1-5,{}:1-3", None),
        ("mariadb", "0-1-3", None),
        ("mariadb", "0-1-4", "requested to start from GTID 0-1-4, which is not in the master's binlog"),
        ("mariadb", "0-5-3", "the slave has diverged due to executing extra erroneous transactions"),
        # A slave of dumpfilter may not know which server wrote its last transaction.
        ("mariadb", "0-0-3", None),
        ("mariadb", "0-0-4", "which is not in the master's binlog"),
        ("mariadb", "0-1-1:1,0-1-3:4", "which is not in the master's binlog"),
    ],
)
def test_a_slave_is_refused_as_a_replica(family: str, gtids: str, text: str | None, tmp_path: Path) -> None:
    found = recorded(family)
    write(next(iter(found["scenarios"].values())), found["uuid"], tmp_path)
    with serving(tmp_path) as served, contextlib.closing(Client(served.server)) as client:
        chunks = client.dump(client.register().slave_id, gtid_set=gtids.format(found["uuid"]))
        if text is None:
            assert list(chunks)
            return
        with pytest.raises(grpc.RpcError) as refused:
            list(chunks)
        assert refused.value.code() is grpc.StatusCode.OUT_OF_RANGE
        assert text in refused.value.details()


def test_a_domain_that_appears_later_is_checked_then(tmp_path: Path) -> None:
    found = recorded("mariadb")["scenarios"]["two files"]
    write(found, "", tmp_path, files=1)
    with serving(tmp_path) as served, served.connect() as replica:
        replica.greet(family="mariadb")
        replica.ask("SET @slave_connect_state='0-2-2,7-1-2'")
        replica.dump(flags=0)
        replica.event()
        write(found, "", tmp_path)
        with pytest.raises(pymysql.err.MySQLError, match="GTID 7-1-2, which is not in the master's binlog"):
            list(replica.events())


class Upstream:
    """A source that a store is received from. It has logged more than the store."""

    def __init__(self, answer: Callable[[], Logged]) -> None:
        self._answer = answer
        self.asked = threading.Event()

    def __call__(self) -> Logged:
        self.asked.set()
        return self._answer()


def _behind(served: Serving, answer: Callable[[], Logged]) -> Upstream:
    upstream = Upstream(answer)
    served.server.service.store.upstream = upstream
    return upstream


def _cannot_be_asked() -> Logged:
    raise ConnectionLost("mysql://repl@db1:3306/: cannot be reached")


def _mariadb_source(*state: str) -> Logged:
    logged = Logged(MariadbGtidSet(), end=("bin.000002", 10_000))
    logged.list([next(iter(MariadbGtidSet.parse(each).gtids())) for each in state])
    return logged


def _connect_by_gtids(replica: Replica, family: str, gtids: str, flags: int = 1) -> None:
    replica.greet(uuid=UUID if family == "mysql" else "", family=family)
    if family == "mysql":
        replica.dump_gtid(encode_previous_gtids(MysqlGtidSet.parse(gtids)))
    else:
        replica.ask(f"SET @slave_connect_state='{gtids}'")
        replica.dump(flags=flags)


@pytest.mark.parametrize("by_gtids", [True, False])
def test_the_answer_waits_for_a_store_that_is_behind(by_gtids: bool, tmp_path: Path) -> None:
    found = recorded("mariadb")["scenarios"]["two files"]
    write(found, "", tmp_path, files=1)
    with serving(tmp_path) as served, served.connect() as replica:
        upstream = _behind(served, lambda: _mariadb_source("0-1-1", "0-2-3", "7-1-1"))
        if by_gtids:
            _connect_by_gtids(replica, "mariadb", "0-2-3")
        else:
            replica.greet(family="mariadb")
            replica.dump("bin.000002", 4)
        wait_until(upstream.asked.is_set)
        write(found, "", tmp_path)
        assert list(replica.events())


@pytest.mark.parametrize("family", FAMILIES)
def test_a_source_that_lacks_the_gtids_itself_decides(family: str, tmp_path: Path) -> None:
    found = recorded(family)
    write(next(iter(found["scenarios"].values())), found["uuid"], tmp_path)
    own = found["uuid"]
    source = Logged(MysqlGtidSet.parse(f"{own}:1-4")) if family == "mysql" else _mariadb_source("0-1-4")
    with serving(tmp_path) as served, served.connect() as replica:
        _behind(served, lambda: source)
        _connect_by_gtids(replica, family, f"{own}:1-5" if family == "mysql" else "0-1-5")
        with pytest.raises(pymysql.err.MySQLError, match=r"more GTIDs|not in the master's binlog") as refused:
            replica.event()
        assert refused.value.args[0] == 1236


def test_a_position_of_the_source_as_a_replica_is_accepted(tmp_path: Path) -> None:
    found = recorded("mariadb")["scenarios"]["one server"]
    write(found, "", tmp_path)
    with serving(tmp_path) as served, served.connect() as replica:
        position = frozenset(MariadbGtidSet.parse("0-9-7").gtids())
        source = Logged(MariadbGtidSet(), {(0, 1): 3}, position)
        _behind(served, lambda: source)
        _connect_by_gtids(replica, "mariadb", "0-9-7")
        assert list(replica.events())


@pytest.mark.parametrize("answer", [_cannot_be_asked, lambda: _mariadb_source("0-1-9")])
def test_a_wait_without_end_ends_with_an_error_that_passes(
    answer: Callable[[], Logged], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dump_start, "LONGEST_WAIT", 0.0)
    write(recorded("mariadb")["scenarios"]["one server"], "", tmp_path)
    with serving(tmp_path) as served, served.connect() as replica:
        _behind(served, answer)
        _connect_by_gtids(replica, "mariadb", "0-1-9")
        with pytest.raises(pymysql.err.MySQLError, match="do not reach the replica's place yet") as refused:
            replica.event()
        # A replica tries again at any number but 1236.
        assert refused.value.args[0] == 1105


def test_a_replica_stops_at_the_end_of_a_store_whose_source_began_anew(tmp_path: Path) -> None:
    write(recorded("mariadb")["scenarios"]["one server"], "", tmp_path)
    with serving(tmp_path) as served, served.connect() as replica:
        served.server.service.store.ended = lambda: SourceEnded("the source cannot go on")
        _connect_by_gtids(replica, "mariadb", "0-1-2", flags=0)
        received: list[bytes] = []
        with pytest.raises(pymysql.err.MySQLError, match="the source cannot go on") as stopped:
            received.extend(replica.events())
        assert stopped.value.args[0] == 1236
        assert EventType.MARIADB_GTID in kinds(received)
