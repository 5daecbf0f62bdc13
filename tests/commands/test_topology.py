"""The verbs of ``dumpfilter topology`` against a control socket whose topology only notes what it is asked."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from dumpfilter.testbed import (
    Lag,
    LinkStatus,
    NodeStatus,
    NotCaughtUp,
    Place,
    Testbed,
    TestbedStatus,
    Unknown,
)
from dumpfilter.testbed.directory import ControlServer, Owner, down
from dumpfilter.testbed.errors import NotUp
from dumpfilter.testbed.values import ChannelState
from dumpfilter.testbed.views import bytes_or_nothing
from dumpfilter.topology import parse_string, parse_toml_topology
from tests.commands.in_process import run

CHANNEL = ChannelState("", "m", Place("bin.000001", 4711), Place("bin.000001", 4000), "0-1-7", Lag(2.5, 711))
WEB = NodeStatus(
    "web", "slave", "running", 4242, "/t/web", {"sql": 3310}, "mysql://root@127.0.0.1:3310/", "root", "",
    Place("bin.000001", 4000), "0-1-7", Lag(2.5, 711), 1024.0, 5 << 20, (CHANNEL,),
)  # fmt: skip
M = NodeStatus("m", "workload", "running", is_done=True, place=Place("bin.000001", 4711))
LINK = LinkStatus("m:web", "m", "web", "up", 2_000_000, 0.05, 0.0, 4096, 128, 1, 10.0)


class NotedNode:
    """A node that notes what it is asked."""

    def __init__(self, bed: NotedBed, name: str) -> None:
        self._bed = bed
        self._name = name

    def wait_caught_up(self, timeout: float) -> None:
        self._bed.asked.append(f"wait {self._name} {timeout:g}")

    def status(self) -> NodeStatus:
        return {"m": M, "web": WEB}[self._name]

    logs = "one\ntwo\nthree\n"

    def __getattr__(self, verb: str) -> Any:
        return lambda **named: self._bed.asked.append(" ".join(map(str, [verb, self._name, *named.values()])))


class NotedLink:
    """A link that notes what it is asked."""

    def __init__(self, bed: NotedBed) -> None:
        self._bed = bed

    def status(self) -> LinkStatus:
        return LINK

    def __getattr__(self, verb: str) -> Any:
        return lambda **named: self._bed.asked.append(" ".join(map(str, [verb, *named.items()])))


class NotedBed:
    """A topology that notes what it is asked."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.asked: list[str] = []
        self.problems: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> NotedNode:
        if name not in ("m", "web"):
            raise Unknown(f"there is no node {name!r}; there are m, web")
        return NotedNode(self, name)

    def link(self, name: str) -> NotedLink:
        assert name == "m:web"
        return NotedLink(self)

    def status(self) -> TestbedStatus:
        nodes = {"m": M, "web": NodeStatus(**{**vars(WEB), "problems": self.problems})}
        return TestbedStatus(
            "fan", str(self.directory), 4241, nodes, {"m:web": LINK}, 12.0, tuple(self.problems)
        )

    def wait_caught_up(self, timeout: float, *, running_only: bool) -> None:
        self.asked.append(f"wait {timeout:g} {running_only}")
        raise NotCaughtUp("web: is at bin.000001:4000, and should reach bin.000001:4711")

    def wait_done(self, timeout: float) -> None:
        self.asked.append(f"wait done {timeout:g}")

    def check(self, timeout: float, *, running_only: bool) -> None:
        self.asked.append(f"check {timeout:g} {running_only}")

    def report(self) -> dict[str, Any]:
        raise ZeroDivisionError("a mistake")


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[NotedBed]:
    """A noted topology with a control socket in its directory."""
    noted = NotedBed(tmp_path)
    with ControlServer(cast(Testbed, noted)):
        yield noted


def ask(bed: NotedBed, verb: str, *arguments: str) -> Any:
    """Run a verb on the noted topology."""
    return run("topology", verb, *arguments, "--directory", bed.directory)


def test_status_shows_positions_lag_savings_and_links(bed: NotedBed) -> None:
    done = ask(bed, "status")
    assert done.returncode == 0
    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines[0] == ["node", "kind", "position", "lag", "behind", "rate", "saved"]
    assert lines[1] == ["m", "workload", "bin.000001:4711", "done", "–", "–", "–"]
    assert lines[2] == ["web", "slave", "bin.000001:4000", "2.5", "s", "711", "B", "1", "KiB/s", "5", "MiB"]
    assert lines[4] == ["link", "state", "shape", "sent", "back", "now"]
    assert lines[5] == ["m:web", "up", "2mbit", "50ms", "4", "KiB", "128", "B", "10", "B/s"]


