"""Kernels that a wheel brings: numba finds them in another cache directory, and old cache files are told apart."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import dumpfilter
from dumpfilter.base.compiler import shipped
from dumpfilter.base.compiler.shipped import _digest, stale_kernels

ROOT = Path(dumpfilter.__file__).parents[1]

CHECKSUM = """
import numpy as np
from dumpfilter.binlog.crc32 import crc32
data = np.frombuffer(b"123456789", np.uint8)
print(hex(crc32(np.uintp(data.ctypes.data), np.uintp(9))), sum(crc32.stats.cache_misses.values()))
"""

KERNEL = """
import dumpfilter.base.compiler.kernels
from collections import namedtuple
from numba import njit
Pair = namedtuple("{0}", "a b")
import sys
sys.modules["one"] = sys.modules["__main__"]
@njit(cache=True)
def f(pair):
    return pair.a + {1}
print(f(Pair(1, 2)))
"""


def python(code: str, **environment: str) -> str:
    """Run Python code in the checkout, and return what it prints."""
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=os.environ | environment,
        check=True,
        capture_output=True,
        text=True,
    ).stdout


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    """Compile the kernel in a checkout that is not warm."""
    python(CHECKSUM)


def test_a_given_cache_directory_begins_with_the_shipped_kernels(tmp_path: Path) -> None:
    assert python(CHECKSUM, NUMBA_CACHE_DIR=str(tmp_path)) == "0xcbf43926 0\n"


def test_a_user_who_may_not_write_to_the_package_gets_the_shipped_kernels(tmp_path: Path) -> None:
    code = "from numba.core import caching; caching.InTreeCacheLocator.from_function = lambda *_: None\n"
    home = {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    assert python(code + CHECKSUM, **home) == "0xcbf43926 0\n"
    assert list((tmp_path / "cache").rglob("crc32.crc32-*.nbc"))


def test_kernels_of_another_text_are_stale(tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    module = package / "one.py"

    def compiled(text: str) -> set[Path]:
        module.write_text(text)
        subprocess.run(
            [sys.executable, "-B", module],
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            check=True,
            capture_output=True,
        )
        return set(package.rglob("*.nb[ic]"))

    first = compiled(KERNEL.format("Pair", 1))
    assert len(first) == 2
    assert not list(stale_kernels(package))
    # The function has the same name and line as before, and the type of its argument is gone.
    second = compiled(KERNEL.format("Couple", 2))
    assert second > first
    _digest.cache_clear()
    assert set(stale_kernels(package)) == first
    module.unlink()
    assert set(stale_kernels(package)) == second


def test_a_change_of_an_imported_module_makes_kernels_stale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernels = "from dumpfilter.base.compiler.kernels import njit\n"
    texts = {
        "caller.py": f"{kernels}from dumpfilter.low.called import g\nfrom dumpfilter.low import constants as C\n",
        "low/called.py": f"{kernels}from dumpfilter.low.lowest import h\n",
        "low/lowest.py": "h = 1\n",
        "low/constants.py": "SIZE = 1\n",
        "other.py": "",
    }
    (tmp_path / "low").mkdir()
    monkeypatch.setattr(shipped, "_PACKAGE", tmp_path)

    def digest(changed: str = "") -> str:
        for name, text in texts.items():
            (tmp_path / name).write_text(text + "# changed\n" * (name == changed))
        shipped._digest.cache_clear()
        return shipped._digest(tmp_path / "caller.py")

    digests = {name: digest(name) for name in ("", *texts)}
    shipped._digest.cache_clear()
    assert digests.pop("other.py") == digests[""]
    assert len(set(digests.values())) == len(digests)
