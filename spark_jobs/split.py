"""The split: one binlog set in, one for each schema out (WL#2387, "binlog extensions").

The driver cuts the files into ranges of whole transactions (:mod:`spark_jobs.cutting`); tasks share each range out
to schemas (:mod:`spark_jobs.sharing`); the pieces are moved to where one schema's part of one file is written
(:mod:`spark_jobs.parts`); the driver publishes what was written (:mod:`spark_jobs.output`).
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from dumpfilter.binlog.fileset import BinlogSet
from dumpfilter.errors import DumpfilterError
from spark_jobs.blocks import BLOCK_SIZE
from spark_jobs.cutting import RANGE_SIZE, cut_file, number_ranges, route_xa
from spark_jobs.names import decode_name
from spark_jobs.output import Output, Part, PartSet
from spark_jobs.stages import MESSAGES, PIECES, Message, SharePieces, WriteParts, error_from

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_POLL = 0.2
"""Seconds between two looks at Spark's progress."""


class SparkFailed(DumpfilterError):
    """Spark gave up on the job for a reason of its own (memory, a lost executor)."""


@dataclass(frozen=True)
class SplitOptions:
    """``range_size`` and ``block_size`` in bytes; ``verify``: the events' checksums on reading."""

    overwrite: bool = False
    verify: bool = True
    range_size: int = RANGE_SIZE
    block_size: int = BLOCK_SIZE


Runner = Callable[[SharePieces, WriteParts, SplitOptions], list[Message]]
"""Runs the two stages; gives the second one's messages."""


@dataclass
class SplitResult:
    """What the split wrote."""

    sets: list[PartSet] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    source_files: int = 0
    source_bytes: int = 0

    def as_dict(self) -> dict[str, Any]:
        """As JSON has it. ``schema`` is null for what belongs to none."""
        return {
            "source": {"files": self.source_files, "bytes": self.source_bytes},
            "sets": [
                {
                    "schema": None if found.name.startswith("@rest") else decode_name(found.name),
                    "index": str(found.index),
                    "files": [str(path) for path in found.files],
                    "bytes": found.bytes,
                    "events": found.events,
                    "transactions": found.transactions,
                }
                for found in self.sets
            ],
            "warnings": self.warnings,
        }


def split(
    source: str | Path | list[str | Path],
    output: Path,
    run: Runner,
    options: SplitOptions | None = None,
) -> SplitResult:
    """Split a binlog set into ``output``. ``run`` runs the two stages: a :class:`SparkRunner`.

    Raises BinlogError with file and position, or OutputError; then nothing in ``output`` looks finished.
    """
    options = options or SplitOptions()
    binlogs = BinlogSet.open(source)
    names = binlogs.names
    paths = [binlogs.path(name).resolve() for name in names]
    with Output(output, overwrite=options.overwrite, sources=paths) as out:
        cuts = [
            cut_file(
                number,
                str(path),
                last=number == len(paths) - 1,
                range_size=options.range_size,
                block_size=options.block_size,
            )
            for number, path in enumerate(paths)
        ]
        routes, unknown_xa = route_xa(cuts, block_size=options.block_size)
        ranges = tuple(number_ranges(cuts))
        sources = tuple(cut.source for cut in cuts)
        result = SplitResult(source_files=len(paths), source_bytes=sum(path.stat().st_size for path in paths))
        if not ranges:
            result.warnings.append("the binlogs hold no transaction: nothing was written")
            return result
        staging = str(out.staging.resolve())
        share = SharePieces(sources, ranges, tuple(routes), staging, options.verify, options.block_size)
        messages = run(share, WriteParts(sources, staging), options)
        _raise_first(messages)
        parts = [
            Part(m["schema"], m["file"], Path(m["path"]), m["bytes"], m["events"], m["transactions"])
            for m in messages
            if m["kind"] == "part"
        ]
        result.sets = out.publish(parts, sources)
        result.warnings += _warnings(messages, unknown_xa, result.sets)
        return result


