"""Every example of WL#7361 and WL#7057 through a MySQL client library, with the tables that the worklogs print.

``test_recordings_slow`` asks the same statements, and compares with the answers of a real MySQL 9.7. Where a
worklog's text and the real server disagree, the console follows the server, and the test says so.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from dumpfilter.slave.channels import Channel
from tests.console.replay import Console, our_slave
from tests.mariadb import MariaDb
from tests.slave.driven import Master as Served
from tests.slave.driven import wait_until
from tests.slave.processes import Launcher
from tests.support import STATUS_COLUMNS

SOURCE = "CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT=1 FOR CHANNEL"
# "PERFORMANCE_SCHEMA" in the worklog, which real servers know only with lower_case_table_names=1
FILTERS = "SELECT * FROM performance_schema.replication_applier_filters"
GLOBAL_FILTERS = "SELECT * FROM performance_schema.replication_applier_global_filters"

STARTUP = "STARTUP_OPTIONS"
STARTUP_FOR_CHANNEL = "STARTUP_OPTIONS_FOR_CHANNEL"
CHANGE = "CHANGE_REPLICATION_FILTER"
CHANGE_FOR_CHANNEL = "CHANGE_REPLICATION_FILTER_FOR_CHANNEL"


@contextmanager
def restarted(directory: Path, options: list[str], *channels: str) -> Iterator[Console]:
    """Start a slave, create its channels, and restart it with options."""
    with our_slave(directory) as console:
        for channel in channels:
            console.do(f"{SOURCE} '{channel}'")
    with our_slave(directory, options) as console:
        yield console


def filters(console: Console) -> list[tuple[Any, ...]]:
    """replication_applier_filters without ACTIVE_SINCE, which is a time in each row."""
    answer = console.ask(FILTERS)
    names = [name for name, _ in answer["columns"]]
    assert names == ["CHANNEL_NAME", "FILTER_NAME", "FILTER_RULE", "CONFIGURED_BY", "ACTIVE_SINCE", "COUNTER"]
    for row in answer["rows"]:
        datetime.fromisoformat(row[4])
    return [(*row[:4], row[5]) for row in answer["rows"]]


def global_filters(console: Console) -> list[tuple[Any, ...]]:
    answer = console.ask(GLOBAL_FILTERS)
    names = [name for name, _ in answer["columns"]]
    assert names == ["FILTER_NAME", "FILTER_RULE", "CONFIGURED_BY", "ACTIVE_SINCE"]
    for row in answer["rows"]:
        datetime.fromisoformat(row[3])
    return [tuple(row[:3]) for row in answer["rows"]]


def shown_filters(console: Console, channel: str) -> dict[str, str]:
    """Return the filters of SHOW REPLICA STATUS FOR CHANNEL that are not empty."""
    answer = console.ask(f"SHOW REPLICA STATUS FOR CHANNEL '{channel}'")
    ((*values,),) = answer["rows"]
    row = dict(zip((name for name, _ in answer["columns"]), values, strict=True))
    assert row["Channel_Name"] == channel
    return {name: row[name] for name in STATUS_COLUMNS if row[name]}


# WL#7361 A


def test_how_global_and_per_channel_filters_work_together(tmp_path: Path) -> None:
    options = ["--replicate-do-db=db1", "--replicate-do-db=ch1:db2", "--replicate-do-db=db3"]
    options += ["--replicate-ignore-db=db4", "--replicate-ignore-db=:db5"]
    with restarted(tmp_path, options, "", "ch1") as console:
        assert [row[:2] for row in global_filters(console)] == [
            ("REPLICATE_DO_DB", "db1,db3"),
            ("REPLICATE_IGNORE_DB", "db4"),
        ]
        assert shown_filters(console, "") == {"Replicate_Do_DB": "db1,db3", "Replicate_Ignore_DB": "db5"}
        assert shown_filters(console, "ch1") == {"Replicate_Do_DB": "db2", "Replicate_Ignore_DB": "db4"}


def test_the_first_colon_separates_the_channel(tmp_path: Path) -> None:
    with restarted(tmp_path, ["--replicate-do-db=ch1:a:b"], "ch1") as console:
        assert filters(console) == [("ch1", "REPLICATE_DO_DB", "a:b", STARTUP_FOR_CHANNEL, 0)]


def test_filters_of_channels_that_cannot_have_any_are_discarded(tmp_path: Path) -> None:
    options = ["--replicate-do-db=nosuch:a", "--replicate-do-db=group_replication_applier:a"]
    options += ["--replicate-ignore-db=group_replication_recovery:a"]
    with restarted(tmp_path, options, "ch1") as console:
        assert console.warnings == [
            "There are per-channel replication filter(s) configured for group replication channel "
            "'group_replication_applier' which is disallowed. The filter(s) have been discarded.",
            "There are per-channel replication filter(s) configured for group replication channel "
            "'group_replication_recovery' which is disallowed. The filter(s) have been discarded.",
            "There are per-channel replication filter(s) configured for channel 'nosuch' which does not exist. "
            "The filter(s) have been discarded.",
        ]
        assert filters(console) == []


def test_all_rewrites_of_one_database_are_kept(tmp_path: Path) -> None:
    options = ["--replicate-rewrite-db=ch1:from->to", "--replicate-rewrite-db=ch1:from->to2"]
    with restarted(tmp_path, options, "ch1") as console:
        assert shown_filters(console, "ch1") == {"Replicate_Rewrite_DB": "(from,to),(from,to2)"}


# WL#7361 B


def test_a_filter_for_one_channel(tmp_path: Path) -> None:
    options = [f"--replicate-do-db=ch_1:my_db{n}" for n in (1, 2, 3)]
    options += [f"--replicate-ignore-db=ch_1:my_db{n}" for n in (4, 5, 6)]
    with restarted(tmp_path, options, "ch_1") as console:
        console.do("CHANGE REPLICATION FILTER REPLICATE_IGNORE_TABLE=(`db3`.initfilet3) FOR CHANNEL 'ch_1'")
        console.do("CHANGE REPLICATION FILTER REPLICATE_WILD_DO_TABLE=('initfiled%.t%') FOR CHANNEL 'ch_1'")
        console.do(
            "CHANGE REPLICATION FILTER REPLICATE_DO_DB=(db1,db2,`db32`, `db,3`),\n"
            " REPLICATE_DO_DB = (my_db3, my_db4),\n Replicate_Ignore_DB = (my_initfiledb3)\n FOR CHANNEL 'ch_1'"
        )
        expected = {
            "Replicate_Do_DB": "my_db3,my_db4",
            "Replicate_Ignore_DB": "my_initfiledb3",
            "Replicate_Ignore_Table": "db3.initfilet3",
            "Replicate_Wild_Do_Table": "initfiled%.t%",
        }
        assert shown_filters(console, "ch_1") == expected
        table = [
            ("ch_1", "REPLICATE_DO_DB", "my_db3,my_db4", CHANGE_FOR_CHANNEL, 0),
            ("ch_1", "REPLICATE_IGNORE_DB", "my_initfiledb3", CHANGE_FOR_CHANNEL, 0),
            ("ch_1", "REPLICATE_IGNORE_TABLE", "db3.initfilet3", CHANGE_FOR_CHANNEL, 0),
            ("ch_1", "REPLICATE_WILD_DO_TABLE", "initfiled%.t%", CHANGE_FOR_CHANNEL, 0),
        ]
        assert filters(console) == table
        # "the above statement is equal to the following three statements"
        console.do("CHANGE REPLICATION FILTER REPLICATE_DO_DB=(db1,db2,`db32`, `db,3`) FOR CHANNEL 'ch_1'")
        assert shown_filters(console, "ch_1")["Replicate_Do_DB"] == "db1,db2,db32,db,3"
        console.do("CHANGE REPLICATION FILTER REPLICATE_DO_DB = (my_db3, my_db4) FOR CHANNEL 'ch_1'")
        console.do("CHANGE REPLICATION FILTER Replicate_Ignore_DB = (my_initfiledb3) FOR CHANNEL 'ch_1'")
        assert shown_filters(console, "ch_1") == expected
        assert filters(console) == table


def test_a_filter_for_every_channel(tmp_path: Path) -> None:
    options = ["--replicate-do-db=db1", "--replicate-do-db=:db1", "--replicate-do-db=:db2"]
    options += ["--replicate-do-db=ch_1:db4", "--replicate-do-db=ch_1:db5", "--replicate-do-db=ch_3:db6"]
    options += ["--replicate-wild-do-table=db.t1%", "--replicate-wild-ignore-table=ch_1:db.t2%"]
    with restarted(tmp_path, options, "", "ch_1", "ch_2") as console:
        assert console.warnings == [
            "There are per-channel replication filter(s) configured for channel 'ch_3' which does not exist. "
            "The filter(s) have been discarded."
        ]
        of_ch_1 = [
            ("ch_1", "REPLICATE_WILD_DO_TABLE", "db.t1%", STARTUP, 0),
            ("ch_1", "REPLICATE_WILD_IGNORE_TABLE", "db.t2%", STARTUP_FOR_CHANNEL, 0),
        ]
        of_others = [
            ("ch_2", "REPLICATE_DO_DB", "db1", STARTUP, 0),
            ("ch_2", "REPLICATE_WILD_DO_TABLE", "db.t1%", STARTUP, 0),
        ]
        assert filters(console) == [
            ("", "REPLICATE_DO_DB", "db1,db2", STARTUP_FOR_CHANNEL, 0),
            ("", "REPLICATE_WILD_DO_TABLE", "db.t1%", STARTUP, 0),
            ("ch_1", "REPLICATE_DO_DB", "db4,db5", STARTUP_FOR_CHANNEL, 0),
            *of_ch_1,
            *of_others,
        ]
        assert global_filters(console) == [
            ("REPLICATE_DO_DB", "db1", STARTUP),
            ("REPLICATE_WILD_DO_TABLE", "db.t1%", STARTUP),
        ]

        # FOR CHANNEL ch_3 without quotes, as the worklog has it, is a syntax error on real servers and here
        assert console.ask(f"{SOURCE} ch_3")["error"][0] == 1064
        console.do(f"{SOURCE} 'ch_3'")
        of_others += [
            ("ch_3", "REPLICATE_DO_DB", "db1", STARTUP, 0),
            ("ch_3", "REPLICATE_WILD_DO_TABLE", "db.t1%", STARTUP, 0),
        ]
        assert filters(console) == [
            ("", "REPLICATE_DO_DB", "db1,db2", STARTUP_FOR_CHANNEL, 0),
            ("", "REPLICATE_WILD_DO_TABLE", "db.t1%", STARTUP, 0),
            ("ch_1", "REPLICATE_DO_DB", "db4,db5", STARTUP_FOR_CHANNEL, 0),
            *of_ch_1,
            *of_others,
        ]

        console.do("CHANGE REPLICATION FILTER REPLICATE_DO_DB = (dbA) FOR CHANNEL ''")
        console.do("CHANGE REPLICATION FILTER REPLICATE_DO_DB = () FOR CHANNEL 'ch_1'")
        assert filters(console) == [
            ("", "REPLICATE_DO_DB", "dbA", CHANGE_FOR_CHANNEL, 0),
            ("", "REPLICATE_WILD_DO_TABLE", "db.t1%", STARTUP, 0),
            ("ch_1", "REPLICATE_DO_DB", "", CHANGE_FOR_CHANNEL, 0),
            *of_ch_1,
            *of_others,
        ]

        console.do("CHANGE REPLICATION FILTER REPLICATE_DO_DB = (dbB)")
        # the worklog prints the rules of before here (dbA, nothing, db1, db1), against its own rule that "any existing
        # filter rules of that type are replaced"; a real MySQL 9.7 shows dbB everywhere
        assert filters(console) == [
            ("", "REPLICATE_DO_DB", "dbB", CHANGE, 0),
            ("", "REPLICATE_WILD_DO_TABLE", "db.t1%", STARTUP, 0),
            ("ch_1", "REPLICATE_DO_DB", "dbB", CHANGE, 0),
            *of_ch_1,
            ("ch_2", "REPLICATE_DO_DB", "dbB", CHANGE, 0),
            ("ch_2", "REPLICATE_WILD_DO_TABLE", "db.t1%", STARTUP, 0),
            ("ch_3", "REPLICATE_DO_DB", "dbB", CHANGE, 0),
            ("ch_3", "REPLICATE_WILD_DO_TABLE", "db.t1%", STARTUP, 0),
        ]
        assert global_filters(console) == [
            ("REPLICATE_DO_DB", "dbB", CHANGE),
            ("REPLICATE_WILD_DO_TABLE", "db.t1%", STARTUP),
        ]


def test_copied_filters_are_active_since_the_channel_exists(tmp_path: Path) -> None:
    """WL#7361 E 5."""
    with our_slave(tmp_path, ["--replicate-do-db=db1"]) as console:
        ((started,),) = console.rows(
            "SELECT active_since FROM performance_schema.replication_applier_global_filters"
        )
        console.do(f"{SOURCE} 'ch1'")
        console.do(f"{SOURCE} 'ch2'")
        (first,), (second,) = console.rows(
            "SELECT active_since FROM performance_schema.replication_applier_filters ORDER BY channel_name"
        )
        assert started < first < second


