"""The notice that this process compiles kernels. A command shows it once, because a first compilation can take a
minute.
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


def on_compilation(tell: Callable[[], object] | None) -> None:
    """Call ``tell`` once, when the next compilation of kernels begins. None calls nothing."""
    _State.tell, _State.is_chosen = tell, True


def on_compilation_by_default(tell: Callable[[], object]) -> None:
    """Call ``tell`` when the next compilation of kernels begins, unless :func:`on_compilation` has been called
    before.
    """
    if not _State.is_chosen:
        on_compilation(tell)


def told_once() -> None:
    """Call the function given to :func:`on_compilation`, if it has not been called yet, because a compilation
    begins.
    """
    tell, _State.tell = _State.tell, None
    if tell is not None:
        tell()
