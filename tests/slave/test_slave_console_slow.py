"""Filters that a master imposes, errors of threads, and TLS, as a slave's console shows them."""

from __future__ import annotations

import shutil
import zlib
from pathlib import Path
from typing import Any

import pytest

from dumpfilter.binlog.events import EventType
from dumpfilter.binlog.reader import iter_events
from dumpfilter.console.sql.server_errors import SqlError
from dumpfilter.filter.base import AllFilters, BoundaryFilter, OnUndecided, ReplicationFilter
from dumpfilter.filter.filter import Filter
from dumpfilter.index.fileset import BinlogSet
from dumpfilter.master.config import MasterConfig
from dumpfilter.slave.applier import EventApplier
from dumpfilter.slave.process import report
from dumpfilter.slave.targets import SummaryTarget
from tests.master.tables import hashed, imposed_table
from tests.slave.driven import Place, driven, expected, serving, wait_until
from tests.slave.growing import GrowingCopy
from tests.support import DATA

STATEMENTS = DATA / "recordings" / "mysql-forms"


def imposing(*options: str, name: str = "no logs") -> MasterConfig:
    one = imposed_table(name, Filter.from_options(list(options)), on_undecided=OnUndecided.SEND)
    return MasterConfig(imposed=(one,))


def whole(binlogs: Path, *filters: tuple[Place, ReplicationFilter]) -> dict[str, Any]:
    """Return the summary of a slave that receives everything and uses each filter from its position on."""
    target = SummaryTarget()
    left = list(filters)
    applier = None
    found = BinlogSet.open(binlogs)
    for name in found.names:
        with found.path(name).open("rb") as source:
            for event in iter_events(source, file=name):
                if applier is None or not applier.inside:
                    while left and left[0][0] <= (name, event.offset):
                        applier = EventApplier(left.pop(0)[1], target)
                assert applier is not None
                applier.feed(event, file=name)
    return target.state()


def both(own: list[str], imposed: list[str]) -> ReplicationFilter:
    """Return the slave's own filter and an imposed one, which is stricter than its rules."""
    boundary = BoundaryFilter(Filter.from_options(imposed), OnUndecided.SEND)
    return AllFilters([Filter.from_options(own), boundary])


@pytest.mark.parametrize(
    ("filter_on", "imposed"),
    [
        ("MASTER", "--replicate-ignore-table=d1.b"),
        ("MASTER", "--replicate-wild-do-table=d1.%"),
        ("SLAVE", "--replicate-ignore-db=d1"),
        ("BOTH", "--replicate-ignore-table=d1.b"),
    ],
)
def test_the_slave_decides_statements_that_the_master_could_not_decide(
    tmp_path: Path, filter_on: str, imposed: str
) -> None:
    own = "--replicate-wild-ignore-table=d2.%"
    with serving(STATEMENTS, imposing(imposed)) as master, driven(tmp_path / "s", own) as slave:
        slave.follow(master, FILTER_ON=f"'{filter_on}'")
        slave.sql("START REPLICA")
        slave.catch_up(master)
        assert slave.summary() == whole(STATEMENTS, (("", 0), both([own], [imposed])))
        (row,) = slave.table("dumpfilter", "channels")
        assert (row["IMPOSED_BY"], row["IMPOSED_RULES"]) == ("no logs", imposed)
        assert report(slave.channel())["imposed"] == [imposed]
        # The imposed filter is not among the slave's own filters.
        shown = slave.table("performance_schema", "replication_applier_filters")
        assert [one["FILTER_RULE"] for one in shown] == ["d2.%"]


