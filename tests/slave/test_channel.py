"""One channel: its threads, its filter, its source (WL#7057; the law over every change)."""

from __future__ import annotations

import shutil
import struct
import zlib
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from dumpfilter.binlog.events import EventType
from dumpfilter.filter.origin import OriginFilter
from dumpfilter.index.fileset import BinlogSet
from dumpfilter.sql.commands import Threads
from tests.slave.driven import Driven, Since, driven, expected, serving, wait_until
from tests.slave.growing import boundaries

DATA = Path(__file__).parents[1] / "oracle" / "data" / "oracle"
UUID = "5a8b8d0a-e543-11f1-9c8d-02fc00000001"
OLD = "--replicate-ignore-db=hr"
CHANGE = "CHANGE REPLICATION FILTER REPLICATE_DO_DB = (hr, logs), REPLICATE_IGNORE_DB = ()"


@pytest.fixture
def binlogs(data: Path, tmp_path: Path) -> Path:
    """A copy of a recording, which may be given another identity or be changed."""
    return Path(shutil.copytree(data / "mysql-row", tmp_path / "binlogs"))


def before(slave: Driven, number: int) -> None:
    """Let the applier go on up to the transaction of this number, and end there."""
    slave.sql(f"START REPLICA SQL_THREAD UNTIL SQL_BEFORE_GTIDS = '{UUID}:{number}'")
    slave.stopped()


# -- threads


def test_threads_start_and_stop_one_by_one_and_again(binlogs: Path, tmp_path: Path) -> None:
    with serving(binlogs) as master, driven(tmp_path / "s", OLD) as slave:
        slave.follow(master)
        for _ in range(3):
            slave.sql("START REPLICA IO_THREAD")
            slave.catch_up(master, executed=False)
            assert slave.channel().running == Threads.IO
            assert slave.place() == ("", 0)
            slave.sql("STOP REPLICA IO_THREAD")
            assert slave.channel().running == Threads(0)
            wait_until(lambda: not master.slaves())
        slave.sql("START REPLICA SQL_THREAD")
        slave.catch_up(master)
        assert slave.channel().running == Threads.SQL
        slave.sql("START REPLICA")
        assert slave.channel().running == Threads.BOTH
        assert [note.number for note in slave.sql("START REPLICA").notes] == [3083]
        assert [note.number for note in slave.sql("STOP REPLICA").notes] == []
        assert [note.number for note in slave.sql("STOP REPLICA").notes] == [3084]
        assert slave.channel().running == Threads(0)
        slave.expect_law(master)


def test_the_applier_stops_where_both_know_the_place(binlogs: Path, tmp_path: Path) -> None:
    ends = {
        (name, end)
        for name in BinlogSet.open(binlogs).names
        for end in boundaries(BinlogSet.open(binlogs), name)
    }
    with serving(binlogs) as master, driven(tmp_path / "s", OLD) as slave:
        slave.follow(master)
        slave.sql("START REPLICA IO_THREAD")
        databases = ["hr", "logs", "shop", "scratch"]
        for number in range(5, 75, 7):
            before(slave, number)
            assert slave.place() in ends
            slave.sql(f"CHANGE REPLICATION FILTER REPLICATE_IGNORE_DB = ({databases[number % 4]})")
        slave.sql("START REPLICA SQL_THREAD")
        slave.expect_law(master)
        assert slave.channel().received.connections == 1
        assert slave.status()["Last_IO_Error"] == ""


# -- UNTIL


@pytest.mark.parametrize("options", [(), (OLD,), ("--replicate-do-db=shop",), ("--replicate-do-db=nothing",)])
@pytest.mark.parametrize("filter_on", ["BOTH", "SLAVE"])
def test_until_a_place_in_the_sources_log(
    binlogs: Path, tmp_path: Path, options: tuple[str, ...], filter_on: str
) -> None:
    """As a server that is sent everything: after the transaction that gets there or beyond, dropped or not."""
    found = BinlogSet.open(binlogs)
    places = [(name, end) for name in found.names for end in boundaries(found, name)]
    with serving(binlogs) as master, driven(tmp_path / "s", *options) as slave:
        slave.follow(master, FILTER_ON=f"'{filter_on}'")
        slave.sql("START REPLICA IO_THREAD")
        slave.catch_up(master, executed=False)
        history = slave.history[""]
        for name, end in [*places[3::11], ("bin.000002", 0), places[20]]:
            slave.sql(
                f"START REPLICA SQL_THREAD UNTIL SOURCE_LOG_FILE = '{name}', SOURCE_LOG_POS = {max(end, 4)}"
            )
            slave.stopped()
            if (name, end) in places[3::11]:
                assert slave.summary() == expected(binlogs, history, until=(name, end)).summary
            else:  # it was passed: nothing is applied
                assert slave.summary() == expected(binlogs, history, until=places[3::11][-1]).summary


