"""The plugin without running topologies: its options, its mark, its errors, and its cost for a run without it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.running import run_files

UNUSED = """
import sys


def test_nothing_is_imported_for_those_who_do_not_use_the_plugin():
    heavy = {"numba", "grpc", "pymysql", "pydantic", "dumpfilter.topology", "dumpfilter.testbed"}
    assert heavy & set(sys.modules) == set()


def test_options(pytestconfig):
    assert pytestconfig.getoption("topology_timeout") == 60
    assert pytestconfig.getoption("topology_missing") == "fail"
"""


def test_an_unused_plugin_costs_nothing(tmp_path: Path) -> None:
    done = run_files(tmp_path, environment={}, test_it=UNUSED)
    assert set(done.outcomes.values()) == {"PASSED"}, done.text
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix not in ("", ".ini")) == [
        "test_it.py"
    ]


WRONG = """
import pathlib
import pytest


def test_without_a_mark(topology):
    pass


@pytest.mark.topology("m >> web[do-bd=shop]")
def test_with_a_wrong_key(topology):
    pass


@pytest.mark.topology("m >> web", tiemout=3)
def test_with_a_wrong_argument(topology_session):
    pass


@pytest.mark.topology(["m >> web"])
def test_with_a_list(topology):
    pass


@pytest.mark.topology("m >> web", timeout="soon")
def test_with_a_timeout_that_is_no_number(topology_session):
    pass


@pytest.mark.topology("m >> web", timeout=float("nan"))
def test_with_a_timeout_without_end(topology):
    pass


@pytest.mark.topology("nowhere.toml")
def test_with_a_missing_file(topology):
    pass


@pytest.mark.topology(pathlib.Path("beside.toml"))
class TestFiles:
    def test_with_a_wrong_file(self, topology):
        pass


def test_with_a_wrong_factory(topology_factory):
    with pytest.raises(Exception, match="circle"):
        topology_factory("a >> b; b >> a")
"""


def test_errors_say_what_to_do_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "beside.toml").write_text('[node.m]\nserver = "mariabd"\n')
    done = run_files(tmp_path, test_it=WRONG)
    assert done.outcomes == {
        "test_without_a_mark": "ERROR",
        "test_with_a_wrong_key": "ERROR",
        "test_with_a_wrong_argument": "ERROR",
        "test_with_a_list": "ERROR",
        "test_with_a_timeout_that_is_no_number": "ERROR",
        "test_with_a_timeout_without_end": "ERROR",
        "test_with_a_missing_file": "ERROR",
        "test_with_a_wrong_file": "ERROR",
        "test_with_a_wrong_factory": "PASSED",
    }, done.text
    for told in (
        "test_without_a_mark uses the fixture topology and has no topology: mark the test",
        "do-bd",
        "did you mean do-db",
        "@pytest.mark.topology: got an unexpected keyword argument 'tiemout'",
        "['m >> web'] is no topology: give a short string, the path of a TOML file, or a Topology",
        "timeout = 'soon': give a number of seconds above 0",
        "timeout = nan: give a number of seconds above 0",
        f"there is no file {tmp_path}/nowhere.toml",
        "beside.toml: node.m.server",
    ):
        assert told in done.text
    assert "dumpfilter/harness/" not in done.text
    assert "During handling" not in done.text


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--topology-timeout=soon"], "--topology-timeout: timeout = 'soon': give a number of seconds"),
        (["--topology-timeout=nan"], "--topology-timeout: timeout = 'nan': give a number of seconds above 0"),
        (["--topology-timeout=-1"], "--topology-timeout: timeout = '-1': give a number of seconds above 0"),
        (["--topology-missing=ignore"], "--topology-missing: invalid choice: 'ignore' (choose from"),
    ],
    ids=["timeout", "no end", "negative", "missing"],
)
def test_wrong_options_end_the_run(tmp_path: Path, options: list[str], told: str) -> None:
    done = run_files(tmp_path, *options, test_it="def test_it():\n    pass\n")
    assert done.code == pytest.ExitCode.USAGE_ERROR
    assert told in done.text
    assert "Traceback" not in done.text
