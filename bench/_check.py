"""The fifty filters of simulated slaves, and the check that each slave received exactly its events.

The check compares a slave's result with a plain pass over the finished set. It also compares the marked transactions of
this pass with rules of this module's own, which tell without the product's filter what a filter sends.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import cache

import numpy as np

from bench._growing import BEGINNING, MARKS, Mark, Start
from dumpfilter.binlog.events import EventType
from dumpfilter.binlog.workload.generate import GeneratedSet
from dumpfilter.dump.event_stream import KeptEvents, kept_pieces
from dumpfilter.filter.convert import filter_from_proto
from dumpfilter.index.fileset import BinlogSet
from dumpfilter.v1 import dumpfilter_pb2 as pb

FILTERS = 50
"""The number of different filters. A fifth of them have no rule about ``marker.t``, or rules that keep it out."""

_SCHEMAS = 20
_TYPE_AT = 4
"""The offset of an event's type in its header."""


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


Place = tuple[str, int]
"""A binlog file, and the position in it."""

Pieces = tuple[tuple[int, Place], ...]
"""The number of each filter of a slave, and the place up to which this filter chose the events."""


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
    lost: int = 0
    """The connections that ended, except the ones that the slave brought about."""
    vanished: int = 0
    pieces: Pieces = ()
    """The pieces of the earlier filters."""
    reached: dict[str, object] = field(default_factory=dict)
    """The slave's place and transactions at the end, and the digest, size and dropped transactions up to there.

    A slave that is not exact has no digest.
    """


def check(
    results: Iterable[Result], made: GeneratedSet, start: Start = BEGINNING, marks: Sequence[Mark] = ()
) -> None:
    """Check that slaves received exactly their events, in order, from ``start`` to the set's end. Raises SystemExit.

    For slaves without a digest, the check compares the place and the transactions alone.
    """
    binlogs = BinlogSet.open([path for path in made.files if path.name >= start.file])
    final = (made.files[-1].name, made.files[-1].stat().st_size)

    @cache
    def kept(number: int) -> list[KeptEvents]:
        """Return the events that a filter sends, without the format descriptions."""
        found = kept_pieces(binlogs, filter_from_proto(definition_of(number)))
        return [run for run in found if run.data[_TYPE_AT] != EventType.FORMAT_DESCRIPTION]

    @cache
    def expected(pieces: Pieces, *, exact: bool) -> dict[str, object]:
        wanted: dict[str, object] = {"place": final, "transactions": made.transactions}
        if not exact:
            return wanted
        digest, size, transactions = hashlib.sha256(), 0, start.transactions
        found: list[int] = []
        begin = (start.file, start.position)
        for number, end in pieces:
            for run in kept(number):
                first, last = _events_before(run, begin), _events_before(run, end)
                if first < last:
                    part = run.part(first, last)
                    digest.update(part.data.data)
                    size += part.data.size
                    transactions += int(np.sum(part.data[part.start + _TYPE_AT] == EventType.GTID))
                    found += map(int, MARKS.findall(part.data.data))
            begin = end
        passing = [mark.number for mark in marks if sends(_filter_at(mark, pieces), mark.schema, mark.table)]
        if found != passing:
            raise SystemExit(f"the pass with filters {pieces} keeps the marks {found}, not {passing}")
        return wanted | {
            "digest": digest.hexdigest(),
            "size": size,
            "dropped": made.transactions - transactions,
        }

    for result in results:
        pieces = (*result.pieces, (result.filter, final))
        for name, value in expected(pieces, exact="digest" in result.reached).items():
            if (found := result.reached[name]) != value:
                raise SystemExit(
                    f"{result.life} slave {result.number}: {name} is {str(found)[:200]}, not {str(value)[:200]} "
                    f"({len(result.pieces)} changes of filter)"
                )


def _filter_at(mark: Mark, pieces: Pieces) -> int:
    """Return the number of the filter that chose the events at a mark."""
    return next(number for number, end in pieces if (mark.file, mark.position) < end)


def _events_before(run: KeptEvents, place: Place) -> int:
    """Return the number of a run's events that are before a place."""
    file, position = place
    if run.file == file:
        return int(np.searchsorted(run.offset, position))
    return run.offset.size if run.file < file else 0
