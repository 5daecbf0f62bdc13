"""Kernels that a wheel brings: numba finds them in another cache directory, and old cache files are told apart."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import dumpfilter
from dumpfilter.compiler.shipped import stale_kernels

ROOT = Path(dumpfilter.__file__).parents[1]

CHECKSUM = """
import numpy as np
from dumpfilter.binlog.crc32 import crc32
data = np.frombuffer(b"123456789", np.uint8)
print(hex(crc32(np.uintp(data.ctypes.data), np.uintp(9))), sum(crc32.stats.cache_misses.values()))
"""

KERNEL = "from numba import njit\n\n@njit(cache=True)\ndef f(a):\n    return a + {}\n\nf(1)\n"


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


def test_a_given_cache_directory_begins_with_the_shipped_kernels(tmp_path: Path) -> None:
    python(CHECKSUM)  # compiles the kernel in a checkout that is not warm
    assert python(CHECKSUM, NUMBA_CACHE_DIR=str(tmp_path)) == "0xcbf43926 0\n"


def test_a_user_who_may_not_write_to_the_package_gets_the_shipped_kernels(tmp_path: Path) -> None:
    python(CHECKSUM)
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
        subprocess.run([sys.executable, "-B", module], check=True)
        return set(package.rglob("*.nb[ic]"))

    first = compiled(KERNEL.format(1))
    assert len(first) == 2
    assert not list(stale_kernels(package))
    second = compiled("\n" + KERNEL.format(2))  # another line, so that the files have other names
    assert set(stale_kernels(package)) == first
    assert second > first
    module.unlink()
    assert set(stale_kernels(package)) == second


@pytest.mark.parametrize("kind", ["index", "data"])
def test_a_newer_kernel_replaces_a_copy(tmp_path: Path, kind: str) -> None:
    python(CHECKSUM)
    environment = {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    python(CHECKSUM, **environment)
    ending = {"index": "nbi", "data": "nbc"}[kind]
    (copy,) = (tmp_path / "cache").rglob(f"crc32.crc32-*.{ending}")
    shipped = next((ROOT / "dumpfilter/binlog/__pycache__").glob(copy.name))
    copy.write_bytes(b"old")
    os.utime(copy, (0, 0))
    assert python(CHECKSUM, **environment) == "0xcbf43926 0\n"
    assert copy.read_bytes() == shipped.read_bytes()
