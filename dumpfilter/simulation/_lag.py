"""Compiled loops that compute statistics of the lags of transactions. All times are microseconds."""

from __future__ import annotations

import numpy as np

from dumpfilter.base.compiler.arrays import Int32s2, Int64s, Int64s2
from dumpfilter.base.compiler.kernels import inner, kernel

_MOST = 2**31 - 1
_SPREAD = 4
"""The distance, in elements of a sorted sample, from the expected index of a percentile. The percentile probably lies
between the two elements at this distance before and after the index.
"""


@kernel
def select(lags: Int32s2, samples: Int32s2, ranks: Int64s, found: Int64s2):
    """Find for each row of ``lags`` and each of the indexes ``ranks`` the number that would have this index if the row
    were sorted. Write the numbers into ``found``, which has a row for each row of ``lags``, and a column for each of
    ``ranks``.

    The lags are not negative. ``samples`` has some of the lags of each row, sorted, from which the search guesses where
    the number is.
    """
    for row in range(len(lags)):
        for i in range(len(ranks)):
            found[row, i] = _selected(lags[row], samples[row], ranks[i])


@inner
def _selected(lags, sample, rank):
    """Return the number that would have the index ``rank`` if ``lags`` were sorted. ``sample`` has some of the lags,
    sorted.

    The search takes a limit from the sample, and counts the lags that are at most the limit. It changes the limit until
    this count shows that the largest lag up to the limit, or the next one, has the index ``rank``. Vector instructions
    count many lags at once. numpy's partition takes several times as long on processors with slow AVX-512 instructions.
    """
    # ``below`` lags are at most ``least``, ``within`` lags are at most ``most``, and the number is between the two.
    least, below = -1, 0
    most, within = _MOST, len(lags)
    place = rank * len(sample) // len(lags)
    middle = np.int64(sample[max(place - _SPREAD, 0)])
    turn = 0
    while least + 1 < most:
        limit = np.int32(middle)
        count = np.int32(0)
        before, after = np.int32(-1), np.int32(_MOST)
        for i in range(len(lags)):
            lag = lags[i]
            count = np.int32(count + np.int32(lag <= limit))
            before = max(before, lag if lag <= limit else np.int32(-1))
            after = min(after, lag if lag > limit else np.int32(_MOST))
        if count == rank:
            return np.int64(after)
        if count == rank + 1:
            return np.int64(before)
        if count > rank:
            most, within = np.int64(before), count
        else:
            least, below = np.int64(after) - 1, count
        turn += 1
        if turn == 1:
            middle = np.int64(sample[min(place + _SPREAD, len(sample) - 1)])
        elif turn % 4:
            middle = least + np.int64((most - least) * (rank + 0.5 - below) / (within - below))
        else:
            # A bisection bounds the number of turns.
            middle = (least + most) // 2
        middle = min(max(middle, least + 1), most - 1)
    return most


@kernel
def time_above(oldest: Int64s, received: Int64s, limit: int) -> int:
    """Return the time during which a node's lag is above ``limit``.

    ``received`` has the time of each receipt, ascending, and ``oldest`` the commit time of the oldest transaction that
    is missing just before it. There is one transaction at least. The node's lag is the age of the oldest transaction
    that is missing. The lag grows from one receipt to the next.
    """
    found = max(received[0] - oldest[0] - limit, 0)
    for i in range(1, len(received)):
        above = max(received[i] - oldest[i] - limit, 0)
        found += above - max(received[i - 1] - oldest[i] - limit, 0)
    return found
