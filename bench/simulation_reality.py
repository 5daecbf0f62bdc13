"""Simulations beside reality: six topologies run with real processes over shaped links, and simulated."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median

from bench._common import Options, Report
from dumpfilter.base.errors import ServerMissing
from dumpfilter.simulation.results import Method, Run
from dumpfilter.testbed.experiment.definition import load_experiment
from dumpfilter.testbed.experiment.run import run_experiment

LAG_TOLERANCE = 0.10
LEAST_LAG_TOLERANCE = 20_000
"""The difference of lags that always counts as equal, microseconds."""
CATCH_UP_TOLERANCE = 0.05

EXPERIMENTS = Path(__file__).parent / "experiments"
"""The folder of the definitions. Slaves have small messages, because the time that a message takes on a slow link is
otherwise a large part of the lag.
"""


@dataclass
class _Differences:
    """The differences between measurements and their simulations."""

    links: list[bool] = field(default_factory=list)
    """Whether each link has other bytes."""
    lags: list[float] = field(default_factory=lambda: [0.0])
    """The difference of each lag, as a part of what is allowed."""
    catch_ups: list[float] = field(default_factory=lambda: [0.0])


def run(report: Report, options: Options) -> None:
    """Run and simulate the topologies, and report the differences."""
    found = _Differences()
    for path in sorted(EXPERIMENTS.glob("*.toml")):
        experiment = load_experiment(path)
        print(experiment.name, file=sys.stderr, flush=True)
        try:
            runs = run_experiment(replace(experiment, repetitions=options.runs)).runs
        except ServerMissing as error:
            report.note(f"{experiment.name}: not measured. {error}")
            continue
        real, simulated = (
            [one for one in runs if one.method is method] for method in (Method.MEASURED, Method.SIMULATED)
        )
        _compare_lags(report, experiment.name, real, simulated, found)
        _compare_links(report, experiment.name, real, simulated, found)
    report.row("links compared", len(found.links), "{}")
    report.limit("links whose bytes of events differ", sum(found.links), 0)
    report.limit("the largest difference of p50 or p99, as a part of 10 % or 20 ms", max(found.lags), 1)
    report.limit("the largest difference of a time to catch up", max(found.catch_ups), CATCH_UP_TOLERANCE)
    report.note(
        "times are milliseconds, measured / simulated; overhead is what the protocols add to the events"
    )


def _compare_lags(
    report: Report, name: str, real: Sequence[Run], simulated: Sequence[Run], found: _Differences
) -> None:
    """Compare the medians of the lags over all runs."""
    for number, one in enumerate(real[0].nodes):
        parts = []
        for what in ("p50", "p99"):
            measured, computed = (
                median(getattr(run.nodes[number].lag, what) for run in runs) for runs in (real, simulated)
            )
            allowed = max(LEAST_LAG_TOLERANCE, LAG_TOLERANCE * measured)
            found.lags.append(abs(computed - measured) / allowed)
            parts.append(
                f"{what} {measured / 1e3:.0f} / {computed / 1e3:.0f} ({(computed - measured) / 1e3:+.0f})"
            )
        title = f"{name}: {one.name}" + (f" ({one.channel})" if one.channel else "")
        report.row(title, one.lag.p99, f"{one.transactions:6,} transactions, {', '.join(parts)}")


def _compare_links(
    report: Report, name: str, real: Sequence[Run], simulated: Sequence[Run], found: _Differences
) -> None:
    """Compare the bytes of each run, and the medians of the times to catch up after an outage."""
    for number, link in enumerate(real[0].links):
        pairs = [(run.links[number], its.links[number]) for run, its in zip(real, simulated, strict=True)]
        found.links.append(any(one.bytes != other.bytes for one, other in pairs))
        text = f"{link.bytes:,} / {pairs[0][1].bytes:,} bytes, overhead {(link.overhead or 0) / max(link.bytes, 1):.1%}"
        if link.outages:
            measured, computed = (
                median(one.outages[0].catch_up or 0 for one in each) for each in zip(*pairs, strict=True)
            )
            found.catch_ups.append(abs(computed / max(measured, 1) - 1))
            text += f", caught up after {measured / 1e3:.0f} / {computed / 1e3:.0f}"
        report.row(f"{name}: {link.name}", link.bytes, text)
