"""Compiled kernels: which of them are valid, what is told without them, and the check of their arguments."""

from __future__ import annotations

import fcntl
import math
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np
import pytest

import dumpfilter
from dumpfilter.base.compiler import extensions
from dumpfilter.base.compiler.arrays import Bytes, Int64s
from dumpfilter.base.waiting import until
from tests.kernel_arguments import checked

PACKAGE = Path(dumpfilter.__file__).parent


class Pair(NamedTuple):
    bytes: Bytes
    count: int


def plain(pair: Pair, numbers: Int64s) -> int:
    return pair.count + len(numbers)


def test_arguments_of_the_right_types_pass() -> None:
    kernel = checked(plain, plain)
    assert kernel(Pair(np.zeros(2, np.uint8), 3), np.zeros(4, np.int64)) == 7
    assert kernel(Pair(np.zeros(2, np.uint8), np.int64(3)), np.zeros(0, np.int64)) == 3


@pytest.mark.parametrize(
    ("pair", "numbers", "reason"),
    [
        (Pair(np.zeros(2, np.int8), 3), np.zeros(4, np.int64), "plain: pair.bytes must have uint8 and 1 dim"),
        (Pair(np.zeros(2, np.uint8), 3), np.zeros((4, 1), np.int64), "plain: numbers must have int64 and 1"),
        (Pair(np.zeros(2, np.uint8), 3), np.zeros(8, np.int64)[::2], "plain: numbers is not contiguous"),
        (Pair(np.zeros(2, np.uint8), 3), [1, 2], "plain: numbers must have int64 and 1 dim"),
        ((np.zeros(2, np.uint8), 3), np.zeros(4, np.int64), "plain: pair must be a Pair"),
        (Pair(np.zeros(2, np.uint8), None), np.zeros(4, np.int64), "plain: pair.count must be a number"),
    ],
)
def test_other_arguments_are_refused(pair: Pair, numbers: Int64s, reason: str) -> None:
    with pytest.raises(TypeError, match=reason):
        checked(plain, plain)(pair, numbers)


def test_a_change_of_an_imported_module_makes_kernels_stale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = "from dumpfilter.base.compiler.kernels import kernel\n"
    texts = {
        "caller.py": f"{first}from dumpfilter.low.called import g\nfrom dumpfilter.low import constants as C\n",
        "low/called.py": f"{first}from dumpfilter.low.lowest import h\n",
        "low/lowest.py": "h = 1\n",
        "low/constants.py": "SIZE = 1\n",
        "other.py": "",
    }
    (tmp_path / "low").mkdir()
    monkeypatch.setattr(extensions, "PACKAGE", tmp_path)

    def name(changed: str = "") -> str:
        for file, text in texts.items():
            (tmp_path / file).write_text(text + "# changed\n" * (file == changed))
        extensions._digest.cache_clear()
        return extensions.file_name(tmp_path / "caller.py")

    names = {file: name(file) for file in ("", *texts)}
    assert names.pop("other.py") == names[""]
    assert len(set(names.values())) == len(names)
    now = name()
    assert extensions.is_stale(Path(names["caller.py"]), tmp_path / "caller.py")
    assert not extensions.is_stale(Path(now), tmp_path / "caller.py")
    # A killed compilation leaves its object file.
    assert extensions.is_stale(Path(f"caller.123{extensions.SUFFIX}.o"), tmp_path / "caller.py")
    extensions._digest.cache_clear()


def test_the_users_cache_is_the_second_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    module = PACKAGE / "dump" / "cut.py"
    beside, cache = extensions.directories(module)
    assert beside == PACKAGE / "dump" / "__pycache__"
    assert cache == tmp_path / "dumpfilter" / "dump"
    assert extensions.find(module) == beside / extensions.file_name(module)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package without compiled extensions."""
    folder = tmp_path_factory.mktemp("copy")
    shutil.copytree(PACKAGE, folder / "dumpfilter", ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def run(copy: Path, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    environment["PYTHONPATH"] = str(copy)
    return subprocess.run(
        [sys.executable, *command],
        env=os.environ | environment,
        cwd=copy,
        capture_output=True,
        text=True,
        check=False,
    )


def test_without_a_compiler_the_error_names_the_cure(copy: Path) -> None:
    done = run(copy, "-m", "dumpfilter", "inspect", "binlog.000001", CC="/bin/false")
    assert done.returncode == 1
    assert "compiling for this machine" in done.stderr
    assert "could not be compiled for this machine" in done.stderr
    assert "apt-get install gcc python3-dev" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_first_use_compiles(copy: Path) -> None:
    """Only one kernel is left to compile, since all take half a minute."""
    for file in PACKAGE.rglob("__pycache__/*.so"):
        if not file.name.startswith("whole_events."):
            target = copy / "dumpfilter" / file.relative_to(PACKAGE)
            target.parent.mkdir(exist_ok=True)
            shutil.copy2(file, target)
    stale = copy / "dumpfilter" / "binlog" / "__pycache__" / f"whole_events.0123{extensions.SUFFIX}"
    stale.touch()
    use = "from dumpfilter.binlog.whole_events import whole_events; import numpy, sys; "
    use += "print(whole_events(numpy.zeros(19, numpy.uint8), 0, 19, 19), 'numba' in sys.modules)"
    first = run(copy, "-c", use)
    assert first.stdout == "-1 False\n", first.stderr
    assert not stale.exists()
    assert run(copy, "-m", "dumpfilter.compile").stderr == "dumpfilter: all kernels were compiled before\n"


def test_a_killed_compilation_gives_up_the_lock(copy: Path, tmp_path: Path) -> None:
    """Workers of a killed process wait for its next task without end.

    The waits have no limit but the test's own, since a busy machine starts the workers late.
    """
    for file in copy.rglob("__pycache__/*.so"):
        file.unlink()
    command = [sys.executable, "-m", "dumpfilter.compile"]
    environment = os.environ | {"PYTHONPATH": str(copy), "TMPDIR": str(tmp_path)}
    compiling = subprocess.Popen(
        command, env=environment, cwd=copy, stderr=subprocess.DEVNULL, start_new_session=True
    )
    workers = Path(f"/proc/{compiling.pid}/task/{compiling.pid}/children")
    try:
        until(lambda: len(workers.read_text().split()) > 1, math.inf, TimeoutError)
        compiling.kill()
        compiling.wait()
        with (copy / "dumpfilter" / "__pycache__" / "compile.lock").open() as lock:
            until(lambda: _is_free(lock), math.inf, TimeoutError)
    finally:
        os.killpg(compiling.pid, signal.SIGKILL)


def _is_free(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
