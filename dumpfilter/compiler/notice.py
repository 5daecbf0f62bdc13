"""The notice that this process compiles. A command says it once, because a first compilation can take a minute."""

from __future__ import annotations

from collections.abc import Callable

TEXT = "compiling for this machine, once after an installation or an upgrade; this can take a minute"


class _State:
    tell: Callable[[], object] | None = None


def on_compilation(tell: Callable[[], object] | None) -> None:
    """Call ``tell`` once, at the beginning of the next compilation. None calls nothing."""
    _State.tell = tell


def told_once() -> None:
    """Tell that a compilation begins, unless this process has told it already."""
    tell, _State.tell = _State.tell, None
    if tell is not None:
        tell()
