"""Decoding of row images (the values that rows events carry) into columns, for MySQL and MariaDB.

:class:`RowImageReader` reads the rows events of a stream and returns all changed rows as Arrow arrays.
:class:`RowCounter` counts the rows. :class:`Table` is the description of a table and its columns from a Table_map
event.
"""

from dumpfilter.binlog.rows.arrow import ENCODED_MAP_TYPE, MAP_TYPE, WORDS, ChangedRows, RowImageReader
from dumpfilter.binlog.rows.events import RowCounter
from dumpfilter.binlog.rows.table import Column, Table, describe_table

__all__ = [
    "ENCODED_MAP_TYPE",
    "MAP_TYPE",
    "WORDS",
    "ChangedRows",
    "Column",
    "RowCounter",
    "RowImageReader",
    "Table",
    "describe_table",
]
