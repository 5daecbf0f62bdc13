"""The notice to the user that this process compiles kernels (compiled functions). The notice is shown once, because a
first compilation can take a minute.
"""

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


class _State:
    tell: Callable[[], object] | None = _print


def on_compilation(tell: Callable[[], object] | None) -> None:
    """Set the function that is called once, when this process begins to compile kernels (numba functions).

    A compilation can take a minute, and the function tells the user why the program waits. By default it prints to
    standard error. None: nothing is called.
    """
    _State.tell = tell


def told_once() -> None:
    """Call the function that :func:`on_compilation` has set, which tells the user that functions are being compiled.

    The compiler calls this when it begins. Only the first call has an effect.
    """
    tell, _State.tell = _State.tell, None
    if tell is not None:
        tell()