@pytest.mark.parametrize("again", [True, False])
def test_an_imposed_filter_stays_in_force_without_the_master(tmp_path: Path, again: bool) -> None:
    """The slave keeps the imposed filter in a file, and a restart without the master does not lift it."""
    imposed = "--replicate-ignore-table=d1.b"
    with serving(STATEMENTS, imposing(imposed)) as master, driven(tmp_path / "s") as slave:
        slave.follow(master)
        slave.sql("START REPLICA IO_THREAD")
        slave.catch_up(master, executed=False)
        assert slave.channel().counters.received["events_undecided"]
        slave.sql("STOP REPLICA")
        if again:
            slave.restart()
        master.stop()
        slave.sql("START REPLICA SQL_THREAD")
        slave.catch_up(master)
        assert slave.summary() == whole(STATEMENTS, (("", 0), both([], [imposed])))
        slave.sql("STOP REPLICA")
        slave.sql("RESET REPLICA")
        assert slave.table("dumpfilter", "channels")[0]["IMPOSED_RULES"] == ""


@pytest.mark.parametrize(
    ("filter_on", "restarted"), [("MASTER", True), ("SLAVE", False), ("BOTH", True), ("BOTH", False)]
)
def test_a_master_with_another_configuration(
    data: Path, tmp_path: Path, filter_on: str, restarted: bool
) -> None:
    """The master restarts, or reads the configuration again during the slave's dump. Nothing is lost."""

    def change(config: MasterConfig) -> None:
        if not restarted:
            master.reconfigure(config)
            return
        master.stop()
        master.config = config
        master.start()

    growing = GrowingCopy(data / "mysql-row", tmp_path / "live", seed=1)
    growing.more(20)
    own, imposed = "--replicate-ignore-db=scratch", "--replicate-ignore-db=hr"
    with serving(growing.index) as master, driven(tmp_path / "s", own) as slave:
        slave.follow(master, FILTER_ON=f"'{filter_on}'")
        slave.sql("START REPLICA")
        slave.catch_up(master)
        first = slave.place()
        assert slave.table("dumpfilter", "channels")[0]["IMPOSED_BY"] == ""
        change(imposing(imposed))
        wait_until(lambda: slave.table("dumpfilter", "channels")[0]["IMPOSED_RULES"] == imposed)
        growing.more(25)
        slave.catch_up(master)
        second = slave.place()
        change(MasterConfig())
        wait_until(lambda: slave.table("dumpfilter", "channels")[0]["IMPOSED_RULES"] == "")
        growing.more(growing.transactions)
        slave.catch_up(master)
        alone = Filter.from_options([own])
        wanted = whole(growing.index, (("", 0), alone), (first, both([own], [imposed])), (second, alone))
        assert slave.summary() == wanted
        assert wanted != whole(growing.index, (("", 0), alone))