def test_bytes_that_nobody_counts_are_a_dash() -> None:
    assert (bytes_or_nothing(None), bytes_or_nothing(0)) == ("–", "0 B")


def test_a_topology_that_is_starting_is_told_and_ended(tmp_path: Path) -> None:
    program = (
        "import sys, time; from pathlib import Path; from dumpfilter.testbed.directory import taken;"
        "place = taken(Path(sys.argv[1]), is_command=sys.argv[2] == 'command'); place.__enter__(); "
        "print(flush=True); time.sleep(300)"
    )
    for kind in ("python", "command"):
        with subprocess.Popen(
            [sys.executable, "-c", program, tmp_path / "t", kind], stdout=subprocess.PIPE
        ) as up:
            try:
                assert up.stdout is not None
                assert up.stdout.readline()
                told = run("topology", "status", "--directory", tmp_path / "t")
                assert told.returncode == 3
                ended = run("topology", "down", "--directory", tmp_path / "t")
                if kind == "command":
                    assert f"the topology is starting (process {up.pid})" in told.stderr
                    assert (ended.returncode, up.wait()) == (0, -15)
                else:
                    assert f"process {up.pid} runs the topology in this directory" in told.stderr
                    assert (ended.returncode, up.poll()) == (3, None)
            finally:
                up.kill()
    # Down removes what a killed process has left.
    assert (tmp_path / "t").exists()
    assert run("topology", "down", "--directory", tmp_path / "t").returncode == 0
    assert not (tmp_path / "t").exists()


def test_down_removes_no_foreign_directory(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text('{"serial": 3}')
    done = run("topology", "down", "--directory", tmp_path)
    assert (done.returncode, [path.name for path in tmp_path.iterdir()]) == (3, ["state.json"])
    assert f"{tmp_path}: no topology is up in this directory" in done.stderr


def test_a_topology_that_ends_while_it_is_ended_is_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        pass
    monkeypatch.setattr("dumpfilter.testbed.directory.owner_of", lambda _: Owner(ended.pid, True, 0))
    with pytest.raises(NotUp):
        down(tmp_path)


def test_status_as_json_has_ports_and_addresses(bed: NotedBed) -> None:
    status = json.loads(ask(bed, "status", "--json").stdout)
    assert status["nodes"]["web"]["ports"] == {"sql": 3310}
    assert status["nodes"]["web"]["url"] == "mysql://root@127.0.0.1:3310/"
    assert status["links"]["m:web"]["rate"] == 2_000_000


def test_a_problem_is_exit_code_4(bed: NotedBed) -> None:
    bed.problems = ("web: the SQL thread has stopped",)
    done = ask(bed, "status")
    assert done.returncode == 4
    assert "web: the SQL thread has stopped" in done.stdout


def test_wait_names_the_node_and_its_limit(bed: NotedBed) -> None:
    assert ask(bed, "wait", "web", "--done", "--timeout", "2m").returncode == 0
    assert bed.asked == ["wait done 120", "wait web 120"]


def test_an_error_of_the_topology_has_its_text_and_exit_code(bed: NotedBed) -> None:
    done = ask(bed, "wait")
    assert done.returncode == 4
    assert done.stderr == "dumpfilter: web: is at bin.000001:4000, and should reach bin.000001:4711\n"
    done = ask(bed, "kill", "wbe")
    assert done.returncode == 2
    assert done.stderr == "dumpfilter: there is no node 'wbe'; there are m, web\n"


def test_a_mistake_in_the_topology_is_an_error_of_the_verb(bed: NotedBed) -> None:
    done = ask(bed, "report")
    assert done.returncode == 1
    assert "ZeroDivisionError('a mistake')" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("verb", ["kill", "stop", "start", "restart"])
def test_the_verbs_of_nodes(bed: NotedBed, verb: str) -> None:
    assert ask(bed, verb, "web").stdout == "web: running\n"
    assert bed.asked == [f"{verb} web"]


def test_hold(bed: NotedBed) -> None:
    assert ask(bed, "hold", "web", "3s").returncode == 0
    assert bed.asked == ["hold_behind web 3.0"]


def test_a_wait_for_one_node_leaves_out_no_others(bed: NotedBed) -> None:
    done = ask(bed, "wait", "web", "--running-only")
    assert (done.returncode, bed.asked) == (2, [])
    assert done.stderr == "dumpfilter: --running-only is a choice among all nodes; leave it or NODE out\n"


def test_check(bed: NotedBed) -> None:
    done = ask(bed, "check", "--timeout", "90s")
    assert (done.returncode, bed.asked) == (0, ["check 90 False"])
    assert "--timeout: '90' is not a time" in ask(bed, "check", "--timeout", "90").stderr
    assert ask(bed, "check", "--timeout", "90s", "--running-only").returncode == 0
    assert bed.asked[1:] == ["check 90 True"]


@pytest.mark.parametrize(
    ("options", "asked"),
    [
        ([], []),
        (["--rate", "1mbit", "--delay", "20ms"], ["set ('rate', 1000000) ('delay', 0.02)"]),
        (["--rate", "none", "--jitter", "1ms"], ["set ('rate', None) ('jitter', 0.001)"]),
        (["--heal", "--delay", "0s"], ["set ('delay', 0.0)", "heal"]),
        (["--cut"], ["cut"]),
        (["--silence", "--for", "2s"], ["silence ('seconds', 2.0)"]),
        (["--cut-after", "64K"], ["cut_after ('nbytes', 65536)"]),
    ],
)
def test_link(bed: NotedBed, options: list[str], asked: list[str]) -> None:
    done = ask(bed, "link", "m:web", *options)
    assert "m:web" in done.stdout
    assert bed.asked == asked


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--rate", "fast"], "--rate: 'fast' is not a rate"),
        (["--delay", "5"], "--delay: '5' is not a time"),
        (["--cut", "--for", "5"], "--for: '5' is not a time"),
        (["--cut", "--heal"], "--cut stands beside --heal"),
        (["--cut-after", "1K", "--silence"], "--silence stands beside --cut-after"),
        (["--for", "1s"], "--for goes with --cut, --silence or --cut-after"),
        (["--cut-after", "x"], "--cut-after: 'x' is not a size"),
    ],
)
def test_wrong_options_of_link(bed: NotedBed, options: list[str], said: str) -> None:
    done = ask(bed, "link", "m:web", *options)
    assert done.returncode == 2
    assert said in done.stderr
    assert bed.asked == []


