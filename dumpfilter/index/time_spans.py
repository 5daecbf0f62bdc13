"""The time spans that the events of a binlog cover, whatever the order of their timestamps.

An event's timestamp is the begin of its statement by the clock of the server that first ran the statement. Timestamps
need not rise: a long statement is logged after shorter ones, ``SET TIMESTAMP`` sets any time, and a replica logs the
timestamps of its sources. Events without a timestamp (0) are ignored.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

LONGEST_PAUSE = 86_400
"""The longest pause between two events that still counts as part of a time span, seconds. The value is a day, so that
quiet nights count as active.

A single statement with a wrong clock adds no active time.
"""

TimeSpan = tuple[int, int]
"""The first and the last timestamp of a period in which events were written without a long pause, Unix seconds."""

TimeSpans = tuple[TimeSpan, ...]
"""The periods in which events were written, in ascending order, with pauses of more than LONGEST_PAUSE (a day) between
them.
"""


def spans_of(times: npt.NDArray[np.uint32]) -> TimeSpans:
    """Return the time spans in which events were written, given the events' timestamps. A pause of more than
    LONGEST_PAUSE (a day) between two timestamps ends a span.

    The timestamps are Unix seconds in any order, and 0 is ignored. The result has the first and the last time of each
    span.
    """
    times = times if times.all() else times[times > 0]
    if not len(times):
        return ()
    first, last = int(times.min()), int(times.max())
    if last - first <= LONGEST_PAUSE:
        return ((first, last),)
    ordered = np.unique(times).astype(np.int64)
    pauses = np.flatnonzero(np.diff(ordered) > LONGEST_PAUSE)
    starts = ordered[np.concatenate([[0], pauses + 1])]
    ends = ordered[np.concatenate([pauses, [len(ordered) - 1]])]
    return tuple(zip(starts.tolist(), ends.tolist(), strict=True))


def joined(parts: Iterable[TimeSpans]) -> TimeSpans:
    """Return the time spans of several parts of a binlog, merged into one ascending tuple. Spans become one if they
    overlap, or if the pause between them is at most LONGEST_PAUSE (a day).

    >>> joined([((10, 20), (200_000, 200_005)), (), ((15, 30),)])
    ((10, 30), (200000, 200005))
    """
    found: list[TimeSpan] = []
    for first, last in sorted(span for part in parts for span in part):
        if found and first - found[-1][1] <= LONGEST_PAUSE:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return tuple(found)


def active_seconds(spans: TimeSpans) -> int:
    """Return the total time in which events were written, seconds: the sum of the lengths of ``spans``, without the
    pauses between them.
    """
    return sum(last - first for first, last in spans)
