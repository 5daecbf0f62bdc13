"""Dumps over a real socket, as replicas and mysqlbinlog get them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path

import pymysql
import pytest

from dumpfilter.binlog.events import LOG_EVENT_ARTIFICIAL_F, EventType
from dumpfilter.binlog.gtid import MariadbGtidSet, MysqlGtidSet
from dumpfilter.binlog.gtid_events import encode_previous_gtids
from dumpfilter.binlog.writer import make_event
from dumpfilter.console.connection import ConsoleServer
from dumpfilter.console.port import ConnectionDirectory
from dumpfilter.dump.packets.protocol import frame
from dumpfilter.filter.base import ReplicationFilter
from dumpfilter.filter.filter import Filter
from dumpfilter.master.config import ConnectBack, ReplicaEntry
from dumpfilter.master.console import MasterConsole
from dumpfilter.master.register import RegisteredSlave
from dumpfilter.master.replica_filters import FilterUnreadable, OwnFilter
from dumpfilter.master.replicas import answers
from dumpfilter.master.replicas.answers import ANNOTATE_ROWS
from dumpfilter.master.replicas.connection import _MOST_ASKED
from dumpfilter.master.who import Peer, Who
from tests.master.replicas.serving import (
    MARIADB,
    MYSQL,
    SHOP,
    UUID,
    Replica,
    Serving,
    entry,
    header,
    kinds,
    serving,
)
from tests.support import binlogs_in

WaitFor = Callable[[Callable[[], object]], None]
NOTHING = encode_previous_gtids(MysqlGtidSet())


@pytest.fixture(scope="module")
def mysql() -> Iterator[Serving]:
    with serving(MYSQL) as served:
        yield served


@pytest.fixture(scope="module")
def mariadb() -> Iterator[Serving]:
    with serving(MARIADB) as served:
        yield served


def failure(read: Callable[[], object]) -> tuple[int, str]:
    with pytest.raises(pymysql.err.MySQLError) as caught:
        read()
    return caught.value.args[0], caught.value.args[1]


def refused(replica: Replica) -> tuple[int, str]:
    """Return number and text of the error in place of the first event."""
    return failure(replica.event)


def files_of(events: list[bytes]) -> dict[str, bytes]:
    """Return the bytes of each binlog file in a dump, without the magic number."""
    files: dict[str, bytes] = {}
    name = ""
    for event in events:
        head = header(event)
        if head.type == EventType.ROTATE and head.flags & LOG_EVENT_ARTIFICIAL_F:
            name = event[19 + 8 :].removesuffix(event[-4:]).decode()
            files[name] = b""
        else:
            files[name] += event
    return files


@pytest.mark.parametrize("binlogs", [MYSQL, MARIADB], ids=["mysql", "mariadb"])
def test_an_unfiltered_dump_has_the_bytes_of_the_files(binlogs: Path, request: pytest.FixtureRequest) -> None:
    family = "mysql" if binlogs == MYSQL else "mariadb"
    served: Serving = request.getfixturevalue(family)
    with served.connect().greet(family=family) as replica:
        replica.dump(flags=3)
        found = files_of(list(replica.events()))
    assert list(found) == [path.name for path in binlogs_in(binlogs)]
    for path in binlogs_in(binlogs):
        # The newest file may carry LOG_EVENT_BINLOG_IN_USE_F, which a dump does not send.
        assert found[path.name][19 + 100 :] == path.read_bytes()[4 + 19 + 100 :]


def test_a_replica_with_all_gtids_gets_no_transaction(mysql: Serving) -> None:
    with mysql.connect("shop").greet(uuid=UUID) as replica:
        ((_, _, _, _, executed), *_) = replica.ask("SHOW BINARY LOG STATUS")
        replica.dump_gtid(encode_previous_gtids(MysqlGtidSet.parse(str(executed).replace("\n", ""))))
        found = kinds(list(replica.events()))
    assert EventType.GTID not in found
    assert found[:3] == [EventType.ROTATE, EventType.FORMAT_DESCRIPTION, EventType.PREVIOUS_GTIDS]


def test_a_filtered_dump_has_every_gtid(mysql: Serving) -> None:
    def gtids(user: str) -> list[bytes]:
        with mysql.connect(user).greet(uuid=UUID) as replica:
            replica.dump_gtid(NOTHING)
            events = list(replica.events())
        sizes.append(sum(map(len, events)))
        return [event for event in events if header(event).type == EventType.GTID]

    sizes: list[int] = []
    assert gtids("shop") == gtids("all")
    assert sizes[0] < sizes[1] / 2


def test_an_event_of_16_mib_and_more(tmp_path: Path) -> None:
    source = binlogs_in(MARIADB)[-1].read_bytes()
    size = (1 << 24) + 5
    big = make_event(EventType.QUERY, bytes(4 + 4) + b"\0\0\0\0\0" + b"\0" + b"#" * size, server_id=11)
    path = tmp_path / "bin.000001"
    path.write_bytes(source + big)
    (tmp_path / "bin.index").write_text("./bin.000001\n")
    with serving(tmp_path / "bin.index") as served, served.connect().greet(family="mariadb") as replica:
        replica.dump("bin.000001", len(source), flags=3)
        *_, last = replica.events()
    assert last == big


@pytest.mark.parametrize(
    ("file", "position", "expected"),
    [
        ("bin.000099", 4, "Could not find first log file name in binary log index file"),
        ("../bin.000001", 4, "Could not find first log file name in binary log index file"),
        ("bin.000001", 1 << 30, "position > file size"),
        ("bin.000001", 3, "position < 4"),
        ("bin.000001", 200, "no event begins here"),
    ],
)
def test_a_place_that_does_not_exist_is_error_1236(
    mysql: Serving, file: str, position: int, expected: str
) -> None:
    with mysql.connect().greet() as replica:
        replica.dump(file, position)
        number, text = refused(replica)
        assert number == 1236
        assert expected in text
        # The connection can still be used.
        assert replica.ask("SELECT @@server_id")


def test_a_dump_can_begin_inside_a_transaction(mysql: Serving) -> None:
    with mysql.connect().greet() as replica:
        replica.dump("bin.000001")
        events = list(replica.events())
    first = next(number for number, kind in enumerate(kinds(events)) if kind == EventType.TABLE_MAP)
    position = header(events[first]).end_log_pos
    with mysql.connect().greet() as replica:
        replica.dump("bin.000001", position)
        later = list(replica.events())
    assert kinds(later[:2]) == [EventType.ROTATE, EventType.FORMAT_DESCRIPTION]
    assert int.from_bytes(later[0][19:27], "little") == position
    assert header(later[1]).end_log_pos == 0
    assert later[2:] == events[first + 1 :]


def test_a_filtered_mysql_replica_needs_gtids(mysql: Serving) -> None:
    with mysql.connect("shop", attributes={"_client_name": "libmysql"}).greet(uuid=UUID) as replica:
        replica.dump()
        number, text = refused(replica)
    assert number == 1236
    assert "SOURCE_AUTO_POSITION=1" in text
    # A program takes the positions from the events.
    with mysql.connect("shop").greet(uuid=UUID) as program:
        program.dump()
        assert EventType.TABLE_MAP in kinds(list(program.events()))


def test_a_client_that_knows_no_checksums_is_refused(mysql: Serving) -> None:
    with mysql.connect() as replica:
        replica.dump()
        assert refused(replica) == (
            1236,
            "Replica can not handle replication events with the checksum that source is configured to log",
        )


def test_mariadbs_gtids_are_read_beside_the_loop(mariadb: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    """A text of 64 KiB takes 15 ms, for which all other slaves would wait."""
    real, threads = answers.parse_connect_state, []

    def parse(text: str) -> MariadbGtidSet:
        threads.append(threading.current_thread().name)
        return real(text)

    monkeypatch.setattr(answers, "parse_connect_state", parse)
    with mariadb.connect().greet(family="mariadb") as replica:
        replica.ask("SET @slave_connect_state='0-11-5'")
        replica.dump(flags=3)
        assert list(replica.events())
    assert len(threads) == 1
    assert "grpc-loop" not in threads


def test_mariadbs_gtids_and_capability(mariadb: Serving) -> None:
    with mariadb.connect().greet() as replica:
        replica.dump()
        assert "mariadb_slave_capability" in refused(replica)[1]
        replica.greet(family="mariadb").ask("SET @slave_connect_state='0-11-5'")
        replica.dump(flags=3)
        gtids = [event for event in replica.events() if header(event).type == EventType.MARIADB_GTID]
        assert int.from_bytes(gtids[0][19:27], "little") == 6
        replica.ask("SET @slave_connect_state='nonsense'")
        replica.dump()
        assert refused(replica)[0] == 1236
        replica.ask("SET @slave_connect_state='0-11-5', @slave_until_gtid='0-11-6'")
        replica.dump()
        assert "UNTIL" in refused(replica)[1]
        replica.dump_gtid(NOTHING)
        assert refused(replica)[0] == 1047


def test_annotations_only_for_those_who_ask(mariadb: Serving) -> None:
    with mariadb.connect().greet(family="mariadb") as replica:
        replica.dump(flags=3)
        everything = list(replica.events())
        replica.dump(flags=1)
        without = list(replica.events())
    assert EventType.ANNOTATE_ROWS in kinds(everything)
    assert without == [event for event in everything if header(event).type != EventType.ANNOTATE_ROWS]


def test_purged_gtids_are_error_1236(tmp_path: Path) -> None:
    newest = binlogs_in(MYSQL)[-1]
    (tmp_path / newest.name).write_bytes(newest.read_bytes())
    (tmp_path / "bin.index").write_text(f"./{newest.name}\n")
    with serving(tmp_path / "bin.index") as served, served.connect().greet(uuid=UUID) as replica:
        replica.dump_gtid(NOTHING)
        number, text = refused(replica)
    assert number == 1236
    assert text.startswith("Cannot replicate because the source purged required binary logs.")
    assert "The missing transactions are" in text


def test_a_replica_without_a_table_is_refused(mysql: Serving) -> None:
    with serving(MYSQL, [entry("all", [], server_ids=frozenset({5}))]) as served:
        with served.connect().greet() as replica:
            replica.dump()
            number, text = refused(replica)
        assert number == 1236
        assert "[[replica]]" in text
        with served.connect().greet() as replica:
            replica.dump(server_id=5)
            replica.event()


def test_a_refusal_stands_in_the_table_of_slaves_until_the_replica_is_served(mysql: Serving) -> None:
    console = MasterConsole(mysql.server.service)

    def slaves() -> list[tuple[object, object, object]]:
        table = console.tables["dumpfilter", "slaves"]()
        names = [column.name for column in table.columns]
        rows = [dict(zip(names, row, strict=True)) for row in table.rows]
        return [(row["server_id"], row["state"], row["refusal"]) for row in rows if row["server_id"] == 77]

    with mysql.connect().greet(uuid=UUID) as replica:
        replica.dump("bin.000099", server_id=77)
        number, text = refused(replica)
        assert number == 1236
        assert slaves() == [(77, "refused", text)]
        replica.dump_gtid(NOTHING, server_id=77)
        list(replica.events())
    assert [state for _, state, _ in slaves()] == ["finished"]


def test_the_console_lists_and_ends_dumps(wait_for: WaitFor) -> None:
    directory = ConnectionDirectory()
    with serving(MYSQL, directory=directory) as served:
        executor = MasterConsole(served.server.service)
        with (
            ConsoleServer(executor, users={"root": "secret"}, directory=directory).running() as console,
            served.connect("shop").greet(uuid=UUID) as replica,
            served.connect() as idle,
            Replica(console.port, "root") as root,
        ):
            replica.register(101, b"rep", 3307)
            replica.dump_gtid(NOTHING, flags=0, server_id=101)
            kinds_read = []
            wait_for(lambda: any("has sent all" in str(row[6]) for row in root.ask("SHOW PROCESSLIST")))
            rows = {str(row[1]): row for row in root.ask("SHOW PROCESSLIST")}
            assert rows["shop"][4] == "Binlog Dump GTID"
            assert rows["all"][4] == "Sleep"
            assert len({row[0] for row in rows.values()}) == 3
            ((server_id, host, port, _, uuid),) = root.ask("SHOW REPLICAS")
            assert (server_id, host, port, uuid) == (101, "rep", 3307, UUID)
            # The dump ends, and the connection stays.
            root.ask(f"KILL QUERY {rows['shop'][0]}")
            for event in replica.events():
                kinds_read.append(EventType(header(event).type))
            assert kinds_read[0] == EventType.ROTATE
            assert not root.ask("SHOW REPLICAS")
            root.ask(f"KILL {rows['shop'][0]}")
            root.ask(f"KILL {rows['all'][0]}")
            for killed in (replica, idle):
                with pytest.raises(pymysql.err.OperationalError):
                    killed.ask("SELECT @@server_id")


def test_a_dump_that_is_killed_inside_an_event_closes_the_connection(
    tmp_path: Path, wait_for: WaitFor
) -> None:
    """The client would take the packet that ends the dump for bytes of the event, and wait for the rest."""
    source = binlogs_in(MYSQL)[-1].read_bytes()
    large = make_event(EventType.QUERY, bytes(14) + b"#" * (24 << 20), server_id=11)
    (tmp_path / "bin.000001").write_bytes(source + large)
    (tmp_path / "bin.index").write_text("./bin.000001\n")
    directory = ConnectionDirectory()
    with serving(tmp_path / "bin.index", directory=directory) as served:
        executor = MasterConsole(served.server.service)
        with (
            ConsoleServer(executor, users={"root": "secret"}, directory=directory).running() as console,
            served.connect().greet(uuid=UUID) as replica,
            Replica(console.port, "root") as root,
        ):
            replica.connection._sock.settimeout(5)  # type: ignore[attr-defined]
            replica.dump("bin.000001", len(source), flags=0)
            assert kinds([replica.event(), replica.event()]) == [
                EventType.ROTATE,
                EventType.FORMAT_DESCRIPTION,
            ]
            (dumping,) = served.replicas.clients.values()
            # The client reads nothing, so that the master cannot send the whole event.
            wait_for(lambda: not dumping.stream.is_idle)
            root.ask(f"KILL QUERY {dumping.id}")
            with pytest.raises(pymysql.err.OperationalError) as lost:
                list(replica.events())
    assert "timed out" not in str(lost.value)


def test_the_same_replica_takes_over_its_own_dump(mysql: Serving) -> None:
    with mysql.connect().greet(uuid=UUID) as old, mysql.connect().greet(uuid=UUID) as new:
        old.dump_gtid(NOTHING, flags=0)
        old.event()
        new.dump_gtid(NOTHING, flags=0)
        new.event()
        number, text = failure(lambda: list(old.events()))
        assert number == 1236
        assert text.startswith("A replica with the same server_uuid/server_id")
    # Programs without a server id do not disturb each other.
    with mysql.connect().greet() as one, mysql.connect().greet() as two:
        for program in (one, two):
            program.dump(flags=0, server_id=0)
            program.event()
        assert one.event()


def test_a_drained_replica_tries_again(mysql: Serving) -> None:
    drains = mysql.server.service.drains
    with mysql.connect().greet(uuid=UUID) as replica:
        replica.dump_gtid(NOTHING, flags=0)
        replica.event()
        drains.drain(Who(), "upgrade")
        try:
            number, text = failure(lambda: list(replica.events()))
            assert number == 1053
            assert "upgrade" in text
            replica.dump_gtid(NOTHING)
            assert refused(replica)[0] == 1053
        finally:
            drains.undrain(Who())


def test_a_master_that_ends_says_so() -> None:
    with serving(MYSQL) as served, served.connect().greet() as replica:
        replica.dump(flags=0)
        replica.event()
        served.server.service.end_dumps()
        number, text = failure(lambda: list(replica.events()))
        assert number == 1053
        assert text.startswith("drained: the master is shutting down")


def test_heartbeats(mysql: Serving) -> None:
    with mysql.connect().greet(uuid=UUID) as replica:
        replica.ask("SET @master_heartbeat_period= 20000000, @source_heartbeat_period= 20000000")
        replica.dump("bin.000003", flags=0)
        end = binlogs_in(MYSQL)[2].stat().st_size
        found: list[bytes] = []
        # On a busy machine, a heartbeat can come before the first event of the file.
        while len(found) < 2 or header(found[-2]).end_log_pos != end:
            event = replica.event()
            if header(event).type == EventType.HEARTBEAT:
                found.append(event)
        assert header(found[-1]).end_log_pos == end
        assert {event[19:-4] for event in found} == {b"bin.000003"}


def test_a_mariadb_replica_of_a_mysql_source_keeps_its_position(mysql: Serving) -> None:
    """MariaDB refuses a heartbeat before its position, and takes one of version 2 for an event of the binlog."""
    known, end = 0, binlogs_in(MYSQL)[2].stat().st_size
    with mysql.connect("shop").greet() as replica:
        replica.ask("SET @master_heartbeat_period= 20000000")
        replica.register(22)
        replica.dump("bin.000003", flags=ANNOTATE_ROWS)
        head = header(replica.event())
        while head.type != EventType.HEARTBEAT or head.end_log_pos != end:
            assert head.type != EventType.HEARTBEAT_V2
            assert head.type != EventType.HEARTBEAT or head.end_log_pos >= known
            known = max(known, head.end_log_pos)
            head = header(replica.event())


def test_a_replica_that_has_everything_gets_heartbeats(mysql: Serving) -> None:
    end = binlogs_in(MYSQL)[2].stat().st_size
    with mysql.connect().greet(uuid=UUID) as replica:
        replica.ask("SET @master_heartbeat_period= 20000000")
        replica.dump("bin.000003", end, flags=0)
        found = [replica.event() for _ in range(4)]
    assert kinds(found)[:2] == [EventType.ROTATE, EventType.FORMAT_DESCRIPTION]
    assert [(header(event).type, header(event).end_log_pos) for event in found[2:]] == [
        (EventType.HEARTBEAT, end)
    ] * 2
    with mysql.connect().greet(uuid=UUID) as replica:
        replica.dump("bin.000003", end)
        assert kinds(list(replica.events())) == [EventType.ROTATE, EventType.FORMAT_DESCRIPTION]


def test_a_filtered_mysql_replica_learns_the_right_position(tmp_path: Path) -> None:
    data = binlogs_in(MYSQL)[0].read_bytes()
    last = frame(data[4:], 0).last
    (tmp_path / "bin.000001").write_bytes(data[: 4 + last])
    (tmp_path / "bin.index").write_text("./bin.000001\n")
    with serving(tmp_path / "bin.index") as served:
        for user, expected in (("shop", [4 + last]), ("all", [])):
            with served.connect(user).greet(uuid=UUID) as replica:
                replica.ask("SET @master_heartbeat_period= 0")
                replica.dump_gtid(NOTHING)
                heads = [header(event) for event in replica.events()]
            assert [head.end_log_pos for head in heads if head.type == EventType.HEARTBEAT] == expected


def test_no_heartbeat_follows_the_rotate_event_of_a_file(mysql: Serving) -> None:
    """The replica expects the next file, and refuses a heartbeat with the name of the file that has ended."""
    with mysql.connect("shop").greet(uuid=UUID) as replica:
        replica.dump_gtid(NOTHING)
        heads = [header(event) for event in replica.events()]
    for head, following in pairwise(heads):
        if head.type == EventType.ROTATE and not head.flags & LOG_EVENT_ARTIFICIAL_F:
            assert following.type == EventType.ROTATE


def test_a_mariadb_replica_with_all_gtids_learns_the_right_position(mariadb: Serving) -> None:
    end = binlogs_in(MARIADB)[-1].stat().st_size
    with mariadb.connect().greet(family="mariadb") as replica:
        ((have,),) = replica.ask(f"SELECT binlog_gtid_pos('{binlogs_in(MARIADB)[-1].name}', {end})")
        replica.ask(f"SET @slave_connect_state='{have}', @master_heartbeat_period=0")
        replica.dump(flags=3)
        *_, last = map(header, replica.events())
    assert last.end_log_pos == end


@pytest.mark.parametrize("user", ["all", "shop"])
def test_a_mariadb_replica_learns_the_position_before_its_first_transaction(
    mariadb: Serving, user: str
) -> None:
    """An applier that stops in this transaction shows the position."""
    with mariadb.connect(user).greet(family="mariadb") as replica:
        replica.ask("SET @slave_connect_state='0-11-5', @master_heartbeat_period=0")
        replica.dump(flags=3)
        heads = list(map(header, replica.events()))
    at = next(n for n, head in enumerate(heads) if head.type == EventType.MARIADB_GTID)
    told, first, following = heads[at - 1 : at + 2]
    is_told = told.type == EventType.GTID_LIST and told.end_log_pos == first.end_log_pos - first.size
    # A stand-in itself moves the position to its end.
    assert is_told != (following.type == EventType.XID)


def test_a_replica_that_leaves_ends_its_dump(mysql: Serving, wait_for: WaitFor) -> None:
    register = mysql.server.service.register

    def dumping() -> int:
        return sum(slave.dump > 0 for slave in register.all())

    wait_for(lambda: not dumping())
    replica = mysql.connect().greet(uuid=UUID)
    replica.dump(flags=0)
    replica.event()
    assert dumping() == 1
    replica.connection.close()
    wait_for(lambda: not dumping())


def test_a_command_during_a_dump_is_answered_after_it(mysql: Serving) -> None:
    with mysql.connect().greet() as replica:
        replica.dump("bin.000003")
        # pymysql would read the dump before it sends another command.
        replica.connection._write_bytes(b"\x01\0\0\0\x0e")  # type: ignore[attr-defined]
        list(replica.events())
        replica.connection._next_seq_id = 1  # type: ignore[attr-defined]
        assert replica.read()[0] == 0


def test_other_statements_are_the_consoles(mysql: Serving) -> None:
    with mysql.connect() as replica:
        assert [row[0] for row in replica.ask("SHOW BINARY LOGS")] == [p.name for p in binlogs_in(MYSQL)]
        assert failure(lambda: replica.ask("PURGE BINARY LOGS TO 'bin.000003'"))[0] == 1227
        assert failure(lambda: replica.ask("SHOW BINLOG EVENTS"))[0] == 1227
        assert replica.ask("SELECT @@gtid_mode")


def test_dumps_are_limited(mysql: Serving) -> None:
    with (
        serving(MYSQL, max_dumps=1) as served,
        served.connect().greet() as one,
        served.connect().greet() as two,
    ):
        one.dump(flags=0)
        one.event()
        two.dump(flags=0, server_id=8)
        number, text = refused(two)
        assert number == 1040
        assert "--max-dumps" in text


def test_the_register_counts_the_dump(mysql: Serving) -> None:
    with mysql.connect("shop").greet(uuid=UUID) as replica:
        replica.dump_gtid(NOTHING, server_id=77)
        list(replica.events())
    (slave,) = [slave for slave in mysql.server.service.register.all() if slave.peer.server_id == 77]
    assert slave.peer.is_real_replica
    assert slave.record.counts.bytes_dropped > 0
    assert slave.record.counts.bytes_gtid > 0
    assert list(map(str, slave.filter.rules)) == SHOP
    assert slave.peer.endpoint.startswith("ipv4:127.0.0.1:")
    assert time.time() - slave.record.last_seen_at < 300


def test_a_filtered_dump_can_begin_inside_a_transaction(mariadb: Serving) -> None:
    with mariadb.connect("shop").greet(family="mariadb") as replica:
        replica.dump("bin.000001", flags=3)
        events = list(replica.events())
    first = next(number for number, kind in enumerate(kinds(events)) if kind == EventType.TABLE_MAP)
    position = header(events[first]).end_log_pos
    with mariadb.connect("shop").greet(family="mariadb") as replica:
        replica.dump("bin.000001", position, flags=3)
        later = list(replica.events())
    assert int.from_bytes(later[0][19:27], "little") == position
    assert later[2:] == events[first + 1 :]


def test_a_replica_that_leaves_is_not_asked_for_its_filter(wait_for: WaitFor) -> None:
    """Replicas behind a firewall hold all threads that ask. Others come again and again, and their places wait."""
    connect = ConnectBack(user="master", password_file=Path("password"), port=3306)
    asked: list[int] = []
    over = threading.Event()

    def read(_: ConnectBack, peer: Peer) -> OwnFilter:
        asked.append(peer.server_id)
        over.wait(60)
        raise FilterUnreadable("no answer", momentary=True)

    with serving(MYSQL, [entry("all", [], connect=connect)]) as served:
        served.filters._read = read
        replicas = []
        for number in range(1, _MOST_ASKED + 2):
            replicas.append(served.connect().greet(uuid=UUID[:-2] + f"{number:02}"))
            replicas[-1].register(number)
            replicas[-1].dump_gtid(NOTHING, flags=0, server_id=number)
            if number <= _MOST_ASKED:
                wait_for(partial(asked.__contains__, number))
        replicas.pop().__exit__()
        wait_for(lambda: len(served.replicas.clients) == _MOST_ASKED)
        over.set()
        for replica in replicas:
            with pytest.raises(pymysql.err.MySQLError, match="no answer"):
                replica.event()
            replica.__exit__()
    assert sorted(asked) == list(range(1, _MOST_ASKED + 1))


def test_a_filter_that_changes_while_a_replica_registers_leaves_its_earlier_filters(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They decide about the ends of XA transactions that the replica has from its earlier dumps."""
    with serving(MARIADB, [entry("all", ["--replicate-ignore-db=old"])]) as served:
        filters, register = served.filters, served.server.service.register
        stale = filters.entries[0].with_rules(["--replicate-ignore-db=stale"])
        choose = filters.filter_for

        def choose_late(peer: Peer) -> tuple[ReplicaEntry, ReplicationFilter]:
            monkeypatch.setattr(filters, "filter_for", choose)
            assert stale.filter is not None
            return stale, stale.filter

        def dump() -> RegisteredSlave:
            with served.connect().greet(family="mariadb") as replica:
                replica.dump(flags=3)
                assert list(replica.events())
            (slave,) = register.all()
            return slave

        old = dump().flags
        register.change_filter(register.all()[0].slave_id, Filter.from_options(["--replicate-ignore-db=new"]))
        filters.entries = (filters.entries[0].with_rules(["--replicate-ignore-db=new"]),)
        monkeypatch.setattr(filters, "filter_for", choose_late)
        assert old in dump().earlier