@pytest.mark.parametrize("options", [(), (OLD,), ("--replicate-do-db=shop",), ("--replicate-do-db=nothing",)])
@pytest.mark.parametrize("filter_on", ["BOTH", "SLAVE"])
def test_until_gtids(binlogs: Path, tmp_path: Path, options: tuple[str, ...], filter_on: str) -> None:
    with serving(binlogs) as master, driven(tmp_path / "s", *options) as slave:
        slave.follow(master, FILTER_ON=f"'{filter_on}'")
        slave.sql("START REPLICA IO_THREAD")
        slave.catch_up(master, executed=False)
        history = slave.history[""]
        found = BinlogSet.open(binlogs)
        ends = [(name, end) for name in found.names for end in boundaries(found, name)[1:]]
        assert len(ends) >= 74
        whole = expected(binlogs, history)
        assert [gtid.rpartition(":")[2] for gtid in whole.gtids] == [str(n) for n in range(1, 75)]
        for number, kind in [(9, "BEFORE"), (20, "AFTER"), (21, "BEFORE"), (40, "BEFORE"), (60, "AFTER")]:
            slave.sql(f"START REPLICA SQL_THREAD UNTIL SQL_{kind}_GTIDS = '{UUID}:{number}'")
            slave.stopped()
            taken = number - 1 if kind == "BEFORE" else number
            assert slave.summary() == after(binlogs, history, taken), (number, kind)
            # once more: it is fulfilled already
            slave.sql(f"START REPLICA SQL_THREAD UNTIL SQL_{kind}_GTIDS = '{UUID}:{number}'")
            slave.stopped()
            assert slave.summary() == after(binlogs, history, taken), (number, kind)


def after(binlogs: Path, history: list[Since], transactions: int) -> dict[str, Any]:
    """The summary after so many transactions."""
    found = BinlogSet.open(binlogs)
    for name in found.names:
        for end in boundaries(found, name):
            so_far = expected(binlogs, history, until=(name, end))
            if len(so_far.gtids) >= transactions:
                return so_far.summary
    raise AssertionError(transactions)


# -- another filter


@pytest.mark.parametrize("situation", ["running", "stopped", "nobody there", "gone meanwhile", "silent"])
@pytest.mark.parametrize("number", [1, 30, 75])
def test_another_filter(binlogs: Path, tmp_path: Path, situation: str, number: int) -> None:
    with serving(binlogs) as master, driven(tmp_path / "s", OLD) as slave:
        slave.follow(master)
        slave.sql("START REPLICA IO_THREAD")
        slave.catch_up(master, executed=False)
        before(slave, number) if number < 75 else slave.sql("START REPLICA SQL_THREAD")
        if number == 75:
            slave.catch_up(master)
            slave.sql("STOP REPLICA SQL_THREAD")
        if situation == "stopped":
            slave.sql("STOP REPLICA")
        elif situation == "nobody there":
            master.stop()
            wait_until(lambda: slave.status()["Replica_IO_Running"] == "Connecting")
        elif situation == "gone meanwhile":
            master.stop()  # the I/O thread may not have noticed
        slave.sql(CHANGE)
        slave.sql("START REPLICA")
        if situation in ("nobody there", "gone meanwhile"):
            master.start()
        slave.expect_law(master)
        assert slave.executed() == f"{UUID}:1-74"
        wanted = expected(binlogs, slave.history[""]).hits
        hits = {kind.value.upper().replace("-", "_"): count for kind, count in wanted.items()}
        assert slave.counters() == {"REPLICATE_DO_DB": 0, "REPLICATE_IGNORE_DB": 0} | hits


