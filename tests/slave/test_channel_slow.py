"""One channel: UNTIL, changes of the filter, the side on which it runs, and the origin of transactions."""

from __future__ import annotations

import shutil
import struct
import zlib
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import pytest

from dumpfilter.binlog.events import EventType
from dumpfilter.filter.base import OriginFilter
from dumpfilter.index.fileset import BinlogSet
from tests.slave.driven import OLD_OPTION as OLD
from tests.slave.driven import UUID, driven, expected, serving, wait_until
from tests.slave.driven import apply_before as before
from tests.slave.growing import boundaries
from tests.slave.schedules import FACTOR

DATA = Path(__file__).parents[1] / "oracle" / "data" / "oracle"
CHANGE = "CHANGE REPLICATION FILTER REPLICATE_DO_DB = (hr, logs), REPLICATE_IGNORE_DB = ()"


# -- UNTIL


UNTIL = [((OLD,), "BOTH"), (("--replicate-do-db=nothing",), "BOTH"), ((OLD,), "SLAVE")]
"""Options, and the side of the filter. A slave that filters for itself receives everything with any options."""


@pytest.mark.parametrize(("options", "filter_on"), UNTIL)
def test_until_a_position_in_the_masters_log(
    binlogs: Path, tmp_path: Path, options: tuple[str, ...], filter_on: str
) -> None:
    """The applier stops where an unfiltered replica would stop, even if the master dropped that transaction."""
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
            else:  # the applier is beyond the position already
                assert slave.summary() == expected(binlogs, history, until=places[3::11][-1]).summary


@pytest.mark.parametrize(("options", "filter_on"), UNTIL)
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
            summary = expected(binlogs, history, transactions=taken).summary
            assert slave.summary() == summary, (number, kind)
            # The condition is met already, and the applier ends at once.
            slave.sql(f"START REPLICA SQL_THREAD UNTIL SQL_{kind}_GTIDS = '{UUID}:{number}'")
            slave.stopped()
            assert slave.summary() == summary, (number, kind)


def test_until_a_position_in_the_relay_log(binlogs: Path, tmp_path: Path) -> None:
    """Two slaves without a filter have equal relay logs."""
    with (
        serving(binlogs) as master,
        driven(tmp_path / "a") as one,
        driven(tmp_path / "b", server_id=1002) as other,
    ):
        for slave in (one, other):
            slave.follow(master)
            slave.sql("START REPLICA IO_THREAD")
            slave.catch_up(master, executed=False)
        for number in (9, 40):
            before(one, number + 1)
            row = one.status()
            file, position = row["Relay_Log_File"], row["Relay_Log_Pos"]
            for _ in range(2):  # The condition is met already the second time.
                until = f"RELAY_LOG_FILE = '{file}', RELAY_LOG_POS = {position}"
                other.sql(f"START REPLICA SQL_THREAD UNTIL {until}")
                other.stopped()
                assert other.status()["Executed_Gtid_Set"] == f"{UUID}:1-{number}"


# -- another filter


@pytest.mark.parametrize(
    ("situation", "number"),
    [
        ("running", 1),
        ("running", 75),
        ("stopped", 30),
        ("stopped", 75),
        ("nobody there", 30),
        ("gone meanwhile", 30),
    ],
)
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
            master.stop()  # the I/O thread may still believe that it is connected
        slave.sql(CHANGE)
        slave.sql("START REPLICA")
        if situation in ("nobody there", "gone meanwhile"):
            master.start()
        slave.expect_law(master)
        assert slave.executed() == f"{UUID}:1-74"
        wanted = expected(binlogs, slave.history[""]).hits
        hits = {kind.value.upper().replace("-", "_"): count for kind, count in wanted.items()}
        assert slave.counters() == {"REPLICATE_DO_DB": 0, "REPLICATE_IGNORE_DB": 0} | hits


@pytest.mark.parametrize(("situation", "number"), [("running", 2), ("stopped", 30), ("running", 50)])
def test_another_filter_and_another_master_by_gtid_set(
    binlogs: Path, tmp_path: Path, situation: str, number: int
) -> None:
    """The applier is in the old master's files when the filter changes. The new master sends the rest again."""
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


# -- the side on which the filter runs


RULES = [
    ["--replicate-ignore-db=hr"],
    ["--replicate-do-db=shop", "--replicate-do-table=hr.emp", "--replicate-rewrite-db=shop->store"],
    ["--replicate-wild-ignore-table=%.e%", "--replicate-do-db=hr"],
    ["--do=shop.%", "--ignore=%.%", "--rewrite=shop.items->shop.things"],
]
SIDES = ("MASTER", "SLAVE", "BOTH")


