"""The decorator of all compiled functions (kernels). Modules import ``njit`` from here instead of from numba.

numba keeps compiled code in a cache beside the modules, or in the user's cache directory. Only the first run after an
installation, an upgrade or a change of the processor compiles.
"""

from __future__ import annotations

from numba import njit  # noqa: TID251 (other modules import it from here)
from numba.core import event

from dumpfilter.compiler.notice import told_once

__all__ = ["COMPILATION", "inlined", "kernel", "njit"]

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
