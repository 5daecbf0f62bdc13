"""Compiled kernels that a wheel brings: where numba looks for them, and which files of a checkout are worth shipping.

``make wheel`` puts the cache files beside the modules into the wheel. numba uses them where it may write beside the
modules. Elsewhere (an installation by root, a service with ``NUMBA_CACHE_DIR``) the locators below copy them into the
cache directory first. An entry is valid for equal texts of the module and of those that it imports, wherever and
whenever they were installed.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from numba.core import caching

_PACKAGE = Path(__file__).parents[2]

_HAS_KERNELS = b"dumpfilter.base.compiler.kernels import"
_IMPORT = re.compile(rb"^from dumpfilter\.([\w.]+) import (\w*)", re.MULTILINE)

_INDEX, _DATA = ".nbi", ".nbc"
"""The ends of the names of numba's two kinds of cache files: a function's index, and the code for one signature."""


@functools.cache
def _copy_kernels(shipped: Path, cache: Path) -> None:
    """Copy cache files that the cache lacks. An index comes after the code that it names."""
    for end in (_DATA, _INDEX):
        for file in shipped.glob(f"*{end}"):
            target = cache / file.name
            if not target.exists():
                beside = target.with_name(f"{target.name}.{os.getpid()}")
                shutil.copy2(file, beside)
                beside.replace(target)


@functools.cache
def _digest(module: Path) -> str:
    """Return a short digest of a module's text, and of the texts whose code and constants its kernels contain.

    numba writes constants of other modules and inserted functions into the cache of the function that uses them, and
    does not notice their change. The digest therefore covers the imported modules of this package, and in turn those
    that a module with kernels imports.
    """
    text = module.read_bytes()
    found = hashlib.sha256(text)
    for imported in _imported(text):
        other = imported.read_bytes()
        found.update(_digest(imported).encode() if _HAS_KERNELS in other else other)
    return found.hexdigest()[:12]


def _imported(text: bytes) -> Iterator[Path]:
    """Yield the modules of this package that a module's text imports at the beginning of a line."""
    for package, name in _IMPORT.findall(text):
        path = _PACKAGE.joinpath(*package.decode().split("."))
        for file in (path / f"{name.decode()}.py", path.with_suffix(".py")):
            if file.is_file():
                yield file
                break


class _ByText:
    """A part of a locator: the names of cache files have a digest of the texts that their code comes from.

    An upgrade therefore meets no cache file of another text.
    """

    _py_file: str
    _lineno: int

    def get_disambiguator(self) -> str:
        return f"{self._lineno}-{_digest(Path(self._py_file))}"


class _WithShipped(_ByText):
    """A part of a locator: a cache directory that begins with the kernels that were installed with the module."""

    def ensure_cache_path(self) -> None:
        super().ensure_cache_path()  # type: ignore[misc]  # of numba's locators
        module = Path(self._py_file)
        if module.is_relative_to(_PACKAGE):
            _copy_kernels(module.parent / "__pycache__", Path(self.get_cache_path()))  # type: ignore[attr-defined]


class Provided(_WithShipped, caching.UserProvidedCacheLocator):
    """The directory ``NUMBA_CACHE_DIR``."""


class Beside(_ByText, caching.InTreeCacheLocator):
    """The directory ``__pycache__`` beside the module, if the user may write to it."""


class OfUser(_WithShipped, caching.UserWideCacheLocator):
    """The user's cache directory, for modules in a directory that the user must not write to."""


LOCATORS = ",".join(
    (
        *(f"{__name__}.{one.__name__}" for one in (Provided, Beside, OfUser)),
        "IPythonCacheLocator",
        "ZipCacheLocator",
    )
)
"""A value of numba's setting ``CACHE_LOCATOR_CLASSES``: numba's order, with the locators of this module."""


def stale_kernels(package: Path = _PACKAGE) -> Iterator[Path]:
    """Yield the cache files below a package that belong to other texts."""
    for file in package.rglob("__pycache__/*.nb[ic]"):
        module = file.parents[1] / f"{file.name.partition('.')[0]}.py"
        if not module.exists() or f"-{_digest(module)}." not in file.name:
            yield file


if __name__ == "__main__":
    for file in list(stale_kernels()):
        file.unlink()