@pytest.mark.parametrize("restarted", [True, False])
@pytest.mark.parametrize("change", ["added", "removed"])
def test_a_changed_imposed_filter_and_transactions_that_are_received_and_not_applied(
    data: Path, tmp_path: Path, change: str, restarted: bool
) -> None:
    """A new filter is in force from the applier's place on, and the end of a filter from the I/O thread's place on."""
    growing = GrowingCopy(data / "mysql-row", tmp_path / "live", seed=3)
    growing.more(growing.transactions // 2)
    imposed = imposing("--replicate-ignore-db=hr"), both([], ["--replicate-ignore-db=hr"])
    nothing = MasterConfig(), both([], [])
    (before, old), (after, new) = (nothing, imposed) if change == "added" else (imposed, nothing)
    with serving(growing.index, before) as master, driven(tmp_path / "s") as slave:
        slave.follow(master)
        slave.sql("START REPLICA IO_THREAD")
        slave.catch_up(master, executed=False)
        place = slave.received() if change == "removed" else ("", 0)
        master.reconfigure(after)
        wait_until(lambda: slave.channel().counters.received["connections"] == 2)
        growing.more(growing.transactions)
        slave.catch_up(master, executed=False)
        if restarted:
            slave.sql("STOP REPLICA")
            slave.restart()
        slave.sql("START REPLICA SQL_THREAD")
        slave.catch_up(master)
        wanted = whole(growing.index, (("", 0), old), (place, new))
        assert wanted != whole(growing.index, (("", 0), old))
        assert slave.summary() == wanted


def test_a_slave_whose_password_changes_goes_on_with_the_new_one(data: Path, tmp_path: Path) -> None:
    growing = GrowingCopy(data / "mysql-row", tmp_path / "live", seed=2)
    growing.more(20)

    def users(password: str) -> MasterConfig:
        return MasterConfig(user=(hashed("repl", password),))

    with serving(growing.index, users("old")) as master, driven(tmp_path / "s") as slave:
        slave.follow(master, SOURCE_USER="'repl'", SOURCE_PASSWORD="'old'")
        slave.sql("START REPLICA")
        slave.catch_up(master)
        # The hash is new and the password is the same: the slave registers again by itself.
        connections = slave.channel().counters.received["connections"]
        master.reconfigure(users("old"))
        wait_until(lambda: slave.channel().counters.received["connections"] > connections)
        growing.more(20)
        slave.catch_up(master)
        master.reconfigure(users("new"))
        wait_until(lambda: slave.status()["Replica_IO_Running"] == "No")
        assert "Access denied for user 'repl'" in slave.status()["Last_IO_Error"]
        growing.more(growing.transactions)
        slave.sql("STOP REPLICA")
        slave.sql("CHANGE REPLICATION SOURCE TO SOURCE_PASSWORD = 'new' FOR CHANNEL ''")
        slave.sql("START REPLICA")
        slave.expect_law(master)


def test_a_change_of_the_slaves_filter_does_not_lift_an_imposed_one(data: Path, tmp_path: Path) -> None:
    imposed = "--replicate-ignore-db=hr"
    with (
        serving(data / "mysql-row", imposing(imposed)) as master,
        driven(tmp_path / "s", "--replicate-do-db=shop") as slave,
    ):
        slave.follow(master)
        slave.sql("CHANGE REPLICATION FILTER REPLICATE_DO_DB = (shop, hr)")
        slave.sql("START REPLICA")
        slave.catch_up(master)
        own = ["--replicate-do-db=shop", "--replicate-do-db=hr"]
        assert slave.summary() == whole(data / "mysql-row", (("", 0), both(own, [imposed])))
        slave.sql("STOP REPLICA SQL_THREAD")
        slave.sql("CHANGE REPLICATION FILTER REPLICATE_DO_DB = ()")
        assert slave.table("dumpfilter", "channels")[0]["IMPOSED_RULES"] == imposed


def test_an_error_of_the_master_is_shown_until_the_next_start(data: Path, tmp_path: Path) -> None:
    binlogs = Path(shutil.copytree(data / "mysql-row", tmp_path / "binlogs"))
    sound = (binlogs / "bin.000002").read_bytes()
    damaged = bytearray(sound)
    damaged[5000] ^= 4
    (binlogs / "bin.000002").write_bytes(damaged)
    with serving(binlogs) as master, driven(tmp_path / "s") as slave:
        slave.follow(master)
        slave.sql("START REPLICA")
        wait_until(lambda: slave.status()["Replica_IO_Running"] == "No")
        shown = slave.status()
        assert shown["Last_IO_Errno"] == 1236
        assert "bin.000002: at " in shown["Last_IO_Error"]
        assert shown["Last_IO_Error_Timestamp"]
        assert shown["Replica_SQL_Running"] == "Yes"
        (row,) = slave.table("performance_schema", "replication_connection_status")
        assert (row["SERVICE_STATE"], row["LAST_ERROR_NUMBER"]) == ("OFF", 1236)
        # The file is repaired. The master must be restarted to read it again.
        (binlogs / "bin.000002").write_bytes(sound)
        master.stop()
        master.start()
        slave.sql("START REPLICA IO_THREAD")
        assert slave.status()["Last_IO_Errno"] == 0
        slave.expect_law(master)


def hide_a_table_map(relay: Path) -> None:
    """Give a table map of a relay log another type and a right checksum, so that its rows cannot be applied."""
    with relay.open("rb") as file:
        maps = [e for e in iter_events(file, file="relay") if e.type == EventType.TABLE_MAP]
    event = maps[len(maps) // 2]
    raw = event.raw[:4] + bytes([EventType.ROWS_QUERY]) + event.raw[5:-4]
    data = bytearray(relay.read_bytes())
    data[event.offset : event.offset + len(event.raw)] = raw + zlib.crc32(raw).to_bytes(4, "little")
    relay.write_bytes(data)


@pytest.mark.parametrize(
    ("damage", "restart"),
    [("a flipped bit", False), ("a cut file", True), ("a cut file", False), ("no file", True)],
)
def test_a_damaged_relay_log_is_fetched_again(data: Path, tmp_path: Path, damage: str, restart: bool) -> None:
    with serving(data / "mysql-row") as master, driven(tmp_path / "s") as slave:
        slave.follow(master)
        slave.sql("START REPLICA UNTIL SOURCE_LOG_FILE = 'bin.000001', SOURCE_LOG_POS = 2000")
        slave.catch_up(master, executed=False)
        slave.stopped()
        slave.sql("STOP REPLICA")
        relay = tmp_path / "s" / "relay-bin.000002"
        sound = relay.read_bytes()
        if damage == "a flipped bit":
            relay.write_bytes(sound[:900] + bytes([sound[900] ^ 4]) + sound[901:])
        elif damage == "a cut file":
            relay.write_bytes(sound[:700])
        else:
            relay.unlink()
        if restart:
            slave.restart()
        slave.sql("START REPLICA")
        slave.expect_law(master)
        assert slave.status()["Last_SQL_Errno"] == 0


def test_an_error_of_the_applier_is_shown_until_the_next_start(data: Path, tmp_path: Path) -> None:
    """The slave keeps the transactions applied before the error, and applies none twice."""
    with serving(data / "mysql-row") as master, driven(tmp_path / "s") as slave:
        slave.follow(master)
        slave.sql("START REPLICA IO_THREAD")
        slave.catch_up(master, executed=False)
        slave.sql("STOP REPLICA")
        hide_a_table_map(tmp_path / "s" / "relay-bin.000001")
        slave.sql("START REPLICA SQL_THREAD")
        wait_until(lambda: slave.status()["Replica_SQL_Running"] == "No")
        assert slave.status()["Last_SQL_Errno"] == slave.status()["Last_Errno"] == 1594
        assert "relay-bin.000001" in slave.status()["Last_SQL_Error"]
        # The target's state belongs to the position at which the next applier begins.
        so_far = expected(master.binlogs, slave.history[""], until=slave.place())
        assert slave.summary() == so_far.summary
        # With another filter the slave fetches the events beyond this position again.
        slave.sql("CHANGE REPLICATION FILTER REPLICATE_IGNORE_DB = (hr)")
        slave.sql("START REPLICA")
        slave.expect_law(master)
        assert slave.status()["Last_SQL_Errno"] == 0


# TLS


FAR = "CHANGE REPLICATION SOURCE TO SOURCE_HOST='192.0.2.1'"
"""A master on another machine. The address belongs to no machine (RFC 5737)."""


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("SOURCE_SSL=1", "the connection is encrypted, but the master's certificate is not verified"),
        ("SOURCE_SSL=1, SOURCE_SSL_VERIFY_SERVER_CERT=0", "the master's certificate is not verified"),
        (
            "SOURCE_SSL_CA='/ca'",
            "SOURCE_SSL is 0: the connection to the master is not encrypted, and SOURCE_SSL_CA",
        ),
        ("SOURCE_SSL=1, SOURCE_SSL_CA='/ca'", None),
        ("SOURCE_SSL=1, SOURCE_SSL_CA='/ca', SOURCE_SSL_VERIFY_SERVER_CERT=0", None),
        ("SOURCE_SSL=0", None),
        ("SOURCE_SSL=0, SOURCE_SSL_CA=''", None),
    ],
)
def test_a_connection_that_is_not_verified_has_a_warning(
    tmp_path: Path, options: str, said: str | None
) -> None:
    with driven(tmp_path / "s") as slave:
        notes = slave.sql(f"{FAR}, {options}").notes
        assert len(notes) == (said is not None)
        assert said is None or said in notes[0].message


