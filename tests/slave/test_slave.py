"""Several channels in one slave: names, directories, masters and filters (WL#7361)."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dumpfilter.base.errors import DirectoryBusy, OptionError, OutputError
from dumpfilter.binlog.gtid import parse_gtid_set
from dumpfilter.console.sql.server_errors import SqlError
from dumpfilter.filter.channels import ChannelFilters, fold_channel
from dumpfilter.slave.channels import Slave, _file_name
from dumpfilter.slave.facts import Channels, ChannelView
from dumpfilter.slave.options import SlaveOptions
from tests.slave.driven import driven, expected, serving, wait_until

NAMES = [
    "",
    "ch1",
    "a/b",
    "../up",
    ".",
    "..",
    "%2e",
    "%2e%2e",
    "a%2fb",
    "channels",
    "source.info",
    "relay-bin.000001",
    "übung",
    "ubung",
    "名前",
    "with spaces and 'quotes'",
    "x" * 64,
    "名" * 64,
    "名" * 63 + "前",
    "tab\tand bell\a",
]


def quoted(name: str) -> str:
    return name.replace("\\", "\\\\").replace("'", "''")


def test_channels_of_any_name_survive_a_restart(data: Path, tmp_path: Path) -> None:
    with serving(data / "mysql-row") as master, driven(tmp_path / "s") as slave:
        for name in NAMES:
            slave.follow(master, quoted(name).replace("''", "'"))
        assert slave.channels == sorted(NAMES, key=str.encode)
        directories = {one.directory for one in slave.slave.channels}
        assert len(directories) == len(NAMES)
        root = tmp_path / "s"
        assert {path.parent for path in directories - {root}} == {root / "channels"}
        ports = {one.info.channel: one.info.port for one in slave.slave.channels}
        slave.restart()
        assert {one.info.channel: one.info.port for one in slave.slave.channels} == ports
        assert {one.directory for one in slave.slave.channels} == directories
        assert [
            row["CHANNEL_NAME"] for row in slave.table("performance_schema", "replication_applier_status")
        ] == (sorted(NAMES, key=str.encode))


def test_a_statement_that_runs_at_the_end_leaves_no_thread_running(data: Path, tmp_path: Path) -> None:
    """The directory was unlocked while the threads that the statement had started were writing to it."""
    with serving(data / "mysql-row") as master, driven(tmp_path / "s") as driving:
        driving.follow(master)
        slave, begun = driving.slave, threading.Event()

        def statement() -> None:
            with slave.lock:
                begun.set()
                time.sleep(0.3)
                slave.start()

        running = threading.Thread(target=statement)
        running.start()
        assert begun.wait(60)
        driving.restart()
        running.join()
        assert not slave.channels[0].running


def test_a_statement_that_gets_the_lock_after_the_end_is_refused(data: Path, tmp_path: Path) -> None:
    """START REPLICA had waited for the lock, and started threads in the unlocked directory."""
    with serving(data / "mysql-row") as master, driven(tmp_path / "s") as driving:
        driving.follow(master)
        driving.close()
        with pytest.raises(SqlError) as refused:
            driving.sql("START REPLICA")
        assert refused.value.number == 1317
        assert not driving.slave.channels[0].running
        driving.open()


def test_a_channel_that_is_removed_while_its_row_is_read(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(data / "mysql-row") as master, driven(tmp_path / "s", "--replicate-do-db=a") as slave:
        slave.follow(master, "stays")
        slave.follow(master, "gone")
        names, view = slave.filters.channels, ChannelView(slave.channel("gone"))
        slave.sql("RESET REPLICA ALL FOR CHANNEL 'gone'")
        ((name, *values),) = Channels.table([view]).rows
        assert (name, "CLASSIC" in values) == ("gone", False)
        monkeypatch.setattr(ChannelFilters, "channels", names)
        rows = slave.table("performance_schema", "replication_applier_filters")
        assert [row["CHANNEL_NAME"] for row in rows] == ["stays"]


def test_names_that_differ_in_case_are_one_channel(data: Path, tmp_path: Path) -> None:
    with serving(data / "mysql-row") as master, driven(tmp_path / "s") as slave:
        slave.follow(master, "Ch_Ü")
        slave.follow(master, "cH_ü")
        assert slave.channels == ["ch_ü"]
        slave.sql("START REPLICA FOR CHANNEL 'CH_Ü'")
        slave.catch_up(master, "ch_ü")
        slave.sql("STOP REPLICA FOR CHANNEL 'ch_Ü'")
        slave.sql("RESET REPLICA ALL FOR CHANNEL 'CH_Ü'")
        assert slave.channels == []
        assert not list((tmp_path / "s" / "channels").iterdir())


@given(names=st.lists(st.text(max_size=64).map(fold_channel), unique=True, max_size=6))
def test_each_name_has_a_directory_of_its_own(names: list[str]) -> None:
    made = [_file_name(name) for name in names if name]
    assert len({name.lower() for name in made}) == len(made)
    for name in made:
        assert name not in ("", ".", "..")
        assert "/" not in name
        assert "\0" not in name
        assert len(name.encode()) <= 255


def test_ten_channels_to_two_masters(data: Path, tmp_path: Path) -> None:
    """Each channel has a filter of its own. Channels with odd numbers also change it while they stream."""
    databases = ["hr", "shop", "logs", "scratch", "a_b"]
    names = [f"ch{number:02}" for number in range(10)]
    options = [f"--replicate-do-db={name}:{databases[n % 5]}" for n, name in enumerate(names)]
    with (
        serving(data / "mysql-row") as one,
        serving(data / "mysql-mixed") as two,
        driven(tmp_path / "s", *options) as slave,
    ):
        assert len(slave.warnings) == 10  # the options name channels that do not exist yet
        for number, name in enumerate(names):
            slave.follow([one, two][number % 2], name)
        slave.restart(*options)
        assert slave.warnings == []
        slave.sql("START REPLICA")
        wait_until(lambda: len(one.slaves()) == len(two.slaves()) == 5)
        for number, name in enumerate(names):
            if number % 2:
                slave.sql(f"STOP REPLICA SQL_THREAD FOR CHANNEL '{name}'")
                slave.sql(
                    f"CHANGE REPLICATION FILTER REPLICATE_DO_DB = ({databases[(number + 1) % 5]}) FOR CHANNEL '{name}'"
                )
                slave.sql(f"START REPLICA SQL_THREAD FOR CHANNEL '{name}'")
        for number, name in enumerate(names):
            slave.expect_law([one, two][number % 2], name)
        rows = slave.table("performance_schema", "replication_applier_filters")
        assert [(row["CHANNEL_NAME"], row["CONFIGURED_BY"]) for row in rows] == [
            (
                name,
                "CHANGE_REPLICATION_FILTER_FOR_CHANNEL" if number % 2 else "STARTUP_OPTIONS_FOR_CHANNEL",
            )
            for number, name in enumerate(names)
        ]
        # Every channel shows the GTIDs of all channels, as in a server.
        executed = {slave.status(name)["Executed_Gtid_Set"] for name in names}
        both = parse_gtid_set(slave.executed("ch00")) | parse_gtid_set(slave.executed("ch01"))
        assert executed == {str(both)}


def test_one_channel_stops_and_the_others_go_on(data: Path, tmp_path: Path) -> None:
    with (
        serving(data / "mysql-row") as one,
        serving(data / "mysql-mixed") as two,
        driven(tmp_path / "s") as slave,
    ):
        for name, master in (("m1", one), ("m2", two)):
            slave.follow(master, name)
        slave.sql("START REPLICA")
        slave.sql("STOP REPLICA FOR CHANNEL 'm1'")
        slave.expect_law(two, "m2")
        assert not slave.channel("m1").running
        slave.sql("START REPLICA FOR CHANNEL 'm1'")
        slave.expect_law(one, "m1")


def test_a_new_channel_has_the_global_filter(data: Path, tmp_path: Path) -> None:
    options = ["--replicate-do-db=hr", "--replicate-ignore-db=ch1:logs"]
    with serving(data / "mysql-row") as master, driven(tmp_path / "s", *options) as slave:
        slave.follow(master, "ch1")
        slave.history["ch1"] = slave.history["ch1"][:1] + slave.history["ch1"][-1:]
        slave.sql("START REPLICA")
        slave.expect_law(master, "ch1")
        assert slave.counters("ch1")["REPLICATE_DO_DB"] == (
            expected(master.binlogs, slave.history["ch1"]).hits.total()
        )


def test_a_refused_source_changes_nothing(data: Path, tmp_path: Path) -> None:
    """Neither the filter nor the file ``source.info`` changes."""
    with serving(data / "mysql-row") as master, driven(tmp_path / "s") as slave:
        slave.follow(master, "ch1", DO_DOMAIN_IDS="(1)")
        before = slave.slave.get("ch1").info
        for refused in (
            "IGNORE_DOMAIN_IDS = (2), REPLICATE-DO-DB='x'",
            "IGNORE_SERVER_IDS = (4294967296), REPLICATE-DO-DB='x'",
            "REPLICATE-DO-DB='x', DO='a.%'",
        ):
            with pytest.raises(SqlError):
                slave.sql(f"CHANGE REPLICATION SOURCE TO {refused} FOR CHANNEL 'ch1'")
            assert slave.slave.get("ch1").info == before
            assert slave.filters.settings("ch1") == []
            with pytest.raises(SqlError):
                slave.sql(
                    f"CHANGE REPLICATION SOURCE TO SOURCE_HOST='h', DO_DOMAIN_IDS=(1), {refused} FOR CHANNEL 'ch2'"
                )
            assert slave.channels == ["ch1"]
        slave.restart()
        assert slave.channels == ["ch1"]
        assert slave.slave.get("ch1").info == before


def test_a_channel_whose_directory_cannot_be_made(tmp_path: Path) -> None:
    """The client got an unknown error, and the log the traceback of a defect."""
    with driven(tmp_path / "s") as slave:
        (tmp_path / "s" / "channels").touch()
        with pytest.raises(OutputError, match=r"channels/ch1: cannot be made: Not a directory"):
            slave.sql("CHANGE REPLICATION SOURCE TO SOURCE_HOST='h' FOR CHANNEL 'ch1'")
        assert slave.channels == slave.filters.channels == []


def test_another_masters_files_are_read_from_the_first(tmp_path: Path) -> None:
    with driven(tmp_path / "s") as slave:
        change = "CHANGE REPLICATION SOURCE TO {} FOR CHANNEL 'ch1'"
        slave.sql(change.format("SOURCE_HOST='127.0.0.1', SOURCE_LOG_FILE='bin.000007', SOURCE_LOG_POS=120"))
        slave.sql(change.format("SOURCE_CONNECT_RETRY=3"))
        info = slave.slave.get("ch1").info
        assert (info.log_file, info.log_pos) == ("bin.000007", 120)
        slave.sql(change.format("SOURCE_HOST='127.0.0.2'"))
        info = slave.slave.get("ch1").info
        assert (info.log_file, info.log_pos) == ("", 4)


def test_two_slaves_in_one_directory(tmp_path: Path) -> None:
    with driven(tmp_path / "s"), pytest.raises(DirectoryBusy):
        Slave(SlaveOptions(relay_dir=tmp_path / "s", server_id=2), ChannelFilters())


@pytest.mark.parametrize("server_id", [0, 1 << 32, -1])
def test_server_ids_that_cannot_be(tmp_path: Path, server_id: int) -> None:
    with pytest.raises(OptionError, match="--server-id"):
        Slave(SlaveOptions(relay_dir=tmp_path, server_id=server_id), ChannelFilters())


def test_what_belongs_to_no_channel_is_left_alone(tmp_path: Path) -> None:
    """A channel's directory may be empty, because the process ended while making it."""
    (tmp_path / "s" / "channels" / "half").mkdir(parents=True)
    (tmp_path / "s" / "channels" / "README").write_text("of the administrator")
    with driven(tmp_path / "s") as slave:
        assert slave.channels == []
    assert (tmp_path / "s" / "channels" / "README").exists()


