"""Simulations beside reality: twelve topologies run with real processes over shaped links, and simulated."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from bench._common import Options, Report
from dumpfilter.simulation.results import LinkFigures, Method, Run
from dumpfilter.testbed.errors import ServerMissing
from dumpfilter.testbed.experiment import load_experiment, run_experiment

LAG_TOLERANCE = 0.10
LEAST_LAG_TOLERANCE = 20_000
"""The difference of lags that always counts as equal, microseconds."""
CATCH_UP_TOLERANCE = 0.05

EXPERIMENTS = Path(__file__).parent / "experiments"
"""The folder of the definitions. Slaves have small messages, because the time that a message takes on a slow link is
otherwise a large part of the lag.
"""


def run(report: Report, options: Options) -> None:
    """Run and simulate the topologies, and report the differences."""
    lags, catch_ups, others = [0.0], [0.0], []
    for path in sorted(EXPERIMENTS.glob("*.toml")):
        experiment = load_experiment(path)
        print(experiment.name, file=sys.stderr, flush=True)
        try:
            runs = run_experiment(experiment.model_copy(update={"repetitions": options.runs})).runs
        except ServerMissing as error:
            report.note(f"{experiment.name}: not measured. {error}")
            continue
        real, simulated = (
            [one for one in runs if one.method is method] for method in (Method.MEASURED, Method.SIMULATED)
        )
        for number in range(len(real[0].nodes)):
            lags += _compare_lags(report, experiment.name, real, simulated, number)
        for number in range(len(real[0].links)):
            pairs = [(run.links[number], its.links[number]) for run, its in zip(real, simulated, strict=True)]
            others.append(any(one.bytes != other.bytes for one, other in pairs))
            catch_ups.append(_compare_catch_ups(report, experiment.name, pairs))
    report.row("links compared", len(others), "{}")
    report.limit("links whose bytes of events differ", sum(others), 0)
    report.limit("the largest difference of p50 or p99, as a part of 10 % or 20 ms", max(lags), 1)
    report.limit("the largest difference of a time to catch up", max(catch_ups), CATCH_UP_TOLERANCE)
    report.note(
        "times are milliseconds, measured / simulated; overhead is what the protocols add to the events"
    )


def _compare_lags(
    report: Report, name: str, real: Sequence[Run], simulated: Sequence[Run], number: int
) -> list[float]:
    """Report the medians of a node's lags over all runs. Return their differences, as parts of what is allowed."""
    one, found, parts = real[0].nodes[number], [], []
    for what in ("p50", "p99"):
        measured, computed = (
            median(getattr(run.nodes[number].lag, what) for run in runs) for runs in (real, simulated)
        )
        difference = computed - measured
        found.append(abs(difference) / max(LEAST_LAG_TOLERANCE, LAG_TOLERANCE * measured))
        parts.append(f"{what} {measured / 1e3:.0f} / {computed / 1e3:.0f} ({difference / 1e3:+.0f})")
    title = f"{name}: {one.name}" + (f" ({one.channel})" if one.channel else "")
    report.row(title, one.lag.p99, f"{one.transactions:6,} transactions, {', '.join(parts)}")
    return found


def _compare_catch_ups(report: Report, name: str, pairs: Sequence[tuple[LinkFigures, LinkFigures]]) -> float:
    """Report a link's bytes, and the times to catch up after its outage. Return their difference, as a part."""
    link, difference = pairs[0][0], 0.0
    text = f"{link.bytes:,} / {pairs[0][1].bytes:,} bytes, overhead {(link.overhead or 0) / max(link.bytes, 1):.1%}"
    if link.outages:
        measured, computed = (
            median(one.outages[0].catch_up or 0 for one in each) for each in zip(*pairs, strict=True)
        )
        difference = abs(computed / max(measured, 1) - 1)
        text += f", caught up after {measured / 1e3:.0f} / {computed / 1e3:.0f}"
    report.row(f"{name}: {link.name}", link.bytes, text)
    return difference
