"""The time series that a fact has in Prometheus."""

from __future__ import annotations

from dumpfilter.console.facts import Fact


def family_of(fact: Fact) -> str:
    """Return the metric's name without ``_total``, as parsers of Prometheus' formats return it."""
    return fact.metric.removesuffix("_total")


def series_of(fact: Fact) -> tuple[str, ...]:
    """Return the names of the metric's time series."""
    if fact.kind == "histogram":
        return tuple(f"{fact.metric}_{part}" for part in ("bucket", "count", "sum"))
    return (fact.metric,)
