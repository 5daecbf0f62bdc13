"""Binlogs whose rows, statements and texts each hold a marker, so that a leak through the boundary shows.

Each marker stands in the bytes of one event. A :class:`Mark` says which tables the event belongs to. The test computes
from the marks which markers may reach a slave.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import strategies as st

from dumpfilter.binlog.context_events import UserVar
from tests.binlog.encoders import compress, encode_user_var
from tests.strategies import (
    DATABASES,
    DIALECTS,
    TABLES,
    Dialect,
    MadeBinlog,
    T,
    _Maker,
    execute_load_query_body,
    query_body,
    rows_body,
    table_map_body,
    unreadable_query_body,
)

Table = tuple[str, str]


@dataclass
class Mark:
    """The owner of one marker."""

    marker: bytes
    kind: str
    """"row", "text" (Rows_query, Annotate_rows), "statement", or "unknown" (an event about which nobody can decide)."""
    tables: Sequence[Table] = ()
    """The tables that the event's statement writes or, of a text, names."""
    database: str = ""
    """The current database of a statement."""
    parses: bool = True
    """Whether a statement's tables can be told from its event."""


@dataclass
class MarkedBinlog:
    """A binlog with the marks of its events."""

    made: MadeBinlog
    marks: list[Mark] = field(default_factory=list)

    def __repr__(self) -> str:
        return f"{self.made!r}, {self.marks}"


class _MarkedMaker(_Maker):
    """A maker whose events hold markers."""

    def __init__(self, draw: st.DrawFn, dialect: Dialect, *, odd: bool) -> None:
        super().__init__(draw, dialect, odd=odd, unreadable=odd, closed=True)
        self.marks: list[Mark] = []
        self.numbers = itertools.count(1)
        self.table = st.tuples(st.sampled_from(DATABASES), st.sampled_from(TABLES))
        self.may_fail = odd
        """Whether a LOAD DATA may fail, so that its blocks have no statement."""

    def mark(
        self, kind: str, tables: Sequence[Table] = (), database: str = "", *, parses: bool = True
    ) -> bytes:
        marker = b"MARK%04dKRAM" % next(self.numbers)
        self.marks.append(Mark(marker, kind, tables, database, parses))
        return marker

    def rows(self) -> None:
        draw, builder, dialect = self.draw, self.builder, self.dialect
        mapped = [(number, draw(self.table)) for number in range(1, draw(st.integers(1, 3)) + 1)]
        with_text = dialect.gtids != "none" and draw(st.booleans())
        if with_text:
            text = b"INSERT INTO a VALUES ('%s')" % self.mark("text")
            if dialect.family == "mariadb":
                builder.add(T.ANNOTATE_ROWS, text)
            else:
                builder.add(T.ROWS_QUERY, bytes([len(text) % 256]) + text, flags=0x80)
        for number, (database, table) in mapped:
            builder.add(T.TABLE_MAP, table_map_body(number, database, table))
        if self.odd and draw(st.integers(0, 9)) == 0:
            mapped.append((99, None))  # type: ignore[arg-type]
        used = draw(st.lists(st.sampled_from(mapped), min_size=1, max_size=4))
        for position, (number, of) in enumerate(used):
            kind = draw(st.sampled_from(dialect.rows_types))
            marker = self.mark("unknown") if of is None else self.mark("row", [of])
            ends = position == len(used) - 1
            builder.add(kind, rows_body(dialect, kind, number, ends=ends, rows=marker))

    def statement(self) -> None:
        draw = self.draw
        first, second = draw(self.table), draw(self.table)
        current = draw(st.sampled_from(DATABASES))
        form = draw(
            st.sampled_from(
                [
                    *["INSERT INTO {0} VALUES ('{2}')"] * 3,
                    "REPLACE INTO {0} SET a = '{2}'",
                    "CREATE TABLE {0} (a CHAR(20) DEFAULT '{2}')",
                    "ALTER TABLE {0} COMMENT '{2}'",
                    "UPDATE {0}, {1} SET a = '{2}'",
                    "DELETE a, b FROM {0} AS a, {1} AS b WHERE a.x = '{2}'",
                    "FROBNICATE {0} '{2}'",
                ]
            )
        )
        tables = [first, second] if "{1}" in form else [first]
        parses = not form.startswith("FROB")
        marker = self.mark("statement", tables, current, parses=parses)
        for _ in range(draw(st.integers(0, 1))):
            # A user variable belongs to the statement that follows.
            variable = self.mark("statement", tables, current, parses=parses)
            self.builder.add(T.USER_VAR, encode_user_var(UserVar("v", variable)))
        text = form.format(".".join(first), ".".join(second), marker.decode()).encode()
        if self.dialect.family == "mariadb" and draw(st.booleans()):
            table_map = 3 if form.startswith("UPDATE") else None
            body = query_body(compress(text), current, None, table_map)
            self.builder.add(T.QUERY_COMPRESSED, body)
        else:
            table_map = 3 if form.startswith("UPDATE") else None
            self.builder.add(T.QUERY, query_body(text, current, None, table_map))

    def load_data(self) -> None:
        table, current = self.draw(self.table), self.draw(st.sampled_from(DATABASES))
        self.builder.add(T.BEGIN_LOAD_QUERY, b"\7\0\0\0" + self.mark("statement", [table], current))
        for _ in range(self.draw(st.integers(0, 2))):
            self.builder.add(T.APPEND_BLOCK, b"\7\0\0\0" + self.mark("statement", [table], current))
        if self.may_fail and self.draw(st.integers(0, 7)) == 0:
            # The statement has failed, and nothing names its table.
            for mark in self.marks:
                if mark.kind == "statement" and mark.tables == [table]:
                    mark.kind = "unknown"
            self.builder.add(T.DELETE_FILE, b"\7\0\0\0")
            return
        marker = self.mark("statement", [table], current)
        text = b"LOAD DATA INFILE '%s' INTO TABLE %s" % (marker, ".".join(table).encode())
        self.builder.add(T.EXECUTE_LOAD_QUERY, execute_load_query_body(text, current, 7))

    def alone(self) -> None:
        self.may_fail = False
        super().alone()
        self.may_fail = self.odd

    def odd_payload(self) -> None:
        first = len(self.marks)
        super().odd_payload()
        for mark in self.marks[first:]:
            mark.kind = "unknown"

    def unknown(self) -> None:
        flags = self.draw(st.sampled_from([0, 0x80]))
        kind = self.draw(st.sampled_from([28, 36, 37, 77, 200]))
        self.builder.add(kind, self.mark("unknown"), flags=flags)

    def unreadable_statement(self) -> None:
        text = b"DROP TABLE " + self.mark("unknown")
        self.builder.add(T.QUERY, unreadable_query_body(text, self.draw(st.sampled_from(DATABASES))))


@st.composite
def marked_binlogs(
    draw: st.DrawFn, *, odd: bool = True, max_transactions: int = 5, dialects: Sequence[Dialect] = DIALECTS
) -> MarkedBinlog:
    """One binlog file whose events hold markers."""
    dialect = draw(st.sampled_from(dialects))
    maker = _MarkedMaker(draw, dialect, odd=odd)
    maker.head()
    maker.transactions(max_transactions)
    maker.end()
    builder = maker.builder
    made = MadeBinlog(dialect, bytes(builder.data), sorted(set(builder.boundaries)), builder.gtids)
    return MarkedBinlog(made, maker.marks)


__all__ = ["Mark", "MarkedBinlog", "marked_binlogs"]
