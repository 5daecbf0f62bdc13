"""The directories of topologies: locks, states, and the removal of what a killed process left."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from dumpfilter.testbed.errors import TestbedError, TopologyBusy
from dumpfilter.testbed.leftovers import LOCK, STATE, clean, clean_temporary, take
from dumpfilter.testbed.processes import is_alive, start_time
from dumpfilter.testbed.temporary import TEMPORARY


def test_a_directory_is_taken_once(tmp_path: Path) -> None:
    state = take(tmp_path / "new")
    with pytest.raises(TopologyBusy, match="a topology is up in this directory"):
        take(tmp_path / "new")
    with pytest.raises(TopologyBusy):
        clean(tmp_path / "new")
    state.close()
    take(tmp_path / "new").close()


def test_foreign_files_are_never_removed(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(TestbedError, match="has files that no topology made"):
        take(tmp_path)
    assert not clean(tmp_path)
    assert (tmp_path / "thesis.tex").exists()


def test_what_a_killed_process_left_is_ended_and_removed(tmp_path: Path) -> None:
    take(tmp_path).close()
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True)
    try:
        content = json.loads((tmp_path / STATE).read_text())
        content["processes"] = [[child.pid, start_time(child.pid)]]
        (tmp_path / STATE).write_text(json.dumps(content))
        (tmp_path / "web").mkdir()
        (tmp_path / "web" / "relay").write_text("x")
        assert clean(tmp_path)
        assert child.wait(240) == -9
        assert [path.name for path in tmp_path.iterdir()] == [LOCK]
        assert not clean(tmp_path)
    finally:
        child.kill()
        child.communicate()


def test_a_process_that_has_the_number_of_a_dead_one_is_spared(tmp_path: Path) -> None:
    take(tmp_path).close()
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True)
    try:
        started = start_time(child.pid)
        assert started is not None
        content = json.loads((tmp_path / STATE).read_text())
        content["processes"] = [[child.pid, started - 1]]
        (tmp_path / STATE).write_text(json.dumps(content))
        assert clean(tmp_path)
        assert is_alive(child.pid, started)
    finally:
        child.kill()
        child.communicate()


def test_temporary_directories_of_dead_processes_are_removed(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    ours = take(None)
    dead = tmp_path / f"{TEMPORARY}1-1-abc"
    dead.mkdir()
    (dead / "file").write_text("x")
    other = tmp_path / f"{TEMPORARY}of-somebody"
    other.mkdir()
    clean_temporary()
    assert sorted(tmp_path.iterdir()) == sorted([ours.directory, other])
    ours.close()
