"""The directories of topologies: locks, states, and the removal of what a killed process left."""

from __future__ import annotations

import tempfile
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from dumpfilter.base.errors import OptionError
from dumpfilter.testbed import starting, up
from dumpfilter.testbed.directory import LOCK, clean, clean_temporary, taken
from dumpfilter.testbed.errors import TestbedError, TopologyBusy


def test_a_directory_is_taken_once(tmp_path: Path) -> None:
    with taken(tmp_path / "new", keep=True):
        with pytest.raises(TopologyBusy, match="a topology is up in this directory"), taken(tmp_path / "new"):
            pass
        with pytest.raises(TopologyBusy):
            clean(tmp_path / "new")
    with taken(tmp_path / "new"):
        pass


def test_foreign_files_are_never_removed(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(TestbedError, match="has files that no topology made"), taken(tmp_path):
        pass
    assert not clean(tmp_path)
    assert (tmp_path / "thesis.tex").exists()
    with (
        pytest.raises(
            TestbedError, match=r"thesis.tex: cannot be made: File exists: name an empty directory"
        ),
        taken(tmp_path / "thesis.tex"),
    ):
        pass


@pytest.mark.parametrize("content", ["", "[1, 2]", "7", '{"version": 4}', '{"pid": 1, "resources": []}'])
def test_a_state_file_of_another_program_marks_no_topology(tmp_path: Path, content: str) -> None:
    for name, text in {"state.json": content, "thesis.tex": "precious"}.items():
        (tmp_path / name).write_text(text)
    with (
        pytest.raises(TestbedError, match="has files that no topology made: name an empty directory"),
        taken(tmp_path, is_command=True),
    ):
        pass
    assert not clean(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["state.json", "thesis.tex"]


def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    with taken(tmp_path, keep=True):
        pass
    (tmp_path / "web").mkdir()
    (tmp_path / "web" / "relay").write_text("x")
    assert clean(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [LOCK]
    assert not clean(tmp_path)


def test_temporary_directories_of_dead_processes_are_removed(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with taken(None) as ours:
        dead = tmp_path / "dumpfilter-topology-1-1-abc"
        dead.mkdir()
        (dead / "file").write_text("x")
        other = tmp_path / "dumpfilter-topology-of-somebody"
        other.mkdir()
        clean_temporary()
        assert sorted(tmp_path.iterdir()) == sorted([ours, other])


def test_a_topology_that_does_not_start_leaves_the_logs_of_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "web.log").write_text("what happened")
    for name in ("shared_keeper", "LinkProcess"):
        monkeypatch.setattr(starting, name, MagicMock())
    with pytest.raises(OptionError, match="a node is missing at the end"):
        up("m >>", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["logs"]
    assert (tmp_path / "logs" / "web.log").read_text() == "what happened"
