"""Waiting until a file changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from dumpfilter.base.file_changes import FileChanges


@pytest.mark.timeout(240)
def test_a_wait_ends_when_a_watched_file_has_changed(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_bytes(b"")
    second.write_bytes(b"")
    changes = FileChanges()
    assert changes.watch([first, second])
    for path in (first, second):
        path.write_bytes(b"1")
        changes.wait(1e6)
    second.replace(first)
    changes.wait(1e6)
    changes.wait(0)
    assert not changes.watch([tmp_path / "third"])
    changes.close()
