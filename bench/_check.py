"""The fifty filters of simulated slaves, and the check that each slave received exactly its events.

The check compares a slave's result with a plain pass over the finished set. It also compares the marked transactions
with rules of this module's own, which tell without the product's filter what a filter sends.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import cache

from bench._growing import GrowingSet, Start
from dumpfilter.binlog.events import EventHeader, EventType
from dumpfilter.filter.convert import filter_from_proto
from dumpfilter.index.fileset import BinlogSet
from dumpfilter.v1 import dumpfilter_pb2 as pb
from tests.kept_events import kept_events

FILTERS = 50
"""The number of different filters. A fifth of them have no rule about ``marker.t``, or rules that keep it out."""

_SCHEMAS = 20


def rules_of(number: int) -> tuple[str, list[str]]:
    """Return the kind of a filter's rules, as ``dumpfilter.proto`` names it, and the values of the rules."""
    step = number // 5 % 10
    return [
        ("REPLICATE_IGNORE_DB", [f"scratch_{step}"] if step else []),
        ("REPLICATE_DO_DB", [f"shop_{(2 * step + k) % _SCHEMAS:02}" for k in (0, 1)]),
        ("REPLICATE_IGNORE_DB", [f"shop_{(step + 3 * k) % _SCHEMAS:02}" for k in range(5)]),
        ("REPLICATE_WILD_DO_TABLE", [f"shop_{step:02}.table_0{step % 5}%"]),
        ("REPLICATE_WILD_IGNORE_TABLE", [f"shop_%.table_0{step}%"]),
    ][number % 5]


def definition_of(number: int) -> pb.FilterDefinition:
    """Return a filter as a slave sends it to the master."""
    kind, values = rules_of(number)
    return pb.FilterDefinition(rules=[pb.Rule(kind=kind, value=value) for value in values])


def sends(number: int, schema: str, table: str) -> bool:
    """Tell whether a filter sends the rows of a table. Equals the servers' rules for row-based events."""
    kind, values = rules_of(number)
    if kind.endswith("_DB"):
        is_named = schema in values
    else:
        patterns = (value.replace("_", "?").replace("%", "*") for value in values)
        is_named = any(fnmatchcase(f"{schema}.{table}", pattern) for pattern in patterns)
    return is_named == ("_DO_" in kind)


class Life(StrEnum):
    """The ways in which a simulated slave lives."""

    STEADY = "steady"
    SLOW = "slow"
    STUCK = "stuck"
    VANISHING = "vanishing"
    CHANGING = "changing"


@dataclass
class Result:
    """One slave's result: what it received, and what it reached."""

    number: int
    life: Life
    filter: int
    error: str = ""
    begun: float = 0.0
    ended: float = 0.0
    bytes: int = 0
    messages: int = 0
    sizes: list[int] = field(default_factory=list)
    """The sizes of all messages, bytes, of a slave that receives the set once."""
    arrivals: list[tuple[int, float]] = field(default_factory=list)
    """The number of each mark, and the time on the monotonic clock at which it arrived, seconds."""
    lost: list[str] = field(default_factory=list)
    """The reasons for which calls ended, except the ones that the slave brought about."""
    vanished: int = 0
    pieces: list[tuple[int, tuple[str, int]]] = field(default_factory=list)
    """Each earlier filter's number, and the place up to which this filter chose the events."""
    reached: dict[str, object] = field(default_factory=dict)
    """The slave's place, transactions, marks, digest, size and dropped transactions at the end."""


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
        kept = kept_events(binlogs, filter_from_proto(definition_of(number)), verify=True)
        found = (((each.file, each.offset), each.event) for each in kept)
        return [one for one in found if EventHeader.unpack(one[1]).type != EventType.FORMAT_DESCRIPTION]

    @cache
    def expected(pieces: Pieces) -> dict[str, object]:
        (_, begin), *rest = pieces
        marks = []
        for mark in growing.marks:
            number = next(number for number, end in rest if (mark.file, mark.position) < end)
            if sends(number, mark.schema, mark.table):
                marks.append(mark.number)
        wanted: dict[str, object] = {
            "place": growing.end,
            "transactions": growing.transactions,
            "marks": marks,
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
            if (found := result.reached[name]) != value:
                raise SystemExit(
                    f"{result.life} slave {result.number}: {name} is {str(found)[:200]}, not {str(value)[:200]} "
                    f"({len(result.pieces)} changes of filter)"
                )
