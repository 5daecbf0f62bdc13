"""The compiled list of the bytes and events that each output receives of each transaction, beside a plain count."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dumpfilter.spark_jobs.split._shares import list_shares

SIZES = st.integers(1, 40)


@st.composite
def ranges(draw: st.DrawFn) -> tuple[list[list[int]], dict[tuple[int, int], int], dict[int, int]]:
    """Return three values. The first has the sizes of each transaction's events. The second has the output that
    receives each event (3: no output), by transaction and event. The third has the new sizes of the replaced
    transactions, each of one event, by transaction.
    """
    transactions = draw(st.lists(st.lists(SIZES, min_size=1, max_size=5), min_size=1, max_size=30))
    receives = {
        (t, e): draw(st.integers(0, 3)) for t, sizes in enumerate(transactions) for e in range(len(sizes))
    }
    replaced = {
        t: draw(SIZES) for t, sizes in enumerate(transactions) if len(sizes) == 1 and draw(st.booleans())
    }
    return transactions, receives, replaced


@given(ranges(), st.integers(0, 9))
def test_shares_are_those_of_a_plain_count(
    made: tuple[list[list[int]], dict[tuple[int, int], int], dict[int, int]], room: int
) -> None:
    transactions, receives, replaced = made
    bounds, first_event = [100], [0]
    pieces: list[list[int]] = []
    expected: dict[tuple[int, int], list[int]] = {}
    for t, sizes in enumerate(transactions):
        for e, size in enumerate(sizes):
            output, offset = receives[t, e], bounds[-1]
            bounds.append(offset + size)
            if output == 3:
                continue
            new_size = replaced.get(t, size)
            of_output = [one for one in pieces if one[0] == output]
            if (
                t not in replaced
                and of_output
                and sum(of_output[-1][2:4]) == offset
                and of_output[-1][4] == 0
            ):
                of_output[-1][3] += size
            else:
                pieces.append([output, 0, offset, new_size, 2 if t in replaced else 0])
            share = expected.setdefault((output, t), [0, 0])
            share[0] += new_size
            share[1] += 1
        first_event.append(first_event[-1] + len(sizes))
    rows = []
    for k, ((output, t), (size, _)) in enumerate(found := sorted(expected.items())):
        before = [share for (other, _), share in found[: k + 1] if other == output]
        rows.append([output, t, size, *map(sum, zip(*before, strict=True))])
    given = np.array(sorted(pieces, key=lambda one: one[0]), np.int64).reshape(-1, 5)
    shares = np.full((room, 5), -1, np.int64)
    n = list_shares(given, np.array(bounds), np.array(first_event), shares)
    assert n == len(rows)
    assert shares[:n].tolist() == rows[:room]
    assert (shares[n:] == -1).all()
