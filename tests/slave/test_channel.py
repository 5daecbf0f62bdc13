"""One channel: its threads, restarts, its master, and RESET."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dumpfilter.base import files
from dumpfilter.base.errors import OutputError
from dumpfilter.console.sql.commands import Threads
from dumpfilter.index.fileset import BinlogSet
from dumpfilter.slave.channels import Slave
from dumpfilter.slave.options import SlaveOptions
from dumpfilter.slave.relay_log import RelayLog, read_index
from dumpfilter.slave.sql_thread import SqlThread
from dumpfilter.slave.state import MasterInfo, RelayLogInfo, SourceInfo
from dumpfilter.slave.targets import SummaryTarget
from tests.slave.driven import OLD_OPTION as OLD
from tests.slave.driven import UUID, driven, expected, filters_of, serving, wait_until
from tests.slave.driven import apply_before as before
from tests.slave.growing import boundaries

DATA = Path(__file__).parents[1] / "oracle" / "data" / "oracle"
CHANGE = "CHANGE REPLICATION FILTER REPLICATE_DO_DB = (hr, logs), REPLICATE_IGNORE_DB = ()"


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
        received = slave.channel().counters.received
        assert (received["connections"], received["io_errors"]) == (11, 0)
        assert slave.status()["Last_IO_Error"] == ""


# -- restarts


@pytest.mark.parametrize("number", [30, 74])
def test_a_restart_with_other_options(binlogs: Path, tmp_path: Path, number: int) -> None:
    """The slave discards relayed events that the old options selected and that were not applied."""
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
    """After the restart the options are in force again, from the applier's position on."""
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


def test_relay_logs_stay_as_long_as_another_reader_needs_them(binlogs: Path, tmp_path: Path) -> None:
    directory = tmp_path / "s"
    reader = SimpleNamespace(note=lambda position: None, needed_file=None)
    with (
        serving(binlogs) as master,
        driven(directory, readers={"": reader}) as slave,
    ):
        slave.follow(master)
        slave.sql("START REPLICA")
        slave.catch_up(master)
        slave.sql("STOP REPLICA")
        names = read_index(directory)
        for name in names:
            os.utime(directory / name, (1, 1))
        for needed in (names[0], names[1], None):
            reader.needed_file = needed
            slave.slave.get("").expire_relay_log(1000)
            assert read_index(directory)[0] == (needed or names[-1])