@pytest.mark.parametrize(
    ("options", "number", "said"),
    [
        ("SOURCE_SSL=1, SOURCE_SSL_CERT='/c'", 1210, "SOURCE_SSL_CERT needs SOURCE_SSL_KEY"),
        ("SOURCE_SSL=1, SOURCE_SSL_VERIFY_SERVER_CERT=1", 1210, "needs SOURCE_SSL_CA"),
        ("SOURCE_SSL=1, SOURCE_SSL_CRL='/crl'", 1235, "SOURCE_SSL_CRL"),
        ("SOURCE_SSL=1, SOURCE_SSL_CAPATH='/ca'", 1235, "SOURCE_SSL_CAPATH"),
    ],
)
def test_tls_options_that_cannot_be_used_change_nothing(
    tmp_path: Path, options: str, number: int, said: str
) -> None:
    with driven(tmp_path / "s") as slave:
        slave.sql(f"{FAR}, SOURCE_USER='before'")
        with pytest.raises(SqlError) as caught:
            slave.sql(f"CHANGE REPLICATION SOURCE TO SOURCE_USER='after', {options}")
        assert caught.value.number == number
        assert said in caught.value.message
        assert (slave.status()["Source_User"], slave.status()["Source_SSL_Allowed"]) == ("before", "No")


