"""The notice that this process compiles. A command says it once, because a first compilation can take a minute."""

from __future__ import annotations

from collections.abc import Callable

TEXT = (
    "compiling for this machine, once after an installation; this can take a minute "
    "(python -m dumpfilter.compile does it beforehand)"
)


class _State:
    tell: Callable[[], object] | None = None
    is_chosen = False
    """Whether anybody has said whom to tell, or that nobody shall be told."""


def on_compilation(tell: Callable[[], object] | None) -> None:
    """Call ``tell`` once, at the beginning of the next compilation. None calls nothing."""
    _State.tell, _State.is_chosen = tell, True


def on_compilation_by_default(tell: Callable[[], object]) -> None:
    """Call ``tell`` at the next compilation, unless :func:`on_compilation` has been called before."""
    if not _State.is_chosen:
        on_compilation(tell)


def told_once() -> None:
    """Tell that a compilation begins, unless this process has told it already."""
    tell, _State.tell = _State.tell, None
    if tell is not None:
        tell()