@pytest.mark.parametrize("channel", ["group_replication_applier", "group_replication_recovery"])
def test_group_replication_channels_have_no_filters(tmp_path: Path, channel: str) -> None:
    with our_slave(tmp_path) as console:
        answer = console.ask(f"CHANGE REPLICATION FILTER REPLICATE_DO_DB = (a) FOR CHANNEL '{channel}'")
        # ER_SLAVE_CHANNEL_OPERATION_NOT_ALLOWED
        assert answer["error"][:2] == [3139, "HY000"]


def test_a_channel_that_is_not_configured_has_no_filters(tmp_path: Path) -> None:
    with our_slave(tmp_path) as console:
        change = "CHANGE REPLICATION FILTER REPLICATE_DO_DB = (a) FOR CHANNEL 'nosuch'"
        # ER_SLAVE_CONFIGURATION
        assert console.ask(change)["error"][:2] == [1794, "HY000"]
        # MySQL 9.7 takes a channel for configured when it has a SOURCE_HOST.
        console.do("CHANGE REPLICATION SOURCE TO SOURCE_CONNECT_RETRY=7 FOR CHANNEL 'nosuch'")
        assert console.ask(change)["error"][:2] == [1794, "HY000"]
        console.do(f"{SOURCE} 'nosuch'")
        console.do(change)


