"""The decorator of all compiled functions (kernels). Modules import ``njit`` from here instead of from numba.

numba keeps compiled code in a cache: in the directory ``NUMBA_CACHE_DIR``, beside the modules, or in the user's cache
directory. An entry is valid for a module's text, a version of numba and a processor. On x86-64 the kernels are compiled
for the level x86-64-v3 with carry-less multiplication, which processors have had since 2013. So the cache that a wheel
brings is valid on other machines (``make wheel``, :mod:`dumpfilter.base.compiler.shipped`). Another processor compiles.
"""

from __future__ import annotations

import platform
from typing import Any

from llvmlite import binding as llvm
from numba import config, njit  # noqa: TID251 (other modules import it from here)
from numba.core import event

from dumpfilter.base.compiler.notice import told_once
from dumpfilter.base.compiler.shipped import LOCATORS

__all__ = ["COMPILATION", "HAS_CLMUL", "inlined", "kernel", "njit"]

_FEATURES = llvm.get_host_cpu_features()

_LEVEL_3 = ("avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "popcnt", "sse4.2")
"""Features that distinguish x86-64-v3 from x86-64 (System V ABI, "Micro-Architecture Levels")."""

HAS_CLMUL = platform.machine() == "x86_64" and bool(_FEATURES.get("pclmul")) and bool(_FEATURES.get("sse4.1"))
"""Whether this CPU has carry-less multiplication (x86's PCLMULQDQ). Without it, CRC32 uses tables."""

_CONFIG: Any = config
"""numba's settings, whose types are unknown."""

_CONFIG.CACHE_LOCATOR_CLASSES = _CONFIG.CACHE_LOCATOR_CLASSES or LOCATORS
if HAS_CLMUL and not _CONFIG.CPU_NAME and all(_FEATURES.get(name) for name in _LEVEL_3):
    _CONFIG.CPU_NAME, _CONFIG.CPU_FEATURES = "x86-64-v3", "+pclmul"

COMPILATION = "numba:compile"
"""The name of numba's event for a compilation. Code that comes from the cache makes no such event."""

# Numba's types do not name the option.
kernel = njit(cache=True, nogil=True, _nrt=False)  # type: ignore[call-overload]
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
