"""The decorator of all compiled functions (kernels). Modules import ``njit`` from here instead of from numba.

numba keeps compiled code in a cache: in the directory ``NUMBA_CACHE_DIR``, beside the modules, or in the user's cache
directory. An entry is valid for a module's text, a version of numba and a processor. On x86-64 the kernels are compiled
for the level x86-64-v3 with carry-less multiplication, which processors have had since 2013. So the cache that a wheel
brings is valid on other machines (``make wheel``, :mod:`dumpfilter.base.compiler.shipped`). Another processor compiles.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from typing import Any

import numba
from llvmlite import binding as llvm
from numba.core import caching, event
from numba.core.runtime import _nrt_python  # type: ignore[attr-defined]  # a compiled module

from dumpfilter.base.compiler.notice import told_once
from dumpfilter.base.compiler.shipped import LOCATORS

__all__ = ["COMPILATION", "HAS_CLMUL", "inlined", "kernel", "njit"]

_FEATURES = llvm.get_host_cpu_features()

_LEVEL_3 = ("avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "popcnt", "sse4.2")
"""Features that distinguish x86-64-v3 from x86-64 (System V ABI, "Micro-Architecture Levels")."""

HAS_CLMUL = platform.machine() == "x86_64" and bool(_FEATURES.get("pclmul")) and bool(_FEATURES.get("sse4.1"))
"""Whether this CPU has carry-less multiplication (x86's PCLMULQDQ). Without it, CRC32 uses tables."""

_CONFIG: Any = numba.config
"""numba's settings, whose types are unknown."""

_CONFIG.CACHE_LOCATOR_CLASSES = _CONFIG.CACHE_LOCATOR_CLASSES or LOCATORS
if HAS_CLMUL and not _CONFIG.CPU_NAME and all(_FEATURES.get(name) for name in _LEVEL_3):
    _CONFIG.CPU_NAME, _CONFIG.CPU_FEATURES = "x86-64-v3", "+pclmul"

COMPILATION = "numba:compile"
"""The name of numba's event for a compilation. Code that comes from the cache makes no such event."""


class _KernelCache(caching.FunctionCache):
    """The cache of one kernel. It loads compiled code without the preparation that a compilation needs.

    numba prepares its compiler before it reads a cache: it imports the rules for all of Python and NumPy, and compiles
    its reference counts. That costs every process 0.3 s and 36 MB. A compilation still prepares it.
    """

    def load_overload(self, sig: object, target_context: Any) -> Any:
        with self._guard_against_spurious_io_errors():
            return self._load_overload(sig, target_context)  # type: ignore[no-untyped-call]


for _name, _address in _nrt_python.c_helpers.items():
    # Compiled code calls these functions by name. numba adds the names with its reference counts.
    llvm.add_symbol(_name if _name.startswith("_") else f"NRT_{_name}", _address)


def njit(
    function: Callable[..., Any] | None = None, /, *, cache: bool = False, **options: Any
) -> Callable[..., Any]:
    """Compile a function as numba's ``njit`` does, or return a decorator that does so.

    ``cache``: keep the compiled code for other processes. ``options`` are those of numba's ``njit``.
    """
    decorate = numba.njit(**options)  # noqa: TID251 (other modules import njit from here)

    def compiled(function: Callable[..., Any]) -> Any:
        dispatcher: Any = decorate(function)
        if cache:
            dispatcher._cache = _KernelCache(function)  # type: ignore[no-untyped-call]
        return dispatcher

    return compiled if function is None else compiled(function)


kernel = njit(cache=True, nogil=True, _nrt=False)
"""A decorator that compiles a function with numba, without numba's reference counts of arrays.

The option ``_nrt`` is private to numba. It is safe for a function that neither creates nor stores arrays, because the
function's callers hold the arrays. With reference counts the decision of a dump takes 15 to 30 % longer.
"""

inlined = njit(inline="always")
"""A decorator for a small compiled function, whose code numba inserts into each caller to save the cost of calls."""


class _Announcer(event.Listener):
    def on_start(self, event: object) -> None:
        told_once()

    def on_end(self, event: object) -> None:
        pass


event.register(COMPILATION, _Announcer())  # type: ignore[no-untyped-call]  # numba has no types
