"""The gaps of one message from the master, as arrays. A gap is a note about consecutive transactions that the master
dropped. The slave writes each gap to its relay log as an event.
"""

from __future__ import annotations

from typing import NamedTuple

from dumpfilter.base.compiler.arrays import Int64s


class GapColumns(NamedTuple):
    """The gaps in one message from the master, as arrays. A gap is a note about consecutive transactions that the
    master dropped.

    ``offset``, ``end``, ``runs_until`` and ``hits_until`` have one entry for each gap. ``offset`` is the gap's byte
    offset in the message's events. ``end`` is the byte offset after the dropped transactions in the master's binlog
    file.

    The ``run_*`` arrays have one entry for each run (interval of consecutive dropped GTIDs). The ``hit_*`` arrays have
    one for each count of hits (uses of filter rules of one kind). The runs of gap k are the entries
    ``runs_until[k - 1] : runs_until[k]``, beginning at 0 for the first gap. ``hits_until`` divides the ``hit_*`` arrays
    in the same way.
    """

    offset: Int64s
    """For each gap (note about dropped transactions), the byte offset in the message's events before which the slave
    inserts the gap in its relay log.
    """
    end: Int64s
    """For each gap (note about dropped transactions), the byte offset after these transactions in the master's binlog
    file. The value is 0 for a gap that only has hits (uses of filter rules) of the transaction that continues or
    follows there.
    """
    runs_until: Int64s
    """For each gap (note about dropped transactions), the index after its last run (interval of GTIDs) in the ``run_*``
    arrays. The gap's first run follows the last run of the gap before.
    """
    run_source: Int64s
    """For each run (interval of consecutive dropped GTIDs), the index of the GTID source, such as a server UUID, in the
    message's list of sources.
    """
    run_first: Int64s
    run_last: Int64s
    hits_until: Int64s
    """For each gap (note about dropped transactions), the index after its last entry in ``hit_kind`` and ``hit_count``.
    """
    hit_kind: Int64s
    """For each count of hits (uses of filter rules), the number by which the protocol names the kind of rule."""
    hit_count: Int64s
