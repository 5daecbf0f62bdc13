"""A slave serves what it received: replicas get each transaction once, whatever the slave does meanwhile."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pymysql
import pytest
from pymysql.connections import Connection
from structlog.testing import capture_logs

from dumpfilter.base.errors import OptionError
from dumpfilter.base.security.listening import Endpoint
from dumpfilter.binlog.gtid import MysqlGtidSet
from dumpfilter.binlog.gtid_events import encode_previous_gtids
from dumpfilter.edge import Edge, ServedChannel
from dumpfilter.master.sharing import SharedReader
from dumpfilter.slave.options import EdgeOptions
from dumpfilter.slave.relay_log import read_index
from dumpfilter.slave.state import MasterInfo
from tests.edge.edges import USER, Edged, Follower, edged
from tests.master.replicas.serving import PASSWORD, Replica
from tests.master.replicas.serving import UUID as REPLICA_UUID
from tests.master.test_relay_plans import Streamed
from tests.slave.driven import UUID, Master, driven, serving, wait_until
from tests.slave.growing import GrowingCopy
from tests.support import DATA

MYSQL = DATA / "oracle" / "mysql-row"
SHOP = "--replicate-do-db=shop"
ALL = f"{UUID}:1-74"


@pytest.fixture(scope="module")
def master() -> Iterator[Master]:
    with serving(MYSQL) as running:
        yield running


def follow(edge: Edged, master: Master, channel: str = "", **options: str) -> None:
    edge.driven.follow(master, channel, **{"SOURCE_AUTO_POSITION": "1"} | options)
    edge.driven.sql(f"START REPLICA IO_THREAD FOR CHANNEL '{channel}'")


def same_events(follower: Follower, rules: list[str]) -> None:
    """Check that a client got the events that a replica of the master gets, but for the stand-ins."""
    there = {raw for _, raw, _ in Streamed(MYSQL, rules).events}
    kept = [event for event in follower.events if event in there]
    assert len(kept) > 50
    assert follower.order == [f"{UUID}:{number}" for number in range(1, 75)]


def test_a_replica_gets_what_the_slave_has_received(master: Master, tmp_path: Path) -> None:
    with edged(tmp_path / "slave", SHOP) as edge:
        follow(edge, master)
        edge.driven.catch_up(master, executed=False)
        follower = Follower(edge)
        follower.receive(ALL)
        same_events(follower, [SHOP])
        assert follower.place == "bin.000002"
        assert not follower.errors


def test_a_replica_may_come_before_the_slave_has_received_anything(master: Master, tmp_path: Path) -> None:
    with edged(tmp_path / "slave", SHOP) as edge:
        with pytest.raises(pymysql.err.OperationalError, match="has received nothing from its master yet"):
            edge.connect_now()
        follow(edge, master)
        follower = Follower(edge)
        follower.receive(ALL)
        assert follower.order == [f"{UUID}:{number}" for number in range(1, 75)]


def test_replicas_follow_while_the_slave_receives(tmp_path: Path) -> None:
    """The master dies in the middle of a transaction, the slave stops and goes on, and files rotate."""
    copy = GrowingCopy(MYSQL, tmp_path / "binlog", seed=5)
    with serving(tmp_path / "binlog") as running, edged(tmp_path / "slave", SHOP) as edge:
        follow(edge, running)
        follower = Follower(edge)
        for number in range(1, 75):
            copy.more(1)
            if number % 20 == 0:
                running.stop()
                copy.more(1)
                running.start()
            if number % 15 == 0:
                edge.driven.sql("STOP REPLICA IO_THREAD")
                edge.driven.sql("START REPLICA IO_THREAD")
        copy.more(10)
        follower.receive(ALL)
        same_events(follower, [SHOP])


def test_a_replica_gets_each_transaction_once_when_the_filter_changes(master: Master, tmp_path: Path) -> None:
    """The slave goes back, and the replica has transactions that the slave receives again."""
    with edged(tmp_path / "slave", SHOP) as edge:
        follow(edge, master)
        edge.driven.catch_up(master, executed=False)
        follower = Follower(edge)
        follower.receive(f"{UUID}:1-30")
        late = Follower(edge)
        late.receive(f"{UUID}:1-3")
        with edge.connect() as waiting:
            waiting.greet(uuid=REPLICA_UUID.replace("6", "7"))
            waiting.register(8)
            waiting.dump_gtid(encode_previous_gtids(MysqlGtidSet.parse(ALL)), flags=0, server_id=8)
            waiting.event()
            edge.driven.sql("CHANGE REPLICATION FILTER REPLICATE_DO_DB = (hr)")
            with pytest.raises(pymysql.err.MySQLError, match="discards this part of its relay log"):
                list(waiting.events())
        edge.driven.catch_up(master, executed=False)
        for client in (follower, late):
            client.receive(ALL)
            assert client.order == [f"{UUID}:{number}" for number in range(1, 75)]
        narrow = {raw for _, raw, _ in Streamed(MYSQL, ["--replicate-do-db=hr"]).events}
        assert sum(event in narrow for event in late.events) > 20


def test_a_reset_slave_begins_anew(master: Master, tmp_path: Path) -> None:
    with edged(tmp_path / "slave", SHOP) as edge:
        follow(edge, master)
        edge.driven.catch_up(master, executed=False)
        follower = Follower(edge)
        follower.receive(f"{UUID}:1-30")
        edge.driven.sql("STOP REPLICA")
        edge.driven.sql("RESET REPLICA")
        with pytest.raises(pymysql.err.OperationalError, match="has received nothing"):
            edge.connect_now()
        edge.driven.sql("START REPLICA IO_THREAD")
        follower.receive(ALL)
        assert follower.order == [f"{UUID}:{number}" for number in range(1, 75)]


def test_a_replica_that_logged_in_before_a_reset_is_told(master: Master, tmp_path: Path) -> None:
    with edged(tmp_path / "slave", SHOP) as edge:
        follow(edge, master)
        edge.driven.catch_up(master, executed=False)
        with edge.connect() as replica:
            replica.greet(uuid=REPLICA_UUID)
            replica.register(8)
            edge.driven.sql("STOP REPLICA")
            edge.driven.sql("RESET REPLICA")
            replica.dump_gtid(encode_previous_gtids(MysqlGtidSet()), flags=0, server_id=8)
            with pytest.raises(pymysql.err.MySQLError, match="has received nothing"):
                replica.event()


def test_a_replica_that_logs_in_during_a_reset_is_told(
    master: Master, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with edged(tmp_path / "slave", SHOP) as edge, capture_logs() as logs:
        follow(edge, master)
        edge.driven.catch_up(master, executed=False)
        edge.connect().connection.close()

        def reset_first(connection: Connection[Any]) -> None:
            edge.driven.sql("STOP REPLICA")
            edge.driven.sql("RESET REPLICA")
            authenticate(connection)

        authenticate = Connection._request_authentication  # type: ignore[attr-defined]
        monkeypatch.setattr(Connection, "_request_authentication", reset_first)
        with pytest.raises(pymysql.err.OperationalError, match="has received nothing"):
            edge.connect_now()
    assert not [line for line in logs if line["event"] == "unforeseen error"]


def test_connections_are_listed_while_a_relay_log_is_opened(
    master: Master, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, go_on = threading.Event(), threading.Event()

    async def opened_late(channel: ServedChannel) -> SharedReader:
        asked.set()
        await asyncio.to_thread(go_on.wait)
        return await opened_reader(channel)

    with edged(tmp_path / "slave", SHOP) as edge:
        follow(edge, master)
        edge.driven.catch_up(master, executed=False)
        with edge.connect() as replica:
            replica.greet(uuid=REPLICA_UUID)
            edge.driven.sql("STOP REPLICA")
            edge.driven.sql("RESET REPLICA")
            opened_reader = ServedChannel.opened_reader
            monkeypatch.setattr(ServedChannel, "opened_reader", opened_late)
            replica.dump_gtid(encode_previous_gtids(MysqlGtidSet()), flags=0)
            assert asked.wait(30)
            try:
                assert [client.row()[1] for client in edge.directory.copy().values()] == [USER]
            finally:
                go_on.set()
            with pytest.raises(pymysql.err.MySQLError, match="has received nothing"):
                replica.event()


def test_the_accounts_are_those_of_the_file_when_the_relay_log_is_opened(
    master: Master, tmp_path: Path
) -> None:
    with edged(tmp_path / "slave", SHOP) as edge:
        config = tmp_path / "slave.toml"
        config.write_text(config.read_text().replace(PASSWORD, "newer"))
        follow(edge, master)
        edge.driven.catch_up(master, executed=False)
        with pytest.raises(pymysql.err.OperationalError, match="Access denied"):
            edge.connect()
        Replica(edge.port(), USER, "newer").connection.close()


def test_a_login_does_not_open_the_relay_log_in_the_loop(
    master: Master, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop serves all channels, and a disk may answer late."""
    opened_in: list[str] = []

    def opened(channel: ServedChannel) -> SharedReader:
        opened_in.append(threading.current_thread().name)
        return open_relay_log(channel)

    open_relay_log = ServedChannel._open_relay_log
    monkeypatch.setattr(ServedChannel, "_open_relay_log", opened)
    with edged(tmp_path / "slave", SHOP) as edge:
        follow(edge, master)
        edge.driven.catch_up(master, executed=False)
        edge.connect().connection.close()
    assert opened_in
    assert "edge-loop" not in opened_in


