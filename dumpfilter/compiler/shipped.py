"""Compiled kernels that a wheel brings: where numba looks for them, and which files of a checkout are worth shipping.

``make wheel`` puts the cache files beside the modules into the wheel. numba uses them where it may write beside the
modules. Elsewhere (an installation by root, a service with ``NUMBA_CACHE_DIR``) the locators below copy them into the
cache directory first. An entry is valid for equal text of the module, wherever and whenever it was installed.
"""

from __future__ import annotations

import functools
import hashlib
import os
import pickle
import shutil
from collections.abc import Iterator
from pathlib import Path

import numba
from numba.core import caching

_PACKAGE = Path(__file__).parents[1]

_INDEX, _DATA = ".nbi", ".nbc"
"""The ends of the names of numba's two kinds of cache files: a function's index, and the code for one signature."""


@functools.cache
def _copy_kernels(shipped: Path, cache: Path) -> None:
    """Copy cache files that are newer than the cache's own. An index comes after the code that it names."""
    for end in (_DATA, _INDEX):
        for file in shipped.glob(f"*{end}"):
            target = cache / file.name
            if not target.exists() or target.stat().st_mtime < file.stat().st_mtime:
                beside = target.with_name(f"{target.name}.{os.getpid()}")
                shutil.copy2(file, beside)
                beside.replace(target)


class _WithShipped:
    """A part of a locator: a cache directory that begins with the kernels that were installed with the module."""

    _py_file: str

    def ensure_cache_path(self) -> None:
        super().ensure_cache_path()  # type: ignore[misc]  # of numba's locators
        module = Path(self._py_file)
        if module.is_relative_to(_PACKAGE):
            _copy_kernels(module.parent / "__pycache__", Path(self.get_cache_path()))  # type: ignore[attr-defined]


class Provided(_WithShipped, caching.UserProvidedCacheLocator):
    """The directory ``NUMBA_CACHE_DIR``."""


class OfUser(_WithShipped, caching.UserWideCacheLocator):
    """The user's cache directory, for modules in a directory that the user must not write to."""


LOCATORS = f"{__name__}.Provided,InTreeCacheLocator,{__name__}.OfUser,IPythonCacheLocator,ZipCacheLocator"
"""A value of numba's setting ``CACHE_LOCATOR_CLASSES``: numba's order, with the two locators of this module."""


def stale_kernels(package: Path = _PACKAGE) -> Iterator[Path]:
    """Yield the cache files below a package that this version of numba would not load."""
    for directory in package.rglob("__pycache__"):
        current: set[str] = set()
        for index in directory.glob(f"*{_INDEX}"):
            module = directory.parent / f"{index.name.split('.')[0]}.py"
            with index.open("rb") as file:
                if pickle.load(file) == numba.__version__ and module.exists():
                    stamp, overloads = pickle.load(file)
                    if stamp == hashlib.sha256(module.read_bytes()).digest():
                        current.update((index.name, *overloads.values()))
        for file_ in directory.glob("*.nb[ic]"):
            if file_.name not in current:
                yield file_


if __name__ == "__main__":
    for file in list(stale_kernels()):
        file.unlink()
