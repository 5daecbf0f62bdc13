"""Real replicas, and the references that tell what they must have."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dumpfilter.base.errors import ReplicaBehind, ServerError
from dumpfilter.testbed.servers import (
    References,
    Route,
    Server,
    SourceAddress,
    replica_status,
    wait_for_gtids,
)
from dumpfilter.testbed.servers.data import equal_gtids
from dumpfilter.testbed.values import Place

Make = Callable[..., Server]
WAIT = 120.0
SHOP = ("replicate-do-db=shop",)


@pytest.fixture
def references(tmp_path: Path) -> Iterator[References]:
    found = References(tmp_path / "references")
    yield found
    found.close()


def start(*servers: Server) -> None:
    for one in servers:
        one.launch()
    for one in servers:
        one.wait_until_ready()


def test_a_replica_follows_filters_and_survives_kills(server: Make, references: References) -> None:
    source = server(
        "m", init=["CREATE DATABASE shop", "CREATE DATABASE hr", "USE shop", "CREATE TABLE t (i INT)"]
    )
    replica = server("r", is_replica=True, rules={"": SHOP})
    start(source, replica)
    assert replica_status(replica) == ()
    with pytest.raises(ReplicaBehind, match=r"r: is no replica"):
        wait_for_gtids(replica, source.binlog_gtids(), 0.0)
    channel = replica.channel()
    channel.follow(source.replication_address)
    source.sql("INSERT INTO t VALUES (1)", database="shop")
    source.kill()
    replica.kill()
    start(source, replica)
    source.sql("CREATE TABLE t (i INT)", database="hr")
    wait_for_gtids(replica, source.binlog_gtids(), WAIT)
    assert replica.sql("SELECT * FROM shop.t") == [(1,)]
    status = channel.status()
    assert status is not None
    assert (status.io_state, status.sql_running, status.errors) == ("Yes", True, "")
    assert status.applied == source.binlog_end()
    assert equal_gtids(replica.applied_gtids(), source.binlog_gtids())

    routes = {"": Route(source.replication_address, (SHOP, SHOP))}
    assert references.check(replica, routes, WAIT) == []
    source.sql("INSERT INTO t VALUES (2)", database="shop")
    assert references.check(replica, routes, WAIT) == []
    replica.sql("SET sql_log_bin = 0", "DELETE FROM shop.t WHERE i = 1", "CREATE VIEW shop.v AS SELECT 1")
    wait_for_gtids(replica, source.binlog_gtids(), WAIT)
    table, view = references.check(replica, routes, WAIT)
    assert re.fullmatch(
        r"r: table shop\.t: found 1 rows with checksum \d+, expected 2 rows with checksum \d+", table
    )
    assert view == "r: view shop.v: found present, expected absent"

    channel.stop()
    with pytest.raises(ReplicaBehind, match=r"r: has stopped before 0-1-99, .*SQL thread No"):
        wait_for_gtids(replica, "0-1-99", WAIT)


def test_a_filter_on_the_way_is_part_of_the_reference(server: Make, references: References) -> None:
    source = server("m", init=[f"CREATE DATABASE {name}" for name in ("shop", "hr", "own")])
    own = ("replicate-ignore-db=own",)
    replica = server("r", is_replica=True, rules={"": own})
    start(source, replica)
    for database in ("own", "shop", "hr"):
        source.sql("CREATE TABLE t (i INT)", database=database)
    replica.channel().follow(source.replication_address, place=Place("bin.000001", 4))
    wait_for_gtids(replica, source.binlog_gtids(), WAIT)
    # The replica has received everything. A filter on the way would have dropped hr.
    route = Route(source.replication_address, (("replicate-ignore-db=hr",), (), own))
    told = references.check(replica, {"": route}, WAIT)
    assert told[0] == "r: database hr: found present, expected absent"
    assert [each.partition(": found")[0] for each in told[1:]] == ["r: table hr.t"]


@pytest.mark.parametrize(
    ("filters", "distinct"),
    [
        ([], [()]),
        ([(), SHOP], [SHOP]),
        ([SHOP, ()], [SHOP]),
        ([SHOP, SHOP, (), SHOP], [SHOP]),
        ([("a",), SHOP, ("a",)], [("a",), SHOP, ("a",)]),
        ([("replicate-rewrite-db=a->b",)] * 2, [("replicate-rewrite-db=a->b",)] * 2),
    ],
    ids=["none", "own", "before", "equal ones", "different ones", "renames"],
)
def test_filters_that_change_nothing_need_no_reference(
    filters: list[tuple[str, ...]], distinct: list[tuple[str, ...]]
) -> None:
    assert list(Route(SourceAddress("h", 1, "u", "p"), tuple(filters)).distinct) == distinct


def test_two_channels_have_their_own_rules(server: Make, references: References) -> None:
    sources = [
        server(name, domain=number, init=[f"CREATE DATABASE {database}" for database in (name, "common")])
        for number, name in enumerate(("a", "b"), 1)
    ]
    rules = {"a": ("replicate-ignore-db=common",), "b": ()}
    replica = server("r", is_replica=True, rules=rules)
    start(*sources, replica)
    for source in sources:
        replica.channel(source.name).follow(source.replication_address)
        wait_for_gtids(replica, source.binlog_gtids(), WAIT)
    assert [status.channel for status in replica_status(replica)] == ["a", "b"]
    routes = {
        source.name: Route(source.replication_address, (tuple(rules[source.name]),)) for source in sources
    }
    assert references.check(replica, routes, WAIT) == []
    replica.restart()
    sources[0].sql("CREATE TABLE t (i INT)", database="common")
    sources[0].sql("CREATE TABLE t (i INT)", database="a")
    sources[1].sql("CREATE TABLE u (i INT)", database="common")
    for source in sources:
        wait_for_gtids(replica, source.binlog_gtids(), WAIT)
    assert references.check(replica, routes, WAIT) == []
    assert replica.sql("SHOW TABLES IN common") == [("u",)]
    # A second way of the same transactions needs no second channel of the reference.
    references.close()
    assert references.check(replica, {**routes, "c": routes["a"]}, WAIT) == []
    references.close()
    with pytest.raises(ServerError, match=r"r: has two channels from one source with different filters"):
        references.check(replica, {**routes, "c": Route(sources[0].replication_address, (SHOP,))}, WAIT)


def test_a_delayed_replica_is_behind(server: Make) -> None:
    source = server("m")
    replica = server("r", is_replica=True)
    start(source, replica)
    channel = replica.channel()
    channel.follow(source.replication_address)
    channel.set_delay(3600)
    source.sql("CREATE DATABASE late")
    with pytest.raises(ReplicaBehind, match=r"r: did not reach within 100 ms 0-1-1"):
        wait_for_gtids(replica, source.binlog_gtids(), 0.1)
    channel.set_delay(0)
    wait_for_gtids(replica, source.binlog_gtids(), WAIT)


def test_a_source_that_refuses_is_told(server: Make) -> None:
    source = server("m")
    replica = server("r", is_replica=True)
    start(source, replica)
    source.sql("CREATE DATABASE a")
    channel = replica.channel()
    channel.follow(SourceAddress(source.host, source.port, "repl", "wrong"))
    while not (status := channel.status()) or status.io_error is None:
        time.sleep(0.05)
    with pytest.raises(ReplicaBehind, match=r"Access denied"):
        wait_for_gtids(replica, source.binlog_gtids(), 0.1)
