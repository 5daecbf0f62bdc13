"""Tests of the row counter over several events.

tests/spark_jobs/source/test_columns.py compares the counter with the plain decoders, over recordings and generated
files.
"""

from __future__ import annotations

import struct

import numpy as np
import pytest

from dumpfilter.binlog import roles as R
from dumpfilter.binlog.events import EventType
from dumpfilter.binlog.format import FormatDescription
from dumpfilter.binlog.row_walk import UNKNOWN
from dumpfilter.binlog.rows.events import RowCounter
from tests.strategies import DIALECTS, Dialect, rows_body, table_map_body

T = EventType
MYSQL = next(d for d in DIALECTS if d.family == "mysql" and d.lengths[T.WRITE_ROWS - 1] == 10)
MARIADB = next(d for d in DIALECTS if d.family == "mariadb")
ROW = b"\xfc" + bytes(8)  # two INTs, none of them NULL


class Stream:
    """A builder of the columns that a row counter reads."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self._fd = FormatDescription.parse(dialect.format_description())
        self._events: list[tuple[int, int, bytes]] = []

    def map(self, number: int, table: int, columns: int = 2) -> None:
        body = table_map_body(number, "d", f"t{table}", columns)
        self._events.append((T.TABLE_MAP, R.TABLE_MAP, body))

    def rows(self, number: int, rows: bytes, *, ends: bool = True, kind: int = T.WRITE_ROWS) -> None:
        body = rows_body(self.dialect, kind, number, ends=ends, rows=rows)
        self._events.append((kind, R.ROWS_END if ends else R.ROWS, body))

    def raw(self, kind: int, role: int, body: bytes) -> None:
        self._events.append((kind, role, body))

    def counted(self, counter: RowCounter, behind: int = 0) -> list[int]:
        """Return the counts of the events that were added since the last call.

        The bytes of the first ``behind`` events lie behind the others, like those of opened transactions.
        """
        trailer = bytes(self._fd.checksum_length)
        raw = [bytes(19) + body + trailer for _, _, body in self._events]
        size = np.array([len(event) for event in raw], np.int64)
        placed = np.roll(size, -behind)
        found = counter.count(
            np.frombuffer(b"".join(raw[behind:] + raw[:behind]), np.uint8),
            np.roll(np.cumsum(placed) - placed, behind),
            size,
            np.array([kind for kind, _, _ in self._events], np.uint8),
            np.array([role for _, role, _ in self._events], np.uint8),
            self._fd,
        )
        self._events.clear()
        return found.tolist()


def test_a_table_that_is_altered() -> None:
    stream, counter = Stream(MYSQL), RowCounter()
    stream.map(1, 0)
    stream.rows(1, 3 * ROW)
    assert stream.counted(counter) == [UNKNOWN, 3]
    wide = struct.pack("<6sHHB", (1).to_bytes(6, "little"), 1, 2, 70) + b"\xff" * 9
    stream.map(1, 0, columns=70)
    stream.raw(T.WRITE_ROWS, R.ROWS_END, wide + (bytes(9) + bytes(4 * 70)) * 2)
    stream.map(1, 0)
    stream.rows(1, ROW)
    assert stream.counted(counter) == [UNKNOWN, 2, UNKNOWN, 1]


def test_many_tables_in_a_statement_that_goes_on_in_the_next_piece() -> None:
    stream, counter = Stream(MYSQL), RowCounter()
    for number in range(2000):
        stream.map(number, number)
    assert stream.counted(counter) == [UNKNOWN] * 2000
    for number in (1999, 0, 700):
        stream.rows(number, (number % 7) * ROW, ends=False)
    stream.rows(5, ROW)
    stream.rows(5, ROW)  # STMT_END_F of the event before has closed the table maps
    assert stream.counted(counter) == [1999 % 7, 0, 0, 1, UNKNOWN]


@pytest.mark.parametrize("rows", [ROW[:-1], ROW + b"\xfc", b"\xfc"])
def test_rows_that_are_cut_are_not_counted(rows: bytes) -> None:
    stream = Stream(MYSQL)
    stream.map(1, 0)
    stream.rows(1, rows)
    assert stream.counted(RowCounter()) == [UNKNOWN, UNKNOWN]


def test_compressed_rows() -> None:
    stream = Stream(MARIADB)
    stream.map(1, 0)
    stream.rows(1, 5 * ROW, ends=False, kind=T.WRITE_ROWS_COMPRESSED_V1)
    body = rows_body(MARIADB, T.WRITE_ROWS_COMPRESSED_V1, 1, ends=False, rows=ROW)
    stream.raw(T.WRITE_ROWS_COMPRESSED_V1, R.ROWS, body[:-4])  # the compressed data are cut
    stream.rows(1, 4 * ROW, kind=T.UPDATE_ROWS_COMPRESSED_V1)
    assert stream.counted(RowCounter()) == [UNKNOWN, 5, UNKNOWN, 2]


def test_a_table_map_that_is_too_short_or_of_no_known_types() -> None:
    stream = Stream(MYSQL)
    for body in (
        table_map_body(1, "d", "t0")[:14],
        table_map_body(1, "d", "t0").replace(b"\x03\x03", b"\xf4\xf4"),
    ):
        stream.raw(T.TABLE_MAP, R.TABLE_MAP, body)
        stream.rows(1, ROW)
    assert stream.counted(RowCounter()) == [UNKNOWN] * 4


def test_nothing() -> None:
    assert Stream(MYSQL).counted(RowCounter()) == []


@pytest.mark.parametrize("behind", range(9))
def test_opened_transactions_lie_behind_the_other_events(behind: int) -> None:
    stream = Stream(MYSQL)
    for table in (1, 2, 1):
        stream.map(7, table)
        stream.rows(7, ROW * table, ends=False)
        stream.rows(7, ROW)
    assert stream.counted(RowCounter(), behind) == [-1, 1, 1, -1, 2, 1, -1, 1, 1]