# WL#7361 C and D

DOES_NOT_EXIST = [3074, "HY000", "Replica channel 'nosuch' does not exist."]


def test_reset_and_show(tmp_path: Path) -> None:
    options = ["--replicate-do-db=db1", "--replicate-do-db=ch_1:db4"]
    with restarted(tmp_path, options, "", "ch_1", "ch_2") as console:
        of_ch_1 = ("ch_1", "REPLICATE_DO_DB", "db4", STARTUP_FOR_CHANNEL, 0)
        copies = [(channel, "REPLICATE_DO_DB", "db1", STARTUP, 0) for channel in ("", "ch_2")]
        everything = [copies[0], of_ch_1, copies[1]]
        # 1)
        console.do("RESET REPLICA FOR CHANNEL 'ch_1'")
        assert filters(console) == everything
        assert console.ask("RESET REPLICA FOR CHANNEL 'nosuch'")["error"] == DOES_NOT_EXIST
        # 2)
        console.do("RESET REPLICA")
        assert filters(console) == everything
        assert global_filters(console) == [("REPLICATE_DO_DB", "db1", STARTUP)]
        # D: every channel's filters
        assert [row[12] for row in console.rows("SHOW REPLICA STATUS")] == ["db1", "db4", "db1"]
        assert console.ask("SHOW REPLICA STATUS FOR CHANNEL 'nosuch'")["error"] == DOES_NOT_EXIST
        # 3)
        console.do("RESET REPLICA ALL FOR CHANNEL 'ch_1'")
        assert filters(console) == copies
        assert len(console.rows("SHOW REPLICA STATUS")) == 2
        assert console.ask("RESET REPLICA ALL FOR CHANNEL 'nosuch'")["error"] == DOES_NOT_EXIST
        # 4)
        console.do("RESET REPLICA ALL")
        assert filters(console) == []
        assert console.rows("SHOW REPLICA STATUS") == []
        assert global_filters(console) == [("REPLICATE_DO_DB", "db1", STARTUP)]
        # "when the new empty channel is being configured, it therefore uses the global replication filters"
        console.do(f"{SOURCE} 'ch_1'")
        assert filters(console) == [("ch_1", "REPLICATE_DO_DB", "db1", STARTUP, 0)]