@pytest.mark.parametrize("situation", ["running", "stopped"])
@pytest.mark.parametrize("number", [2, 30, 50])
def test_another_filter_and_another_master_by_gtid_set(
    binlogs: Path, tmp_path: Path, situation: str, number: int
) -> None:
    """The applier is still in the old master's files when the filter changes: what it has not applied comes from the
    new one."""
    other = Path(shutil.copytree(binlogs, tmp_path / "other"))
    (other / "auto.cnf").write_text("[auto]\nserver-uuid=11111111-2222-3333-4444-555555555555\n")
    with serving(binlogs) as master, driven(tmp_path / "s", OLD) as slave:
        slave.follow(master, SOURCE_AUTO_POSITION="1")
        slave.sql("START REPLICA IO_THREAD")
        slave.catch_up(master, executed=False)
        before(slave, number)
        master.stop()
        master.binlogs = other
        master.start()
        wait_until(lambda: slave.channel().master_info.master_uuid.startswith("1111"))
        if situation == "stopped":
            slave.sql("STOP REPLICA")
        slave.sql(CHANGE)
        slave.sql("START REPLICA")
        slave.expect_law(master)
        assert slave.executed() == f"{UUID}:1-74"


@pytest.mark.parametrize("number", [2, 30, 50, 74])
def test_a_restart_with_other_options(binlogs: Path, tmp_path: Path, number: int) -> None:
    """What was relayed beyond the applier's place was filtered with the options of before."""
    with serving(binlogs) as master, driven(tmp_path / "s", OLD) as slave:
        slave.follow(master)
        slave.sql("START REPLICA IO_THREAD")
        slave.catch_up(master, executed=False)
        before(slave, number)
        slave.restart("--replicate-do-db=hr", "--replicate-wild-do-table=logs.%")
        assert slave.received() == slave.place()
        slave.sql("START REPLICA")
        slave.expect_law(master)
        slave.restart("--replicate-do-db=hr", "--replicate-wild-do-table=logs.%")
        assert slave.received() == master.end


def test_a_restart_with_the_same_options_fetches_nothing(binlogs: Path, tmp_path: Path) -> None:
    with serving(binlogs) as master, driven(tmp_path / "s", OLD) as slave:
        slave.follow(master)
        slave.sql("START REPLICA IO_THREAD")
        slave.catch_up(master, executed=False)
        before(slave, 30)
        slave.restart(OLD)
        master.stop()
        slave.sql("START REPLICA SQL_THREAD")
        slave.expect_law(master)


def test_a_changed_filter_is_not_kept_over_a_restart(binlogs: Path, tmp_path: Path) -> None:
    """The options are in force again, from where the applier is."""
    with serving(binlogs) as master, driven(tmp_path / "s", OLD) as slave:
        slave.follow(master)
        slave.sql("START REPLICA IO_THREAD")
        slave.catch_up(master, executed=False)
        before(slave, 20)
        slave.sql(CHANGE)
        slave.catch_up(master, executed=False)
        before(slave, 50)
        slave.restart(OLD)
        assert slave.counters() == {"REPLICATE_IGNORE_DB": 0}
        slave.sql("START REPLICA")
        slave.expect_law(master)
        assert [len(since.rules) for since in slave.history[""]] == [0, 1, 2, 1]


# -- where the filter is run


RULES = [
    ["--replicate-ignore-db=hr"],
    ["--replicate-do-db=shop", "--replicate-do-table=hr.emp", "--replicate-rewrite-db=shop->store"],
    ["--replicate-wild-ignore-table=%.e%", "--replicate-do-db=hr"],
    ["--do=shop.%", "--ignore=%.%", "--rewrite=shop.items->shop.things"],
]
FOLDERS = ["mysql-row", "mysql-statement", "mariadb-mixed"]


