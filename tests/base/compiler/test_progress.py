"""Lines about the progress of compilations."""

from __future__ import annotations

import numpy as np
import pytest

from dumpfilter.base.compiler import progress
from dumpfilter.base.compiler.kernels import njit
from dumpfilter.base.compiler.progress import compilations_told


def test_each_compilation_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_SECONDS", 0.0)
    told: list[str] = []

    @njit
    def doubled(values):  # type: ignore[no-untyped-def]  # numba finds the types
        return values * 2

    with compilations_told(told.append):
        doubled(np.arange(3))
        doubled(np.arange(3.0))
    assert told[0] == "compiling function 1"
    assert "functions compiled" in told[-1]
    del told[:]
    with compilations_told(told.append):
        doubled(np.arange(3))
    assert told == ["all functions were compiled before"]
