"""The wheel: it brings compiled kernels, and needs no numba."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import dumpfilter
from tests.support import DATA

ROOT = Path(dumpfilter.__file__).parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of the checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    checkout = folder / "checkout"
    ignored = shutil.ignore_patterns(".*", "build", "dist", "bench", "tests", "docs", "demo", "*.egg-info")
    shutil.copytree(ROOT, checkout, symlinks=True, ignore=ignored)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--wheel-dir", folder, checkout], check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def test_it_is_for_one_platform_and_requires_no_compiler(wheel: Path) -> None:
    assert not wheel.name.endswith("-none-any.whl")
    with zipfile.ZipFile(wheel) as file:
        (metadata,) = (name for name in file.namelist() if name.endswith("METADATA"))
        required = [line for line in file.read(metadata).decode().splitlines() if "Requires-Dist" in line]
    assert "Requires-Dist: numpy" in required
    assert not any("numba" in line and "extra" not in line for line in required)


def test_its_first_command_compiles_nothing(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as file:
        file.extractall(tmp_path / "installed")
    code = "import sys; sys.modules['numba'] = sys.modules['llvmlite'] = None; from dumpfilter.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "inspect", DATA / "oracle" / "mysql-row"],
        cwd=tmp_path / "installed",
        env=os.environ | {"PYTHONPATH": str(tmp_path / "installed")},
        check=True,
        capture_output=True,
        text=True,
    )
    assert "transactions" in done.stdout
    assert not done.stderr
