"""The prepared XA transactions of a binlog. They decide which slaves need a later XA COMMIT or XA ROLLBACK.

A prepared transaction is a transaction that ends in an XA_prepare event. Its XA COMMIT or XA ROLLBACK comes later,
with a GTID of its own, and names only the xid. A slave needs this end exactly when it received the prepared
transaction. The index therefore remembers the subjects (tables and statements) of each prepared transaction until the
end.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from dumpfilter.binlog import roles as R
from dumpfilter.binlog.gtid_events import Xid

ALWAYS = R.KEPT
"""The value in :data:`Prepared` for an XA transaction of which the master sends some events to every slave."""

Prepared = Mapping[Xid, int]
"""The XA transactions that are prepared at one position of the stream, by xid in canonical form (:func:`canonical`).

The value is the number of the set of the transaction's tables and statements. It is :data:`ALWAYS` when the master
sends some of the transaction's events to every slave.
"""

NONE_PREPARED: Prepared = MappingProxyType({})

_END = re.compile(
    rb"XA\s+(?:COMMIT|ROLLBACK)\s+X'((?:[0-9a-f]{2})*)'\s*,\s*X'((?:[0-9a-f]{2})*)'\s*,\s*(-?\d+)\s*",
    re.IGNORECASE,
)


def ended_xid(text: bytes) -> Xid | None:
    """Return the xid that an XA COMMIT or XA ROLLBACK statement names, or None for any other text.

    The xid is read in the form that servers write (``serialize_xid``).

    >>> str(ended_xid(b"XA COMMIT X'67',X'62',7"))
    "X'67',X'62',7"
    """
    found = _END.fullmatch(text)
    if found is None:
        return None
    gtrid, bqual, format_id = found.groups()
    return canonical(Xid(int(format_id), bytes.fromhex(gtrid.decode()), bytes.fromhex(bqual.decode())))


def canonical(xid: Xid) -> Xid:
    """Return an equal xid whose format id is an unsigned number of 32 bits, so that xids can be compared.

    The format id in the text of XA COMMIT and in the XA_prepare event may differ in the sign.
    """
    return replace(xid, format_id=xid.format_id & 0xFFFFFFFF)
