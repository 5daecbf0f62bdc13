"""The example of an application's tests against a replica that is 3 s behind."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.harness.running import ROOT, run_pytest

EXAMPLE = ROOT / "examples" / "replica-behind"


def test_the_application_bears_a_replica_that_is_behind(tmp_path: Path) -> None:
    copy = shutil.copytree(EXAMPLE, tmp_path / "example")
    done = run_pytest(copy)
    assert set(done.outcomes.values()) == {"PASSED"}, done.text
    assert len(done.outcomes) == 8
    assert done.left == []
