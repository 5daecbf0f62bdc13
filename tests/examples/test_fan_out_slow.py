"""The example of a fan-out over links with limits."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.harness.running import ROOT

EXAMPLE = ROOT / "examples" / "fan-out"


def test_filtered_sites_are_sent_less_and_the_law_holds(tmp_path: Path) -> None:
    copy = shutil.copytree(EXAMPLE, tmp_path / "example")
    (tmp_path / "tmp").mkdir()
    done = subprocess.run(
        [sys.executable, "fan_out.py"],
        cwd=copy,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path / "tmp")},
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    _, everything, shop, warehouse, law = done.stdout.splitlines()
    sent = {name: int(amount) for name, amount, *_ in map(str.split, (everything, shop, warehouse))}
    assert sent["everything"] > 3 * sent["shop"] > 3 * sent["warehouse"] > 0
    assert law.startswith("law: every site has what its filter keeps")
    assert list((tmp_path / "tmp").iterdir()) == []
