"""The rules of a test run, tried on runs of small test files."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).parent / "conftest.py"


def run(directory: Path, *options: str, **files: str) -> subprocess.CompletedProcess[str]:
    """Run pytest on test files with the given texts. The run's temporary directory is made in ``directory/tmp``."""
    tests = directory / "tests"
    tests.mkdir()
    (directory / "tmp").mkdir()
    shutil.copy(CONFTEST, tests)
    for name, text in files.items():
        (tests / f"{name}.py").write_text(text)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-o",
        "addopts=",
        *options,
        "tests",
    ]
    environment = {**os.environ, "TMPDIR": str(directory / "tmp")}
    return subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, check=False
    )


def test_a_run_that_leaves_a_file_fails(tmp_path: Path) -> None:
    done = run(tmp_path, test_it="import tempfile\ndef test_it():\n    tempfile.mkstemp(prefix='left')\n")
    assert "FAILED: tests left 1 files in" in done.stdout
    assert done.returncode == pytest.ExitCode.TESTS_FAILED


def test_a_run_removes_its_directory(tmp_path: Path) -> None:
    done = run(tmp_path, test_it="def test_it(tmp_path):\n    (tmp_path / 'a').write_text('')\n")
    assert done.returncode == pytest.ExitCode.OK, done.stdout
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_quick_run_leaves_out_slow_files_and_programs(tmp_path: Path) -> None:
    starts = "import subprocess\ndef test_it():\n    subprocess.run(['mariadbd', '--version'], check=True)\n"
    done = run(tmp_path, "--quick", test_it=starts, test_it_slow="raise SystemExit\n")
    assert "a quick test starts mariadbd: move it to a file named test_…_slow.py" in done.stdout
    assert "1 failed" in done.stdout


def test_workers_begin_with_slow_files_and_take_whole_files(tmp_path: Path) -> None:
    body = "import pytest\n@pytest.mark.parametrize('number', range(4))\ndef test_it(number):\n    pass\n"
    workers = ("-n", "2", "--dist", "loadgroup", "--no-loadscope-reorder", "-vv")
    done = run(tmp_path, *workers, test_a=body, test_b=body, test_y_slow=body, test_z_slow=body)
    assert done.returncode == pytest.ExitCode.OK, done.stdout
    ran = re.findall(r"\[(gw\d)\].* PASSED tests/(test_\w+)\.py::", done.stdout)
    assert len(ran) == 16
    assert len(set(ran)) == 4
    first: dict[str, str] = {}
    for worker, file in ran:
        first.setdefault(worker, file)
    assert set(first.values()) <= {"test_y_slow", "test_z_slow"}
