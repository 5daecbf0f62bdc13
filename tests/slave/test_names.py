"""Master and slave compare names by the same collation, whichever version of MariaDB wrote the binlogs."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from dumpfilter.base.errors import StreamError
from dumpfilter.binlog.format import NameCollation, NameRules
from dumpfilter.console.sql.commands import Threads
from dumpfilter.filter.effective import EffectiveFilter
from dumpfilter.filter.filter import Filter
from dumpfilter.filter.rules import FilterOn, FilterSemantics
from dumpfilter.index.fileset import BinlogSet
from dumpfilter.master.config import MasterConfig
from dumpfilter.slave.receiver import Receiver
from dumpfilter.slave.relay_log import RelayLog
from dumpfilter.slave.threads import RelayEnd
from tests.master.tables import imposed_table
from tests.slave.driven import Master, driven, serving, wait_until
from tests.slave.once import Once

RECORDINGS = Path(__file__).parents[1] / "oracle" / "data" / "recordings"
OLD, NEW = NameCollation.GENERAL_CI, NameCollation.GENERAL1400_AS_CI
WRITTEN_BY = {OLD: RECORDINGS / "mariadb-names", NEW: RECORDINGS / "mariadb118-names"}
CAFE = ["--replicate-wild-do-table=cafe.%", "--replicate-do-table=È.t", "--replicate-do-table=ПРИВЕТ.t"]
FOUND = {OLD: {"café.t", "é.t", "привет.t"}, NEW: {"привет.t"}}
"""The recorded tables that pass the rules CAFE, as real replicas of the two versions decided."""


@pytest.fixture(params=NameCollation)
def names(request: pytest.FixtureRequest) -> NameCollation:
    return request.param  # type: ignore[no-any-return]


def channel(
    directory: Path,
    master: Master,
    options: Sequence[str] = CAFE,
    *,
    semantics: FilterSemantics = FilterSemantics.CLASSIC,
    filter_on: FilterOn = FilterOn.BOTH,
) -> Once:
    """Run a slave in this process to the end of the newest binlog."""
    kind = EffectiveFilter if semantics is FilterSemantics.EFFECTIVE else Filter
    rules = kind.from_options(options).rules
    return Once(f"127.0.0.1:{master.port}", directory, rules, filter_on=filter_on)


def run(one: Once, threads: Threads = Threads.BOTH) -> Once:
    one.start(threads)
    one.wait()
    return one


def tables(one: Once) -> set[str]:
    """Return the tables of which the slave has applied rows."""
    return set(one.relay_log_info.target["tables"])


def own_filter(options: Sequence[str], names: NameCollation) -> Filter:
    return Filter.from_options(options, names=NameRules("mariadb", names))


@pytest.fixture
def upgraded(tmp_path: Path) -> Path:
    """Copy the files that MariaDB 10.11 wrote. :func:`upgrade` adds the files that 11.8 wrote after its upgrade."""
    directory = tmp_path / "master"
    directory.mkdir()
    shutil.copy(WRITTEN_BY[OLD] / "bin.000001", directory / "bin.000001")
    (directory / "bin.index").write_text("./bin.000001\n")
    return directory


def upgrade(directory: Path) -> None:
    shutil.copy(WRITTEN_BY[NEW] / "bin.000001", directory / "bin.000002")
    (directory / "bin.index").write_text("./bin.000001\n./bin.000002\n")


def test_the_binlogs_tell_the_collation() -> None:
    for names, directory in WRITTEN_BY.items():
        with BinlogSet.open(directory).file("bin.000001") as file:
            assert file.format_description.names.collation is names


@pytest.mark.parametrize("filter_on", FilterOn)
def test_wherever_the_filter_is(tmp_path: Path, names: NameCollation, filter_on: FilterOn) -> None:
    with serving(WRITTEN_BY[names]) as master:
        one = run(channel(tmp_path / "slave", master, filter_on=filter_on))
    assert tables(one) == FOUND[names]
    assert one.master_info.names == names
    dropped = one.counters.received["events_dropped"]
    assert (dropped == 0) if filter_on is FilterOn.SLAVE else (dropped > 0)
    assert one.counters.received["events_undecided"] == 0


def test_a_table_rule_without_accents(tmp_path: Path, names: NameCollation) -> None:
    """In a table rule, neither version takes ``café`` for ``cafe``."""
    with serving(WRITTEN_BY[names]) as master:
        one = run(channel(tmp_path / "slave", master, ["--replicate-do-table=cafe.t"]))
    assert tables(one) == set()
    assert one.counters.received["events_sent"] < one.counters.received["events_dropped"]


def test_effective_filters(tmp_path: Path, names: NameCollation) -> None:
    options = ["--ignore=%.%", "--do=cafe.%", "--do=ПРИВЕТ.%"]
    with serving(WRITTEN_BY[names]) as master:
        one = run(channel(tmp_path / "slave", master, options, semantics=FilterSemantics.EFFECTIVE))
    assert tables(one) == FOUND[names] - {"é.t"}


def test_imposed_filters(tmp_path: Path, names: NameCollation) -> None:
    imposed = imposed_table("no-cafe", own_filter(["--replicate-wild-ignore-table=cafe.%"], names))
    with serving(WRITTEN_BY[names], MasterConfig(imposed=(imposed,))) as master:
        one = run(channel(tmp_path / "slave", master, []))
    assert ("café.t" in tables(one)) == (names is NEW)
    assert "shop.orders" in tables(one)


@pytest.mark.parametrize("filter_on", ["MASTER", "SLAVE", "BOTH"])
def test_a_slave_that_restarts_without_its_master(
    tmp_path: Path, names: NameCollation, filter_on: str
) -> None:
    """A slave without its master applies the events that the I/O thread relayed before."""
    with driven(tmp_path / "slave", *CAFE) as slave:
        with serving(WRITTEN_BY[names]) as master:
            slave.follow(master, FILTER_ON=f"'{filter_on}'")
            slave.sql("START REPLICA IO_THREAD")
            slave.catch_up(master, executed=False)
        slave.restart(*CAFE)
        assert slave.summary()["tables"] == {}
        slave.sql("START REPLICA SQL_THREAD")
        wait_until(lambda: slave.place() == slave.received(), slave.status)
        slave.sql("STOP REPLICA")
        assert set(slave.summary()["tables"]) == FOUND[names]


def test_an_upgrade_in_the_middle_of_a_set(tmp_path: Path, upgraded: Path) -> None:
    """The slave keeps its first collation. A slave set up afterwards compares as the newest binlog's server does."""
    directory = tmp_path / "slave"
    with serving(upgraded) as master:
        assert tables(run(channel(directory, master))) == FOUND[OLD]
    upgrade(upgraded)
    with serving(upgraded) as master:
        went_on = run(channel(directory, master))
        all_of_it = run(channel(tmp_path / "full", master, filter_on=FilterOn.SLAVE))
        begun_late = run(channel(tmp_path / "late", master))
    assert went_on.master_info.names == OLD
    assert tables(went_on) == FOUND[OLD]
    assert went_on.relay_log_info.target["tables"]["café.t"]["inserted"] == 2
    assert begun_late.master_info.names == all_of_it.master_info.names == NEW
    assert tables(begun_late) == tables(all_of_it) == FOUND[NEW]
    assert begun_late.relay_log_info.target == all_of_it.relay_log_info.target


