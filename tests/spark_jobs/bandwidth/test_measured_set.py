"""The default length of a time bucket."""

from __future__ import annotations

from pathlib import Path

import pytest

from dumpfilter.base.errors import BinlogUnsupported
from dumpfilter.binlog.workload import START, Span, generate
from dumpfilter.filter.rules import FilterSemantics
from dumpfilter.index.fileset import BinlogFile
from dumpfilter.index.time_spans import TimeSpans
from dumpfilter.spark_jobs import ranges as ranges_module
from dumpfilter.spark_jobs.bandwidth.job import measure_and_evaluate
from dumpfilter.spark_jobs.bandwidth.measured_set import default_bucket_seconds
from dumpfilter.spark_jobs.ranges import FileIndex, IndexedSet
from dumpfilter.topology.slaves_file import SlaveDefinition
from tests.spark_jobs.here import run_here

HOUR = 3600
DAY = 24 * HOUR


@pytest.mark.parametrize(
    ("spans", "wanted"),
    [
        ((), 1),
        (((1000, 1060),), 1),
        (((1000, 1061),), 5),
        (((1000, 1000 + 15 * 60),), 15),
        (((1000, 1000 + HOUR),), 60),
        (((1000, 1000 + 2 * DAY),), 60),
        (((1000, 1000 + 3 * DAY),), 300),
        (((1, 1), (1_700_000_000, 1_700_000_000 + HOUR)), 60),
        (((1000, 1000 + 3000 * DAY),), DAY),
    ],
)
def test_a_bucket_fits_the_active_time(spans: TimeSpans, wanted: int) -> None:
    files = [FileIndex(n, "", "", 0, 0, b"", times=(span,)) for n, span in enumerate(spans)]
    assert default_bucket_seconds(IndexedSet(tuple(files), ())) == wanted


@pytest.mark.parametrize("hours", [0.01, 1, 60])
def test_figures_do_not_depend_on_the_times_that_are_known_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hours: float
) -> None:
    """Guessed ranges know the time of one transaction, and the index pass those of all."""
    index = generate(tmp_path, 300_000, schemas=3, tables=3, span=Span(START, hours * HOUR)).index
    slaves = [SlaveDefinition("slave", ("--replicate-do-db=shop_00",), FilterSemantics.CLASSIC, 0)]

    def refuse(*_: object, **__: object) -> None:
        raise BinlogUnsupported("no guess")

    guessed = measure_and_evaluate(index, slaves, run_here)[0]
    monkeypatch.setattr(ranges_module, "_guess_ranges", refuse)
    indexed = measure_and_evaluate(index, slaves, run_here)[0]
    assert guessed == indexed.model_copy(update={"measured_at": guessed.measured_at})


def test_a_wrong_guess_of_a_time_makes_buckets_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = generate(tmp_path, 300_000, schemas=3, tables=3, span=Span(START, 30)).index
    slaves = [SlaveDefinition("slave", ("--replicate-do-db=shop_00",), FilterSemantics.CLASSIC, 0)]
    right, times = ranges_module._begin_of_transaction, iter([START, START + 2 * HOUR])

    def guess(file: BinlogFile, offset: int) -> tuple[int, int] | None:
        found = right(file, offset)
        return found and (found[0], next(times))

    monkeypatch.setattr(ranges_module, "_begin_of_transaction", guess)
    found = measure_and_evaluate(index, slaves, run_here)[0]
    (peak,) = [one.peak_no_filter for one in found.slaves]
    assert found.bucket_seconds == 60
    assert peak is not None
    assert peak.bytes_per_second == peak.bytes / 60
