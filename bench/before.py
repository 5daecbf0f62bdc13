"""The ratios of this checkout beside those of an earlier commit. A ratio that is worse by more than 10 % is a failure.

The benchmarks run by turns in both checkouts, so that a busy machine slows both alike. The earlier checkout must run
with the libraries of this one. The commit is the last tag, or the one in the file ``BEFORE`` beside this module.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from statistics import median

from bench._common import OUT, REPOSITORY

RATIOS = ("decide", "grpc_end_to_end", "relay")
"""The benchmarks whose targets are ratios to something that is measured in the same run."""

WORST = 0.9
"""The smallest part of an earlier ratio that is no failure."""


def earlier_commit() -> str:
    """Return the commit to compare with."""
    command = ["git", "describe", "--tags", "--abbrev=0"]
    tag = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False).stdout
    return tag.strip() or (Path(__file__).parent / "BEFORE").read_text().strip()


def checkout(commit: str) -> Path:
    """Return a checkout of a commit, which uses the generated binlogs of this one."""
    tree = OUT / f"before-{commit}"
    if not tree.exists():
        subprocess.run(["git", "worktree", "prune"], cwd=REPOSITORY, check=True)
        subprocess.run(["git", "worktree", "add", "--detach", str(tree), commit], cwd=REPOSITORY, check=True)
        (tree / "bench" / "out").symlink_to(OUT)
    return tree


def ratios(tree: Path, name: str, options: list[str]) -> dict[str, float]:
    """Run a benchmark of a checkout, and return its ratios by the texts of their targets.

    The texts are without the wanted values, which may differ between the checkouts.
    """
    command = [sys.executable, "-m", "bench", name, *options]
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    printed = subprocess.check_output(command, cwd=tree, env=environment, text=True)
    targets = json.loads(printed.splitlines()[-1])["targets"]
    return {re.sub(r" (at least|at most) \S+$", r" \1", one["text"]): one["value"] for one in targets}


def is_worse(name: str, now: float, before: float) -> bool:
    """Tell whether a ratio has become worse by more than the tolerance.

    >>> is_worse("raw / ours at least", 0.5, 0.6), is_worse("ours / raw at most", 1.05, 1.0)
    (True, False)
    """
    return now * WORST > before if name.endswith("at most") else now < before * WORST


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.before", description="Compares with an earlier commit."
    )
    add = parser.add_argument
    add("names", nargs="*", metavar="NAME", help=f"which benchmarks ({', '.join(RATIOS)})")
    add("--commit", help="the earlier commit (the last tag)")
    add("--turns", type=int, default=3, help="turns of each checkout, whose medians count (3)")
    given, options = parser.parse_known_args()
    commit = given.commit or earlier_commit()
    trees = (checkout(commit), REPOSITORY)
    is_good = True
    for name in given.names or RATIOS:
        turns = [[ratios(tree, name, options) for tree in trees] for _ in range(given.turns)]
        print(f"\n== {name}: this checkout beside {commit}")
        for text in sorted(set.intersection(*(set(found) for turn in turns for found in turn))):
            before, now = (median(turn[which][text] for turn in turns) for which in (0, 1))
            failed = is_worse(text, now, before)
            is_good = is_good and not failed
            verdict = "WORSE" if failed else "good "
            print(f"  {verdict}  {text}: {before:.2f} before, {now:.2f} now", flush=True)
    return int(not is_good)


if __name__ == "__main__":
    sys.exit(main())