def test_reset_replica_takes_the_collation_anew(tmp_path: Path, upgraded: Path) -> None:
    with serving(upgraded) as master, driven(tmp_path / "slave", *CAFE) as slave:
        slave.follow(master)
        slave.sql("START REPLICA")
        slave.catch_up(master)
        assert slave.channel().master_info.names == OLD
        upgrade(upgraded)
        master.stop()
        master.start()
        slave.catch_up(master)
        assert slave.channel().master_info.names == OLD
        slave.sql("STOP REPLICA")
        slave.sql("RESET REPLICA")
        assert slave.channel().master_info.names == ""
        slave.sql("START REPLICA")
        slave.catch_up(master)
        assert slave.channel().master_info.names == NEW


def test_a_filter_that_changes_keeps_the_collation(tmp_path: Path, upgraded: Path) -> None:
    """The master keeps the collation when the filter changes and the master sends events again."""
    with serving(upgraded) as master, driven(tmp_path / "slave", *CAFE) as slave:
        slave.follow(master)
        slave.sql("START REPLICA")
        slave.catch_up(master)
        slave.sql("STOP REPLICA SQL_THREAD")
        upgrade(upgraded)
        master.stop()
        master.start()
        slave.catch_up(master, executed=False)
        slave.sql("CHANGE REPLICATION FILTER REPLICATE_WILD_DO_TABLE = ('cafe.%'), REPLICATE_DO_TABLE = ()")
        slave.sql("START REPLICA SQL_THREAD")
        slave.catch_up(master)
        inserted = {name: found["inserted"] for name, found in slave.summary()["tables"].items()}
        assert inserted == {"café.t": 2, "é.t": 1, "привет.t": 1}
        assert slave.channel().master_info.names == OLD


def test_a_master_that_does_not_keep_to_it(tmp_path: Path) -> None:
    """The slave refuses a master that answers with another collation, because that master would drop other rows."""
    receiver = Receiver(RelayLog(tmp_path), RelayEnd())
    receiver.begin_stream(master_uuid="m", family="mariadb", names=OLD)
    with pytest.raises(StreamError, match="compares names by general1400_as_ci"):
        receiver.begin_stream(master_uuid="m", family="mariadb", names=NEW)
    receiver.begin_stream(master_uuid="m", family="mariadb", names=OLD)
    receiver.close()
