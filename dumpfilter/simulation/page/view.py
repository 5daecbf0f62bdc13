"""The data behind the results page: the line styles of the plots, and the rows of the tables.

There is one line style for each variant, which is a way to bring the binlog to the slaves, such as filtered on the
master.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dumpfilter.analyse.report.text import GIGABYTE, bytes_of_month
from dumpfilter.simulation.results import (
    LinkFigures,
    Method,
    NodeFigures,
    Results,
    Run,
    SourceFigures,
    Variant,
)

_SECOND = 1_000_000
"""The number of microseconds in a second."""


@dataclass(frozen=True)
class Look:
    """The line style of a variant (a way to bring the binlog to the slaves) in all plots. Colours are names of CSS
    properties.
    """

    name: str
    colour: str
    area: str
    dash: str
    is_measured: bool = False


_VARIANTS = {
    Variant.NONE: ("no filter", "whole-line", "whole-area", "solid"),
    Variant.SLAVE: ("filter on the slave", "applied", "whole-area", "dot"),
    Variant.MASTER: ("filter on the master", "master", "master-area", "solid"),
    Variant.NONE_COMPRESSED: ("no filter, zstd", "whole-line", "whole-area", "dash"),
    Variant.MASTER_COMPRESSED: ("filter on the master, zstd", "master", "master-area", "dash"),
    Variant.SPLIT: ("split binlogs", "split", "whole-area", "dashdot"),
    Variant.REPLICA: ("real replicas, filter on the master", "replica", "master-area", "dot"),
    Variant.PLAIN: ("real replicas, no dumpfilter", "replica", "whole-area", "dash"),
}


def look_of(run: Run) -> Look:
    """Return the line style of a run in all plots.

    The style depends on the run's variant (the way to bring the binlog to the slaves), and on whether the run was
    measured or simulated. A measured run has a solid line and its own colour.
    """
    name, colour, area, dash = _VARIANTS[run.setting.variant]
    if run.method is Method.MEASURED:
        return Look(f"{name}, measured", f"{colour}-measured", area, "solid", True)
    return Look(name, colour, area, dash)


def nodes_by_name(run: Run) -> dict[str, NodeFigures]:
    """Return the lag and bytes of each node in a run by the node's name. Nodes with equal figures have separate
    entries.
    """
    return {name: node for node in whole_nodes(run) for name in (node.members or (node.name,))}


def whole_nodes(run: Run) -> list[NodeFigures]:
    """Return the figures of each node (or group of equal nodes) of a run, without the figures of a node's single
    sources.
    """
    return [node for node in run.nodes if node.channel is None]


def worst_nodes(runs: Sequence[Run], most: int) -> list[str]:
    """Return the names of the ``most`` nodes with the greatest lag in any of the runs, in descending order of lag."""
    worst: dict[str, int] = {}
    for run in runs:
        for node in whole_nodes(run):
            worst[node.name] = max(worst.get(node.name, 0), node.lag.worst)
    return sorted(worst, key=lambda name: (-worst[name], name))[:most]


@dataclass(frozen=True)
class Way:
    """One row of the summary: the bytes of all links and the lag of all nodes for one variant.

    A variant is a way to bring the binlog to the slaves, such as filtered on the master. The lag is in microseconds.
    """

    look: Look
    bytes: int
    estimated: bool
    worst: int
    p99: int
    above: int
    """The longest time that the lag of any node was above the limit, microseconds."""
    gigabytes_a_month: float | None
    """The projected traffic of a month, GB. None: the binlog is too short for a projection."""


def ways(results: Results) -> list[Way]:
    """Return a row of the page's summary for each variant (filter on the slave, on the master, compressed …).

    Only the runs with the links and the load that the topology itself gives are taken, not those of a sweep over other
    rates, delays or loads.
    """
    found: dict[Look, Way] = {}
    seconds = active_seconds_of(results)
    for run in results.runs:
        nodes = whole_nodes(run)
        if not run.setting.is_plain or run.repetition > 1 or not nodes:
            continue
        total = total_bytes(run)
        month = bytes_of_month(total, seconds)
        found[look_of(run)] = Way(
            look_of(run),
            total,
            any(link.estimated for link in run.links),
            max(node.lag.worst for node in nodes),
            max(node.lag.p99 for node in nodes),
            max(node.lag.above for node in nodes),
            None if month is None else month / GIGABYTE,
        )
    return list(found.values())


def total_bytes(run: Run) -> int:
    """Return the sum of the bytes that all links of the topology carried in a run."""
    return sum(link.bytes * link.count for link in run.links)


def duration_of(results: Results) -> float | None:
    """Return the longest time from the first to the last commit of any origin, seconds. None: there are no commits."""
    longest = max(map(_span, results.sources), default=0)
    return longest / _SECOND if longest > 0 else None


def active_seconds_of(results: Results) -> int:
    """Return the time in which binlogs were written, without pauses of more than a day, seconds.

    With several origins (nodes that write binlogs), the longest time counts.
    """
    return max((source.active_seconds for source in results.sources), default=0)


def _span(source: SourceFigures) -> int:
    if source.first_time is None or source.last_time is None:
        return 0
    return source.last_time - source.first_time


@dataclass(frozen=True)
class Comparison:
    """A figure that was measured, with the simulated value of the same figure. Both are in bytes, or in microseconds if
    ``is_time``.
    """

    what: str
    variant: str
    measured: int
    simulated: int
    is_time: bool

    @property
    def difference(self) -> float | None:
        """The simulated value minus the measured one, as a fraction of the measured one. None if the measured value is
        0.
        """
        return (self.simulated - self.measured) / self.measured if self.measured else None


def comparisons(results: Results) -> list[Comparison]:
    """Return the figures that were both measured and simulated with equal settings, as pairs of the two values."""
    simulated = {run.setting: run for run in results.runs if run.method is Method.SIMULATED}
    found = []
    for run in results.runs:
        other = simulated.get(run.setting)
        if run.method is not Method.MEASURED or other is None:
            continue
        variant = run.setting.variant.value + (f", run {run.repetition}" if run.repetition > 1 else "")
        nodes: Mapping[str, NodeFigures] = nodes_by_name(other)
        links: Mapping[str, LinkFigures] = {link.name: link for link in other.links}
        for link in run.links:
            if link.name in links:
                its = links[link.name]
                found.append(Comparison(f"bytes {link.name}", variant, link.bytes, its.bytes, False))
                for outage, other_outage in zip(link.outages, its.outages, strict=False):
                    if outage.catch_up is not None and other_outage.catch_up is not None:
                        what = f"catch-up {link.target}"
                        found.append(Comparison(what, variant, outage.catch_up, other_outage.catch_up, True))
        for node in whole_nodes(run):
            if node.name in nodes:
                for share in ("p50", "p99"):
                    mine, theirs = (getattr(each.lag, share) for each in (node, nodes[node.name]))
                    found.append(Comparison(f"{share} {node.name}", variant, mine, theirs, True))
    return found
