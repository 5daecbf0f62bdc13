"""The decorator of all compiled functions (kernels). Modules import ``njit`` from here instead of from numba.

numba keeps compiled code in a cache beside the modules, or in the user's cache directory. Only the first run after an
installation, an upgrade or a change of the processor compiles.
"""

from __future__ import annotations

from numba import njit  # noqa: TID251 (other modules import it from here)
from numba.core import event

from dumpfilter.compiler.notice import told_once

__all__ = ["COMPILATION", "njit"]

COMPILATION = "numba:compile"
"""The name of numba's event for a compilation. Code that comes from the cache makes no such event."""


class _Announcer(event.Listener):
    def on_start(self, event: object) -> None:
        told_once()

    def on_end(self, event: object) -> None:
        pass


event.register(COMPILATION, _Announcer())  # type: ignore[no-untyped-call]  # numba has no types
