"""The unit for systemd: it names the program of this installation, and systemd finds no fault with it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from dumpfilter.commands.systemd_unit import UNIT
from tests.commands.in_process import run
from tests.docs.tutorial import ROOT

MOST_EXPOSED = 20
"""The highest exposure level of ``systemd-analyze security``, in tenths, that the sandbox may have."""


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    done = run("systemd-unit")
    assert done.returncode == 0, done.stderr
    path = tmp_path / UNIT
    path.write_text(done.stdout)
    return path


def analyze(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = ["systemd-analyze", "--no-pager", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_unit_starts_the_program_of_this_installation(unit: Path) -> None:
    (start,) = re.findall(r"^ExecStart=(\S+) (.*)$", unit.read_text(), re.MULTILINE)
    assert subprocess.run([start[0], "--version"], capture_output=True, check=False).returncode == 0
    assert start[1] == "master --defaults-file=/etc/dumpfilter/my.cnf"
    assert "@" not in re.sub(r"[~=]@\w", "", unit.read_text()), "a place in the template is not filled"


def test_a_path_with_spaces_and_percent_signs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = tmp_path / "50% of my tools"
    directory.mkdir()
    for name in ("python", "dumpfilter"):
        (directory / name).touch(0o755)
    monkeypatch.setattr(sys, "executable", str(directory / "python"))
    path = tmp_path / UNIT
    path.write_text(run("systemd-unit").stdout)
    done = analyze("verify", path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_path_that_systemd_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my's").mkdir()
    (tmp_path / "my's" / "dumpfilter").touch()
    monkeypatch.setattr(sys, "executable", str(tmp_path / "my's" / "python"))
    done = run("systemd-unit")
    assert (done.returncode, done.stdout) == (2, "")
    assert "/my's/dumpfilter: systemd starts no program" in done.stderr


def test_systemd_understands_the_unit(unit: Path) -> None:
    done = analyze("verify", unit)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    unit.write_text(unit.read_text().replace("ProtectSystem=strict", "ProtectSystem=stict"))
    assert "stict" in analyze("verify", unit).stderr, "the test cannot fail"


def test_the_sandbox_is_tight(unit: Path) -> None:
    def is_tight() -> bool:
        return analyze("security", "--offline=true", f"--threshold={MOST_EXPOSED}", unit).returncode == 0

    assert is_tight()
    unit.write_text(unit.read_text().replace("CapabilityBoundingSet=\n", ""))
    assert not is_tight(), "the test cannot fail"


def test_the_unit_is_part_of_the_wheel() -> None:
    import tomllib

    packages = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    assert any(Path(UNIT).match(pattern) for pattern in packages["dumpfilter.commands"])
