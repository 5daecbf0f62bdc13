"""Runs of pytest with the plugin on small test files, and the processes that they leave."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PLUGIN = "dumpfilter.harness.plugin"
_LIMIT = 280.0
"""The limit of one run, seconds. It is below the limit of a test."""

_MARK = "DUMPFILTER_HARNESS_RUN"
"""The environment variable by which the processes of a run are found."""

_ALONE = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}

_OUTCOME = re.compile(r"^(PASSED|FAILED|ERROR|SKIPPED|XFAIL) (?:\[\d+\] )?(\S+)", re.MULTILINE)


@dataclass(frozen=True)
class Run:
    """The end of a run of pytest."""

    code: int
    text: str
    left: list[str]
    """The command lines of processes that the run has left behind."""

    @property
    def outcomes(self) -> dict[str, str]:
        """The outcome of each test by its name: PASSED, FAILED or ERROR."""
        return {name.rpartition("::")[2]: outcome for outcome, name in _OUTCOME.findall(self.text)}


def run_files(directory: Path, *options: str, environment: Mapping[str, str] = _ALONE, **files: str) -> Run:
    """Write test files with the given names and texts, and run pytest on them."""
    (directory / "pytest.ini").write_text("[pytest]\n")
    for name, text in files.items():
        (directory / f"{name}.py").write_text(text)
    return run_pytest(directory, *options, environment=environment)


def run_pytest(directory: Path, *options: str, environment: Mapping[str, str] = _ALONE) -> Run:
    """Run pytest in a directory.

    pytest loads the plugin alone, since the other installed ones take a second of processor time.
    """
    mark = str(directory.resolve())
    plugin = ["-p", PLUGIN] if environment.keys() & _ALONE.keys() else []
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *plugin, "-rA", "--color=no", *options],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(ROOT), _MARK: mark, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=_LIMIT,
    )
    return Run(done.returncode, done.stdout + done.stderr, _processes(f"{_MARK}={mark}"))


def _processes(variable: str) -> list[str]:
    """Return the command lines of processes that have this environment variable."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if variable.encode() in (process / "environ").read_bytes().split(b"\0"):
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue  # the process has ended, or is another user's
    return found
