"""The notice that this process compiles kernels."""

from __future__ import annotations

import numpy as np

from dumpfilter.base.compiler.kernels import njit
from dumpfilter.base.compiler.notice import on_compilation


def test_a_compilation_is_told_once() -> None:
    told: list[str] = []
    on_compilation(lambda: told.append("compiling"))

    @njit
    def doubled(values):  # type: ignore[no-untyped-def]  # numba finds the types
        return values * 2

    assert told == []
    assert doubled(np.arange(3)).tolist() == [0, 2, 4]
    assert told == ["compiling"]
    assert doubled(np.arange(3.0)).tolist() == [0, 2, 4]
    assert told == ["compiling"]


def test_nobody_needs_to_be_told() -> None:
    on_compilation(None)

    @njit
    def halved(value):  # type: ignore[no-untyped-def]  # numba finds the types
        return value // 2

    assert halved(6) == 3