def test_logs(bed: NotedBed) -> None:
    assert ask(bed, "logs", "web").stdout == "one\ntwo\nthree\n"


def test_sql_on_a_node_without_a_port(bed: NotedBed) -> None:
    done = ask(bed, "sql", "m", "-e", "SELECT 1")
    assert done.returncode == 2
    assert "m: a workload has no port for SQL; ask one of its readers" in done.stderr


@pytest.mark.parametrize("verb", ["status", "wait", "check", "report", "down", "logs", "sql", "kill", "link"])
def test_no_topology_is_up(tmp_path: Path, verb: str) -> None:
    node = ["web"] if verb in ("logs", "sql", "kill", "link") else []
    done = run("topology", verb, *node, "--directory", tmp_path)
    assert done.returncode == 3
    assert f"{tmp_path}: no topology is up in this directory" in done.stderr


def test_a_directory_that_does_not_exist(tmp_path: Path) -> None:
    done = run("topology", "status", "--directory", tmp_path / "none")
    assert done.returncode == 3
    assert "no topology is up" in done.stderr


def test_show_prints_the_whole_topology() -> None:
    text = "m >> web[do-db=shop]; m >> hr >> hr2"
    assert parse_toml_topology(run("topology", "show", text).stdout) == parse_string(text)


def test_a_wrong_topology_starts_nothing(tmp_path: Path) -> None:
    done = run("topology", "up", "m >> web[rate=fast]", "--directory", tmp_path / "t")
    assert done.returncode == 2
    assert "topology string: web[rate]: 'fast' is not a rate" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_socket_is_its_owners_alone(bed: NotedBed) -> None:
    assert (bed.directory / "control.sock").stat().st_mode & 0o777 == 0o600


def test_a_directory_with_a_long_name(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100) / ("e" * 100)
    deep.mkdir(parents=True)
    noted = NotedBed(deep)
    with ControlServer(cast(Testbed, noted)):
        assert ask(noted, "check").returncode == 0


@pytest.mark.parametrize(
    "verb",
    [
        "up",
        "down",
        "show",
        "status",
        "wait",
        "check",
        "report",
        "link",
        "kill",
        "stop",
        "start",
        "sql",
        "logs",
    ],
)
def test_help_has_an_example_and_fits_a_terminal(verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    done = run("topology", verb, "--help")
    assert f"dumpfilter topology {verb}" in done.stdout
    assert "Example" in done.stdout
