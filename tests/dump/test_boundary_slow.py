"""The boundary of imposed filters over many random binlogs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dumpfilter.filter.rules import Rule
from tests.dump.boundary_law import IMPOSED, Imposed, check_boundary, check_law
from tests.dump.marked import MarkedBinlog, marked_binlogs
from tests.strategies import EXPENSIVE, rules

CASES = st.lists(st.tuples(rules(), IMPOSED), min_size=4, max_size=4)
"""Several filters for each binlog, since a binlog takes longer to make than to filter."""
SIZES = {"segment_size": st.integers(1, 1500), "chunk_size": st.sampled_from([1, 200, 1 << 18])}


@EXPENSIVE
@given(binlog=marked_binlogs(), cases=CASES, **SIZES)
def test_no_forbidden_byte_crosses(
    binlog: MarkedBinlog, cases: list[tuple[list[Rule], list[Imposed]]], segment_size: int, chunk_size: int
) -> None:
    for own, imposed in cases:
        check_boundary(binlog, own, imposed, segment_size=segment_size, chunk_size=chunk_size)


@EXPENSIVE
@given(binlog=marked_binlogs(odd=False), cases=CASES, **SIZES)
def test_what_all_filters_allow_arrives(
    binlog: MarkedBinlog, cases: list[tuple[list[Rule], list[Imposed]]], segment_size: int, chunk_size: int
) -> None:
    for own, imposed in cases:
        check_law(binlog, own, imposed, segment_size=segment_size, chunk_size=chunk_size)
