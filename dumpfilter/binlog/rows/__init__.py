"""Decoding of row images (the values that rows events carry) into columns, for MySQL and MariaDB.

:class:`~dumpfilter.binlog.rows.arrow.RowImageReader` reads the rows events of a stream and returns all changed rows as
Arrow arrays. :class:`~dumpfilter.binlog.rows.events.RowCounter` counts the rows.
:class:`~dumpfilter.binlog.rows.table.Table` is the description of a table and its columns from a Table_map event.
"""
