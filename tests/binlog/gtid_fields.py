"""A reader of the last fields of MySQL's GTID events, which the product writes for replicas and does not read."""

from __future__ import annotations

from typing import NamedTuple

from dumpfilter.binlog.cursor import Cursor


class LastFields(NamedTuple):
    """The fields after the immediate commit timestamp of a GTID, ANONYMOUS_GTID or GTID_TAGGED event. A field that the
    event lacks is None; the original ones default to the immediate ones.
    """

    original_commit_timestamp: int | None = None
    transaction_length: int | None = None
    immediate_server_version: int | None = None
    original_server_version: int | None = None
    commit_group_ticket: int | None = None


def last_fields(body: bytes | memoryview) -> LastFields:
    """Return the last fields of a GTID or ANONYMOUS_GTID event."""
    reader = Cursor(body[42:], "GTID")
    found: list[int | None] = [None] * 5
    if reader.left:
        found[0] = immediate = reader.integer(7, "the immediate time")
        if immediate >> 55:
            found[0] = reader.integer(7, "the original time")
    if reader.left:
        found[1] = reader.packed("the length")
    if reader.left:
        immediate = reader.integer(4, "the immediate version")
        found[2] = found[3] = immediate & 0x7FFFFFFF
        if immediate >> 31:
            found[3] = reader.integer(4, "the original version")
    if reader.left:
        found[4] = reader.integer(8, "the ticket")
    reader.finish()
    return LastFields(*found)


def last_tagged_fields(body: bytes | memoryview) -> LastFields:
    """Return the last fields of a GTID_TAGGED event, up to the first field that this reader does not know."""
    reader = Cursor(body, "GTID_TAGGED")
    _, reader.end, _ = (reader.varlen("the head") for _ in range(3))
    found: dict[int, int] = {}
    while reader.left and (number := reader.varlen("a field")) < 12:
        if number == 1:
            for _ in range(16):
                reader.varlen("the uuid")
        elif number == 3:
            reader.take(reader.varlen("the tag's length"), "the tag")
        else:
            found[number] = reader.varlen("a value")
    return LastFields(
        found.get(7, found.get(6)), found.get(8), found.get(9), found.get(10, found.get(9)), found.get(11)
    )