def test_a_damaged_relay_log_is_received_again(master: Master, tmp_path: Path) -> None:
    with edged(tmp_path / "slave") as edge:
        follow(edge, master)
        edge.driven.catch_up(master, executed=False)
        follower = Follower(edge)
        follower.receive(f"{UUID}:1-10")
        path = tmp_path / "slave" / "relay-bin.000002"
        with path.open("r+b") as file:
            file.seek(3000)
            file.write(b"damage")
        edge.driven.sql("START REPLICA SQL_THREAD")
        edge.driven.catch_up(master)
        follower.receive(ALL)
        assert follower.order == [f"{UUID}:{number}" for number in range(1, 75)]


def test_a_slave_that_began_inside_a_file_knows_the_gtids_before_from_the_next_file(
    master: Master, tmp_path: Path
) -> None:
    with edged(tmp_path / "slave") as edge:
        start = {"SOURCE_LOG_FILE": "'bin.000001'", "SOURCE_LOG_POS": "2337"}
        follow(edge, master, SOURCE_AUTO_POSITION="0", **start)
        edge.driven.catch_up(master, executed=False)
        # Readers see a position when master.info has it, up to 50 ms after SHOW REPLICA STATUS.
        path = tmp_path / "slave"
        wait_until(lambda: MasterInfo.read(path) == edge.driven.channel().master_info)
        with edge.connect() as replica:
            replica.greet(uuid=REPLICA_UUID)
            replica.register(7)
            replica.dump_gtid(encode_previous_gtids(MysqlGtidSet()))
            with pytest.raises(pymysql.err.MySQLError, match="purged required binary logs") as error:
                replica.event()
            assert error.value.args[0] == 1236
            assert f"{UUID}:1-" in error.value.args[1]
        before = error.value.args[1].partition(f"{UUID}:1-")[2].partition("'")[0]
        follower = Follower(edge, MysqlGtidSet.parse(f"{UUID}:1-{before}"))
        follower.receive(ALL)
        assert follower.order == [f"{UUID}:{number}" for number in range(int(before) + 1, 75)]


