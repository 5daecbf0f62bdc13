"""The events that each follower must have received, by the plain pass over the finished binlog set."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from bench._filters import definition_of
from dumpfilter.binlog.events import EventHeader, EventType
from dumpfilter.dump.event_stream import kept_events
from dumpfilter.filter.convert import filter_from_proto
from dumpfilter.index.fileset import BinlogSet

_GTID = EventType.GTID


class Reference:
    """The filtered events of a binlog set, computed once for each filter."""

    def __init__(self, index: Path) -> None:
        self._binlogs = BinlogSet.open(index)
        self._events = cache(self._filtered)

    def digest(self, pieces: list[tuple[int, tuple[str, int]]]) -> tuple[str, int, int]:
        """Return the SHA-256 of the events that a slave receives, their bytes, and the number of their transactions.

        Each piece is a filter's number, and the place up to which this filter chose the events. The first piece names
        the place at which the slave begins, with any filter.
        """
        digest, size, transactions = hashlib.sha256(), 0, 0
        (_, begin), *rest = pieces
        for number, end in rest:
            for place, event in self._events(number):
                if begin <= place < end:
                    digest.update(event)
                    size += len(event)
                    transactions += event[4] == _GTID
            begin = end
        return digest.hexdigest(), size, transactions

    def _filtered(self, number: int) -> list[tuple[tuple[str, int], bytes]]:
        rules = filter_from_proto(definition_of(number))
        kept = kept_events(self._binlogs, rules, verify=True)
        return [
            ((each.file, each.offset), each.event)
            for each in kept
            if EventHeader.unpack(each.event).type != EventType.FORMAT_DESCRIPTION
        ]