@pytest.mark.parametrize("prefix", ["SOURCE", "MASTER"])
def test_tls_options_are_shown_and_kept(tmp_path: Path, prefix: str) -> None:
    with driven(tmp_path / "s") as slave:
        slave.sql(
            f"{FAR}, {prefix}_SSL=1, {prefix}_SSL_CA='/ca', {prefix}_SSL_CERT='/cert', {prefix}_SSL_KEY='/key'"
        )
        wanted = {
            "Source_SSL_Allowed": "Yes",
            "Source_SSL_CA_File": "/ca",
            "Source_SSL_Cert": "/cert",
            "Source_SSL_Key": "/key",
            "Source_SSL_Verify_Server_Cert": "Yes",
        }
        slave.restart()
        assert wanted.items() <= slave.status().items()
        (row,) = slave.table("performance_schema", "replication_connection_configuration")
        columns = ("ALLOWED", "CA_FILE", "CERTIFICATE", "KEY", "VERIFY_SERVER_CERTIFICATE")
        assert [row[f"SSL_{column}"] for column in columns] == ["YES", "/ca", "/cert", "/key", "YES"]
        slave.sql(f"CHANGE REPLICATION SOURCE TO {prefix}_SSL_VERIFY_SERVER_CERT=0")
        assert slave.status()["Source_SSL_Verify_Server_Cert"] == "No"
        slave.sql(f"CHANGE REPLICATION SOURCE TO {prefix}_SSL=0")
        assert slave.status()["Source_SSL_Allowed"] == "No"


@pytest.mark.parametrize("by_start", [True, False])
def test_a_password_does_not_travel_in_the_clear(tmp_path: Path, by_start: bool) -> None:
    with driven(tmp_path / "s") as slave:
        if by_start:
            slave.sql(FAR)
            slave.sql("START REPLICA USER='repl' PASSWORD='secret'")
        else:
            slave.sql(f"{FAR}, SOURCE_USER='repl', SOURCE_PASSWORD='secret'")
            slave.sql("START REPLICA")
        wait_until(lambda: slave.status()["Last_IO_Errno"])
        text = slave.status()["Last_IO_Error"]
        assert "the password of user 'repl' would travel unencrypted to another machine" in text
        assert "secret" not in text
