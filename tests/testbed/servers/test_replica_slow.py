"""Real replicas: channels, rules, kills, delays and waits."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

from dumpfilter.base.waiting import until
from dumpfilter.testbed.servers.server import Server
from dumpfilter.testbed.servers.sql import SourceAddress, channel_states, equal_gtids
from tests.testbed.servers.conftest import start

Make = Callable[..., Server]
WAIT = 120.0
SHOP = ("replicate-do-db=shop",)


def catch_up(replica: Server, source: Server) -> None:
    wait = replica.dialect.wait(source.binlog_gtids(), 1.0)
    until(
        lambda: replica.sql(wait) == [(0,)],
        time.monotonic() + WAIT,
        lambda: AssertionError(str(channel_states(replica))),
    )


def follow(replica: Server, source: SourceAddress, channel: str = "") -> None:
    replica.set_source(source, channel)
    replica.control("START", [channel])


def test_a_replica_follows_filters_and_survives_kills(server: Make) -> None:
    source = server(
        "m", init=["CREATE DATABASE shop", "CREATE DATABASE hr", "USE shop", "CREATE TABLE t (i INT)"]
    )
    replica = server("r", rules={"": SHOP})
    start(source, replica)
    assert channel_states(replica) == []
    follow(replica, source.replication_address)
    source.sql("INSERT INTO t VALUES (1)", database="shop")
    source.kill()
    replica.kill()
    start(source, replica)
    source.sql("CREATE TABLE t (i INT)", database="hr")
    catch_up(replica, source)
    assert replica.sql("SELECT * FROM shop.t") == [(1,)]
    (status,) = channel_states(replica)
    assert (status.io, status.sql, status.errors) == ("Yes", "Yes", ())
    assert status.applied == source.binlog_end()
    assert equal_gtids(replica.applied_gtids(), source.binlog_gtids())


def test_two_channels_have_their_own_rules(server: Make) -> None:
    sources = [
        server(
            name,
            options=[f"--gtid-domain-id={number}"],
            init=[f"CREATE DATABASE {database}" for database in (name, "common")],
        )
        for number, name in enumerate(("a", "b"), 1)
    ]
    rules = {"a": ("replicate-ignore-db=common",), "b": ()}
    replica = server("r", rules=rules)
    start(*sources, replica)
    for source in sources:
        follow(replica, source.replication_address, source.name)
        catch_up(replica, source)
    assert [status.channel for status in channel_states(replica)] == ["a", "b"]
    replica.stop()
    replica.start()
    sources[0].sql("CREATE TABLE t (i INT)", database="common")
    sources[0].sql("CREATE TABLE t (i INT)", database="a")
    sources[1].sql("CREATE TABLE u (i INT)", database="common")
    for source in sources:
        catch_up(replica, source)
    assert replica.sql("SHOW TABLES IN common") == [("u",)]


def test_a_delayed_replica_is_behind(server: Make) -> None:
    source = server("m")
    replica = server("r")
    start(source, replica)
    follow(replica, source.replication_address)
    replica.sql(*replica.dialect.delayed("", 3600))
    source.sql("CREATE DATABASE late")
    assert replica.sql(replica.dialect.wait(source.binlog_gtids(), 0.1)) == [(-1,)]
    replica.sql(*replica.dialect.delayed("", 0))
    catch_up(replica, source)


def test_a_source_that_refuses_is_told(server: Make) -> None:
    source = server("m")
    replica = server("r")
    start(source, replica)
    source.sql("CREATE DATABASE a")
    follow(replica, SourceAddress(source.host, source.port, "repl", "wrong"))
    while not (errors := channel_states(replica)[0].errors):
        time.sleep(0.05)
    assert "Access denied" in errors[0]


def test_the_error_about_a_statement_in_latin1_is_shown(server: Make) -> None:
    source = server("m", options=["--binlog-format=STATEMENT"])
    replica = server("r")
    start(source, replica)
    follow(replica, source.replication_address)
    source.sql("CREATE DATABASE shop", "CREATE TABLE shop.t (v VARCHAR(9) CHARACTER SET utf8mb4)")
    catch_up(replica, source)
    replica.sql("DROP TABLE shop.t")
    with source.connect(charset="latin1") as session:
        session.cursor().execute("INSERT INTO shop.t VALUES ('é')")
    while not (errors := channel_states(replica)[0].errors):
        time.sleep(0.05)
    # Since 11.8 MariaDB writes a question mark itself.
    assert re.search(r"Query: 'INSERT INTO shop\.t VALUES \('(\\xe9|\?)'\)'", errors[0])
