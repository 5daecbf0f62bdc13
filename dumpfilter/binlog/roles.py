"""What an event is to the dump thread: its role, which decides how it travels in a filtered stream.

A segment's ``role`` column holds one of these; :data:`ENDS` is added to the event that completes a
transaction (or stands alone between transactions), so a boundary is one bit.
"""

from __future__ import annotations

FILE = 0
"""Belongs to the file, not to a transaction (Previous_gtids, Gtid_list, Rotate, Stop): always sent."""

GTID = 1
"""Opens a transaction: Gtid, Anonymous_gtid, MariaDB's Gtid. Goes with the transaction."""

FRAME = 2
"""BEGIN, COMMIT, ROLLBACK, SAVEPOINT, ROLLBACK TO, Xid, XA START, XA END, XA_prepare: goes with the
transaction."""

CONTEXT = 3
"""Intvar, Rand, User_var, Rows_query, Annotate_rows, Begin_load_query, Append_block: goes with the
statement that follows."""

TABLE_MAP = 4
"""Goes with the rows of its table."""

ROWS = 5
"""Decided by its table."""

ROWS_END = 6
"""Decided by its table, and carries STMT_END_F."""

STATEMENT = 7
"""A statement in a Query (or Execute_load_query) event: decided by its subject. So is XA COMMIT or XA ROLLBACK:
its subject is all that the prepared transaction holds."""

DUMMY_ROWS = 8
"""A rows event whose table id is all ones: only ends a statement. Goes with it."""

KEEP = 9
"""Cannot be decided, so it is sent, with the transaction it stands in: incidents, unknown events, statements
and compressed transactions that cannot be read, the end of an XA transaction whose beginning is not known."""

XA = 10
"""The frame of an XA transaction (XA START, END, PREPARE, COMMIT, ROLLBACK), of a scan that does not follow
XA transactions: sent."""

PAYLOAD = 11
"""A compressed transaction that was opened: decided by what is in it."""

REPLACED = 12
"""Never in a segment: an event that one dump sends in another form, of another size."""

ENDS = 0x80
"""Bit: between this event and the next a stream may be cut and resumed."""

# What a transaction's `subject` column holds when it is not one subject's number.
NOTHING = -1
"""No event in it needs a decision."""

MIXED = -2
"""Several subjects: its events are decided one by one."""

KEPT = -3
"""Sent whatever the filter says: file-level events."""

PENDING = -9
"""What the scan leaves to Python: a statement whose subject is to be looked up, an XA transaction's end, a
compressed transaction to be opened."""

PENDING_XA = -10
"""The same for an XA statement that is to be looked at."""

SKIP = -6
"""A transaction that the slave has already (GTID auto-position): not sent and not told of."""

UNMAPPED = -5
"""Rows without a table map: cannot be decided, so they are sent."""
