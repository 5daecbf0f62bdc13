"""Splits in this process, without Spark, and their results in a form for tests."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dumpfilter.analyse.split_set import Manifest
from dumpfilter.spark_jobs.engines import TASKS, Amount, Runner, run_here
from dumpfilter.spark_jobs.split.job import SplitOptions, SplitResult, split


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


def made(directory: Path, result: SplitResult) -> Made:
    return Made(directory, result.manifest, result.manifest.warnings)


def split_here(
    source: Path | list[Path], output: Path, options: SplitOptions | None = None, run: Runner | None = None
) -> Made:
    sources = [str(one) for one in source] if isinstance(source, list) else source
    return made(output, split(sources, output, run or shuffled, options))


def shuffled(
    function: Callable[[Any], Any], tasks: Sequence[Any], label: str, *, amount: Amount = TASKS
) -> list[Any]:
    """Run the tasks in another order, as tasks may end in any order on a cluster."""
    order = list(range(len(tasks)))
    random.Random(len(tasks)).shuffle(order)
    results = dict(zip(order, run_here(function, [tasks[k] for k in order], label), strict=True))
    return [results[k] for k in range(len(tasks))]