class SparkRunner:
    """Runs the stages on Spark.

    ``get_spark`` is called when there is work for it. ``console``: where progress is shown, when it is a terminal.
    """

    def __init__(self, get_spark: Callable[[], SparkSession], console: Console | None = None) -> None:
        self._get_spark = get_spark
        self._console = console

    def __call__(self, share: SharePieces, write: WriteParts, options: SplitOptions) -> list[Message]:
        spark = self._get_spark()
        # All talk with Spark is another thread's, so that Ctrl-C finds this one free to cancel the job: in the
        # middle of a call it would spoil the connection that cancelling needs.
        with ThreadPoolExecutor(1, "split-job") as pool:
            rows = pool.submit(self._job, spark, share, write, options)
            try:
                return [json.loads(row[0]) for row in rows.result()]
            except KeyboardInterrupt:
                while not rows.done():  # again and again: the job may not have been submitted yet
                    with suppress(Exception):
                        spark.sparkContext.cancelAllJobs()
                    wait([rows], timeout=_POLL)
                raise
            except Exception as error:
                raise SparkFailed(_reason(error)) from error

    def _job(
        self, spark: SparkSession, share: SharePieces, write: WriteParts, options: SplitOptions
    ) -> list[Any]:
        context = spark.sparkContext
        cores = max(1, context.defaultParallelism)
        total = sum(r.end - r.start for r in share.ranges)
        # small files go together, large ranges each in a task of its own
        small = total < options.range_size
        tasks = 1 if small else min(len(share.ranges), max(-(-total // options.range_size), cores))
        writers = 1 if small else 4 * cores
        table = (
            spark.range(0, len(share.ranges), 1, numPartitions=tasks)
            .mapInArrow(share, PIECES)
            .repartition(writers, "schema", "file")
            .sortWithinPartitions("schema", "file", "range", "piece")
            .mapInArrow(write, MESSAGES)
        )
        with _progress(context, self._console, tasks + writers):
            return list(table.collect())


def _reason(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return f"the Spark job failed: {lines[-1].strip() if lines else type(error).__name__}"


class _progress:
    """A bar that follows the tasks of the running stages, on a terminal."""

    def __init__(self, context: Any, console: Console | None, total: int) -> None:
        self._shown = console is not None and console.is_terminal
        self._context, self._console, self._total = context, console, total
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="split-progress", daemon=True)

    def __enter__(self) -> None:
        if self._shown:
            self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._shown:
            self._thread.join()

    def _follow(self) -> None:
        tracker = self._context.statusTracker()
        done: dict[int, int] = {}
        with Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed} of {task.total} tasks"),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
        ) as bar:
            task = bar.add_task("splitting", total=self._total)
            while not self._stop.wait(_POLL):
                for stage in tracker.getActiveStageIds():
                    info = tracker.getStageInfo(stage)
                    if info is not None:
                        done[stage] = info.numCompletedTasks
                bar.update(task, completed=sum(done.values()))


def _raise_first(messages: list[Message]) -> None:
    """Raise the error nearest to the set's beginning, those that name a position first."""
    found = [m for m in messages if m["kind"] == "error"]
    if found:
        found.sort(key=lambda m: (m.get("position") is None, str(m.get("file")), m.get("position") or 0))
        raise error_from(found[0])


def _warnings(messages: list[Message], unknown_xa: int, sets: list[PartSet]) -> list[str]:
    told = []
    shared = sum(m["shared_statements"] for m in messages if m["kind"] == "note")
    if shared:
        told.append(
            f"{shared} statement{'s change' if shared > 1 else ' changes'} several schemas and "
            f"{'are' if shared > 1 else 'is'} in the set of each: replay only one of them"
        )
    if unknown_xa:
        told.append(
            f"{unknown_xa} XA transaction{'s end' if unknown_xa > 1 else ' ends'} here without having begun here: "
            "the XA COMMIT or XA ROLLBACK is in every set"
        )
    if any(found.name.startswith("@rest") for found in sets):
        told.append("what belongs to no schema (accounts, FLUSH, empty transactions) is in the set @rest")
    return told