@pytest.mark.parametrize("later", ["", "SOURCE_AUTO_POSITION=1"])
def test_a_slave_in_the_middle_of_its_first_file_refuses_replicas(tmp_path: Path, later: str) -> None:
    """The slave does so even if its configuration no longer names the position at which it began."""
    copy = GrowingCopy(MYSQL, tmp_path / "binlog", seed=5)
    copy.more(15)
    with serving(tmp_path / "binlog") as running, edged(tmp_path / "slave") as edge:
        start = {"SOURCE_LOG_FILE": "'bin.000001'", "SOURCE_LOG_POS": "2337"}
        follow(edge, running, SOURCE_AUTO_POSITION="0", **start)
        edge.driven.sql("START REPLICA SQL_THREAD")
        edge.driven.catch_up(running)
        if later:
            edge.driven.sql("STOP REPLICA")
            edge.driven.sql(f"CHANGE REPLICATION SOURCE TO {later}")
        with edge.connect() as replica:
            replica.greet(uuid=REPLICA_UUID)
            replica.register(7)
            replica.dump_gtid(encode_previous_gtids(MysqlGtidSet()))
            with pytest.raises(pymysql.err.MySQLError, match="does not know which GTIDs came before"):
                replica.event()
    with serving(tmp_path / "slave" / "relay-bin.index") as copied, driven(tmp_path / "below") as below:
        below.follow(copied, SOURCE_AUTO_POSITION="1")
        below.sql("START REPLICA")
        wait_until(lambda: "does not know which GTIDs came before" in below.status()["Last_IO_Error"])


def test_a_mysql_replica_needs_gtids(master: Master, tmp_path: Path) -> None:
    with edged(tmp_path / "slave") as edge:
        follow(edge, master)
        edge.driven.catch_up(master, executed=False)
        with edge.connect():
            # The slave has published its relay log now.
            pass
        with Replica(edge.port(), USER, attributes={"_client_name": "libmysql"}) as replica:
            replica.greet(uuid=REPLICA_UUID)
            replica.register(7)
            replica.dump("bin.000001", 4)
            with pytest.raises(pymysql.err.MySQLError, match="SOURCE_AUTO_POSITION=1"):
                replica.event()


