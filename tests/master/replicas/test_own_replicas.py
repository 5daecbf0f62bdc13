"""The tables of the console as users of the replication port see them."""

from __future__ import annotations

from collections.abc import Iterator
from unittest.mock import Mock

import pymysql
import pytest

from dumpfilter.console.sql.commands import parse_statement
from dumpfilter.console.sql.result import Result
from dumpfilter.filter.filter import Filter
from dumpfilter.index.subjects import Subjects
from dumpfilter.master.console import MasterConsole
from dumpfilter.master.register import Register
from dumpfilter.master.replicas.connection import OwnReplicas
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
def test_the_port_hides_the_replicas_of_other_users_and_the_operators_tables(mysql: Serving) -> None:
    console = MasterConsole(mysql.server.service)
    assert sorted(row[0] for row in console.execute(parse_statement("SHOW REPLICAS")).rows) == [101, 102]
    for user, server_id in (("all", 101), ("shop", 102)):
        with mysql.connect(user) as replica:
            assert [row[0] for row in replica.ask("SHOW REPLICAS")] == [server_id]
            listed = replica.ask("SELECT DISTINCT table_schema FROM information_schema.tables")
            assert "dumpfilter" not in [row[0] for row in listed]
            for schema, name in console.tables:
                if schema == "dumpfilter":
                    with pytest.raises(pymysql.err.Error):
                        replica.ask(f"SELECT * FROM {schema}.{name}")
            assert replica.ask("SELECT * FROM performance_schema.replication_applier_status") == []


def test_a_server_id_of_ones_own_shows_no_other_users_replica() -> None:
    register = Register(Subjects())
    for user, host in (("all", "a"), ("shop", "b")):
        register.add(Peer(user, server_id=7, uuid=UUID, host=host, protocol=MYSQL_PROTOCOL), Filter([]))
    every = [slave.peer.row(1) for slave in register.all()]
    for width in (4, 5):
        rows = [row[:width] for row in every]
        # The console of a slave, whose relay log the port serves, has no table of slaves.
        executor = Mock(**{"execute.return_value": Result(rows=rows), "table.return_value": None})
        assert (
            OwnReplicas(executor, "shop", register, Mock()).execute(parse_statement("SHOW REPLICAS")).rows
            == rows[1:]
        )
