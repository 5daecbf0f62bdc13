"""The example of a chain with a real replica at its end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "chain"


def test_the_replica_at_the_end_has_what_its_filter_says() -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLE / "chain.py")], capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told = done.stdout.splitlines()
    assert told[-1].startswith("the law holds")
    assert "tokyo has 900 orders, and of shop and audit only shop" in told
    # Only a small part of the binlog crosses the line.
    received, sent = (int(line.split()[-2].replace(",", "")) for line in told[:2])
    assert sent < received / 3
