"""The boundary of imposed filters: no byte of a forbidden row or statement reaches the slave."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dumpfilter.binlog.events import EventType as T
from dumpfilter.filter.base import OnUndecided
from dumpfilter.filter.rules import Rule, RuleKind
from tests.dump.boundary_law import IMPOSED, Imposed, check_boundary, check_law, receive
from tests.dump.marked import MarkedBinlog, marked_binlogs
from tests.strategies import DIALECTS, MadeBinlog, _Builder, query_body, rules

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


def _transaction(*events: tuple[T, bytes]) -> MarkedBinlog:
    builder = _Builder(DIALECTS[0])
    builder.add(T.ANONYMOUS_GTID, b"\1" + bytes(24) + b"\2" + bytes(16))
    for kind, body in events:
        builder.add(kind, body)
    return MarkedBinlog(MadeBinlog(builder.dialect, bytes(builder.data), [], []))


@pytest.mark.parametrize("on_undecided", OnUndecided)
@pytest.mark.parametrize("segment_size", [1, 1 << 16])
def test_blocks_before_another_statement_are_not_its_own(
    on_undecided: OnUndecided, segment_size: int
) -> None:
    blocks = [(kind, b"\7\0\0\0secret") for kind in (T.BEGIN_LOAD_QUERY, T.APPEND_BLOCK)]
    insert = T.QUERY, query_body(b"INSERT INTO t VALUES (1)", "shop")
    binlog = _transaction((T.QUERY, query_body(b"BEGIN")), *blocks, insert, (T.XID, bytes(8)))
    imposed = Imposed([Rule(RuleKind.IGNORE_DB, "hr")], on_undecided)
    got = receive(binlog, [], [imposed], segment_size=segment_size, chunk_size=1 << 18)
    assert (got.error is not None) == (on_undecided is OnUndecided.STOP)
    assert (b"secret" in got.stream) == (on_undecided is OnUndecided.SEND)
    assert (b"INSERT" in got.stream) == (on_undecided is not OnUndecided.STOP)


@pytest.mark.parametrize("on_undecided", OnUndecided)
def test_the_end_of_an_unknown_xa_transaction_is_sent_and_counts_once(on_undecided: OnUndecided) -> None:
    binlog = _transaction((T.QUERY, query_body(b"XA COMMIT X'61',X'',1")))
    imposed = Imposed([Rule(RuleKind.IGNORE_DB, "hr")], on_undecided)
    got = receive(binlog, [], [imposed], segment_size=1 << 16, chunk_size=1 << 18)
    assert b"XA COMMIT" in got.stream
    assert got.undecided == 1
