"""Values in results."""

from __future__ import annotations

import struct
import time
from datetime import UTC, datetime

import pytest
from mysql_mimic.charset import CharacterSet

from dumpfilter.console.answers import result_set
from dumpfilter.console.sql.result import Column, ColumnType, Result, as_shown
from dumpfilter.console.sql.select import Environment, select

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


def test_times_are_in_the_machines_time_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Result((Column("AT", ColumnType.TIMESTAMP),), ((NOON,),))
    monkeypatch.setenv("TZ", "EST5")
    time.tzset()
    try:
        assert as_shown(NOON) == "2026-01-02 07:00:00.000000"
        environment = Environment(lambda schema, name: table, "s")
        result = select("SELECT at, SUBSTRING(at, 12, 2) FROM t", environment)
        ((at, hour),) = result.rows
        assert at == "2026-01-02 07:00:00.000000"
        assert hour == "07"
        # A prepared statement gets the year, month, day, hour, minute and second as numbers.
        binary = [*result_set(table, CharacterSet.utf8mb4, binary=True)][3]
        assert binary.endswith(struct.pack("<HBBBBB", 2026, 1, 2, 7, 0, 0))
    finally:
        monkeypatch.undo()
        time.tzset()
