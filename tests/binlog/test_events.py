"""Tests of the table of events against sets of event types that are written here by hand."""

from __future__ import annotations

import numpy as np
import pytest

from dumpfilter.binlog import roles as R
from dumpfilter.binlog.events import (
    GTIDS,
    KINDS,
    MYSQL_GTIDS,
    OF_FILES,
    ROWS,
    ROWS_V2,
    STATEMENTS,
    SYMBOLS,
    EventType,
    Symbol,
    event_name,
    shown_name,
)
from dumpfilter.binlog.reader import decoder
from dumpfilter.binlog.rows_events import rows_kind
from dumpfilter.index._scan import GRAMMAR, Place

ROLES_BY_HAND = {
    R.FILE: {3, 4, 15, 35, 161, 163, 164},
    R.GTID: {33, 34, 42, 162},
    R.FRAME: {16, 38},
    R.CONTEXT: {5, 9, 13, 14, 17, 29, 160},
    R.TABLE_MAP: {19},
    R.ROWS: {23, 24, 25, 30, 31, 32, 39, 166, 167, 168, 169, 170, 171},
    R.STATEMENT: {2, 18, 165},
}


def test_numbers_ascend_and_names_are_distinct_within_a_family() -> None:
    numbers = [kind.number for kind in KINDS]
    assert numbers == sorted(set(numbers))
    for without in ("mysql", "mariadb"):
        names = [kind.name for kind in KINDS if kind.writers != without]
        assert len(names) == len(set(names))


def test_roles() -> None:
    roles = GRAMMAR.role[SYMBOLS, Place.BETWEEN] & R.ROLE_MASK
    for role, numbers in ROLES_BY_HAND.items():
        assert set(np.flatnonzero(roles == role)) == numbers, R.NAMES[role]
    assert set(np.flatnonzero(roles != R.KEEP)) == set().union(*ROLES_BY_HAND.values())


def test_sets() -> None:
    assert {23, 24, 25, 166, 167, 168} == ROWS - ROWS_V2
    assert {30, 31, 32, 39, 169, 170, 171} == ROWS_V2
    assert ROWS > ROWS_V2
    assert {33, 34, 42} == MYSQL_GTIDS
    assert {33, 34, 42, 162} == GTIDS
    assert {2, 18, 165} == STATEMENTS
    assert {3, 4, 15, 35, 161, 163, 164} == OF_FILES
    assert {kind.number for kind in KINDS if kind.compressed} == {40, 165, 166, 167, 168, 169, 170, 171}


def test_changes() -> None:
    assert {kind for kind in ROWS if rows_kind(kind) == "insert"} == {23, 30, 166, 169}
    assert {kind for kind in ROWS if rows_kind(kind) == "update"} == {24, 31, 39, 167, 170}
    assert {kind for kind in ROWS if rows_kind(kind) == "delete"} == {25, 32, 168, 171}


def test_opened() -> None:
    opened = {int(kind): int(kind.opened) for kind in ROWS if kind.opened != kind}
    assert opened == {166: 23, 167: 24, 168: 25, 169: 30, 170: 31, 171: 32}


def test_numbers_of_neither_family() -> None:
    known = {kind.number for kind in KINDS}
    for number in set(range(256)) - known:
        assert SYMBOLS[number] == Symbol.OTHER
        assert event_name(number) == f"Unknown({number})"
        assert shown_name(number) == "Unknown"


@pytest.mark.parametrize("kind", EventType, ids=lambda kind: kind.name)
def test_decoder_exists(kind: EventType) -> None:
    assert callable(decoder(kind)) == bool(kind.kind.decoder)