@pytest.mark.parametrize("folder", FOLDERS)
def test_wherever_the_filter_is_run_it_is_the_same(data: Path, tmp_path: Path, folder: str) -> None:
    with serving(data / folder) as master:
        for number, options in enumerate(RULES):
            ends = []
            for filter_on in ("MASTER", "SLAVE", "BOTH"):
                with driven(tmp_path / f"{filter_on}{number}", *options) as slave:
                    slave.follow(master, FILTER_ON=f"'{filter_on}'")
                    slave.sql("START REPLICA")
                    slave.expect_law(master)
                    ends.append((slave.summary(), slave.counters(), slave.executed()))
                    counts = slave.channel().received.counts
                    assert (counts["events_dropped"] == 0) == (filter_on == "SLAVE")
            assert ends[0] == ends[1] == ends[2]
            wanted = expected(data / folder, slave.history[""]).hits
            shown = {kind.value.upper().replace("-", "_"): count for kind, count in wanted.items()}
            assert {name: count for name, count in ends[0][1].items() if count} == shown


@pytest.mark.parametrize("number", [2, 40])
@pytest.mark.parametrize("change", ["BOTH MASTER", "MASTER SLAVE", "SLAVE MASTER", "SLAVE BOTH"])
def test_it_is_run_elsewhere(binlogs: Path, tmp_path: Path, change: str, number: int) -> None:
    first, second = change.split()
    with serving(binlogs) as master, driven(tmp_path / "s", OLD) as slave:
        slave.follow(master, FILTER_ON=f"'{first}'")
        slave.sql("START REPLICA IO_THREAD")
        slave.catch_up(master, executed=False)
        before(slave, number)
        slave.sql("STOP REPLICA")
        slave.sql(f"CHANGE REPLICATION SOURCE TO FILTER_ON = '{second}'")
        slave.sql("START REPLICA")
        slave.expect_law(master)
        assert slave.table("dumpfilter", "channels")[0]["FILTER_ON"] == second
        hits = expected(binlogs, slave.history[""]).hits.total()
        # UNTIL may end between two places that the master's counts are told for: then those before it are lost
        assert slave.counters()["REPLICATE_IGNORE_DB"] in ([hits] if first == "SLAVE" else range(hits + 1))


# -- another source


def test_another_place_in_the_sources_log(binlogs: Path, tmp_path: Path) -> None:
    place = ("bin.000002", boundaries(BinlogSet.open(binlogs), "bin.000002")[5])
    with serving(binlogs) as master, driven(tmp_path / "s", OLD) as slave:
        slave.follow(master)
        slave.sql("START REPLICA IO_THREAD")
        slave.catch_up(master, executed=False)
        slave.sql("STOP REPLICA")
        options = f"SOURCE_LOG_FILE = '{place[0]}', SOURCE_LOG_POS = {place[1]}"
        slave.sql(f"CHANGE REPLICATION SOURCE TO {options}")
        shown = slave.status()
        assert (shown["Source_Log_File"], shown["Read_Source_Log_Pos"]) == place
        assert (shown["Relay_Source_Log_File"], shown["Exec_Source_Log_Pos"]) == place
        slave.sql("START REPLICA")
        slave.catch_up(master)
        assert slave.summary() == expected(binlogs, slave.history[""], start=place).summary
        # … and from the beginning once more, onto what is there
        slave.sql("STOP REPLICA")
        slave.sql("CHANGE REPLICATION SOURCE TO SOURCE_LOG_FILE = 'bin.000001', SOURCE_LOG_POS = 4")
        slave.sql("START REPLICA")
        slave.catch_up(master)
        assert sum(rows(slave.summary())) == sum(rows(expected(binlogs, slave.history[""]).summary)) + sum(
            rows(expected(binlogs, slave.history[""], start=place).summary)
        )


def rows(summary: Any) -> list[int]:
    """The numbers of transactions and rows that a summary has counted."""
    if isinstance(summary, dict):
        return [number for key, value in summary.items() for number in rows(value) if key != "digest"]
    return [summary] if isinstance(summary, int) else []


def test_another_host_begins_at_its_first_binlog(data: Path, tmp_path: Path) -> None:
    with (
        serving(data / "mysql-row") as one,
        serving(data / "mysql-mixed") as two,
        driven(tmp_path / "s", OLD) as slave,
    ):
        slave.follow(one)
        slave.sql("START REPLICA IO_THREAD")
        slave.catch_up(one, executed=False)
        slave.sql("STOP REPLICA")
        slave.sql(f"CHANGE REPLICATION SOURCE TO SOURCE_PORT = {two.port}")
        slave.sql("START REPLICA")
        slave.expect_law(two)
        assert slave.status()["Source_Port"] == two.port