def test_damage_after_the_end_of_the_binlog_is_fetched_again(
    binlogs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With --once the I/O thread has ended when the applier finds the damage."""
    start, another_runs = SqlThread.start, []

    def noting(thread: SqlThread) -> None:
        another_runs.append(slave.channel().sql.running)
        start(thread)

    with serving(binlogs) as master, driven(tmp_path / "s", OLD, once=True) as slave:
        slave.follow(master)
        slave.sql("START REPLICA IO_THREAD")
        wait_until(lambda: slave.channel().io.ended and not slave.channel().io.running)
        path = tmp_path / "s" / "relay-bin.000002"
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 4
        path.write_bytes(data)
        monkeypatch.setattr(SqlThread, "start", noting)
        slave.sql("START REPLICA SQL_THREAD")
        slave.stopped()
        assert slave.place() == master.end
        # SHOW REPLICA STATUS, for example, must find an applier while the applier is replaced.
        assert another_runs == [False, True]


# -- another master


@contextmanager
def before_changes(call: Callable[[], object]) -> Iterator[None]:
    """Call a function before each change of a directory: whenever a file is replaced or removed."""

    def calling(change: Callable[..., None]) -> Callable[..., None]:
        def call_and_change(*args: Any, **named: Any) -> None:
            call()
            change(*args, **named)

        return call_and_change

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "unlink", calling(os.unlink))
        patch.setattr(os, "replace", calling(os.replace))
        yield


@contextmanager
def copies(directory: Path) -> Iterator[list[Path]]:
    """Yield a list of copies of a directory, one before each change: what a kill would leave there."""
    left: list[Path] = []

    def copy() -> None:
        left.append(directory.with_name(f"left{len(left)}"))
        shutil.copytree(directory, left[-1])

    with before_changes(copy):
        yield left


@contextmanager
def full_disk(changes: int) -> Iterator[None]:
    """Fail after so many changes of a directory."""
    done = count()

    def check() -> None:
        if next(done) >= changes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with before_changes(check), pytest.raises(OutputError):
        yield


@pytest.mark.parametrize("end", ["a kill", "a full disk"])
def test_a_change_to_another_host_is_interrupted(data: Path, tmp_path: Path, end: str) -> None:
    """The channel stays at the old host and position, or begins at the new host and position."""
    with serving(data / "mysql-row") as one, serving(data / "mysql-mixed") as two:
        options = f"SOURCE_PORT = {two.port}, SOURCE_LOG_FILE = 'bin.000002', SOURCE_LOG_POS = 4"
        with driven(tmp_path / "s", OLD) as slave:
            slave.follow(one)
            slave.sql("START REPLICA")
            slave.catch_up(one)
            slave.sql("STOP REPLICA")
            before = slave.summary()
            with copies(tmp_path / "s") as left:
                slave.sql(f"CHANGE REPLICATION SOURCE TO {options}")
            slave.sql("START REPLICA")
            slave.catch_up(two)
            after = slave.summary()
        if end == "a full disk":
            writes = len(left)
            left = [Path(shutil.copytree(left[0], tmp_path / f"full{number}")) for number in range(writes)]
        for number, directory in enumerate(left):
            with driven(directory, OLD) as slave:
                if end == "a full disk":
                    with full_disk(number):
                        slave.sql(f"CHANGE REPLICATION SOURCE TO {options}")
                moved = slave.status()["Source_Port"] == two.port
                slave.sql("START REPLICA")
                slave.catch_up(two if moved else one)
                assert slave.summary() == (after if moved else before), directory


def test_a_master_on_the_command_line_does_not_undo_an_interrupted_change(data: Path, tmp_path: Path) -> None:
    """The position was another master's, and the statement had to discard it."""
    with serving(data / "mysql-row") as master, driven(tmp_path / "s") as slave:
        slave.follow(master)
        slave.sql("START REPLICA")
        slave.catch_up(master)
    info = SourceInfo.file(tmp_path / "s")
    info.save(info.load().model_copy(update={"port": 3307, "afresh": True}))
    options = SlaveOptions(relay_dir=tmp_path / "s", server_id=1001)
    named = Slave(options, filters_of(()), [SourceInfo(host="127.0.0.1", port=3308)])
    try:
        assert named.get("").relay_log_info.source_file == ""
        assert (info.load().port, info.load().afresh) == (3308, False)
    finally:
        named.close()


def test_another_position_in_the_masters_log(binlogs: Path, tmp_path: Path) -> None:
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
        # From the beginning once more: the target now has both results.
        slave.sql("STOP REPLICA")
        slave.sql("CHANGE REPLICATION SOURCE TO SOURCE_LOG_FILE = 'bin.000001', SOURCE_LOG_POS = 4")
        slave.sql("START REPLICA")
        slave.catch_up(master)
        assert sum(rows(slave.summary())) == sum(rows(expected(binlogs, slave.history[""]).summary)) + sum(
            rows(expected(binlogs, slave.history[""], start=place).summary)
        )


def rows(summary: Any) -> list[int]:
    """Return the counts in a summary, without its digests."""
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
    """The slave discards relayed events that were not applied, and asks the other master by its executed GTIDs."""
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


def test_zero_keeps_the_port_and_the_pause(tmp_path: Path) -> None:
    """MySQL 9.7.4 answers so. Without a pause the slave made 400 attempts to connect in a second."""
    with driven(tmp_path / "s") as slave:
        change = "CHANGE REPLICATION SOURCE TO SOURCE_PORT={}, SOURCE_CONNECT_RETRY={}, SOURCE_RETRY_COUNT={}"
        for numbers, kept in (
            ((0, 0, 0), (3306, 60, 0)),
            ((33, 17, 5), (33, 17, 5)),
            ((0, 0, 0), (33, 17, 0)),
        ):
            slave.sql(change.format(*numbers))
            info = slave.channel().info
            assert (info.port, info.connect_retry, info.retry_count) == kept


def test_heartbeats_come_before_the_timeout(tmp_path: Path) -> None:
    """The default was 30 s, so that a slave with a shorter timeout lost each idle connection."""
    with driven(tmp_path / "s", net_timeout=10.0) as slave:
        for options, period in (
            ("HOST='h'", 5.0),
            ("HEARTBEAT_PERIOD=3", 3.0),
            ("CONNECT_RETRY=1", 3.0),
            ("PORT=0", 3.0),
            ("PORT=33", 5.0),
            ("HOST='h', SOURCE_HEARTBEAT_PERIOD=0", 0.0),
        ):
            slave.sql(f"CHANGE REPLICATION SOURCE TO SOURCE_{options}")
            assert slave.channel().info.heartbeat_period == period


def test_reset_clears_the_errors(data: Path, tmp_path: Path) -> None:
    with serving(data / "mysql-row") as master:
        pass
    with driven(tmp_path / "s") as slave:
        slave.follow(master, SOURCE_RETRY_COUNT="1")
        slave.sql("START REPLICA IO_THREAD")
        wait_until(lambda: not slave.channel().io.running)
        assert slave.status()["Last_IO_Errno"] == 2003
        slave.sql("RESET REPLICA")
        assert (slave.status()["Last_IO_Errno"], slave.status()["Last_IO_Error"]) == (0, "")


def test_a_change_of_filter_keeps_the_user_of_start_replica(data: Path, tmp_path: Path) -> None:
    """The I/O thread registers again with the new filter, although no master answers yet."""
    with serving(data / "mysql-row") as master:
        pass
    with driven(tmp_path / "s") as slave:
        slave.follow(master)
        slave.sql("START REPLICA IO_THREAD USER = 'repl' PASSWORD = 'secret'")
        before = slave.channel().io
        slave.sql("CHANGE REPLICATION FILTER REPLICATE_DO_DB = (shop)")
        now = slave.channel().io
        assert now is not before
        assert slave.channel().io.running
        assert (now.source.info.user, now.source.info.password) == ("repl", "secret")
        assert slave.channel().info.user == ""


@pytest.mark.parametrize("io_runs", [True, False])
@pytest.mark.parametrize("failing", ["replace", "truncate"])
def test_a_change_of_filter_that_fails_loses_no_rows(
    binlogs: Path, tmp_path: Path, io_runs: bool, failing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows that only the new filter passes lie between the applier's position and the received position."""
    real = getattr(files, failing)

    def fail(path: Path, *rest: Any, **more: Any) -> None:
        if path.name.startswith("relay-bin"):
            raise OutputError(f"{path}: cannot be written: No space left on device")
        real(path, *rest, **more)

    with serving(binlogs) as master, driven(tmp_path / "s", OLD) as slave:
        slave.follow(master)
        slave.sql("START REPLICA IO_THREAD")
        slave.catch_up(master, executed=False)
        before(slave, 20)
        if not io_runs:
            slave.sql("STOP REPLICA IO_THREAD")
        with monkeypatch.context() as patch:
            patch.setattr(files, failing, fail)
            with pytest.raises(OutputError, match="No space left on device"):
                slave.sql(CHANGE)
            slave.note("")
        slave.sql("START REPLICA IO_THREAD")
        slave.sql("START REPLICA SQL_THREAD")
        slave.expect_law(master)


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


@pytest.mark.parametrize("name", ["", "ch1"])
def test_a_kill_inside_reset_replica_all(binlogs: Path, tmp_path: Path, name: str) -> None:
    """The channel goes on, begins anew, or is gone. In each case a channel of this name has all rows once."""
    with serving(binlogs) as master:
        with driven(tmp_path / "s", OLD) as slave:
            slave.follow(master, name)
            slave.sql("START REPLICA")
            slave.catch_up(master, name)
            slave.sql("STOP REPLICA")
            whole = slave.summary(name)
            with copies(tmp_path / "s") as left:
                slave.sql(f"RESET REPLICA ALL FOR CHANNEL '{name}'")
        for directory in left:
            with driven(directory, OLD) as slave:
                if name not in slave.channels:
                    slave.follow(master, name)
                slave.sql(f"START REPLICA FOR CHANNEL '{name}'")
                slave.catch_up(master, name)
                assert slave.summary(name) == whole, directory


# -- states that a kill or a damage leaves


def _relay_log_lost(directory: Path) -> None:
    """Leave what a kill inside RESET REPLICA leaves: the relay log is gone, and relay-log.info is old."""
    info = MasterInfo.file(directory)
    info.save(MasterInfo(family=info.load().family), synced=False)
    RelayLog(directory).recover(None)


def _master_info_is_older(directory: Path) -> None:
    """Leave what a power failure leaves when relay-log.info reached the disk and master.info did not."""
    info = MasterInfo.file(directory)
    here = info.load()
    info.save(here.model_copy(update={"relay_file": "relay-bin.000001", "relay_offset": 400}), synced=False)


def _goes_on_without_relay_log(directory: Path) -> None:
    """Leave a kill's files: the applier goes on in an empty relay log, and the old relay log is still there."""
    applied = RelayLogInfo.file(directory)
    applied.save(applied.load().model_copy(update={"relay_file": "", "relay_offset": 0}))


def _relay_log_lost_twice(directory: Path) -> None:
    """Leave what a kill inside RESET REPLICA leaves if the applier goes on in an empty relay log."""
    _goes_on_without_relay_log(directory)
    _relay_log_lost(directory)


def _goes_on_without_relay_log_whose_head_is_damaged(directory: Path) -> None:
    _goes_on_without_relay_log(directory)
    os.truncate(directory / "relay-bin.000001", 30)


def _inside_a_head(directory: Path) -> None:
    """Leave the place that an earlier release saved in a file that was cut inside its head."""
    target = SummaryTarget()
    RelayLogInfo.file(directory).save(
        RelayLogInfo(
            relay_file="relay-bin.000001", relay_offset=126, source_position=126, target=target.state()
        )
    )
    os.truncate(directory / "relay-bin.000001", 126)


LEFT: dict[str, Callable[[Path], None]] = {
    "no relay log": _relay_log_lost,
    "no relay log for the second time": _relay_log_lost_twice,
    "an older master.info": _master_info_is_older,
    "an old relay log": _goes_on_without_relay_log,
    "a damaged old relay log": _goes_on_without_relay_log_whose_head_is_damaged,
    "a place inside a head": _inside_a_head,
}


@pytest.mark.parametrize("leave", LEFT.values(), ids=LEFT)
def test_the_relay_log_and_the_appliers_place_disagree(
    binlogs: Path, tmp_path: Path, leave: Callable[[Path], None]
) -> None:
    """The slave trusts relay-log.info, where the target's state stands, and fetches the relay log again."""
    with serving(binlogs) as master, driven(tmp_path / "s", OLD) as slave:
        slave.follow(master)
        slave.sql("START REPLICA IO_THREAD")
        slave.catch_up(master, executed=False)
        before(slave, 50)
        slave.sql("STOP REPLICA")
        slave.close()
        leave(tmp_path / "s")
        slave.open()
        slave.sql("START REPLICA")
        slave.expect_law(master)
        assert slave.executed() == f"{UUID}:1-74"
