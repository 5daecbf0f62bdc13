"""XA transactions, followed through a stream: what XA COMMIT and XA ROLLBACK are about.

A prepared XA transaction is an ordinary transaction that ends in an XA_prepare event; its XA COMMIT or XA
ROLLBACK comes later, with a GTID of its own, and names nothing but the xid. A slave needs the one exactly
when it was sent the other, so the index remembers what each prepared transaction holds until its end comes by.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from dumpfilter.binlog import roles as R
from dumpfilter.binlog.gtid_events import Xid

ALWAYS = R.KEPT
"""What a prepared transaction holds when some of it is sent whatever a filter says."""

Prepared = Mapping[Xid, int]
"""The XA transactions that are prepared at a place of the stream and have no end up to there, by their canonical
names: the number of a subject that is kept exactly when something in them is (Subjects.any_of), or :data:`ALWAYS`."""

NONE_PREPARED: Prepared = MappingProxyType({})

_END = re.compile(
    rb"XA\s+(?:COMMIT|ROLLBACK)\s+X'((?:[0-9a-f]{2})*)'\s*,\s*X'((?:[0-9a-f]{2})*)'\s*,\s*(-?\d+)\s*",
    re.IGNORECASE,
)


def ended_xid(text: bytes) -> Xid | None:
    """The XA transaction that an XA COMMIT or XA ROLLBACK ends, as servers write it (``serialize_xid``); None
    for any other text.

    >>> str(ended_xid(b"XA COMMIT X'67',X'62',7"))
    "X'67',X'62',7"
    """
    found = _END.fullmatch(text)
    if found is None:
        return None
    gtrid, bqual, format_id = found.groups()
    return canonical(Xid(int(format_id), bytes.fromhex(gtrid.decode()), bytes.fromhex(bqual.decode())))


def canonical(xid: Xid) -> Xid:
    """The xid with its format id in 32 bits without a sign: the text and the XA_prepare event differ on large ones."""
    return replace(xid, format_id=xid.format_id & 0xFFFFFFFF)


class XaTransactions:
    """The prepared XA transactions, as a scan goes on from those at its beginning."""

    def __init__(self, prepared: Prepared = NONE_PREPARED) -> None:
        self._prepared = dict(prepared)
        self._snapshot: Prepared | None = prepared

    @property
    def prepared(self) -> Prepared:
        """Those prepared now; never changed afterwards."""
        if self._snapshot is None:
            self._snapshot = MappingProxyType(dict(self._prepared)) if self._prepared else NONE_PREPARED
        return self._snapshot

    def prepare(self, xid: Xid, holds: int) -> None:
        """An XA_prepare event has come."""
        self._prepared[canonical(xid)] = holds
        self._snapshot = None

    def end(self, xid: Xid) -> int | None:
        """An XA COMMIT or XA ROLLBACK has come: what the transaction holds, None when that is not known."""
        holds = self._prepared.pop(canonical(xid), None)
        if holds is not None:
            self._snapshot = None
        return holds
