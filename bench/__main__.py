"""Run all benchmarks, or the named ones. README.md explains them."""

from __future__ import annotations

import argparse
import importlib
import sys

from bench._common import Options
from dumpfilter.options.sizes import parse_size

ALL = (
    "scan",
    "decide",
    "hostile",
    "registrations",
    "grpc_end_to_end",
    "filter_file",
    "relay",
    "memory",
    "split",
    "split_cluster",
    "bandwidth",
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measures what the project claims.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which ones (all): {', '.join(ALL)}")
    parser.add_argument(
        "--size", type=parse_size, default="512M", help="bytes of binlog, or with K, M, G (512M)"
    )
    parser.add_argument("--runs", type=int, default=5, help="timed runs of each case, interleaved (5)")
    parser.add_argument("--strict", action="store_true", help="exit with 1 when a target is not met")
    given = parser.parse_args()
    unknown = set(given.names) - set(ALL)
    if unknown:
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}")
    met = True
    for name in given.names or ALL:
        met &= importlib.import_module(f"bench.{name}").run(Options(given.size, given.runs))
    return int(given.strict and not met)


if __name__ == "__main__":
    sys.exit(main())
