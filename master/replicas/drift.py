"""Drift: a real replica's own filter would apply events that the master drops for the replica."""

from __future__ import annotations

from dataclasses import dataclass

from dumpfilter.filter import ReplicationFilter
from dumpfilter.filter.compare import Beyond, passes_beyond
from dumpfilter.master.replicas.own_filter import OwnFilter
from dumpfilter.printable import printable

_LONGEST_EXAMPLE = 120


@dataclass(frozen=True)
class Drift:
    """The result of a look at a replica's own filter."""

    text: str
    """The warning. Empty: the replica drops everything itself that the master drops for it."""
    is_sure: bool = False
    """Whether the replica's own filter is wider. Otherwise the filters could not be compared."""


NONE = Drift("")


def drift_of(own: OwnFilter, used: ReplicationFilter) -> Drift:
    """Compare a replica's own filter with the filter that the master uses for the replica."""
    surely = passes_beyond(own.sure, used)
    if surely.beyond is Beyond.NOTHING:
        return NONE
    likely = passes_beyond(own.likely, used) if own.doubts else surely
    if likely.beyond is Beyond.SOMETHING:
        by = f"by {likely.rule}" if likely.rule is not None else "since no rule keeps them"
        example = printable(likely.example, _LONGEST_EXAMPLE)
        return Drift(
            f"the replica's own filter is wider than its filter on the master: the replica would apply {example}, "
            f"which the master drops ({printable(by, _LONGEST_EXAMPLE)}); give both the same rules",
            is_sure=True,
        )
    if likely.beyond is Beyond.NOTHING:
        doubts = printable("; ".join(own.doubts), _LONGEST_EXAMPLE)
        return Drift(
            f"the replica's own filter cannot be compared with its filter on the master: {doubts} can be one rule or "
            "several; if no name has a comma, say so with commas_separate = true in the [[replica]]"
        )
    return Drift(
        "the replica's own filter cannot be compared with its filter on the master: see to it that the master drops "
        "nothing that the replica wants"
    )
