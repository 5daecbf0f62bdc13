"""Packages that only some commands need: the others run without them, and these say what to install."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import DATA

RUN = """
import sys
sys.modules["pyarrow"] = sys.modules["pandas"] = sys.modules["pyspark"] = None  # as if they were not installed
from dumpfilter.cli import main
sys.argv = ["dumpfilter", *sys.argv[1:]]
main()
"""

IMPORTS = """
import sys
import dumpfilter.harness.plugin, dumpfilter.testbed.bed, dumpfilter.master.process, dumpfilter.slave.process
import dumpfilter.testbed.experiment
print([name for name in ("pyarrow", "pandas", "pyspark") if name in sys.modules])
"""

BINLOGS = DATA / "oracle" / "mysql-row"


def python(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    "command", [("inspect",), ("explain", "--replicate-do-db=shop"), ("lint", "--replicate-do-db=shop")]
)
def test_a_first_look_needs_no_large_package(command: tuple[str, ...]) -> None:
    done = python(RUN, command[0], BINLOGS, *command[1:])
    assert done.returncode in (0, 4), done.stderr
    assert done.stdout
    assert "not installed" not in done.stderr


def test_a_simulation_needs_no_large_package(tmp_path: Path) -> None:
    done = python(
        RUN, "simulate", "m >> web", f"--binlog={BINLOGS}", "--engine=local", f"--output={tmp_path / 'out'}"
    )
    assert done.returncode == 0, done.stderr


def test_a_command_names_the_package_that_it_lacks() -> None:
    done = python(RUN, "suggest", BINLOGS)
    assert done.returncode == 1
    assert done.stderr == (
        "dumpfilter: this needs pyarrow, which is not installed: pip install 'dumpfilter[analysis]'\n"
    )


def test_a_relay_and_a_harness_load_no_large_package() -> None:
    assert python(IMPORTS).stdout == "[]\n"
