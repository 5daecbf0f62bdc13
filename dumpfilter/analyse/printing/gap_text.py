"""The text of Gap events, with which a slave's relay log records the transactions that the master dropped."""

from __future__ import annotations

from dumpfilter.base.errors import BinlogCorrupt, GtidError
from dumpfilter.binlog.gap_events import Gap, Head
from dumpfilter.binlog.gtid import empty_set
from dumpfilter.filter.convert import kind_from_number


def gap_text(content: Gap | Head | None) -> str:
    r"""Return the text of an event that dumpfilter wrote into a relay log, or an empty text for ``content`` None.

    A :class:`Gap` records transactions that the master dropped. A :class:`Head` identifies the master at the
    beginning of a relay log. Raises BinlogCorrupt for GTIDs that no server can write.

    >>> gap_text(Gap(4711, {1: 3}, ((bytes(4) + b"\x0b\0\0\0", 5, 7),)))
    'dropped by the master: GTIDs 0-11-5:7, up to position 4711; hits REPLICATE_DO_DB=3'
    >>> gap_text(Head({"master_uuid": "5a8b8d0a-e543-11f1-9c8d-02fc00000001"}))
    'head of a relay log: master_uuid=5a8b8d0a-e543-11f1-9c8d-02fc00000001'
    """
    if content is None:
        return ""
    if isinstance(content, Head):
        members = ", ".join(f"{name}={value}" for name, value in content.members.items())
        return f"head of a relay log: {members or 'no member'}"
    told = []
    if content.runs:
        told.append(f"GTIDs {_gtids(content)}")
    if content.end:
        told.append(f"up to position {content.end}")
    parts = [", ".join(told)] if told else []
    if content.hits:
        parts.append("hits " + ", ".join(f"{_kind(kind)}={n}" for kind, n in content.hits.items()))
    return f"dropped by the master: {'; '.join(parts) or 'nothing'}"


def _gtids(gap: Gap) -> str:
    gtids = empty_set("mariadb" if len(gap.runs[0][0]) == 8 else "mysql")
    try:
        gap.add_to(gtids)
    except GtidError as error:
        raise BinlogCorrupt(f"a Gap event has impossible GTIDs: {error}") from None
    return str(gtids)


def _kind(number: int) -> str:
    kind = kind_from_number(number)
    return f"rule kind {number}" if kind is None else kind.value.upper().replace("-", "_")