def test_a_user_who_wants_to_remove_all_filters(tmp_path: Path) -> None:
    kinds = (
        "DO_DB",
        "IGNORE_DB",
        "DO_TABLE",
        "IGNORE_TABLE",
        "WILD_DO_TABLE",
        "WILD_IGNORE_TABLE",
        "REWRITE_DB",
    )
    with restarted(tmp_path, ["--replicate-do-db=db1", "--replicate-do-db=ch_1:db4"], "ch_1") as console:
        console.do(
            "CHANGE REPLICATION FILTER Replicate_Do_DB = (), Replicate_Ignore_DB = (),\n"
            " Replicate_Do_Table = (), Replicate_Ignore_Table = (),\n"
            " Replicate_Wild_Do_Table = (), Replicate_Wild_Ignore_Table = (),\n Replicate_Rewrite_DB = ()"
        )
        # "this also includes empty set when user unsets the rules"
        assert filters(console) == [("ch_1", f"REPLICATE_{kind}", "", CHANGE, 0) for kind in kinds]
        assert global_filters(console) == [(f"REPLICATE_{kind}", "", CHANGE) for kind in kinds]
        assert shown_filters(console, "ch_1") == {}


# WL#7057


@pytest.fixture
def console(tmp_path: Path) -> Iterator[Console]:
    with our_slave(tmp_path) as console:
        console.do(f"{SOURCE} ''")
        yield console


