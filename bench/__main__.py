"""Run all benchmarks, or the named ones. README.md explains them."""

from __future__ import annotations

import argparse
import importlib
import sys

from bench._common import Options, Report
from dumpfilter.base.endings import ending_at_signals
from dumpfilter.base.options.values import parse_size
from dumpfilter.binlog.format import Family

FAMILIES: tuple[Family, ...] = ("mysql", "mariadb")


CLAIMS = {
    "scan": "the scan keeps up with memory",
    "decide": "deciding is cheap beside the scan",
    "hostile": "no input costs more than its size",
    "grpc_end_to_end": "filtering on the master saves the slave's time too",
    "commands": "whole commands, beside the servers' own programs",
    "relay": "a dump into a relay log, from a master that has indexed nothing yet",
    "engines": "both engines after their start, on two cores, beside cp",
    "simulation": "the lag of many slaves from one pass, after Spark's start",
    "followers": "a thousand slaves cost little more than their messages",
    "real_replica": "a real replica's I/O thread, behind dumpfilter and at the real source",
    "live": "a live commit on its way to three real replicas, over TLS",
    "topology_start": "a topology is up within seconds",
    "links": "links pass bytes at the rate and with the delay that they are given",
    "simulation_reality": "a simulation has the bytes and the lag that the real topology has",
    "soak": "{followers} slaves live through {seconds:.0f} s of disturbances",
}
"""The claim of each benchmark, with the names of options in braces."""
SPARK = ("engines", "simulation")
"""The benchmarks that are functions of :mod:`bench.spark`. Any other is the function ``run`` of a module."""
PER_FAMILY = ("commands", "real_replica", "live")
"""The benchmarks that each family of real servers has a report of."""
ON_REQUEST = ("soak",)
"""The benchmarks that run only when they are named, since they take long."""


def measure(name: str, options: Options) -> bool:
    """Run a benchmark, for each family of servers if it needs them, and tell whether all targets were met.

    A family that is not installed is no failure, unless the options name the family.
    """
    # The children of a benchmark import this module, and need no client of servers.
    from bench._servers import missing

    module, function = ("spark", name) if name in SPARK else (name, "run")
    run = getattr(importlib.import_module(f"bench.{module}"), function)
    turns = {name: options}
    if name in PER_FAMILY:
        families = (options.family,) if options.family else FAMILIES
        turns = {f"{name}, {family}": Options(**{**vars(options), "family": family}) for family in families}
    met = True
    for title, turn in turns.items():
        if name in PER_FAMILY and turn.family and (reason := missing(turn.family)):
            print(f"\n== {title}: not measured. {reason}")
            met = met and options.family is None
            continue
        report = Report(title, CLAIMS[name].format_map(vars(options)), options.runs)
        run(report, turn)
        met &= report.print()
    return met


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measures what the project claims.")
    add = parser.add_argument
    names = f"which ones (all but the last): {', '.join(CLAIMS)}"
    add("names", nargs="*", metavar="NAME", choices=CLAIMS, help=names)
    add("--size", type=parse_size, default="512M", help="bytes of binlog, or with K, M, G (512M)")
    add("--runs", type=int, default=5, help="timed runs of each case, interleaved (5)")
    add("--strict", action="store_true", help="exit with 1 when a target is not met")
    add("--followers", type=int, default=1000, help="slaves of followers and soak (1000)")
    add("--seconds", type=float, default=600, help="the time that soak takes (600)")
    servers = "the servers of commands, real_replica and live (both that are installed)"
    add("--family", choices=FAMILIES, help=servers)
    options = parser.parse_args(namespace=Options())
    met = True
    for name in options.names or [name for name in CLAIMS if name not in ON_REQUEST]:
        met &= measure(name, options)
    return int(options.strict and not met)


if __name__ == "__main__":
    with ending_at_signals():
        sys.exit(main())
