"""A slave that serves its relay log to other slaves over gRPC."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from dumpfilter.base.errors import OptionError
from dumpfilter.base.security.listening import Endpoint, Exposed
from dumpfilter.binlog.events import FLAGS_OFFSET, LOG_EVENT_BINLOG_IN_USE_F, EventHeader, seal
from dumpfilter.binlog.gtid import parse_gtid_set
from dumpfilter.edge import Edge
from dumpfilter.slave.options import EdgeOptions
from tests.edge.edges import chained
from tests.slave.driven import UUID, Driven, apply_before, driven, serving, wait_until
from tests.slave.growing import GrowingCopy
from tests.slave.once import run_slave
from tests.support import DATA

ROW = DATA / "oracle" / "mysql-row"
SHOP = "--replicate-wild-do-table=shop.%"
ALL = f"{UUID}:1-74"


@pytest.mark.parametrize("auto_position", ["0", "1"])
def test_four_tiers_end_at_the_servers_place(tmp_path: Path, auto_position: str) -> None:
    """Slaves of slaves of slaves follow a binlog that grows."""
    copy = GrowingCopy(ROW, tmp_path / "binlog", seed=1)
    more = {"SOURCE_AUTO_POSITION": auto_position}
    with (
        serving(tmp_path / "binlog") as master,
        chained(tmp_path / "a") as a,
        chained(tmp_path / "b", SHOP) as b,
        chained(tmp_path / "c") as c,
    ):
        a.driven.follow(master, **more)
        b.driven.follow(a, **more)
        c.driven.follow(b, **more)
        for slave in (a, b, c):
            slave.driven.sql("START REPLICA")
        for _ in range(copy.transactions):
            copy.more(1)
        for slave in (a, b, c):
            slave.driven.catch_up(master)
            slave.driven.sql("STOP REPLICA SQL_THREAD")
            assert slave.driven.executed() == ALL
            status = slave.driven.status()
            assert (status["Source_Log_File"], status["Read_Source_Log_Pos"]) == master.end
            assert (status["Relay_Source_Log_File"], status["Exec_Source_Log_Pos"]) == master.end
            assert status["Retrieved_Gtid_Set"] == status["Executed_Gtid_Set"] == ALL
        assert b.driven.summary() == c.driven.summary()
        assert b.driven.summary() != a.driven.summary()
        assert [row[0] for row in a.edge.replicas()] == [b.driven.server_id]


@pytest.mark.parametrize("number", [3, 53])
def test_the_middle_slave_goes_back(tmp_path: Path, number: int) -> None:
    """A slave that is ahead of the slave before it waits, and gets no transaction twice and none too few."""
    with serving(ROW) as master, chained(tmp_path / "a") as a, driven(tmp_path / "b", server_id=1002) as b:
        a.driven.follow(master)
        a.driven.sql("START REPLICA IO_THREAD")
        a.driven.catch_up(master, executed=False)
        b.follow(a)
        b.sql("START REPLICA")
        b.catch_up(master)
        apply_before(a.driven, number)
        master.stop()
        a.driven.sql("CHANGE REPLICATION FILTER REPLICATE_IGNORE_DB = (hr)")
        wait_until(lambda: "not received" in b.status()["Last_IO_Error"], lambda: b.status()["Last_IO_Error"])
        wait_until(lambda: b.executed() == ALL, b.executed)
        master.start()
        a.driven.catch_up(master, executed=False)
        wait_until(lambda: b.status()["Replica_IO_Running"] == "Yes")
        assert b.received() == b.place() == master.end
        b.sql("STOP REPLICA")
        with driven(tmp_path / "whole", server_id=1003) as whole:
            whole.follow(master)
            whole.sql("START REPLICA")
            whole.catch_up(master)
            whole.sql("STOP REPLICA")
            assert whole.summary() == b.summary()


def test_a_slave_begins_inside_a_gap(tmp_path: Path) -> None:
    """A slave that stood between two Gap events goes on where one Gap event tells both."""
    ignore = ["--replicate-wild-do-table=none.%"]
    copy = GrowingCopy(ROW, tmp_path / "binlog", seed=1)
    with serving(ROW) as master:
        run_slave(f"127.0.0.1:{master.port}", tmp_path / "middle", ignore)
    with serving(tmp_path / "binlog") as master, serving(tmp_path / "middle") as middle:
        for n in range(0, copy.transactions, 9):
            copy.more(9)
            below = run_slave(f"127.0.0.1:{master.port}", tmp_path / f"below-{n}", ignore)
            begun = below.master_info.source_position
            below = run_slave(f"127.0.0.1:{middle.port}", tmp_path / f"below-{n}", ignore)
            assert below.relay_log_info.executed == below.master_info.retrieved == ALL
            assert (below.master_info.source_file, below.master_info.source_position) == middle.end
            assert begun <= below.master_info.source_position or middle.end[0] != "bin.000001"


def test_a_stopped_slave_sends_its_slaves_away(tmp_path: Path) -> None:
    with serving(ROW) as master, driven(tmp_path / "b", server_id=1002) as b:
        with chained(tmp_path / "a") as a:
            port = a.port
            a.driven.follow(master)
            a.driven.sql("START REPLICA")
            b.follow(a)
            b.sql("START REPLICA")
            b.catch_up(master)
        wait_until(lambda: b.status()["Replica_IO_Running"] == "Connecting")
        with chained(tmp_path / "a", port=port) as a:
            wait_until(lambda: b.status()["Replica_IO_Running"] == "Yes")
        wait_until(lambda: b.executed() == ALL, b.executed)


def test_a_slave_without_a_relay_log_says_so(tmp_path: Path) -> None:
    with chained(tmp_path / "a") as a, driven(tmp_path / "b", server_id=1002) as b:
        b.follow(a)
        b.sql("START REPLICA")
        wait_until(lambda: "received nothing" in b.status()["Last_IO_Error"], b.status)


def test_users_log_in(tmp_path: Path) -> None:
    config = tmp_path / "a.toml"
    config.touch(mode=0o600)
    config.write_text('[[user]]\nname = "repl"\npassword = "secret"\n')
    with (
        serving(ROW) as master,
        chained(tmp_path / "a", config=config) as a,
        driven(tmp_path / "b", server_id=1002) as b,
    ):
        a.driven.follow(master)
        a.driven.sql("START REPLICA")
        b.follow(a, SOURCE_USER="'repl'", SOURCE_PASSWORD="'wrong'")
        b.sql("START REPLICA")
        wait_until(lambda: "password" in b.status()["Last_IO_Error"], b.status)
        b.sql("STOP REPLICA")
        b.follow(a, SOURCE_USER="'repl'", SOURCE_PASSWORD="'secret'")
        b.sql("START REPLICA")
        b.catch_up(master)


def test_options_that_serve_nobody(tmp_path: Path) -> None:
    config = tmp_path / "a.toml"
    config.touch(mode=0o600)
    config.write_text('[[user]]\nname = "repl"\npassword = "secret"\n')
    with pytest.raises(Exposed, match="--serve-host"):
        Edge(EdgeOptions(serve_port=["0"], serve_host="0.0.0.0"), Endpoint())
    with pytest.raises(OptionError, match="user: has no effect without --serve-port"):
        Edge(EdgeOptions(config=config), Endpoint())
    config.write_text('[[replica]]\nuser = "repl"\npassword = "secret"\nrules = []\n')
    with pytest.raises(OptionError, match="replica: has no effect without --replica-port"):
        Edge(EdgeOptions(serve_port=["0"], config=config), Endpoint())


def has_all(slave: Driven, gtids: str) -> None:
    """Wait until a slave has applied these GTIDs. A change of its filter discards what it has only received."""
    wanted = parse_gtid_set(gtids)
    wait_until(lambda: parse_gtid_set(slave.executed()).issuperset(wanted), slave.status)


def test_a_slave_that_lacks_what_the_relay_log_lacks_is_refused(tmp_path: Path) -> None:
    copy = GrowingCopy(ROW, tmp_path / "binlog", seed=1)
    with (
        serving(tmp_path / "binlog") as master,
        chained(tmp_path / "middle") as middle,
        driven(tmp_path / "end", server_id=1002) as end,
    ):
        middle.driven.follow(master, SOURCE_AUTO_POSITION="1")
        end.follow(middle)
        copy.more(5)
        middle.driven.sql("START REPLICA")
        middle.driven.catch_up(master)
        end.sql("START REPLICA")
        end.catch_up(master)
        end.sql("STOP REPLICA")
        copy.more(5)
        middle.driven.catch_up(master)
        middle.driven.sql("STOP REPLICA")
        middle.driven.sql("RESET REPLICA")
        copy.more(5)
        middle.driven.sql("START REPLICA")
        middle.driven.catch_up(master)
        end.sql("START REPLICA")
        wait_until(lambda: "the relay log lacks" in end.status()["Last_IO_Error"], end.status)


@pytest.mark.parametrize(("seed", "auto_position"), [(0, "0"), (17, "1")])
def test_trouble_in_the_middle_changes_nothing_at_the_end(
    tmp_path: Path, seed: int, auto_position: str
) -> None:
    """The middle slave stops, restarts and loses its relay log, while the last one stops and changes its filter."""
    chosen = random.Random(seed)
    copy = GrowingCopy(ROW, tmp_path / "binlog", seed=seed)
    more = {"SOURCE_AUTO_POSITION": auto_position}
    rules = ["REPLICATE_IGNORE_DB = (hr)", "REPLICATE_WILD_DO_TABLE = ('shop.%')", "REPLICATE_IGNORE_DB = ()"]
    with serving(tmp_path / "binlog") as master, driven(tmp_path / "end", server_id=1002) as end:
        port = 0
        while copy.transactions > 0:
            with chained(tmp_path / "middle", port=port) as middle:
                if not port:
                    middle.driven.follow(master, **more)
                    port = middle.port
                    end.follow(middle, **more)
                middle.driven.sql("START REPLICA")
                end.sql("START REPLICA")
                for _ in range(4):
                    copy.more(chosen.randrange(5))
                    copy.transactions -= 4
                    step = chosen.randrange(5)
                    if step == 0:
                        middle.driven.sql("STOP REPLICA")
                        # The next relay log may lack what the slave has applied, and a slave behind it is refused then.
                        has_all(end, middle.driven.channel().master_info.retrieved)
                        middle.driven.sql("RESET REPLICA")
                        middle.driven.sql("START REPLICA")
                    elif step == 1:
                        end.sql("STOP REPLICA SQL_THREAD")
                        end.sql(f"CHANGE REPLICATION FILTER {chosen.choice(rules)}")
                        end.sql("START REPLICA SQL_THREAD")
                    elif step == 2:
                        end.sql("STOP REPLICA IO_THREAD")
                        end.sql("START REPLICA IO_THREAD")
                    elif step == 3:
                        end.catch_up(master)
        with chained(tmp_path / "middle", port=port) as middle:
            copy.more(100)
            middle.driven.sql("START REPLICA")
            end.catch_up(master)
            wait_until(lambda: end.executed() == ALL, end.executed)
            end.expect_law(master)


@pytest.mark.parametrize("transactions", [5, 40])
def test_the_middle_slave_moves_to_another_server(tmp_path: Path, transactions: int) -> None:
    """The other server's files have the names of the old server's files, and other events at the same positions."""
    copy = GrowingCopy(ROW, tmp_path / "old", seed=1)
    copy.more(transactions)
    promoted = Path(shutil.copytree(ROW, tmp_path / "promoted"))
    (promoted / "auto.cnf").write_text("[auto]\nserver-uuid=11111111-2222-3333-4444-555555555555\n")
    for path in promoted.glob("bin.0*"):
        begun_later(path)
    by_gtid = {"SOURCE_AUTO_POSITION": "1"}
    with (
        serving(tmp_path / "old") as old,
        serving(promoted) as new,
        chained(tmp_path / "a") as a,
        chained(tmp_path / "b", SHOP) as b,
        driven(tmp_path / "c", server_id=1002) as c,
    ):
        for slave, before in ((a.driven, old), (b.driven, a), (c, b)):
            slave.follow(before, **by_gtid)
            slave.sql("START REPLICA")
        for slave in (a.driven, b.driven, c):
            slave.catch_up(old)
        a.driven.sql("STOP REPLICA")
        a.driven.follow(new, **by_gtid)
        a.driven.sql("START REPLICA")
        for slave in (a.driven, b.driven, c):
            slave.catch_up(new)
            assert slave.executed() == ALL
        with driven(tmp_path / "late", server_id=1004) as late:
            # Its stream begins with the old server's files, and goes on with the new server's.
            late.follow(b, **by_gtid)
            late.sql("START REPLICA")
            late.catch_up(new)
            assert late.executed() == ALL
        with driven(tmp_path / "whole", SHOP, server_id=1003) as whole:
            whole.follow(new)
            whole.sql("START REPLICA")
            whole.catch_up(new)
            assert b.driven.summary() == c.summary() == whole.summary()


def begun_later(path: Path) -> None:
    """Change the time of a binlog file's format description event."""
    data = bytearray(path.read_bytes())
    length = EventHeader.unpack(bytes(data[4:])).size
    event = data[4 : 4 + length]
    event[0] ^= 1
    # The checksum of the newest file's event is that without the flag "in use".
    event[FLAGS_OFFSET - 4] &= ~LOG_EVENT_BINLOG_IN_USE_F
    seal(event)
    data[4 : 4 + length] = event
    path.write_bytes(data)
