"""The check of simulated slaves: each must have received the events that the plain pass over the finished set gives."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import cache

from bench import _filters
from bench._follower import Start
from bench._growing import GrowingSet
from bench._slaves import Result
from dumpfilter.binlog.events import EventHeader, EventType
from dumpfilter.filter.convert import filter_from_proto
from dumpfilter.index.fileset import BinlogSet
from tests.kept_events import kept_events

Pieces = tuple[tuple[int, tuple[str, int]], ...]
"""The number of each filter of a slave, and the place up to which this filter chose the events. The first piece names
the place at which the slave begins, with any filter."""


def check(results: Iterable[Result], growing: GrowingSet, start: Start, *, digests: bool = True) -> None:
    """Check that slaves received exactly their events, in order, up to the end of the set. Raises SystemExit.

    Without ``digests`` the events of the set are not read. Position, transactions and marks are checked all the same.
    """
    binlogs = BinlogSet.open(growing.index)
    first = (start.file, start.position if start.file else 0)

    @cache
    def events(number: int) -> list[tuple[tuple[str, int], bytes]]:
        kept = kept_events(binlogs, filter_from_proto(_filters.definition_of(number)), verify=True)
        found = (((each.file, each.offset), each.event) for each in kept)
        return [one for one in found if EventHeader.unpack(one[1]).type != EventType.FORMAT_DESCRIPTION]

    @cache
    def expected(pieces: Pieces) -> dict[str, object]:
        (_, begin), *rest = pieces
        wanted: dict[str, object] = {
            "place": growing.end,
            "transactions": growing.transactions,
            # By the rules of the filters alone.
            "marks": [
                mark.number
                for mark in growing.marks
                if _filters.sends(
                    next(number for number, end in rest if (mark.file, mark.position) < end),
                    mark.schema,
                    mark.table,
                )
            ],
        }
        if digests:
            digest, size, sent = hashlib.sha256(), 0, 0
            for number, end in rest:
                for place, event in events(number):
                    if begin <= place < end:
                        digest.update(event)
                        size += len(event)
                        sent += event[4] == EventType.GTID
                begin = end
            dropped = growing.transactions - start.transactions - sent
            wanted |= {"digest": digest.hexdigest(), "size": size, "dropped": dropped}
        return wanted

    for result in results:
        pieces = ((0, first), *result.pieces, (result.filter, growing.end))
        for name, value in expected(pieces).items():
            if (found := getattr(result, name)) != value:
                raise SystemExit(
                    f"{result.life} slave {result.number}: {name} is {str(found)[:200]}, not {str(value)[:200]} "
                    f"({len(result.pieces)} changes of filter)"
                )
