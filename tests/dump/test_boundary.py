"""The boundary of imposed filters: no byte of a forbidden row or statement reaches the slave."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dumpfilter.binlog.events import EventType as T
from dumpfilter.dump.boundary import allows_text
from dumpfilter.filter.base import OnUndecided
from dumpfilter.filter.filter import Filter
from dumpfilter.filter.rules import Rule, RuleKind
from dumpfilter.index.subjects import TableSubject
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


NO_PAY = Filter.from_options(["--replicate-ignore-table=hr.pay"])


@pytest.mark.parametrize(
    ("text", "tables", "is_allowed"),
    [
        (b"INSERT INTO emp SELECT id FROM job", ["emp"], True),
        (b"INSERT INTO emp SELECT id FROM pay", ["emp"], False),
        (b"INSERT INTO hr.emp SELECT id FROM hr.pay", ["emp"], False),
        (b"INSERT INTO hr.emp SELECT id FROM shop.pay", ["emp"], True),
        (b"INSERT INTO emp SELECT id FROM job", ["emp", "pay"], False),
        (b"INSERT INTO emp SELECT id FROM job", ["other"], False),  # the session's database is not known
        (b"INSERT INTO emp SELECT id FROM job", [], False),
        (b'INSERT INTO emp SELECT "x" FROM job', ["emp"], True),
        (b'INSERT INTO emp SELECT 1 FROM job /* " */, pay /* " */', ["emp"], False),
        (b"nonsense", ["emp"], False),
        # The event does not tell the character set: the bytes may be one of the forbidden names, or white space.
        (b"INSERT INTO emp SELECT id FROM p\xe4y", ["emp"], False),
        ("INSERT INTO emp SELECT id FROM päy".encode(), ["emp"], False),
        (b"INSERT INTO emp SELECT id FROM job JOIN\xa0pay", ["emp"], False),
        (b"INSERT INTO emp SELECT '\xe4'", ["emp"], True),
        (b"INSERT INTO emp SELECT '\x95\\', id FROM pay -- '", ["emp"], False),
    ],
)
def test_a_text_crosses_only_with_tables_that_the_filter_sends(
    text: bytes, tables: list[str], is_allowed: bool
) -> None:
    subjects = [TableSubject("hr", table) for table in tables]
    assert allows_text(text, subjects, [NO_PAY], "mysql") is is_allowed