def test_each_rule_has_a_command(console: Console) -> None:
    for command in (
        "REPLICATE_DO_DB=(db1, db2)",
        "REPLICATE_IGNORE_DB=(db3, db4)",
        "REPLICATE_DO_TABLE=(db1.t1, db1.t2)",
        "REPLICATE_IGNORE_TABLE =(db1.t3, db1.t4)",
        "REPLICATE_WILD_DO_TABLE=('db1.t%', 'db2.t_')",
        "REPLICATE_WILD_IGNORE_TABLE =('db3.t%', 'db4.%')",
        "REPLICATE_REWRITE_DB =((db1, db2), (db3, db4))",
    ):
        console.do(f"CHANGE REPLICATION FILTER {command}")
    assert list(shown_filters(console, "").values()) == [
        "db1,db2",
        "db3,db4",
        "db1.t1,db1.t2",
        "db1.t3,db1.t4",
        "db1.t%,db2.t_",
        "db3.t%,db4.%",
        "(db1,db2),(db3,db4)",
    ]


def test_a_several_rules_in_one_command(console: Console) -> None:
    console.do("CHANGE REPLICATION FILTER REPLICATE_DO_DB=(db1), REPLICATE_IGNORE_TABLE=(db1.t1)")
    assert shown_filters(console, "") == {"Replicate_Do_DB": "db1", "Replicate_Ignore_Table": "db1.t1"}


