"""The wheel: what it holds, and a first command that compiles nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import dumpfilter
from tests.support import DATA

ROOT = Path(dumpfilter.__file__).parents[1]


def test_the_first_command_of_a_wheel_compiles_nothing(tmp_path: Path) -> None:
    checkout = tmp_path / "checkout"
    ignored = shutil.ignore_patterns(".*", "build", "dist", "bench", "tests", "docs", "demo", "*.egg-info")
    shutil.copytree(ROOT, checkout, symlinks=True, ignore=ignored)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--wheel-dir", tmp_path, checkout], check=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as file:
        file.extractall(tmp_path / "installed")
    done = subprocess.run(
        [sys.executable, "-m", "dumpfilter", "inspect", DATA / "oracle" / "mysql-row"],
        cwd=tmp_path / "installed",
        env=os.environ | {"PYTHONPATH": str(tmp_path / "installed")},
        check=True,
        capture_output=True,
        text=True,
    )
    assert "transactions" in done.stdout
    assert not done.stderr
