"""The default length of a time bucket."""

from __future__ import annotations

import pytest

from dumpfilter.index.time_spans import TimeSpans
from dumpfilter.spark_jobs.bandwidth.measured_set import default_bucket_seconds
from dumpfilter.spark_jobs.ranges import FileIndex, IndexedSet

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
