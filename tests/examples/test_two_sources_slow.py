"""The example of a replica with two sources."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "two-sources"


def test_the_head_office_has_the_orders_of_both_branches() -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLE / "two_sources.py")],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told = done.stdout.splitlines()
    assert told[:3] == [
        "hq has 400 orders of north",
        "hq has 400 orders of south",
        "hq has no database staff",
    ]
    written, applied = (
        told[3].removeprefix("the branches wrote up to GTIDs ").split(", and hq has applied up to ")
    )
    assert written == applied
    assert told[-1].startswith("the law holds")
