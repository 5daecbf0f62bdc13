"""The pool of shared topologies, with stand-ins for running ones."""

from __future__ import annotations

from typing import Any

import pytest

from dumpfilter.base.errors import DumpfilterError
from dumpfilter.harness.plugin import Pool
from dumpfilter.topology import make_topology, workload


class Running:
    """A stand-in for a running topology."""

    def __init__(self) -> None:
        self.resets = 0
        self.is_up = True
        self.is_broken = False

    def reset(self) -> None:
        if self.is_broken:
            raise DumpfilterError("a recording cannot be rewound")
        self.resets += 1

    def down(self) -> None:
        self.is_up = False


class Pooled:
    """A pool, and all topologies that it has started."""

    def __init__(self) -> None:
        self.pool = Pool(2)
        self.started: list[Any] = []

    def take(self, name: str) -> Any:
        return self.pool.take(make_topology(workload(name)), self._start, f"test_{len(self.started)}")

    def _start(self) -> Any:
        self.started.append(Running())
        return self.started[-1]


def test_an_equal_topology_is_reset_and_shared() -> None:
    pooled = Pooled()
    first = pooled.take("a")
    assert first.resets == 0
    assert pooled.take("a") is first
    assert first.resets == 1
    assert pooled.take("b") is not first


def test_a_topology_that_cannot_be_reset_is_replaced() -> None:
    pooled = Pooled()
    first = pooled.take("a")
    first.is_broken = True
    with pytest.warns(
        UserWarning,
        match="^test_1 gets a new topology, since the one that test_0 had used cannot be reset: a recording cannot",
    ):
        assert pooled.take("a") is not first
    assert not first.is_up


def test_a_full_pool_ends_the_topology_that_was_used_least_recently() -> None:
    pooled = Pooled()
    a, b = pooled.take("a"), pooled.take("b")
    assert pooled.take("a") is a
    pooled.take("c")
    assert (a.is_up, b.is_up) == (True, False)


def test_a_discarded_topology_is_not_used_again() -> None:
    pooled = Pooled()
    first = pooled.take("a")
    pooled.pool.discard(make_topology(workload("a")))
    assert not first.is_up
    assert pooled.take("a") is not first


def test_the_end_of_the_pool_ends_all() -> None:
    pooled = Pooled()
    pooled.take("a")
    pooled.take("b")
    pooled.started[0].down = fails
    with pytest.raises(DumpfilterError):
        pooled.pool.close()
    assert not pooled.started[1].is_up


def fails() -> None:
    raise DumpfilterError("a server does not end")