@pytest.mark.parametrize("folder", ["mysql-statement", "mariadb-mixed"])
def test_the_result_is_the_same_on_either_side(data: Path, tmp_path: Path, folder: str) -> None:
    with ExitStack() as stack:
        master = stack.enter_context(serving(data / folder))
        slaves = []
        for number, options in enumerate(RULES):
            for filter_on in SIDES:
                directory = tmp_path / f"{filter_on}{number}"
                slave = stack.enter_context(driven(directory, *options, server_id=1001 + len(slaves)))
                slave.follow(master, FILTER_ON=f"'{filter_on}'")
                slave.sql("START REPLICA")
                slaves.append(slave)
        for first in range(0, len(slaves), len(SIDES)):
            ends = []
            for filter_on, slave in zip(SIDES, slaves[first:], strict=False):
                slave.expect_law(master)
                ends.append((slave.summary(), slave.counters(), slave.executed()))
                counts = slave.channel().counters.received
                assert (counts["events_dropped"] == 0) == (filter_on == "SLAVE")
            assert ends[0] == ends[1] == ends[2]
            wanted = expected(data / folder, slave.history[""]).hits
            shown = {kind.value.upper().replace("-", "_"): count for kind, count in wanted.items()}
            assert {name: count for name, count in ends[0][1].items() if count} == shown


@pytest.mark.parametrize(
    ("change", "number"), [("BOTH MASTER", 2), ("MASTER SLAVE", 40), ("SLAVE MASTER", 2), ("SLAVE BOTH", 40)]
)
def test_the_filter_moves_to_the_other_side(binlogs: Path, tmp_path: Path, change: str, number: int) -> None:
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
        # UNTIL may end between two recorded states. The master's hits since the first of them are lost then.
        assert slave.counters()["REPLICATE_IGNORE_DB"] in ([hits] if first == "SLAVE" else range(hits + 1))


# -- the origin of transactions


WRITER = 11
"""The server id of the recordings' server."""


@pytest.fixture(params=["mysql-row", "mariadb-mixed"])
def of_servers(data: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Return a recording whose transactions have the server ids of the writer, 1001 (the slave) and 12, in turn."""
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


MYSQL, MARIADB = "mysql-row", "mariadb-mixed"


@pytest.mark.parametrize(
    ("of_servers", "server_id", "options", "origin"),
    [
        (MYSQL, 1001, {"IGNORE_SERVER_IDS": "(12)"}, OriginFilter(frozenset({12}), own_server_id=1001)),
        (MARIADB, 1001, {"IGNORE_SERVER_IDS": "(12)"}, OriginFilter(frozenset({12}), own_server_id=1001)),
        (MYSQL, WRITER, {}, OriginFilter()),
        (MYSQL, WRITER, {"IGNORE_SERVER_IDS": f"({WRITER}, 1001)"}, OriginFilter(frozenset({WRITER, 1001}))),
        (
            MARIADB,
            5,
            {"IGNORE_SERVER_IDS": f"({WRITER}, 1001, 12)"},
            OriginFilter(frozenset({WRITER, 1001, 12})),
        ),
        (MYSQL, 5, {"DO_DOMAIN_IDS": "(1)"}, OriginFilter(do_domain_ids=frozenset({1}))),
        (MARIADB, 5, {"DO_DOMAIN_IDS": "(1)"}, OriginFilter(do_domain_ids=frozenset({1}))),
        (MARIADB, 5, {"IGNORE_DOMAIN_IDS": "(0)"}, OriginFilter(ignore_domain_ids=frozenset({0}))),
    ],
    indirect=["of_servers"],
)
def test_by_the_origin_of_transactions(
    of_servers: Path, tmp_path: Path, server_id: int, options: dict[str, str], origin: OriginFilter
) -> None:
    ends = []
    with serving(of_servers) as master:
        for filter_on in SIDES:
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
    """The slave discards events of the ignored servers that were received and not applied."""
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


@pytest.mark.parametrize("attempt", range(4 * FACTOR))
def test_a_filter_that_changes_before_the_first_chunk(tmp_path: Path, attempt: int) -> None:
    """The I/O thread may be registering, or may have received nothing yet. Several attempts hit different moments."""
    with serving(DATA / "mysql-row") as master, driven(tmp_path, OLD) as slave:
        slave.follow(master)
        slave.sql("START REPLICA IO_THREAD")
        slave.sql("CHANGE REPLICATION FILTER REPLICATE_DO_DB = (shop, hr), REPLICATE_IGNORE_DB = ()")
        slave.sql("START REPLICA SQL_THREAD")
        slave.expect_law(master)
