"""The example of a failover while a link is cut in the middle of a transaction."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.harness.running import ROOT, run_pytest

EXAMPLE = ROOT / "examples" / "failover"


def test_no_payment_is_lost_or_there_twice(tmp_path: Path) -> None:
    copy = shutil.copytree(EXAMPLE, tmp_path / "example")
    done = run_pytest(copy)
    assert done.outcomes == {"test_failover_under_a_cut_link": "PASSED"}, done.text
    assert done.left == []
