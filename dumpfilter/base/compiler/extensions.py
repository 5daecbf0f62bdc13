"""The extension modules that hold the machine code of kernels: where they lie, and which are valid.

An extension module is valid for the texts that its code comes from, a version of Python and a kind of processor. Its
name has a digest of the texts and the kind of processor. This module needs the standard library alone, since
``setup.py`` imports it.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.machinery
import os
import platform
import re
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[2]
_BUILD = Path(__file__).with_name("build.py")
SUFFIX = importlib.machinery.EXTENSION_SUFFIXES[0]
_IMPORT = re.compile(rb"^from dumpfilter\.([\w.]+) import (\w*)", re.MULTILINE)

_HAS_KERNELS = re.compile(rb"^from dumpfilter\.base\.compiler\.kernels import", re.MULTILINE)
"""A line in the text of all modules with kernels, or with functions for kernels, and of no other."""

_HASWELL = {"avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "popcnt", "sse4_2", "pclmulqdq"}
"""Flags in /proc/cpuinfo of x86-64 processors since Intel's Haswell (2013) and AMD's Excavator (2015)."""


def _cpu() -> str:
    """Return LLVM's name for the kind of processor: ``"haswell"``, or ``""`` for any of this architecture."""
    if platform.machine() != "x86_64":
        return ""
    try:
        found = re.search(r"^flags\s*:(.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        return ""
    return "haswell" if found and set(found[1].split()) >= _HASWELL else ""


CPU = _cpu()
HAS_CLMUL = bool(CPU)
"""Whether the kernels use carry-less multiplication (x86's PCLMULQDQ). Without it, CRC32 uses tables."""


def modules() -> list[Path]:
    """Return the files of the modules with kernels, those that take longest to compile first."""
    found = [
        file
        for file in PACKAGE.rglob("*.py")
        if _HAS_KERNELS.search(text := file.read_bytes()) and b"\n@kernel\n" in text
    ]
    return sorted(found, key=lambda file: -file.stat().st_size)


def beside(file: Path) -> Path:
    """Return the first place of the valid extension module of a module's file, from which a wheel takes it."""
    return next(directories(file)) / file_name(file)


def directories(file: Path) -> Iterator[Path]:
    """Yield the directories for the extension module of a module's file: beside the module, and the user's cache."""
    yield file.parent / "__pycache__"
    cache = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))
    if cache.is_absolute():  # A user without a home has none.
        yield cache.joinpath("dumpfilter", *file.relative_to(PACKAGE).parent.parts)


def find(file: Path) -> Path | None:
    """Return the valid extension module of a module's file, or None."""
    name = file_name(file)
    return next((path for one in directories(file) if (path := one / name).is_file()), None)


def file_name(file: Path) -> str:
    """Return the name of the extension module of a module's file. The texts that its code comes from give the name."""
    return f"{file.stem}.{_digest(file)}{SUFFIX}"


def is_stale(extension: Path, file: Path) -> bool:
    """Return whether a file is an extension module of a module's earlier text, for the same Python."""
    is_of = extension.name.startswith(f"{file.stem}.") and extension.name.endswith(SUFFIX)
    return is_of and extension.name != file_name(file)


@functools.cache
def _digest(module: Path) -> str:
    """Return a short digest of the kind of processor, and of the texts that the machine code depends on.

    These are the compiler's text, the module's, those of the modules of this package that it imports, and in turn those
    that a module with kernels imports.
    """
    text = module.read_bytes()
    found = hashlib.sha256(CPU.encode() + _BUILD.read_bytes() + text)
    for imported in _imported(text):
        other = imported.read_bytes()
        found.update(_digest(imported).encode() if _HAS_KERNELS.search(other) else other)
    return found.hexdigest()[:12]


def _imported(text: bytes) -> Iterator[Path]:
    """Yield the modules of this package that a module's text imports at the beginning of a line."""
    for package, name in _IMPORT.findall(text):
        path = PACKAGE.joinpath(*package.decode().split("."))
        for file in (path / f"{name.decode()}.py", path.with_suffix(".py")):
            if file.is_file():
                yield file
                break