def test_another_host_by_gtid_set_goes_on(binlogs: Path, tmp_path: Path) -> None:
    """What is relayed and not applied is given up, and asked of the other one, by what has been executed."""
    other = Path(shutil.copytree(binlogs, tmp_path / "other"))
    (other / "auto.cnf").write_text("[auto]\nserver-uuid=11111111-2222-3333-4444-555555555555\n")
    with serving(binlogs) as master, serving(other) as second, driven(tmp_path / "s", OLD) as slave:
        slave.follow(master, SOURCE_AUTO_POSITION="1")
        slave.sql("START REPLICA IO_THREAD")
        slave.catch_up(master, executed=False)
        before(slave, 33)
        slave.sql("STOP REPLICA")
        slave.sql(f"CHANGE REPLICATION SOURCE TO SOURCE_PORT = {second.port}")
        slave.sql("START REPLICA")
        slave.expect_law(second)
        assert slave.executed() == f"{UUID}:1-74"


# -- reset


def test_reset_replica_begins_again(binlogs: Path, tmp_path: Path) -> None:
    with serving(binlogs) as master, driven(tmp_path / "s", OLD) as slave:
        slave.follow(master)
        slave.sql("START REPLICA IO_THREAD")
        slave.catch_up(master, executed=False)
        slave.sql("STOP REPLICA")
        slave.sql("RESET REPLICA")
        assert slave.place() == slave.received() == ("", 0)
        assert not list((tmp_path / "s").glob("relay-bin.0*"))
        assert slave.status()["Source_Port"] == master.port
        slave.sql("START REPLICA")
        slave.expect_law(master)
        slave.restart(OLD)
        slave.expect_law(master)


def test_reset_replica_keeps_what_was_executed(binlogs: Path, tmp_path: Path) -> None:
    with serving(binlogs) as master, driven(tmp_path / "s", OLD) as slave:
        slave.follow(master, SOURCE_AUTO_POSITION="1")
        slave.sql("START REPLICA")
        slave.catch_up(master)
        summary = slave.summary()
        slave.sql("STOP REPLICA")
        slave.sql("RESET REPLICA")
        assert slave.executed() == f"{UUID}:1-74"
        slave.sql("START REPLICA")
        slave.catch_up(master)
        assert slave.summary() == summary


@pytest.mark.parametrize("name", ["", "ch1"])
def test_reset_replica_all(binlogs: Path, tmp_path: Path, name: str) -> None:
    with serving(binlogs) as master, driven(tmp_path / "s", "--replicate-ignore-db=hr") as slave:
        for _ in range(2):
            slave.history.clear()
            slave.follow(master, name)
            slave.sql(f"CHANGE REPLICATION FILTER REPLICATE_DO_DB = (hr) FOR CHANNEL '{name}'")
            slave.sql("START REPLICA")
            slave.expect_law(master, name)
            slave.sql("STOP REPLICA")
            slave.sql(f"RESET REPLICA ALL FOR CHANNEL '{name}'")
            assert slave.channels == []
            assert slave.table("performance_schema", "replication_applier_filters") == []
            left = {path.name for path in (tmp_path / "s").rglob("*") if path.is_file()}
            assert not {file for file in left if file.startswith("relay-bin") or file.endswith(".info")}
        slave.restart(OLD)
        assert slave.channels == []


# -- where transactions come from


WRITER = 11
"""The server_id of the recordings' server."""


