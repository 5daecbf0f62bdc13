"""The bytes of each transaction of a binlog set, for each distinct filter: the input of a simulation.

One pass over the binlogs makes a :class:`SetTraffic`. The simulation needs nothing else of the binlogs.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


class Clock(enum.StrEnum):
    """The source of the times at which transactions were committed."""

    MICROSECONDS = "gtid"
    """The commit timestamps in the GTID events of MySQL 8.0.1 and later, in microseconds."""
    SECONDS = "header"
    """The timestamps in the event headers, in whole seconds. The transactions of one second are spread evenly
    over it.
    """
    GIVEN = "measured"
    """The times at which a program saw the transactions arrive in the binlog, in microseconds."""


@dataclass(frozen=True, eq=False)
class Sent:
    """The part of a binlog set that one filter lets through, by transaction.

    The arrays have one entry for each transaction of which at least one byte is sent.
    """

    transaction: Ints
    """The indexes of the transactions in the binlog set, ascending."""
    bytes: Ints
    """The bytes of each transaction's events. Events outside transactions (format descriptions, rotations) count with
    the transaction before them, and those before the first transaction with the first one that is sent.
    """
    events: Ints
    """The number of each transaction's events. MySQL's protocol adds some bytes for each."""
    compressed: Ints
    """The estimated bytes of each transaction's events after compression by zstd."""


@dataclass(frozen=True, eq=False)
class SetTraffic:
    """The transactions of a binlog set in its order, and what each distinct filter lets through."""

    time: Ints
    """The commit time of each transaction, microseconds since 1970. It never decreases."""
    clock: Clock
    end: Ints
    """The byte offset at which each transaction ends in its binlog file."""
    file: Ints
    """The index in ``files`` of the binlog file in which each transaction ends."""
    files: tuple[str, ...]
    everything: Sent
    """The traffic of a slave without a filter."""
    filtered: Sequence[Sent] = ()
    """The traffic that each distinct filter lets through, by the filter's index. An item may be computed at each
    access.
    """
    split: Sequence[Sent | None] = ()
    """For each distinct filter, the traffic of those binlogs of a split by schema that the filter needs."""
    stand_in_bytes: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    """For each transaction, the bytes of the stand-in (empty transaction) that a real replica gets if the transaction
    is dropped. 0: the transaction has no GTID.
    """
    stand_in_events: int = 0
    """The number of events in one stand-in."""
    stand_ins_joined: bool = False
    """Whether one stand-in is enough for consecutive dropped transactions (MariaDB)."""
    warnings: tuple[str, ...] = ()
    server_version: str = ""
    family: str = "mysql"
    nbytes: int = 0
    """The size of all files of the set together."""

    def __len__(self) -> int:
        return len(self.time)
