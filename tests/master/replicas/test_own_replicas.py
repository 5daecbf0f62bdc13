"""The tables of the console as users of the replication port see them."""

from __future__ import annotations

from collections.abc import Iterator

import pymysql
import pytest

from dumpfilter.console.sql.commands import parse_statement
from dumpfilter.master.console import MasterConsole
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
    for user in ("all", "shop"):
        with mysql.connect(user) as replica:
            with pytest.raises(pymysql.err.OperationalError, match=r"1227.*console"):
                replica.ask("SHOW REPLICAS")
            listed = replica.ask("SELECT DISTINCT table_schema FROM information_schema.tables")
            assert "dumpfilter" not in [row[0] for row in listed]
            for schema, name in console.tables:
                if schema == "dumpfilter":
                    with pytest.raises(pymysql.err.Error):
                        replica.ask(f"SELECT * FROM {schema}.{name}")
            assert replica.ask("SELECT * FROM performance_schema.replication_applier_status") == []
