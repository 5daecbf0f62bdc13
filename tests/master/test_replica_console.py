"""The statement and the tables of the master's console about the filters of real replicas."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from dumpfilter.base.errors import OptionError
from dumpfilter.commands.server_status.model import MASTER, MaxLag, judge
from dumpfilter.console.sql.commands import parse_statement
from dumpfilter.console.sql.result import Result
from dumpfilter.master.config import ReplicaEntry
from dumpfilter.master.console import MasterConsole
from dumpfilter.master.replica_filters import ReplicaRefused
from dumpfilter.master.server import MasterServer
from dumpfilter.master.store import BinlogStore
from dumpfilter.master.who import MYSQL_PROTOCOL, Peer
from tests.master.replicas.entries import PEER, Own, adopting, checked
from tests.master.replicas.serving import MYSQL, entry


class Consoled:
    """A master's console with real replicas in the register."""

    def __init__(self, server: MasterServer, entries: Sequence[ReplicaEntry], own: Own | None = None) -> None:
        self.register = server.service.register
        self.filters = server.service.filters
        self.filters._read = own or Own()
        self.filters.take_over(entries)
        self.console = MasterConsole(server.service)

    def run(self, statement: str) -> Result:
        return self.console.execute(parse_statement(statement))

    def table(self, name: str) -> list[dict[str, Any]]:
        table = self.console.tables["dumpfilter", name]()
        return [dict(zip([column.name for column in table.columns], row, strict=True)) for row in table.rows]

    def dump(self, user: str = "r") -> None:
        slave = self.register.add(
            Peer(user, "", 7, "ipv4:127.0.0.1:5000", "u", "h", 3306, MYSQL_PROTOCOL),
            entry(user, ["--replicate-do-db=a"]).filter,  # type: ignore[arg-type]
        )
        self.register.begin_dump(slave)
        self.register.progress(slave, "bin.000001", 1234, None)


@pytest.fixture
def server() -> Iterator[MasterServer]:
    server = MasterServer(BinlogStore(MYSQL))
    yield server
    server.stop(0)


def test_a_wider_filter_is_warned_of_with_its_place(server: MasterServer) -> None:
    console = Consoled(server, [entry("r", ["--replicate-do-db=a"])])
    console.dump()
    result = console.run("CHANGE REPLICATION FILTER REPLICATE_DO_DB = (a, b) FOR REPLICA 'r'")
    assert result.affected == 1
    wider, own, lost = (note.message for note in result.notes)
    assert "server id 7, channel ''" in wider
    assert "current database 'b' from bin.000001:1234 on" in wider
    assert "change it, too, on the replica" in own
    assert "without --state-dir" in lost
    (row,) = console.table("replica_filters")
    assert (row["origin"], row["registered"], row["dumping"]) == ("console", 1, 1)
    assert row["rules"] == "--replicate-do-db=a --replicate-do-db=b"
    result = console.run("CHANGE REPLICATION FILTER REPLICATE_DO_DB = (a) FOR REPLICA 'r'")
    assert not any("passes" in note.message for note in result.notes)
    (row,) = console.table("replica_filters")
    assert (row["origin"], row["changed_at"]) == ("configuration", None)


def test_a_kept_change_of_a_checked_filter_needs_no_further_warning(server: MasterServer) -> None:
    console = Consoled(server, [checked("do-db=a")])
    console.filters.on_change.append(lambda: None)
    result = console.run("CHANGE REPLICATION FILTER REPLICATE_IGNORE_TABLE = (a.t) FOR REPLICA 'r'")
    assert not result.notes
    (note,) = console.run("CHANGE REPLICATION FILTER REPLICATE_IGNORE_TABLE = () FOR REPLICA 'r'").notes
    assert "a new copy of these tables" in note.message


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("REPLICATE_DO_DB = (a) FOR REPLICA 'nobody'", "no .* of user 'nobody'"),
        ("REPLICATE_DO_DB = (a) FOR REPLICA 'r' SERVER_ID 8", "has no "),
        ("REPLICATE_DO_DB = (a) FOR REPLICA 's'", "adopts the filter"),
    ],
)
def test_a_statement_that_means_no_entry_is_an_error(
    server: MasterServer, statement: str, reason: str
) -> None:
    console = Consoled(server, [entry("r", []), adopting("s")])
    with pytest.raises(OptionError, match=reason):
        console.run(f"CHANGE REPLICATION FILTER {statement}")


def test_a_master_without_real_replicas(server: MasterServer) -> None:
    console = MasterConsole(server.service)
    with pytest.raises(OptionError, match="without --replica-port"):
        console.execute(parse_statement("CHANGE REPLICATION FILTER REPLICATE_DO_DB = (a) FOR REPLICA 'r'"))
    for name in ("replica_filters", "replica_drift"):
        table = console.tables["dumpfilter", name]()
        assert not table.rows


def test_drift_is_a_problem_of_the_status(server: MasterServer) -> None:
    own = Own("do-db=b")
    console = Consoled(server, [checked("do-db=a")], own)
    assert not console.table("replica_drift")
    with pytest.raises(ReplicaRefused):
        console.filters.filter_for(PEER)
    drift = console.table("replica_drift")
    assert [(row["user"], row["server_id"], row["refused"]) for row in drift] == [("r", 7, 0)]
    (problem,) = judge(MASTER | {"drift": drift}, MaxLag())
    assert problem.startswith("replica 7 of user r: the replica's own filter is wider")
    (row,) = console.table("replica_filters")
    assert (row["own_filter_read"], row["on_drift"]) == (1, "warn")