def test_b_void_brackets_reset_a_rule(console: Console) -> None:
    console.do("CHANGE REPLICATION FILTER REPLICATE_WILD_IGNORE_TABLE = ('a.%')")
    assert shown_filters(console, "") == {"Replicate_Wild_Ignore_Table": "a.%"}
    console.do("CHANGE REPLICATION FILTER REPLICATE_WILD_IGNORE_TABLE = ()")
    assert shown_filters(console, "") == {}


def test_c_d_a_list_replaces_the_old_one_and_nothing_else(console: Console) -> None:
    console.do("CHANGE REPLICATION FILTER REPLICATE_IGNORE_TABLE = (db1.t8, db1.t9), REPLICATE_DO_DB=(db1)")
    console.do("CHANGE REPLICATION FILTER REPLICATE_IGNORE_TABLE = (db1.t1)")
    assert shown_filters(console, "") == {"Replicate_Do_DB": "db1", "Replicate_Ignore_Table": "db1.t1"}


def test_e_the_last_of_several_lists_counts(console: Console) -> None:
    # the worklog writes REPLICATION_DO_DB the first time, which is a syntax error on real servers and here
    misspelt = "CHANGE REPLICATION FILTER REPLICATION_DO_DB=(db1,db2), REPLICATE_DO_DB=(db3,db4)"
    assert console.ask(misspelt)["error"][:2] == [1064, "42000"]
    console.do(misspelt.replace("REPLICATION_DO_DB", "REPLICATE_DO_DB"))
    assert shown_filters(console, "") == {"Replicate_Do_DB": "db3,db4"}


def test_f_all_or_nothing(console: Console) -> None:
    """The worklog allowed half; see issue 4."""
    answer = console.ask(
        "CHANGE REPLICATION FILTER REPLICATE_DO_DB = (a), REPLICATE_WILD_DO_TABLE = ('nodot')"
    )
    assert answer["error"][:2] == [3067, "HY000"]
    assert filters(console) == []


def test_the_list_cannot_be_empty(console: Console) -> None:
    """The worklog: "opt_filter_def_list can be either NULL, ()"; real servers take neither."""
    for nothing in ("CHANGE REPLICATION FILTER", "CHANGE REPLICATION FILTER ()"):
        assert console.ask(nothing)["error"][:2] == [1064, "42000"]


def test_the_sql_thread_must_not_run(console: Console) -> None:
    console.do("CHANGE REPLICATION FILTER REPLICATE_DO_DB = (db1)")
    console.do("START REPLICA SQL_THREAD")
    refused = [
        3085,
        "HY000",
        "This operation cannot be performed with a running replica sql thread; run STOP REPLICA SQL_THREAD FOR "
        "CHANNEL '' first.",
    ]
    assert console.ask("CHANGE REPLICATION FILTER REPLICATE_DO_DB = (db2)")["error"] == refused
    assert console.ask("CHANGE REPLICATION FILTER REPLICATE_DO_DB = (db2) FOR CHANNEL ''")["error"] == refused
    assert filters(console) == [("", "REPLICATE_DO_DB", "db1", CHANGE, 0)]
    console.do("STOP REPLICA SQL_THREAD")
    console.do("START REPLICA IO_THREAD")
    console.do("CHANGE REPLICATION FILTER REPLICATE_DO_DB = (db2)")
    assert filters(console) == [("", "REPLICATE_DO_DB", "db2", CHANGE, 0)]


def test_changes_are_not_kept(tmp_path: Path) -> None:
    with our_slave(tmp_path, ["--replicate-do-db=db1"]) as console:
        console.do(f"{SOURCE} ''")
        console.do(
            "CHANGE REPLICATION FILTER REPLICATE_DO_DB = (db2), REPLICATE_IGNORE_DB = (db3) FOR CHANNEL ''"
        )
    with our_slave(tmp_path, ["--replicate-do-db=db1"]) as console:
        assert filters(console) == [("", "REPLICATE_DO_DB", "db1", STARTUP, 0)]
    # the command line may change between two starts
    with our_slave(tmp_path) as console:
        assert filters(console) == []


