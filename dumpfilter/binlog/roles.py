"""Roles: the way in which an event travels in a filtered stream.

A segment's ``role`` column holds one of these numbers, with :data:`ENDS` added to the event that completes a
transaction. The numbers are plain module constants, since compiled code freezes such constants.
"""

from __future__ import annotations

FILE = 0
"""The event belongs to the binlog file (Previous_gtids, Gtid_list, Rotate, Stop). The master always sends it."""

GTID = 1
"""The event opens a transaction (Gtid, Anonymous_gtid, Gtid_tagged, MariaDB's Gtid). It goes with the transaction."""

FRAME = 2
"""BEGIN, COMMIT, ROLLBACK, SAVEPOINT, ROLLBACK TO, Xid, XA START, XA END or XA_prepare. The event goes with the
transaction."""

CONTEXT = 3
"""Intvar, Rand, User_var, Rows_query, Annotate_rows, Begin_load_query or Append_block. The event goes with the
statement that follows."""

TABLE_MAP = 4
"""The event goes with the rows of its table."""

ROWS = 5
"""The event goes by the verdict about its table."""

ROWS_END = 6
"""The event goes by the verdict about its table, and has the flag STMT_END_F."""

STATEMENT = 7
"""A Query or Execute_load_query event that goes by the verdict about its statement. XA COMMIT and XA ROLLBACK have
this role, too: their subject is the set of all subjects of the prepared transaction."""

DUMMY_ROWS = 8
"""A rows event whose table id is all ones. The event only ends a statement and goes with that statement."""

KEEP = 9
"""The master cannot decide about the event, so it sends the event with the transaction around it. Examples are
incidents, unknown events, unreadable statements and payloads, and the end of an unknown XA transaction."""

XA = 10
"""XA START, END, PREPARE, COMMIT or ROLLBACK, in a scan that does not follow XA transactions. The master sends it."""

PAYLOAD = 11
"""A compressed transaction that the scan has opened. The event goes by the events in its payload."""

REPLACED = 12
"""An event that one dump sends in another form and size. No segment of an index has this role."""

NAMES = (
    "FILE", "GTID", "FRAME", "CONTEXT", "TABLE_MAP", "ROWS", "ROWS_END", "STATEMENT", "DUMMY_ROWS", "KEEP", "XA",
    "PAYLOAD", "REPLACED",
)  # fmt: skip
"""The names of the roles, by their numbers."""

ENDS = 0x80
"""The bit that marks a boundary: a stream may be cut and resumed after the event that has this bit."""

ROLE_MASK = 0x7F
"""The bits of a ``role`` column's value that hold the role, without :data:`ENDS`."""

# Values of the columns `subject` and `txn_subject` that are not the number of a subject.

NOTHING = -1
"""The event needs no verdict, or no event of the transaction needs a verdict."""

MIXED = -2
"""The transaction has several subjects. The master decides its events separately."""

KEPT = -3
"""The events belong to the file. The master sends them whatever the filter says."""

UNMAPPED = -5
"""The rows event has no table map, so the master cannot decide about it and sends it."""

SKIP = -6
"""The slave already has the transaction (GTID auto-position). The master neither sends nor reports it."""

PENDING = -9
"""The compiled scan leaves the event to Python: a statement without a subject yet, an XA transaction's end, or a
payload."""

PENDING_XA = -10
"""The compiled scan leaves an XA statement to Python."""
