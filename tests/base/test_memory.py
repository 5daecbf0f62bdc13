"""Memory that is given when it is used."""

from __future__ import annotations

import resource

import numpy as np
import pytest

from dumpfilter.base.memory import lazy_zeros


@pytest.mark.parametrize(
    ("shape", "dtype"), [(7, np.uint8), ((3, 5), np.int64), ((2, 0), np.int64), (0, np.uint64)]
)
def test_the_array_equals_zeros(shape: int | tuple[int, ...], dtype: type[np.generic]) -> None:
    made = lazy_zeros(shape, dtype)
    expected = np.zeros(shape, dtype)
    assert (made.shape, made.dtype, made.tolist()) == (expected.shape, expected.dtype, expected.tolist())
    made[...] = 1
    assert made.all()


def test_memory_comes_by_the_page_also_after_an_earlier_array() -> None:
    """The system counts a fault for each page that it gives."""
    lazy_zeros(32 << 20, np.uint8).fill(1)
    before = resource.getrusage(resource.RUSAGE_SELF)
    made = lazy_zeros((32 << 20, 1), np.uint8)
    made[:: 8 << 20] = 1
    after = resource.getrusage(resource.RUSAGE_SELF)
    assert after.ru_minflt - before.ru_minflt < 1000
    assert after.ru_maxrss - before.ru_maxrss < 8 << 10
