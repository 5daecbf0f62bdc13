"""The files of compiled kernels: one extension module (``.so``) for each Python module with kernels. This module finds
them, and tells which are valid.

A kernel is a Python function that numba compiles to machine code. An extension module is valid for the source texts
that its code comes from, a version of Python and a type of processor. The file name of an extension module has a digest
of the texts and the type of processor. This module needs the standard library alone, since ``setup.py`` imports it.
"""

from __future__ import annotations

import contextlib
import functools
import glob
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
"""The pattern of an import line that only modules with kernels (compiled functions), or with functions that kernels
call, have.
"""

_HASWELL = {"avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "popcnt", "sse4_2", "pclmulqdq"}
"""The flags in /proc/cpuinfo that a processor needs to run functions compiled for Intel's Haswell (2013). AMD's
processors have these flags since Excavator (2015).
"""


def _cpu() -> str:
    """Return LLVM's name for the type of processor for which functions are compiled here: ``"haswell"``, or ``""`` for
    any processor of this architecture.
    """
    if platform.machine() != "x86_64":
        return ""
    try:
        found = re.search(r"^flags\s*:(.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        return ""
    return "haswell" if found and set(found[1].split()) >= _HASWELL else ""


CPU = _cpu()


def modules() -> list[Path]:
    """Return the source files of the modules with kernels (compiled functions), largest first, since these take longest
    to compile.
    """
    found = [
        file
        # Unlike Path.rglob, glob follows the links to the folders of master, slave and jobs.
        for file in map(Path, glob.iglob(f"{glob.escape(str(PACKAGE))}/**/*.py", recursive=True))
        if _HAS_KERNELS.search(text := file.read_bytes()) and b"\n@kernel\n" in text
    ]
    return sorted(found, key=lambda file: -file.stat().st_size)


def beside(file: Path) -> Path:
    """Return the path in ``__pycache__`` of the extension module (``.so``) that is valid for a Python source file,
    which means compiled from its present text.

    The extension module may not exist yet. ``make wheel`` packs it from this path.
    """
    return next(directories(file)) / file_name(file)


def directories(file: Path) -> Iterator[Path]:
    """Yield the directories in which the compiled form (``.so``) of a Python source file may be.

    The directories are ``__pycache__`` beside the source file, and then the user's cache.
    """
    yield file.parent / "__pycache__"
    cache = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))
    if cache.is_absolute():  # A user without a home has none.
        yield cache.joinpath("dumpfilter", *file.relative_to(PACKAGE).parent.parts)


def writable(file: Path) -> Path:
    """Return the first directory to which this process may write, of those that may hold the compiled form (``.so``) of
    a Python source file (:func:`directories`).

    Missing directories are created. Raises OSError if no directory can be written to.
    """
    for directory in directories(file):
        with contextlib.suppress(OSError):
            directory.mkdir(parents=True, exist_ok=True)
        if os.access(directory, os.W_OK):
            return directory
    raise OSError(f"{directory} cannot be written to, so that there is no place for compiled code")


def find(file: Path) -> Path | None:
    """Return the path of the extension module (``.so``) that was compiled from the present text of a Python source
    file. Return None if there is none yet.
    """
    name = file_name(file)
    return next((path for one in directories(file) if (path := one / name).is_file()), None)


def file_name(file: Path) -> str:
    """Return the name of the extension module (``.so``) that is valid for a Python source file, which means compiled
    from its present text.

    The name has a digest of the texts that the compiled code comes from.
    """
    return f"{file.stem}.{_digest(file)}{SUFFIX}"


def is_stale(extension: Path, file: Path) -> bool:
    """Tell whether the extension module ``extension`` (``.so``), or its object file (``.so.o``), was compiled from an
    older text of the Python source ``file``, for this version of Python. A stale file can be deleted.
    """
    is_of = extension.name.startswith(f"{file.stem}.") and extension.name.removesuffix(".o").endswith(SUFFIX)
    return is_of and extension.name != file_name(file)


@functools.cache
def _digest(module: Path) -> str:
    """Return a short digest of the type of processor, and of the texts that the machine code of a module depends on.

    The texts are those of ``build.py``, of the module, and of the modules of dumpfilter that the module imports. An
    imported module with kernels (compiled functions) counts with its own digest instead of its text.
    """
    text = module.read_bytes()
    found = hashlib.sha256(CPU.encode() + _BUILD.read_bytes() + text)
    for imported in _imported(text):
        other = imported.read_bytes()
        found.update(_digest(imported).encode() if _HAS_KERNELS.search(other) else other)
    return found.hexdigest()[:12]


def _imported(text: bytes) -> Iterator[Path]:
    """Yield the source files of dumpfilter that a module's text imports at the beginning of a line."""
    for package, name in _IMPORT.findall(text):
        path = PACKAGE.joinpath(*package.decode().split("."))
        for file in (path / f"{name.decode()}.py", path.with_suffix(".py")):
            if file.is_file():
                yield file
                break
