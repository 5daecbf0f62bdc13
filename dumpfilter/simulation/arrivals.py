"""Transactions at the end of a route, and their lag when several channels lead to a node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from dumpfilter.simulation import lag
from dumpfilter.simulation.lag import Lag
from dumpfilter.simulation.traffic import Ints


class Arrived(NamedTuple):
    """Transactions at the end of a route. Times are microseconds since the begin of the run."""

    transaction: Ints
    committed: Ints
    received: Ints
    missing: int
    """The transactions that never arrive. The arrays leave them out."""


def by_origin(origins: Sequence[str], arrived: Sequence[Arrived]) -> list[Arrived]:
    """Join the channels of one origin. The node has a transaction when the first channel has brought it.

    ``origins`` has the origin of each channel.
    """
    found: dict[str, Arrived] = {}
    for origin, one in zip(origins, arrived, strict=True):
        other = found.get(origin)
        found[origin] = one if other is None else _first_of(other, one)
    return list(found.values())


def _first_of(one: Arrived, other: Arrived) -> Arrived:
    transaction = np.concatenate([one.transaction, other.transaction])
    received = np.concatenate([one.received, other.received])
    committed = np.concatenate([one.committed, other.committed])
    order = np.lexsort((received, transaction))
    kept = order[np.flatnonzero(np.diff(transaction[order], prepend=-1))]
    return Arrived(transaction[kept], committed[kept], received[kept], min(one.missing, other.missing))


def together(arrivals: Sequence[Arrived], limit: int) -> Lag:
    """Measure the lag of a node with several origins. The node is above the limit when one of its origins is."""
    committed = np.concatenate([one.committed for one in arrivals])
    received = np.concatenate([one.received for one in arrivals])
    missing = sum(one.missing for one in arrivals)
    figures = lag.measure(committed, received, limit=limit, missing=missing)
    spans = [lag.spans_above(one.committed, one.received, limit) for one in arrivals]
    return replace(figures, above=lag.length_of_union(np.concatenate(spans)))