# WL#7361 with processes, as a user starts them


@contextmanager
def slave_process(launcher: Launcher, *options: str) -> Iterator[tuple[Console, Path]]:
    """Run ``dumpfilter slave``. Give its console and its file of standard error. SIGTERM ends the process."""
    note, log = launcher.directory / "port", launcher.directory / "slave.log"
    note.unlink(missing_ok=True)
    launcher.start(
        *("slave", "slave", "--relay-dir", launcher.directory / "relay", "--server-id", 51),
        *("--console-port", 0, "--console-port-file", note, "--console-user", "root"),
        *("--skip-replica-start", "--summary", "none", *options),
        DUMPFILTER_CONSOLE_PASSWORD="secret",
    )
    wait_until(note.exists, lambda: launcher.log("slave"))
    try:
        yield Console(int(note.read_text()), []), log
    finally:
        launcher.kill("slave", signal.SIGTERM)
        assert launcher.wait("slave") == 0


def test_a_slave_is_restarted_with_options(launcher: Launcher) -> None:
    with slave_process(launcher) as (console, _):
        console.do(f"{SOURCE} ''")
        console.do(f"{SOURCE} 'ch_1'")
        console.do("CHANGE REPLICATION FILTER REPLICATE_DO_DB = (forgotten) FOR CHANNEL 'ch_1'")
    options = ["--replicate-do-db=db1", "--replicate-do-db=ch_1:db4", "--replicate_do_db=ch_1:db5"]
    with slave_process(launcher, *options, "--replicate-do-db=ch_3:db6") as (console, log):
        assert filters(console) == [
            ("", "REPLICATE_DO_DB", "db1", STARTUP, 0),
            ("ch_1", "REPLICATE_DO_DB", "db4,db5", STARTUP_FOR_CHANNEL, 0),
        ]
        assert (
            "There are per-channel replication filter(s) configured for channel 'ch_3' which does not exist. "
            "The filter(s) have been discarded."
        ) in log.read_text()


# WL#7361's two USES, with real MariaDB servers as masters


class Master:
    """A MariaDB server, and a master beside it, which serves its binlog as it grows."""

    def __init__(self, root: Path, number: int) -> None:
        root.mkdir()
        self.database = MariaDb(
            root,
            "--log-bin=bin",
            "--binlog-format=ROW",
            f"--server-id={number}",
            f"--gtid-domain-id={number}",
        )
        self._served = Served(root / "d" / "bin.index")
        self._served.start()
        self.port = self._served.port

    def last_gtid(self) -> str:
        ((gtid,),) = self.database.sql("SELECT @@gtid_binlog_pos")
        return gtid

    def close(self) -> None:
        self._served.stop()
        self.database.close()


@pytest.fixture(scope="module")
def masters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Master, Master]]:
    root = tmp_path_factory.mktemp("masters")
    made: list[Master] = []
    try:
        for number in (1, 2):
            made.append(Master(root / str(number), number))
        yield made[0], made[1]
    finally:
        for master in made:
            master.close()


def configure(console: Console, masters: tuple[Master, Master]) -> None:
    for number, master in enumerate(masters, 1):
        console.do(
            f"CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={master.port} "
            f"FOR CHANNEL 'master{number}'"
        )


def wait(console: Console, masters: tuple[Master, Master]) -> None:
    """Wait until each channel has applied, or was told as dropped, all transactions of its master."""
    assert console.slave is not None
    for number, master in enumerate(masters, 1):
        channel, last = console.slave.get(f"master{number}"), master.last_gtid()

        def is_done(channel: Channel = channel, last: str = last) -> bool:
            return last in channel.relay_log_info.executed.split(",")

        wait_until(is_done, lambda: str(console.ask("SHOW REPLICA STATUS")))


def tables(console: Console, channel: str) -> dict[str, Any]:
    assert console.slave is not None
    return console.slave.get(channel).target.state()["tables"]  # type: ignore[no-any-return]


