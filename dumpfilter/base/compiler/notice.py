"""The notice to the user that this process compiles kernels (compiled functions). It is shown once, because a first
compilation can take a minute.
"""

from __future__ import annotations

from collections.abc import Callable

TEXT = (
    "compiling for this machine, once after an installation; this can take a minute "
    "(python -m dumpfilter.compile does it beforehand)"
)


class _State:
    tell: Callable[[], object] | None = None
    is_chosen = False
    """Whether :func:`on_compilation` has set the function to call, or None."""


def on_compilation(tell: Callable[[], object] | None, *, by_default: bool = False) -> None:
    """Set the function that is called once, when this process begins to compile kernels (numba functions).

    A compilation can take a minute, and the function tells the user why the program waits. None: nothing is called.
    With ``by_default`` a function that was set before stays.
    """
    if not (by_default and _State.is_chosen):
        _State.tell, _State.is_chosen = tell, True


def told_once() -> None:
    """Call the function that :func:`on_compilation` has set, which tells the user that functions are being compiled.

    The compiler calls this when it begins. Only the first call has an effect.
    """
    tell, _State.tell = _State.tell, None
    if tell is not None:
        tell()
