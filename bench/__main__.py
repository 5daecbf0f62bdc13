"""Run all benchmarks, or the named ones. README.md explains them."""

from __future__ import annotations

import argparse
import importlib
import sys
from dataclasses import fields
from pathlib import Path

from bench._common import Options
from dumpfilter.base.options.units import parse_size

SPARK = ("split", "split_cluster", "bandwidth", "engines", "simulation")
"""The benchmarks that are functions of :mod:`bench.spark`. Any other is a module."""
ALL = (
    *("scan", "decide", "hostile", "registrations", "grpc_end_to_end", "filter_file", "row_images", "relay"),
    *("memory", *SPARK, "followers", "receive", "real_replica", "live", "topology_start", "links"),
    "simulation_reality",
)
ON_REQUEST = ("soak",)
"""The benchmarks that run only when they are named, since they take long."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measures what the project claims.")
    names = ", ".join((*ALL, *ON_REQUEST))
    add = parser.add_argument
    add("names", nargs="*", metavar="NAME", help=f"which ones (all but the last): {names}")
    add("--size", type=parse_size, default="512M", help="bytes of binlog, or with K, M, G (512M)")
    add("--runs", type=int, default=5, help="timed runs of each case, interleaved (5)")
    add("--strict", action="store_true", help="exit with 1 when a target is not met")
    add(
        "--before",
        type=Path,
        metavar="DIRECTORY",
        help="another checkout, measured beside this one (followers)",
    )
    add("--followers", type=int, default=1000, help="slaves of followers and soak (1000)")
    add("--seconds", type=float, default=600, help="the time that soak takes (600)")
    families = ["mysql", "mariadb"]
    add("--family", choices=families, help="the servers of real_replica and live (both that are installed)")
    given = parser.parse_args()
    options = Options(**{field.name: getattr(given, field.name) for field in fields(Options)})
    unknown = set(given.names) - set(ALL) - set(ON_REQUEST)
    if unknown:
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}")
    met = True
    for name in given.names or ALL:
        module, function = ("spark", name) if name in SPARK else (name, "run")
        met &= getattr(importlib.import_module(f"bench.{module}"), function)(options)
    return int(given.strict and not met)


if __name__ == "__main__":
    sys.exit(main())
