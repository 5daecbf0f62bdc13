"""Roles: the conditions on which the master sends an event. Some events are sent with their transaction, others only
when the filter passes their table.

The column ``role`` of a segment (consecutive events scanned at once) holds one of these numbers for each event. The
event that completes a transaction also has the bit :data:`ENDS`. The numbers are plain module constants, since compiled
code freezes such constants.
"""

from __future__ import annotations

FILE = 0
"""An event that belongs to the binlog file (Previous_gtids, Gtid_list, Rotate, Stop). The master always sends such an
event.
"""

GTID = 1
"""An event that opens a transaction (Gtid, Anonymous_gtid, Gtid_tagged, MariaDB's Gtid).

The master sends such an event with the transaction.
"""

FRAME = 2
"""An event that frames the changes of a transaction.

Such events are BEGIN, COMMIT, ROLLBACK, SAVEPOINT, ROLLBACK TO, Xid, XA START, XA END and XA_prepare.

The master sends such an event with the transaction around it.
"""

CONTEXT = 3
"""An event that belongs to the statement after it.

Such events are Intvar, Rand, User_var, Rows_query, Annotate_rows, Begin_load_query and Append_block.

The master sends such an event with the statement that follows.
"""

TABLE_MAP = 4
"""A Table_map event. The master sends the Table_map event exactly when it sends the rows events of the same table."""

ROWS = 5
"""A rows event that does not end its statement.

The filter's verdict about the table decides whether the master sends the event.
"""

ROWS_END = 6
"""A rows event with the flag STMT_END_F, the last of its statement.

The filter's verdict about the table decides whether the master sends the event.
"""

STATEMENT = 7
"""A Query or Execute_load_query event. The filter's verdict about its statement decides whether the master sends the
event.

XA COMMIT and XA ROLLBACK have this number, too. The master sends them when it sends any table or statement of the
prepared transaction.
"""

DUMMY_ROWS = 8
"""A rows event whose table id is all ones, which has no rows and only ends a statement.

The master sends such an event with any rows of that statement.
"""

KEEP = 9
"""An event about which no filter can decide. The master sends such an event with the transaction around the event.

Examples are incidents, unknown events, unreadable statements and payloads, and the end of an unknown XA transaction.
"""

XA = 10
"""The end of an XA transaction, or an incident, about which an imposed filter (one that the master's operator sets)
cannot decide. The master sends the event.

The scan of a binlog file gives no event this number.
"""

PAYLOAD = 11
"""A compressed transaction (Transaction_payload event) that the scan has uncompressed.

The filter decides about the events inside.
"""

REPLACED = 12
"""An event that one dump sends with other content and size, such as a compressed transaction that is sent in part. Only
the dump gives an event this number, never the scan of a binlog file.
"""

WITHHELD = 13
"""An event that the master cannot decide about and that an imposed filter drops. The events before it that belong to
the same statement, such as Intvar, are dropped, too.

An imposed filter is one that the master's operator sets for a slave. The scan of a binlog file gives no event this
number.
"""

HIDDEN = 14
"""An event that an imposed filter drops alone, such as a Rows_query event, although the statement after this event is
sent.

An imposed filter is one that the master's operator sets for a slave. The scan of a binlog file gives no event this
number.
"""

GAP = 15
"""A Gap event of a slave's relay log, which records what the slave's master dropped. A Gap event is never sent to
another slave.

A Gap event between two transactions stands for dropped transactions. A master that serves the relay log reports the
GTIDs of these transactions to its slaves in another form.
"""

NAMES = (
    "FILE", "GTID", "FRAME", "CONTEXT", "TABLE_MAP", "ROWS", "ROWS_END", "STATEMENT", "DUMMY_ROWS", "KEEP", "XA",
    "PAYLOAD", "REPLACED", "WITHHELD", "HIDDEN", "GAP",
)  # fmt: skip
"""The names of the roles, by their numbers. A role is the condition on which the master sends an event."""

ENDS = 0x80
"""The bit in the column ``role`` for an event that completes a transaction.

A stream may be cut and resumed after such an event.
"""

ROLE_MASK = 0x7F
"""The bits in the column ``role`` that hold an event's role (the condition on which the master sends the event),
without the bit :data:`ENDS`.
"""

# The columns `subject` and `txn_subject` of a segment hold numbers of tables and statements. The negative values
# below have other meanings.

NOTHING = -1
"""The value in the column ``subject`` of an event that needs no verdict of a filter (send or drop), such as BEGIN.

The column has the number of the table or statement that a filter decides about. In the column ``txn_subject``, the
value says that no event of the transaction needs a verdict.
"""

MIXED = -2
"""The value in the column ``txn_subject`` for a transaction with several tables or statements.

The master decides about each event of the transaction separately.
"""

KEPT = -3
"""The value in the column ``txn_subject`` for a transaction that the master sends whole, whatever the filter says.

In the columns ``txn_subject`` and ``txn_source``, the value also marks events between transactions, which belong to the
binlog file.
"""

UNMAPPED = -5
"""The value in the column ``subject`` for a rows event whose Table_map event is missing.

The master cannot decide about the rows event and sends it.
"""

SKIP = -6
"""The value in the column ``txn_subject`` for a transaction that the master does not send, whatever the filter says.

An example is a transaction that the slave already has (GTID auto-position). Gap events of a relay log, which note
dropped transactions, have this value, too. The column ``txn_source`` says whether the master reports the transaction's
GTID to the slave.
"""

PENDING = -9
"""The value in the column ``subject`` for an event that compiled code cannot classify and leaves to Python code.

Such events are statements that the scan meets for the first time, ends of XA transactions, and compressed transactions.
"""

PENDING_XA = -10
"""The value in the column ``subject`` for an XA statement, such as XA COMMIT, which the compiled scan leaves to
Python code.
"""
