"""Row images: the values that rows events carry, decoded in columns, for MySQL and MariaDB.

:class:`RowImageReader` reads the rows events of a stream and returns all changed rows as Arrow arrays.
:class:`EventRows` yields the rows of one rows event, value by value. :class:`Table` says what a Table_map event tells
about a table and its columns.
"""

from dumpfilter.rows.event_rows import EventRows, Row, Value
from dumpfilter.rows.reader import MAP_TYPE, ChangedRows, RowImageReader
from dumpfilter.rows.table import Column, Table, describe_table

__all__ = [
    "MAP_TYPE",
    "ChangedRows",
    "Column",
    "EventRows",
    "Row",
    "RowImageReader",
    "Table",
    "Value",
    "describe_table",
]
