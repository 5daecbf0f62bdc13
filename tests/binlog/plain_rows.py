"""The ends of the rows and row images in a rows event, computed in plain Python, which is slow and easy to check."""

from __future__ import annotations

from dumpfilter.base.errors import BinlogCorrupt
from dumpfilter.binlog.events import EventType
from dumpfilter.binlog.row_image import row_layout, value_sizes
from dumpfilter.binlog.rows_events import RowsHeader, TableMap

CUT = "the rows data end inside a row"
PARTIAL_JSON_UPDATES = 1


def plain_row_images(
    table: TableMap, rows: RowsHeader, data: bytes | bytearray | memoryview
) -> list[tuple[int, int, int]]:
    """Return each row's offset, the end of its before-image, and the end of the row.

    Results and errors are those of :func:`dumpfilter.binlog.row_walk.row_images`.
    """
    if rows.is_dummy:
        return []
    sizes, layout = value_sizes(table.column_types, table.metadata), row_layout(table, rows)
    columns, middle_column = layout.column.tolist(), int(layout.second[0])
    raw = bytes(data)
    found: list[tuple[int, int, int]] = []

    def fail(what: str) -> BinlogCorrupt:
        return BinlogCorrupt(f"rows event: {what} (row {len(found)}, byte {at} of the rows)")

    def skip(here: int, columns: list[int]) -> int:
        width = (len(columns) + 7) // 8
        nulls = int.from_bytes(raw[here : here + width], "little")
        here += width
        for k, column in enumerate(columns):
            size = sizes[column]
            if nulls >> k & 1:
                continue
            if size < 0:
                if here - size > len(raw):
                    raise fail(CUT)
                size = int.from_bytes(raw[here : here - size], "little") - size
            here += size
        if here > len(raw):
            raise fail(CUT)
        return here

    at = 0
    while at < len(raw):
        middle = here = skip(at, columns[:middle_column]) if rows.kind != "insert" else at
        if rows.kind != "delete":
            if rows.type == EventType.PARTIAL_UPDATE_ROWS:
                if here >= len(raw):
                    raise fail(CUT)
                if raw[here] > PARTIAL_JSON_UPDATES:
                    raise fail("an update has unknown value_options")
                json_columns = table.column_types.count(245)
                here += 1 + ((json_columns + 7) // 8 if raw[here] else 0)
            here = skip(here, columns[middle_column:])
        if here == at:
            raise fail("there are rows data for rows without columns")
        found.append((at, middle, here))
        at = here
    return found
