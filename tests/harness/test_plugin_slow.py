"""The plugin with real processes: what tests get, what a failed test leaves, and that nothing keeps running."""

from __future__ import annotations

import json
import os
from pathlib import Path

from tests.harness.running import run_files

SLAVES = """
import pytest

pytestmark = pytest.mark.topology("m[size=100K] >> web[do-db=db001]; m >> all")
shared = []


def test_own(topology):
    topology.wait_caught_up()
    assert topology["web"].lag == topology["all"].lag == (0, 0)
    topology.check()
    shared.append(topology)


def test_own_again(topology):
    assert topology is not shared[0]
    assert not shared[0].directory.exists()


def test_several(topology, topology_factory):
    other = topology_factory("n[size=50K] >> one")
    other.wait_caught_up()
    assert other.directory != topology.directory


@pytest.mark.topology("beside.toml")
def test_file(topology):
    topology["b"].wait_caught_up()


def test_failure(topology):
    topology.link("m", "web").cut()
    assert False, "as it must"


def test_failure_again(topology, topology_factory):
    topology_factory("n[size=50K] >> one")
    topology["web"].kill()
    assert False


def test_error_of_another_fixture(topology, broken):
    pass


@pytest.fixture
def broken(topology):
    raise ValueError("a fixture of the application")
"""

BESIDE = '[node.a]\nworkload = "50K"\n[node.b]\nfrom = "a"\n'


def test_slaves_of_dumpfilter(tmp_path: Path) -> None:
    (tmp_path / "beside.toml").write_text(BESIDE)
    done = run_files(tmp_path, "--topology-artifacts=kept", test_it=SLAVES)
    assert done.outcomes == {
        "test_own": "PASSED",
        "test_own_again": "PASSED",
        "test_several": "PASSED",
        "test_file": "PASSED",
        "test_failure": "FAILED",
        "test_failure_again": "FAILED",
        "test_error_of_another_fixture": "ERROR",
    }, done.text
    assert done.left == []
    kept = tmp_path / "kept"
    assert sorted(path.name for path in kept.iterdir()) == [
        ".gitignore",
        "test_it.py-test_error_of_another_fixture",
        "test_it.py-test_failure",
        "test_it.py-test_failure_again",
        "test_it.py-test_failure_again.2",
    ]
    _check_artifacts(kept / "test_it.py-test_failure", done.text)
    assert "web (slave): stopped" in (kept / "test_it.py-test_failure_again" / "summary.txt").read_text()


def _check_artifacts(directory: Path, text: str) -> None:
    summary = (directory / "summary.txt").read_text()
    assert summary.strip() in text
    assert f"artifacts: {directory}" in summary
    assert "link m:web: cut" in summary
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
    t["web"].kill()
    t.link("db", "web").cut()
    seen.append(t)


def test_everything_is_as_new(topology_session):
    t = topology_session
    assert t is seen[0]
    assert ("shop",) not in t["web"].execute("SHOW DATABASES")
    fill(t)
    t.check()


def test_failure(topology_session):
    assert topology_session is seen[0]
    assert False


def test_after_a_failure(topology_session):
    assert topology_session is not seen[0]
    fill(topology_session)


@pytest.mark.topology("db[server=mariadb, program=/nowhere/mariadbd] >> web")
def test_missing(topology):
    pass
"""


def test_real_servers_are_shared_and_reset(tmp_path: Path) -> None:
    done = run_files(tmp_path, test_it=SERVERS)
    assert done.outcomes == {
        "test_first": "PASSED",
        "test_everything_is_as_new": "PASSED",
        "test_failure": "FAILED",
        "test_after_a_failure": "PASSED",
        "test_missing": "ERROR",
    }, done.text
    assert "/nowhere/mariadbd: no such program" in done.text
    assert "--topology-missing=skip skips such tests" in done.text
    assert done.left == []


MISSING = """
import pytest


@pytest.mark.topology("db[server=mysql, program=/nowhere/mysqld] >> web")
def test_missing(topology):
    pass
"""


def test_a_run_may_skip_tests_whose_server_is_missing(tmp_path: Path) -> None:
    done = run_files(tmp_path, "--topology-missing=skip", test_it=MISSING)
    assert "1 skipped" in done.text
    assert "no such program" in done.text


def test_workers_of_xdist_have_topologies_of_their_own(tmp_path: Path) -> None:
    body = """
import pytest

@pytest.mark.topology("m[size=50K] >> web")
@pytest.mark.parametrize("number", range(2))
def test_it(topology_session, number):
    topology_session.wait_caught_up()
    topology_session.check()
"""
    done = run_files(tmp_path, "-n", "2", test_it=body)
    assert done.outcomes == {"test_it[0]": "PASSED", "test_it[1]": "PASSED"}, done.text
    assert done.left == []


def test_a_run_keeps_directories_when_asked(tmp_path: Path) -> None:
    body = """
import pytest

@pytest.mark.topology("m[size=50K] >> web")
def test_it(topology):
    print("directory:", topology.directory)
"""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    before = os.environ.get("TMPDIR")
    os.environ["TMPDIR"] = str(temporary)
    try:
        done = run_files(tmp_path, "--topology-keep", "-s", test_it=body)
    finally:
        if before is not None:
            os.environ["TMPDIR"] = before
    (told,) = [line for line in done.text.splitlines() if "directory: " in line]
    assert list(Path(told.partition("directory: ")[2]).iterdir())
