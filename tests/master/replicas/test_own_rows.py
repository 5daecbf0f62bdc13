"""The tables of the console as users of the replication port see them."""

from __future__ import annotations

from collections.abc import Iterator
from unittest.mock import Mock

import pytest

from dumpfilter.console.sql.commands import ShowReplicas
from dumpfilter.console.sql.result import Result
from dumpfilter.filter import Filter
from dumpfilter.index.subjects import Subjects
from dumpfilter.master.console import MasterConsole
from dumpfilter.master.register import Register
from dumpfilter.master.replicas.server import OwnRows
from dumpfilter.master.who import MYSQL_PROTOCOL, Peer
from tests.master.replicas.serving import MYSQL, UUID, Replica, Serving, serving

NOTHING = b"\0" * 8
_ENDLESS = 0


@pytest.fixture(scope="module")
def mysql() -> Iterator[Serving]:
    with serving(MYSQL) as served:
        yield served


@pytest.fixture(scope="module")
def dumping(mysql: Serving) -> Iterator[list[Replica]]:
    """Return replicas of two users that receive events."""
    replicas = []
    for number, user in enumerate(("all", "shop"), 101):
        replica = mysql.connect(user).greet(uuid=UUID[:-1] + str(number % 10))
        replica.register(number)
        replica.dump_gtid(NOTHING, flags=_ENDLESS, server_id=number)
        replica.event()
        replicas.append(replica)
    yield replicas
    for replica in replicas:
        replica.__exit__()


@pytest.mark.usefixtures("dumping")
@pytest.mark.parametrize("user", ["all", "shop"])
def test_other_users_have_no_rows(mysql: Serving, user: str) -> None:
    console = MasterConsole(mysql.server.service)
    own = OwnRows(console, user, mysql.server.service.register)
    seen = 0
    for schema, name in console.table_names():
        every, mine = console.table(schema, name), own.table(schema, name)
        assert every is not None
        assert mine is not None
        assert mine.columns == every.columns
        columns = [column.name for column in every.columns]
        if schema == "dumpfilter" and "user" in columns:
            users = {row[columns.index("user")] for row in mine.rows}
            assert users <= {user}
            seen += len(users)
    assert seen >= 2
    every = [row[0] for row in console.execute(ShowReplicas()).rows]
    assert sorted(every) == [101, 102]
    assert [row[0] for row in own.execute(ShowReplicas()).rows] == [101 if user == "all" else 102]


@pytest.mark.usefixtures("dumping")
def test_the_port_hides_the_rows_of_other_users(mysql: Serving) -> None:
    with mysql.connect("shop") as replica:
        assert replica.ask("SELECT DISTINCT user FROM dumpfilter.slaves") == [("shop",)]
        assert replica.ask("SELECT DISTINCT user FROM dumpfilter.slave_counters") == [("shop",)]
        assert [row[0] for row in replica.ask("SHOW REPLICAS")] == [102]


def test_a_server_id_of_ones_own_shows_no_other_users_replica() -> None:
    register = Register(Subjects())
    for user, host in (("all", "a"), ("shop", "b")):
        register.add(Peer(user, server_id=7, uuid=UUID, host=host, protocol=MYSQL_PROTOCOL), Filter([]))
    every = [slave.peer.row(1) for slave in register.all()]
    for width in (4, 5):
        rows = [row[:width] for row in every]
        # The console of a slave, whose relay log the port serves, has no table of slaves.
        executor = Mock(**{"execute.return_value": Result(rows=rows), "table.return_value": None})
        assert OwnRows(executor, "shop", register).execute(ShowReplicas()).rows == rows[1:]
