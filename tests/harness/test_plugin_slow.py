"""The plugin with real processes: what tests get, what a failed test leaves, and that nothing keeps running."""

from __future__ import annotations

import json
from pathlib import Path

from tests.harness.running import run_files

SLAVES = """
import pytest

earlier = []


@pytest.mark.topology("beside.toml")
def test_own(topology):
    topology.wait_caught_up()
    assert topology["web"].lag == (0, 0)
    topology.check()
    web = topology["web"]
    with web.paused():
        assert web.status().channels[0].sql == "No"
    assert web.status().channels[0].sql == "Yes"
    web.hold_behind(3)
    assert topology.link("m", "web").status().delay == 3
    earlier.append(topology)


@pytest.mark.topology("m[size=100K] >> web[do-db=db001]; m >> all")
def test_failure(topology, topology_factory):
    assert [one.directory.exists() for one in earlier] == [False]
    topology_factory("n[size=50K]")
    topology.wait_caught_up()
    topology["all"].kill()
    topology["web"].execute("STOP REPLICA")
    topology["web"].execute("RESET REPLICA")
    topology.link("m", "web").cut()
    topology["web"].wait_caught_up(0.1)


@pytest.mark.topology("n[size=50K]")
def test_error_of_another_fixture(topology, broken):
    pass


@pytest.fixture
def broken(topology):
    raise ValueError("a fixture of the application")


@pytest.mark.topology("db[server=mariadb, program=/nowhere/mariadbd] >> web")
def test_missing(topology):
    pass
"""

BESIDE = '[node.m]\nworkload = "100K"\n[node.web]\nfrom = "m"\nrules = ["do-db=db001"]\n'


def test_slaves_of_dumpfilter(tmp_path: Path) -> None:
    (tmp_path / "beside.toml").write_text(BESIDE)
    done = run_files(tmp_path, "--topology-artifacts=kept", test_it=SLAVES)
    assert done.outcomes == {
        "test_own": "PASSED",
        "test_failure": "FAILED",
        "test_error_of_another_fixture": "ERROR",
        "test_missing": "ERROR",
    }, done.text
    assert "/nowhere/mariadbd: no such program" in done.text
    assert "--topology-missing=skip skips such tests" in done.text
    assert done.left == []
    assert "NotCaughtUp: web: has applied" in done.text
    assert "dumpfilter/testbed/" not in done.text, "the traceback ends at the test's line"
    kept = tmp_path / "kept"
    assert sorted(path.name for path in kept.iterdir()) == [
        ".gitignore",
        "test_it.py-test_error_of_another_fixture",
        "test_it.py-test_failure",
        "test_it.py-test_failure.2",
    ]
    _check_artifacts(kept / "test_it.py-test_failure", done.text)


def _check_artifacts(directory: Path, text: str) -> None:
    summary = (directory / "summary.txt").read_text()
    assert summary.strip() in text
    assert f"artifacts: {directory}" in summary
    states = [line.split()[:2] for line in summary.splitlines()]
    assert ["all", "stopped"] in states
    assert ["m:web", "cut"] in states
    status = json.loads((directory / "status.json").read_text())
    assert set(status["nodes"]) >= {"m", "web", "all"}
    assert status["links"]["m:web"]["state"] == "cut"
    history = json.loads((directory / "links" / "m-web.json").read_text())
    assert "cut" in json.dumps(history)
    assert json.loads((directory / "report.json").read_text())
    for node in ("m", "web", "all"):
        assert (directory / node / "log.txt").exists()
    assert [path for path in (directory / "all").rglob("relay-bin.*") if path.stat().st_size > 0]


SERVERS = """
import pytest

pytestmark = pytest.mark.topology("db[server=mariadb] >> filter >> web[server=mariadb, wild-do-table=shop.%]")
seen = []


def fill(t):
    t["db"].execute("CREATE DATABASE shop")
    t["db"].execute("CREATE TABLE shop.orders (id INT PRIMARY KEY)")
    t["db"].execute("INSERT INTO shop.orders VALUES (1), (2)")


def test_first(topology_session):
    t = topology_session
    fill(t)
    t["web"].wait_caught_up()
    assert t["web"].execute("SELECT id FROM shop.orders") == [(1,), (2,)]
    for node in (t["db"], t["web"]):
        forgotten = node.connect(autocommit=False)
        forgotten.cursor().execute("SELECT * FROM shop.orders")
        seen.append(forgotten)
    t["filter"].kill()
    t.link("db", "web").cut()
    seen.insert(0, t)


def test_everything_is_as_new(topology_session):
    t = topology_session
    assert t is seen[0]
    assert ("shop",) not in t["web"].execute("SHOW DATABASES")
    fill(t)
    t.check()
    t["web"].pause()
    for node in (t["db"], t["web"]):
        leaked = [node.connect(), node.connect()]
        leaked[0].cursor().execute("LOCK TABLES shop.orders WRITE")
        leaked[1].cursor().execute("SELECT GET_LOCK('a', 1)")
        seen.extend(leaked)


def test_leaked_locks_are_gone(topology_session):
    t = topology_session
    assert t is seen[0]
    fill(t)
    t["web"].wait_caught_up()
    for node in (t["db"], t["web"]):
        leaked = node.connect()
        leaked.cursor().execute("FLUSH TABLES WITH READ LOCK")
        seen.append(leaked)


def test_failure(topology_session):
    assert topology_session is seen[0]
    assert False


def test_after_a_failure(topology_session):
    assert topology_session is not seen[0]
    fill(topology_session)


@pytest.mark.topology("db[server=mariadb, program=/nowhere/mariadbd] >> web")
def test_missing(topology):
    pass


@pytest.mark.topology("m[size=50K] >> web[option=--no-such-option]")
def test_that_does_not_start(topology):
    pass
"""


def test_real_servers_are_shared_and_reset_by_a_worker_of_xdist(tmp_path: Path) -> None:
    done = run_files(tmp_path, "-p", "xdist", "-n", "1", "--topology-missing=skip", test_it=SERVERS)
    assert (
        done.outcomes.items()
        >= {
            "test_first": "PASSED",
            "test_everything_is_as_new": "PASSED",
            "test_leaked_locks_are_gone": "PASSED",
            "test_failure": "FAILED",
            "test_after_a_failure": "PASSED",
            "test_that_does_not_start": "ERROR",
        }.items()
    ), done.text
    assert "1 skipped" in done.text
    assert "/nowhere/mariadbd: no such program" in done.text
    assert done.left == []