def test_the_secret_is_kept_and_the_owners_alone(data: Path, tmp_path: Path) -> None:
    with serving(data / "mysql-row") as master, driven(tmp_path / "s") as slave:
        slave.follow(master)
        slave.follow(master, "ch1")
        made = {one.name: one.info.secret for one in slave.slave.channels}
        assert len(bytes.fromhex(made[""])) == 32
        assert made[""] != made["ch1"]
        slave.sql("CHANGE REPLICATION SOURCE TO SOURCE_CONNECT_RETRY = 7 FOR CHANNEL 'ch1'")
        slave.sql("RESET REPLICA FOR CHANNEL 'ch1'")
        slave.restart()
        assert {one.name: one.info.secret for one in slave.slave.channels} == made
        assert made["ch1"] not in repr(slave.slave.get("ch1").info)
        assert made["ch1"] not in str(slave.status("ch1"))


def test_the_password_is_the_owners_alone(tmp_path: Path) -> None:
    with driven(tmp_path / "s") as slave:
        slave.sql(
            "CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_USER='repl', SOURCE_PASSWORD='geheim' "
            "FOR CHANNEL 'ch1'"
        )
        path = slave.slave.get("ch1").directory / "source.info"
        assert path.stat().st_mode & 0o777 == 0o600
        assert "geheim" in path.read_text()
        assert "geheim" not in repr(slave.slave.get("ch1").info)
        assert "geheim" not in str(slave.status("ch1"))
