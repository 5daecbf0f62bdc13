"""The filtering of events about which rules for tables cannot decide. Only imposed filters (filters that the master's
operator sets for a slave) need this filtering.

:func:`withhold` looks at each segment (part of a binlog file) before compiled code decides which events are sent. The
function withholds three kinds of events.

- The text of a row-based statement (Rows_query, Annotate_rows). The text quotes the statement's values and names tables
  that the statement only reads. Such events are optional, so the stream stays valid without them.
- Events about which nobody can decide: of an unknown type, unreadable, or rows without a table map. The imposed filter
  says whether the dump stops there, drops the event, or sends it.
- Blocks of LOAD DATA (Begin_load_query, Append_block) that no Execute_load_query follows. Their table is unknown.

XA COMMIT and XA ROLLBACK hold nothing but an xid. Both pass even when the prepared transaction is unknown.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dumpfilter.base.errors import UndecidedEvent
from dumpfilter.binlog import roles as R
from dumpfilter.binlog.events import HEADER_LENGTH, LOG_EVENT_IGNORABLE_F, EventHeader, EventType, event_name
from dumpfilter.binlog.statement.statement import Statement
from dumpfilter.dump.atoms import Columns
from dumpfilter.dump.chunk import ReadAt
from dumpfilter.filter.base import OnUndecided
from dumpfilter.filter.flags import FILTER_BINLOG_SEND_F, FILTER_STOP_F, FILTER_UNDECIDED_F, TableFlags
from dumpfilter.index.segment import Segment

_SEND = np.uint32(FILTER_BINLOG_SEND_F)
_STOP = np.uint32(FILTER_STOP_F)
_UNDECIDED = np.uint32(FILTER_UNDECIDED_F)
_TEXTS = (int(EventType.ROWS_QUERY), int(EventType.ANNOTATE_ROWS))
_BLOCKS = (int(EventType.BEGIN_LOAD_QUERY), int(EventType.APPEND_BLOCK))


def withhold(
    flags: TableFlags,
    segment: Segment,
    columns: Columns,
    first: int,
    read: ReadAt,
    *,
    inside: bool = False,
) -> tuple[Columns, list[int]]:
    """Return the columns of a segment (a part of a binlog file) in which the events that must not be sent are marked.
    These are the events that an imposed filter (set by the master's operator for a slave) does not clearly allow.
    Examples are events of unknown types, and the texts of row-based statements.

    A marked event gets the role WITHHELD (dropped with the context events before it) or HIDDEN (dropped alone). Its
    transaction becomes MIXED, so that each event is decided separately.

    Also return the byte offsets in the file of events about which the filters cannot decide. The caller adds their
    number to the counts in the chunks (messages to the slave). The list lacks the undecided events that the compiled
    decision counts itself, such as undecided statements that are sent. Raises UndecidedEvent, with the number of the
    transaction, if an imposed filter stops the dump at such an event.

    Parameters:
        flags: the decisions of the slave's filter and of the imposed filters. At least one filter is imposed.
        segment: the segment to check, scanned into arrays.
        columns: the segment's columns, which say which transactions are sent or dropped whole. They may begin with
            carried events, such as the context events before the segment of a statement that continues in the segment.
        first: the number of the first transaction to check.
        read: reads the segment's file.
        inside: whether the segment is the content of a compressed transaction.
    """
    array, on_undecided, carried = flags.array(), flags.on_undecided, columns.carried
    kind, subject, txn_subject = columns.role & R.ROLE_MASK, columns.subject, columns.txn_subject
    before = [read(offset, HEADER_LENGTH)[4] for offset in columns.offset[:carried].tolist()]
    type = np.append(np.array(before, np.uint8), segment.type)
    transaction = np.repeat(np.arange(len(txn_subject)), np.diff(columns.txn_event))
    wanted = (txn_subject != R.SKIP)[transaction] & (transaction >= first)
    sent = wanted & _may_be_sent(array, segment, txn_subject)[transaction]
    # The carried events were counted with the segment before.
    wanted[:carried] = False

    # The compiled decision counts undecided statements that are sent.
    bits = np.where(wanted & (kind == R.STATEMENT), array[np.maximum(subject, 0)], np.uint32(0))
    stops, undecided = bits & _STOP != 0, bits & (_UNDECIDED | _SEND) == _UNDECIDED
    role = kind.copy()
    if on_undecided is not OnUndecided.SEND:
        unmapped = wanted & np.isin(kind, (R.ROWS, R.ROWS_END)) & (subject < 0)
        unknown = wanted & (kind == R.KEEP)
        undecided |= unmapped | unknown
        passes = np.zeros(len(kind), np.bool_)
        passes[[carried + event for event in segment.all_ends]] = True
        if on_undecided is OnUndecided.DROP:
            # The text of an incident is the server's own. A slave must hear that the binlog lacks events.
            passes |= type == EventType.INCIDENT
        role[unknown] = np.where(passes, R.XA, R.WITHHELD)[unknown]
        if on_undecided is OnUndecided.STOP:
            stops |= unmapped
            for event in np.flatnonzero(unknown & ~passes).tolist():
                # Servers pass over an unknown event with this flag, so a slave loses nothing without it.
                header = EventHeader.unpack(read(int(columns.offset[event]), HEADER_LENGTH))
                stops[event] = not header.flags & LOG_EVENT_IGNORABLE_F

    context = sent & (kind == R.CONTEXT)
    role[context & np.isin(type, _TEXTS)] = R.HIDDEN
    statements = np.flatnonzero(~np.isin(kind, (R.CONTEXT, R.GAP)))
    blocks = np.flatnonzero(context & np.isin(type, _BLOCKS))
    number = np.searchsorted(statements, blocks)
    # The statement of blocks at the segment's end is not known yet.
    blocks, statement = blocks[number < len(statements)], statements[number[number < len(statements)]]
    # A withheld statement takes the blocks before it along.
    is_alone = (type[statement] != EventType.EXECUTE_LOAD_QUERY) & (role[statement] != R.WITHHELD)
    if on_undecided is OnUndecided.STOP:
        stops[statement[is_alone]] = True
    elif on_undecided is OnUndecided.DROP:
        role[blocks[is_alone]] = R.HIDDEN

    if stops.any():
        event = int(np.argmax(stops))
        stopping = flags.subject(int(subject[event])) if bits[event] & _STOP else None
        what = event_name(int(type[event])) + " event"
        if isinstance(stopping, Statement):
            what += f" (statement kind {stopping.kind.value})"
        if inside:
            what += " in a compressed transaction"
        error = UndecidedEvent(
            f"the imposed filter {flags.stopping(stopping)!r} cannot decide about this {what}, so the dump stops "
            'before its transaction; on_undecided = "drop" or "send" in the master\'s configuration file lets the dump '
            "go on",
            file=segment.file,
            position=int(columns.offset[event]),
        )
        error.transaction = int(transaction[event])
        raise error
    mixed = np.unique(transaction[np.isin(role, (R.WITHHELD, R.HIDDEN))])
    mixed = mixed[(txn_subject[mixed] >= 0) | (txn_subject[mixed] == R.KEPT)]
    marked = columns.with_roles(role | (columns.role & R.ENDS)).with_subjects(mixed, R.MIXED)
    return marked, columns.offset[undecided].tolist()


def _may_be_sent(
    array: npt.NDArray[np.uint32], segment: Segment, txn_subject: npt.NDArray[np.int32]
) -> npt.NDArray[np.bool_]:
    """Return for each transaction of a segment (a part of a binlog file) whether the filters may send any of it.

    ``array`` has a uint32 of flags for each table or statement, which combines the decisions of the slave's filters.
    ``txn_subject`` has for each transaction the number of its only table or statement, or a negative constant such as
    MIXED.
    """
    found: npt.NDArray[np.bool_] = (txn_subject < 0) | (array[np.maximum(txn_subject, 0)] & _SEND != 0)
    # A transaction of several subjects is dropped if the filters drop all of them.
    members = np.append(0, np.cumsum(array[segment.set_subject] & _SEND != 0))
    begins, ends = segment.txn_set[:-1], segment.txn_set[1:]
    found &= (txn_subject != R.MIXED) | (begins == ends) | (members[ends] > members[begins])
    found &= txn_subject != R.NOTHING
    return found
