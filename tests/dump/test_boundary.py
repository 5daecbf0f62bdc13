"""The boundary of imposed filters: no byte of a forbidden row or statement reaches the slave."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from dumpfilter.filter import Rule
from tests.dump.boundary_law import IMPOSED, Imposed, check_boundary, check_law
from tests.dump.marked import MarkedBinlog, marked_binlogs
from tests.strategies import rules

SIZES = {"segment_size": st.integers(1, 1500), "chunk_size": st.sampled_from([1, 200, 1 << 18])}


@settings(max_examples=20, deadline=None)
@given(binlog=marked_binlogs(), own=rules(), imposed=IMPOSED, **SIZES)
def test_no_forbidden_byte_crosses(
    binlog: MarkedBinlog, own: list[Rule], imposed: list[Imposed], segment_size: int, chunk_size: int
) -> None:
    check_boundary(binlog, own, imposed, segment_size=segment_size, chunk_size=chunk_size)


@settings(max_examples=20, deadline=None)
@given(binlog=marked_binlogs(odd=False), own=rules(), imposed=IMPOSED, **SIZES)
def test_what_all_filters_allow_arrives(
    binlog: MarkedBinlog, own: list[Rule], imposed: list[Imposed], segment_size: int, chunk_size: int
) -> None:
    check_law(binlog, own, imposed, segment_size=segment_size, chunk_size=chunk_size)
