"""The artifacts of a failed test, of stand-ins for a running topology."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dumpfilter.base.errors import DumpfilterError
from dumpfilter.harness import plugin
from dumpfilter.harness.plugin import save_artifacts
from dumpfilter.testbed import Lag, LinkStatus, NodeStatus, Place, TestbedStatus
from dumpfilter.testbed.values import ChannelState
from dumpfilter.topology.links.shape import Happening

MIB = 1 << 20


def web(**more: Any) -> NodeStatus:
    place = Place("bin.000002", 1342)
    channel = ChannelState("", "m", place, place, "", Lag(1.25, 534))
    return NodeStatus(
        "web", "slave", **{"state": "running", **more}, place=place, channels=(channel,), lag=channel.lag
    )


def running(directory: Path, node: NodeStatus, link_state: str = "up") -> Any:
    link = LinkStatus("m:web", "m", "web", link_state, None, 0.0, 0.0, 0, 0, 0)
    status = TestbedStatus("topology", str(directory), 1, {"web": node}, {"m:web": link}, 3.0, node.problems)
    history = (Happening(1.0, "cut"),)
    return Running(
        status=lambda: status,
        report=lambda: {"bytes": 7},
        links={"m:web": SimpleNamespace(name="m:web", history=history)},
        nodes={"web": SimpleNamespace(name="web", logs="one\ntwo\n", directory=directory)},
    )


class Running(SimpleNamespace):
    """A stand-in for a running topology."""

    def __getitem__(self, name: str) -> Any:
        return self.nodes[name]


def save(testbed: Any, tmp_path: Path) -> tuple[str, Path]:
    text = save_artifacts(testbed, tmp_path / "artifacts", "tests/test_it.py::test_it[a b]")
    return text, tmp_path / "artifacts" / "tests-test_it.py-test_it-a-b"


def test_the_report_tells_states_and_the_directory(tmp_path: Path) -> None:
    text, directory = save(running(tmp_path / "web", web(), "cut"), tmp_path)
    _, *lines, last = text.splitlines()
    assert lines[0].split() == [
        "web",
        "slave",
        "bin.000002:1342",
        "1.25",
        "s",
        "534",
        "B",
        "0",
        "B/s",
        "0",
        "B",
    ]
    assert lines[-1].split()[:2] == ["m:web", "cut"]
    assert last == f"artifacts: {directory}"
    assert (directory / "summary.txt").read_text() == text + "\n"
    assert json.loads((directory / "status.json").read_text())["nodes"]["web"]["lag"] == {
        "seconds": 1.25,
        "bytes": 534,
    }
    assert json.loads((directory / "links" / "m-web.json").read_text()) == [
        {"time": 1.0, "kind": "cut", "detail": ""}
    ]
    assert (directory / "web" / "log.txt").read_text() == "one\ntwo\n"


def test_the_report_tells_problems_and_the_log_of_a_failed_node(tmp_path: Path) -> None:
    node = web(state="failed", problems=("web: its process ended with 1",))
    text, _ = save(running(tmp_path / "web", node), tmp_path)
    assert text.splitlines()[-4:-1] == ["web: its process ended with 1", "web | one", "web | two"]


def test_the_place_of_a_killed_source_is_unknown(tmp_path: Path) -> None:
    text, _ = save(running(tmp_path / "web", NodeStatus("m", "server", "stopped")), tmp_path)
    assert text.splitlines()[1].split()[:3] == ["m", "stopped", "–"]


def test_a_directory_of_an_earlier_run_is_replaced(tmp_path: Path) -> None:
    _, directory = save(running(tmp_path / "web", web()), tmp_path)
    (directory / "old").write_text("")
    assert save(running(tmp_path / "web", web()), tmp_path)[1] == directory
    assert not (directory / "old").exists()
    assert (tmp_path / "artifacts" / ".gitignore").read_text() == "*\n"


def test_the_newest_relay_logs_are_copied_without_large_ones(tmp_path: Path) -> None:
    relay = tmp_path / "web" / "relay"
    relay.mkdir(parents=True)
    for number, size in enumerate((3, 20 * MIB, 5, 2 * MIB), 1):
        (relay / f"relay-bin.{number:06}").write_bytes(bytes([number]) * size)
    (relay / "aria_log.00000001").write_bytes(bytes(8))
    (relay / "relay-bin.index").write_text("relay-bin.000001\n")
    _, directory = save(running(tmp_path / "web", web()), tmp_path)
    copied = {path.name: path.stat().st_size for path in (directory / "web" / "relay").iterdir()}
    assert copied == {
        "relay-bin.000001": 3,
        "relay-bin.000003": 5,
        "relay-bin.000004": 2 * MIB,
    }


def test_a_part_that_cannot_be_had_does_not_stop_the_others(tmp_path: Path) -> None:
    testbed = running(tmp_path / "web", web())

    def fails() -> None:
        raise DumpfilterError("the links have ended")

    testbed.report = fails
    text, directory = save(testbed, tmp_path)
    assert "no report: the links have ended" in text
    assert (directory / "web" / "log.txt").exists()


def test_a_directory_that_cannot_be_made_is_a_line_of_the_report(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    config = SimpleNamespace(rootpath=tmp_path, getoption=lambda _: "file/artifacts")
    item: Any = SimpleNamespace(stash=pytest.Stash(), config=config, nodeid="test_it.py::test_it")
    item.stash[plugin._running] = [running(tmp_path / "web", web())]
    report: Any = SimpleNamespace(failed=True, sections=[])
    hook: Any = plugin.pytest_runtest_makereport(item, None)  # type: ignore[arg-type]
    next(hook)
    with pytest.raises(StopIteration):
        hook.send(report)
    ((title, text),) = report.sections
    assert title == "topology"
    assert text.startswith("no artifacts: [Errno 20] Not a directory")