def test_the_second_filter_drops_more(master: Master, tmp_path: Path) -> None:
    with edged(
        tmp_path / "slave", "--replicate-do-db=shop", rules='"replicate-ignore-table=shop.orders"'
    ) as edge:
        follow(edge, master)
        follower = Follower(edge)
        follower.receive(ALL)
        assert follower.order == [f"{UUID}:{number}" for number in range(1, 75)]
        assert not any(b"\x04shop\x00\x06orders" in event for event in follower.events)


def test_each_channel_has_a_port(master: Master, tmp_path: Path) -> None:
    with edged(tmp_path / "slave", "--replicate-do-db=m1:hr", ports={"m1": 0, "M2": 0}) as edge:
        follow(edge, master, "m1")
        follow(edge, master, "m2")
        for channel in ("m1", "m2"):
            edge.driven.catch_up(master, channel, executed=False)
            follower = Follower(edge)
            follower.receive(ALL, channel)
            assert follower.order == [f"{UUID}:{number}" for number in range(1, 75)]
        assert any(b"\x02hr\x00" in event for event in follower.events)


def test_the_console_shows_the_replicas(master: Master, tmp_path: Path) -> None:
    with edged(tmp_path / "slave") as edge:
        follow(edge, master)
        edge.driven.catch_up(master, executed=False)
        with edge.connect() as replica:
            replica.greet(uuid=REPLICA_UUID)
            replica.register(7, b"here", 3307)
            replica.dump_gtid(encode_previous_gtids(MysqlGtidSet.parse(ALL)), flags=0)
            replica.event()
            result = edge.driven.sql("SHOW REPLICAS")
            assert [row[:3] for row in result.rows] == [(7, "here", 3307)]
            ((number, user, *_, command, _, _, _),) = [one.row() for one in edge.directory.copy().values()]
            assert (user, command) == (USER, "Binlog Dump GTID")
            edge.directory[number].end(query_only=False)
            with pytest.raises(pymysql.err.MySQLError):
                list(replica.events())
        wait_until(lambda: not edge.driven.sql("SHOW REPLICAS").rows)


def test_relay_logs_expire_when_nobody_reads_them(master: Master, tmp_path: Path) -> None:
    directory = tmp_path / "slave"
    with edged(directory, relay_log_expire_seconds=1000.0) as edge:
        follow(edge, master)
        edge.driven.catch_up(master, executed=False)
        for name in read_index(directory):
            os.utime(directory / name, (1, 1))
        channel = edge.driven.slave.get("")
        channel.expire_relay_log(1000)
        assert read_index(directory)[0] == "relay-bin.000001", "the applier needs all"
        edge.driven.sql("START REPLICA SQL_THREAD")
        edge.driven.catch_up(master)
        edge.driven.sql("STOP REPLICA SQL_THREAD")
        with edge.connect() as replica:
            replica.greet(uuid=REPLICA_UUID)
            replica.register(7)
            replica.dump_gtid(encode_previous_gtids(MysqlGtidSet()), flags=0)
            replica.event()
            needed = edge.edge.channels[""].needed_file
            assert needed is not None
            channel.expire_relay_log(1000)
            assert read_index(directory)[0] == needed
        wait_until(lambda: edge.edge.channels[""].needed_file is None)
        channel.expire_relay_log(1000)
        assert read_index(directory) == ["relay-bin.000003"]
        assert sorted(path.name for path in directory.glob("relay-bin.0*")) == ["relay-bin.000003"]

        def refused() -> bool:
            with edge.connect() as late:
                late.greet(uuid=REPLICA_UUID)
                late.register(7)
                late.dump_gtid(encode_previous_gtids(MysqlGtidSet()))
                try:
                    late.event()
                except pymysql.err.MySQLError as error:
                    return "purged required binary logs" in str(error)
            return False

        wait_until(refused)
        edge.driven.sql("STOP REPLICA")
        edge.driven.restart()
        edge.driven.sql("START REPLICA")
        edge.driven.catch_up(master)


def test_a_configuration_without_replicas_is_refused(tmp_path: Path) -> None:
    config = tmp_path / "edge.toml"
    config.write_text("")
    with pytest.raises(OptionError, match="no replica could log in"):
        Edge(EdgeOptions(replica_port=["0"], config=config), Endpoint())
    config.write_text('[[user]]\nname = "a"\npassword_hash = "x"\n')
    with pytest.raises(OptionError):
        Edge(EdgeOptions(replica_port=["0"], config=config), Endpoint())
