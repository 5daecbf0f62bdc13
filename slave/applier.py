"""The applier: relay log events in, calls to a target out (the SQL thread).

It runs the slave's own filter, which is in force whatever the master filtered, and its rewrite rules.
:class:`EventApplier` is the pure core; :func:`apply_files` runs it over files;
:class:`slave.sql_thread.SqlThread` lets it follow a growing relay log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from dumpfilter.binlog.compression import open_event, open_payload
from dumpfilter.binlog.events import ROWS, STMT_END_F, EventType
from dumpfilter.binlog.format import FormatDescription
from dumpfilter.binlog.gtid_events import read_gtid
from dumpfilter.binlog.query import decode_query
from dumpfilter.binlog.reader import Event, iter_events
from dumpfilter.binlog.rows import TableMap, decode_rows_header, decode_table_map
from dumpfilter.binlog.statements import read_statement
from dumpfilter.errors import BinlogCorrupt, BinlogError, BinlogTruncated
from dumpfilter.filter import Filter
from slave.errors import SlaveIncident
from slave.groups import Groups, Keyword, keyword
from slave.targets import Target
