"""Jobs in this process, without Spark, and their results in a form for tests."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dumpfilter.analyse.split_set import Manifest
from dumpfilter.spark_jobs.bandwidth.job import measure_and_evaluate
from dumpfilter.spark_jobs.bandwidth.results import Results
from dumpfilter.spark_jobs.engines import TASKS, Amount, Runner, translated
from dumpfilter.spark_jobs.split.job import SplitOptions, split


@dataclass
class PartSet:
    """A finished binlog set."""

    name: str
    index: Path
    files: list[Path]
    events: int
    transactions: int


@dataclass
class Made:
    """A finished split."""

    directory: Path
    manifest: Manifest
    warnings: Sequence[str]

    @property
    def sets(self) -> list[PartSet]:
        return [
            PartSet(
                one.name,
                self.directory / one.index,
                [self.directory / part.name for part in one.parts],
                sum(part.events for part in one.parts),
                sum(part.transactions for part in one.parts),
            )
            for one in self.manifest.binlogs
        ]

    def set(self, name: str) -> PartSet:
        """Return the output of this name."""
        return next(one for one in self.sets if one.name == name)


def run_here(
    function: Callable[[Any], Any], tasks: Sequence[Any], label: str, *, amount: Amount = TASKS
) -> list[Any]:
    """Run the tasks in this thread, one after the other."""
    return [translated(function, task) for task in tasks]


def bandwidth(*arguments: Any) -> Results:
    """Return the results of a bandwidth job, without its measurements."""
    return measure_and_evaluate(*arguments)[0]


def split_here(
    source: Path | list[Path], output: Path, options: SplitOptions | None = None, run: Runner | None = None
) -> Made:
    sources = [str(one) for one in source] if isinstance(source, list) else source
    manifest, _ = split(sources, output, run or shuffled, options)
    return Made(output, manifest, manifest.warnings)


def shuffled(
    function: Callable[[Any], Any], tasks: Sequence[Any], label: str, *, amount: Amount = TASKS
) -> list[Any]:
    """Run the tasks in another order, as tasks may end in any order on a cluster."""
    order = list(range(len(tasks)))
    random.Random(len(tasks)).shuffle(order)
    results = dict(zip(order, run_here(function, [tasks[k] for k in order], label), strict=True))
    return [results[k] for k in range(len(tasks))]
