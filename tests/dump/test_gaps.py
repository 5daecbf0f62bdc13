"""The gaps of chunks."""

from __future__ import annotations

import numpy as np

from dumpfilter.dump import _chunk_kernels as K
from dumpfilter.dump.gaps import find_gaps
from dumpfilter.dump.hits import NO_HITS
from dumpfilter.index.segment import NO_DROPPED_RUNS


def test_any_number_of_chunks_needs_the_same_compiled_code() -> None:
    compiled = []
    for n_chunks in (1, 3):
        chunks = np.zeros(n_chunks, [("transactions", np.int64), ("bytes", np.int64), ("end", np.int64)])
        none = np.empty(0, np.int64)
        find_gaps(
            *(chunks["transactions"], chunks["bytes"], chunks["end"], 0),
            *(none, none, np.empty(0, np.int32), none, np.empty(0, np.bool_), NO_DROPPED_RUNS, NO_HITS),
        )
        compiled.append(set(K.find_gaps.signatures))
    assert compiled[0] == compiled[1]
