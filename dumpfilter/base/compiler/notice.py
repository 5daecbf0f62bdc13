"""The notice to the user that this process compiles kernels (compiled functions), which can take a minute."""

from __future__ import annotations

import sys
from collections.abc import Callable

from dumpfilter.base import logs

TEXT = (
    "compiling for this machine, once after an installation; this can take a minute "
    "(python -m dumpfilter.compile does it beforehand)"
)


def _print() -> None:
    if logs.is_json():
        logs.logger("dumpfilter").warning("compiling", hint=TEXT)
    else:
        print(f"dumpfilter: {TEXT}", file=sys.stderr, flush=True)


tell: Callable[[], object] = _print
"""Called when this process begins to compile kernels (numba functions), to tell the user why the program waits. A
program may set another function, for example one that is silent.
"""