def relayed(console: Console, channel: str) -> bytes:
    """Return the content of all relay logs of a channel."""
    assert console.slave is not None
    files = console.slave.get(channel).directory.glob("relay-bin*.0*")
    return b"".join(file.read_bytes() for file in sorted(files))


def test_uses_example_1_local_databases(tmp_path: Path, masters: tuple[Master, Master]) -> None:
    """Masters with "local databases" that the slave "needs to filter out"."""
    names = (("DBLOCAL", "DB1"), ("DBLOCAL2", "DB2"))
    for master, databases in zip(masters, names, strict=True):
        for database in databases:
            master.database.sql(
                f"CREATE DATABASE {database}; CREATE TABLE {database}.t (a INT PRIMARY KEY, b TEXT)"
            )
            master.database.sql(f"INSERT INTO {database}.t VALUES (1, 'in {database} before')")
    with our_slave(tmp_path, server_id=3) as console:
        configure(console, masters)
        console.do("CHANGE REPLICATION FILTER REPLICATE_IGNORE_DB = (DBLOCAL) FOR CHANNEL 'master1'")
        console.do("CHANGE REPLICATION FILTER REPLICATE_IGNORE_DB = (DBLOCAL2) FOR CHANNEL 'master2'")
        assert filters(console) == [
            ("master1", "REPLICATE_IGNORE_DB", "DBLOCAL", CHANGE_FOR_CHANNEL, 0),
            ("master2", "REPLICATE_IGNORE_DB", "DBLOCAL2", CHANGE_FOR_CHANNEL, 0),
        ]
        console.do("START REPLICA")
        wait(console, masters)
        for master, databases in zip(masters, names, strict=True):
            for database in databases:
                master.database.sql(f"INSERT INTO {database}.t VALUES (2, 'in {database} after')")
        wait(console, masters)
        for number, (local, wanted) in enumerate(names, 1):
            channel = f"master{number}"
            applied = tables(console, channel)
            assert {name: table["inserted"] for name, table in applied.items()} == {f"{wanted}.t": 2}
            wire = relayed(console, channel)
            # filtered on the master: it has never been on the wire
            assert f"in {wanted} after".encode() in wire
            assert f"in {local} ".encode() not in wire
            ((dropped,),) = console.rows(
                f"SELECT bytes_dropped FROM dumpfilter.channels WHERE channel_name = '{channel}'"
            )
            assert dropped > 0
        for master, databases in zip(masters, names, strict=True):
            for database in databases:
                master.database.sql(f"DROP DATABASE {database}")


def test_uses_example_2_a_user_of_two_masters(tmp_path: Path, masters: tuple[Master, Master]) -> None:
    """Data "from system tables" is filtered "from all other sources except one"."""
    for number, master in enumerate(masters, 1):
        master.database.sql(f"CREATE DATABASE app{number}; CREATE TABLE app{number}.t (a INT PRIMARY KEY)")
        master.database.sql(f"CREATE USER slave_user@'%' IDENTIFIED BY 'of master {number}'")
        master.database.sql("GRANT REPLICATION SLAVE ON *.* TO slave_user@'%'")
        master.database.sql(f"INSERT INTO app{number}.t VALUES (1)")
    with our_slave(tmp_path, server_id=3) as console:
        configure(console, masters)
        console.do(
            "CHANGE REPLICATION FILTER REPLICATE_WILD_IGNORE_TABLE = ('mysql.%') FOR CHANNEL 'master2'"
        )
        console.do("START REPLICA")
        wait(console, masters)
        assert b"CREATE USER slave_user" in relayed(console, "master1")
        assert b"GRANT REPLICATION SLAVE" in relayed(console, "master1")
        assert b"slave_user" not in relayed(console, "master2")
        for number in (1, 2):
            assert tables(console, f"master{number}")[f"app{number}.t"]["inserted"] == 1
    for number, master in enumerate(masters, 1):
        master.database.sql(f"DROP DATABASE app{number}; DROP USER slave_user@'%'")
