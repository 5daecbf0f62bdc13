"""Running topologies of dumpfilter's own nodes: start, faults, waiting, the law, the report, and the end."""

from __future__ import annotations

import json
import math
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from dumpfilter.base.errors import LinkError, OptionError
from dumpfilter.slave.state import RelayLogInfo
from dumpfilter.testbed import (
    LawBroken,
    NodeIsDown,
    NotCaughtUp,
    SqlFailed,
    StartFailed,
    Testbed,
    TestbedError,
    TestbedNode,
    TopologyBusy,
    Unknown,
    up,
)
from dumpfilter.testbed.directory import start_time
from dumpfilter.testbed.nodes import Slave
from dumpfilter.testbed.servers import sql
from dumpfilter.topology import link, make_topology, master, read, slave, workload
from tests.slave.driven import wait_until

WAIT = 120.0
FAN_OUT = "m[size=256K] >> web[do-db=shop_01]; m >> hr[do-db=shop_02] >> hr2[ignore-table=shop_02.table_001]; m >> all"


@pytest.fixture(scope="module")
def bed() -> Iterator[Testbed]:
    with up(FAN_OUT) as found:
        found.wait_done(WAIT)
        yield found


@pytest.fixture(autouse=True)
def reset(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "bed" in request.fixturenames:
        request.getfixturevalue("bed").reset(WAIT)


def test_all_nodes_catch_up_and_the_law_holds(bed: Testbed) -> None:
    bed.check(WAIT)
    status = bed.status()
    assert status.problems == ()
    origin = status.nodes["m-workload"]
    for name in ("web", "hr", "hr2", "all"):
        found = status.nodes[name]
        # The end of a chain has the origin's place and GTIDs, too.
        assert found.place == origin.place
        assert found.lag.bytes == 0
        assert found.gtids == status.nodes["all"].gtids != ""
    assert status.nodes["web"].saved > 0 == status.nodes["all"].saved
    links = {name: link.bytes_to_target for name, link in status.links.items()}
    assert links["m:web"] < links["m:all"]
    assert links["hr:hr2"] <= links["m:hr"] + 4096


def test_a_slave_that_hangs_is_a_problem_of_the_status(bed: Testbed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql, "CONNECT_TIMEOUT", 0.5)
    process = bed["web"].process
    assert process is not None
    os.kill(process.pid, signal.SIGSTOP)
    try:
        problems = bed.status().problems
    finally:
        os.kill(process.pid, signal.SIGCONT)
    assert any("web: the console does not answer" in problem for problem in problems)


def test_a_killed_slave_goes_on_where_it_was(bed: Testbed) -> None:
    web = bed["web"]
    web.wait_caught_up(WAIT)
    port = web.port
    web.kill()
    assert not web.is_running
    with pytest.raises(NodeIsDown, match="web: the node is stopped; start it first"):
        web.wait_caught_up(WAIT)
    with pytest.raises(NodeIsDown, match=r"web: the node is stopped, and may lack data: start\(\) it"):
        bed.wait_caught_up(WAIT)
    bed.wait_caught_up(WAIT, running_only=True)
    with pytest.raises(NodeIsDown):
        web.execute("SELECT 1")
    web.start()
    assert web.port == port
    web.wait_caught_up(WAIT)
    bed.check(WAIT)


def test_a_pause_survives_a_restart(bed: Testbed) -> None:
    web = bed["web"]
    with web.paused():
        web.restart()
        (channel,) = web.status().channels
        # The I/O thread may still be about to connect.
        assert channel.io in ("Yes", "Connecting")
        assert channel.sql == "No"
    (channel,) = web.status().channels
    assert channel.sql == "Yes"


def test_a_wait_for_a_paused_node_says_so(bed: Testbed) -> None:
    everything = bed["all"]
    assert isinstance(everything, Slave)
    everything.pause()
    everything.kill()
    for path in everything.relay_directory(everything.feeds[0]).iterdir():
        path.unlink()
    everything.start()
    with pytest.raises(NotCaughtUp, match=r"all: is paused \(resume\(\) it\): has applied the beginning of"):
        everything.wait_caught_up(0.1)
    everything.resume()
    bed.check(WAIT)


def test_a_process_that_ends_by_itself_has_failed(bed: Testbed) -> None:
    hr = bed["hr"]
    assert hr.pid is not None
    started = start_time(hr.pid)
    os.kill(hr.pid, 9)
    while hr.is_running:
        assert started is not None
    assert hr.state == "failed"
    assert any("hr: the process has ended with exit code -9" in one for one in bed.status().problems)
    hr.start()
    bed.check(WAIT)


def test_a_master_that_was_stopped_serves_again(bed: Testbed) -> None:
    bed["m"].restart()
    bed["all"].restart()
    bed.check(WAIT)
    assert bed["m"].execute("SELECT server_id FROM dumpfilter.slaves") != []


def test_a_cut_link_is_named_by_who_waits(bed: Testbed) -> None:
    bed["all"].kill()
    bed.link("m", "all").cut()
    relay = bed["all"].directory / "relay"
    for path in relay.iterdir():
        path.unlink()
    bed["all"].start()
    with pytest.raises(NotCaughtUp, match=r"(?s)all: has applied the beginning .* the link m:all is cut"):
        bed["all"].wait_caught_up(2.5)
    assert bed["all"].lag.bytes > 0
    assert bed["all"].lag.seconds > 0
    bed.link("m", "all").heal()
    bed["all"].wait_caught_up(WAIT)
    assert bed["all"].lag == (0.0, 0)
    kinds = [one.kind for one in bed.link("m:all").history]
    assert "cut" in kinds
    assert "healed" in kinds


def test_a_broken_law_names_node_table_and_difference(bed: Testbed) -> None:
    web = bed["web"]
    assert isinstance(web, Slave)
    web.wait_caught_up(WAIT)
    web.stop()
    file = RelayLogInfo.file(web.relay_directory(web.feeds[0]))
    good = file.load()
    table = next(iter(good.target["tables"]))
    bad = {**good.target["tables"][table], "inserted": 1_000_000}
    target = {**good.target, "tables": {**good.target["tables"], table: bad}}
    file.save(good.model_copy(update={"target": target, "executed": ""}))
    with pytest.raises(LawBroken) as caught:
        bed.check(WAIT, running_only=True)
    text = str(caught.value)
    assert (
        f"web at {good.source_file}:{good.source_position} of m-workload: table {table}: has inserted 1000000"
        in text
    )
    assert "GTID set: has none, and should have" in text
    assert "hr" not in text.replace("should", "")
    file.save(good)
    web.start()


def test_links_are_changed_and_restored(bed: Testbed) -> None:
    found = bed.link("m", "web")
    found.set(rate="1mbit", delay="5ms")
    found.set(jitter=0.001)
    assert (found.shape.rate, found.shape.delay, found.shape.jitter) == (1_000_000, 0.005, 0.001)
    bed["web"].hold_behind(0.5)
    assert found.status().delay == pytest.approx(0.505)
    with pytest.raises(OptionError, match="negative"):
        found.set(delay=-1)
    for wrong in (-1, math.inf):
        with pytest.raises(LinkError, match="give seconds, 0 or more"):
            bed["web"].hold_behind(wrong)
    for source, why in (("m", "reads files"), ("m-workload", "reads no other node")):
        with pytest.raises(TestbedError, match=why):
            bed[source].hold_behind(1)
        assert found.status().delay == pytest.approx(0.505)
    bed.reset(WAIT)
    assert found.status().delay == 0.0
    assert found.status().rate is None


def test_a_link_is_waited_for(bed: Testbed) -> None:
    found = bed.link("m", "all")
    found.cut_after(1)
    found.drop_connections()
    found.wait("cut", WAIT)
    with pytest.raises(NotCaughtUp, match=r"link m:all: is cut, and has not become up in 0.02 s; \d+ bytes"):
        found.wait("up", 0.02)
    found.cut(0.05)
    found.wait("up", WAIT)
    found.silence()
    found.wait("silent")


def test_a_reset_without_changes_leaves_no_trace_in_the_histories(bed: Testbed) -> None:
    def told() -> list[str]:
        happenings = bed.link("m", "hr").history
        return [one.kind for one in happenings if one.kind in ("shape", "healed")]

    before = told()
    bed.reset(WAIT)
    assert told() == before
    bed.link("m", "hr").set(delay="1ms")
    bed.link("m", "hr").cut()
    bed.reset(WAIT)
    assert told() == [*before, "shape", "shape", "healed"]


def test_unknown_names_have_a_cure(bed: Testbed) -> None:
    with pytest.raises(Unknown, match=r"there is no node 'wbe'.*web"):
        bed["wbe"]
    with pytest.raises(Unknown, match="there is no link 'web:hr'; there are m:web"):
        bed.link("web", "hr")
    with pytest.raises(Unknown, match="there is no link 'm-web'; there are m:web"):
        bed.link("m-web")
    assert bed.link("m-workload", "web") is bed.link("m", "web")


def test_sql_goes_to_consoles(bed: Testbed) -> None:
    web = bed["web"]
    assert web.execute("SELECT %s", (1,)) == [(1,)]
    with pytest.raises(SqlFailed, match="web: error 1064") as caught:
        web.execute("SELEKT 1")
    assert caught.value.number == 1064
    with pytest.raises(SqlFailed, match="m-workload is a workload, and takes no SQL"):
        bed["m-workload"].execute("SELECT 1")
    web.execute("STOP REPLICA SQL_THREAD")
    # The I/O thread may be connecting, after what the tests before this one did to the link.
    wait_until(
        lambda: any("web: I/O thread Yes, SQL thread No" in one for one in bed.status().problems), bed.status
    )
    web.execute("START REPLICA")


def test_a_report_is_json_with_links_and_lags(bed: Testbed) -> None:
    bed.wait_caught_up(WAIT)
    report = json.loads(json.dumps(bed.report()))
    assert report["links"]["m:web"]["bytes_to_target"] > 0
    measured = {name for name, node in report["nodes"].items() if "lag_over_time" in node}
    assert measured == {"m", "web", "hr", "hr2", "all"}
    assert report["nodes"]["web"]["lag"]["seconds"] == 0.0


def test_a_named_directory_is_busy_while_the_topology_is_up(tmp_path: Path) -> None:
    directory = tmp_path / "up"
    with up("m[size=16K] >> web", directory) as bed:
        with pytest.raises(TopologyBusy, match="end it with dumpfilter topology down"):
            up("m >> web", directory)
        pids = [(node.pid, start_time(node.pid)) for node in bed if node.pid]
        bed.check(WAIT)
    assert len(pids) == 2
    for pid, started in pids:
        assert started is not None
        assert start_time(pid) != started
    assert [path.name for path in directory.iterdir()] == ["logs"]
    bed.down()


def test_nodes_may_have_the_names_of_files_of_the_topology(tmp_path: Path) -> None:
    for seed in (1, 2):
        # A node that keeps its state over a topology's end would lack the next topology's binlog.
        with up(f"m[size=16K, seed={seed}] >> logs; m >> lock", tmp_path) as bed:
            bed.check(WAIT)
    assert {path.suffix for path in (tmp_path / "logs").iterdir()} == {".log"}


def test_a_failing_node_ends_all_others_and_tells_its_log(tmp_path: Path) -> None:
    topology = make_topology(
        workload("w", size=1 << 14),
        master("m", "w"),
        slave("web", "m"),
        slave("bad", "m", options=["--no-such-option"]),
    )
    with pytest.raises(StartFailed, match=r"(?s)bad: the slave ended with exit code 2.*no-such-option"):
        up(topology, tmp_path / "up")
    assert not (tmp_path / "up" / "state.json").exists()


def test_two_sources_are_two_channels() -> None:
    topology = make_topology(
        workload("w1", size=1 << 15),
        workload("w2", size=1 << 15, seed=2),
        master("A", "w1"),
        master("b", "w2"),
        slave("end", [read("A", rules=["do-db=shop_00"]), read("b", rules=["ignore-db=shop_01"])]),
    )
    with up(topology) as bed:
        bed.wait_done(WAIT)
        bed.check(WAIT)
        end: TestbedNode = bed["end"]
        # A slave, like a server, has its channels' names in lower case.
        assert [one.channel for one in end.status().channels] == ["a", "b"]
        bed.link("A", "end").cut()
        bed.link("b", "end").cut_after(1)
        bed.link("A", "end").heal()
        bed.reset(WAIT)
        bed.check(WAIT)


def test_a_paced_workload_is_behind_by_its_link_and_catches_up() -> None:
    with up("m[size=64K, rate=4mbit] >> slow[rate=512kbit]; m >> fast") as bed:
        bed.wait_done(WAIT)
        bed.check(WAIT)
        slow, fast = (bed.report()["nodes"][name]["lag"]["worst"] for name in ("slow", "fast"))
        assert slow >= fast
        bed["m-workload"].stop()
        bed["m-workload"].start()


def test_outages_count_from_the_start_and_are_not_repeated_by_a_change() -> None:
    topology = make_topology(
        workload("w", size=1 << 14),
        master("m", "w"),
        slave("web", "m", link=link(down=["0s-0.1s", "1000s-"])),
    )
    with up(topology, hold=True) as bed:
        found = bed.link("m", "web")
        assert "cut" not in [one.kind for one in found.history]
        bed.release()
        bed.wait_done(WAIT)
        bed.wait_caught_up(WAIT)
        assert "cut" in [one.kind for one in found.history]
        found.set(rate="10mbit")
        found.set(rate=None)
        bed.check(WAIT)
        assert [one.kind for one in found.history].count("cut") == 1


def test_a_workload_that_is_stopped_before_the_release_stays_stopped() -> None:
    with up("m[size=16K, rate=800kbit] >> web", hold=True) as bed:
        workload = bed["m-workload"]
        workload.stop()
        bed.release()
        with pytest.raises(NotCaughtUp, match=r"has not been written to its end in time; .* and paused"):
            bed.wait_done(1.0)
        workload.start()
        bed.wait_done(WAIT)