@pytest.fixture(params=["mysql-row", "mariadb-mixed"])
def of_servers(data: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A recording whose transactions come from the writer, from 1001 (the slave) and from 12, in turn."""
    binlogs = Path(shutil.copytree(data / request.param, tmp_path / "binlogs"))
    found = BinlogSet.open(binlogs)
    for name in found.names:
        path = found.path(name)
        whole = bytearray(path.read_bytes())
        ends = boundaries(found, name)
        with found.file(name) as file:
            checksum = file.format_description.checksum
        for number, (begin, end) in enumerate(pairwise(ends)):
            while begin < end:
                size = int.from_bytes(whole[begin + 9 : begin + 13], "little")
                if whole[begin + 4] not in (EventType.ROTATE, EventType.STOP):
                    server_id = (WRITER, 1001, 12)[number % 3]
                    whole[begin + 5 : begin + 9] = struct.pack("<I", server_id)
                    if checksum:
                        crc = zlib.crc32(whole[begin : begin + size - 4])
                        whole[begin + size - 4 : begin + size] = struct.pack("<I", crc)
                begin += size
        path.write_bytes(whole)
    return binlogs


@pytest.mark.parametrize(
    ("server_id", "options", "origin"),
    [
        (1001, {}, OriginFilter(own_server_id=1001)),
        (1001, {"IGNORE_SERVER_IDS": "(12)"}, OriginFilter(frozenset({12}), own_server_id=1001)),
        (WRITER, {}, OriginFilter()),
        (WRITER, {"IGNORE_SERVER_IDS": f"({WRITER}, 1001)"}, OriginFilter(frozenset({WRITER, 1001}))),
        (5, {"IGNORE_SERVER_IDS": f"({WRITER}, 1001, 12)"}, OriginFilter(frozenset({WRITER, 1001, 12}))),
        (5, {"DO_DOMAIN_IDS": "(1)"}, OriginFilter(do_domain_ids=frozenset({1}))),
        (5, {"IGNORE_DOMAIN_IDS": "(0)"}, OriginFilter(ignore_domain_ids=frozenset({0}))),
    ],
)
def test_by_where_transactions_come_from(
    of_servers: Path, tmp_path: Path, server_id: int, options: dict[str, str], origin: OriginFilter
) -> None:
    ends = []
    with serving(of_servers) as master:
        for filter_on in ("MASTER", "SLAVE", "BOTH"):
            with driven(tmp_path / filter_on, OLD, server_id=server_id) as slave:
                slave.follow(master, FILTER_ON=f"'{filter_on}'", **options)
                slave.sql("START REPLICA")
                slave.expect_law(master, origin=origin)
                ends.append((slave.summary(), slave.executed(), slave.counters()))
    assert ends[0] == ends[1] == ends[2]


def test_the_slaves_own_transactions_where_they_are_wanted(of_servers: Path, tmp_path: Path) -> None:
    with (
        serving(of_servers) as master,
        driven(tmp_path / "s", OLD, replicate_same_server_id=True) as slave,
    ):
        slave.follow(master)
        slave.sql("START REPLICA")
        slave.expect_law(master)


def test_other_servers_are_ignored_from_here_on(of_servers: Path, tmp_path: Path) -> None:
    """What was received of them and not applied is given up."""
    with serving(of_servers) as master, driven(tmp_path / "s", server_id=5) as slave:
        slave.follow(master)
        slave.sql("START REPLICA IO_THREAD")
        slave.catch_up(master, executed=False)
        place = ("bin.000002", boundaries(BinlogSet.open(of_servers), "bin.000002")[4])
        slave.sql(f"START REPLICA SQL_THREAD UNTIL SOURCE_LOG_FILE='{place[0]}', SOURCE_LOG_POS={place[1]}")
        slave.stopped()
        assert slave.place() == place
        slave.sql("STOP REPLICA")
        first = expected(of_servers, slave.history[""], until=place)
        assert slave.summary() == first.summary
        slave.sql("CHANGE REPLICATION SOURCE TO IGNORE_SERVER_IDS = (12, 1001)")
        slave.sql("START REPLICA")
        slave.catch_up(master)
        slave.sql("STOP REPLICA")
        origin = OriginFilter(frozenset({12, 1001}))
        second = expected(of_servers, slave.history[""], start=place, origin=origin, target=first.summary)
        assert slave.summary() == second.summary
        slave.restart()
        assert slave.received() == master.end


@pytest.mark.parametrize("attempt", range(15))
def test_a_filter_that_changes_before_the_first_chunk(tmp_path: Path, attempt: int) -> None:
    """The I/O thread may be registering, or have registered and received nothing. (Several attempts: it is a race.)"""
    with serving(DATA / "mysql-row") as master, driven(tmp_path, OLD) as slave:
        slave.follow(master)
        slave.sql("START REPLICA IO_THREAD")
        slave.sql("CHANGE REPLICATION FILTER REPLICATE_DO_DB = (shop, hr), REPLICATE_IGNORE_DB = ()")
        slave.sql("START REPLICA SQL_THREAD")
        slave.expect_law(master)
