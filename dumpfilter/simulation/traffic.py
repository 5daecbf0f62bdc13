"""The input of a simulation: the bytes of each transaction of a binlog set under each distinct filter.

One pass over the binlogs makes a :class:`SetTraffic`. The simulation needs nothing else from the binlogs.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from dumpfilter.analyse.traffic.facts import Ints
from dumpfilter.analyse.traffic.transactions import Sent


class Clock(enum.StrEnum):
    """The sources of the transactions' commit times, such as the headers of the binlog's events."""

    MICROSECONDS = "gtid"
    """The commit timestamps in the GTID events of MySQL 8.0.1 and later, in microseconds."""
    SECONDS = "header"
    """The timestamps in the event headers, in whole seconds. The transactions of one second are spread evenly
    over it.
    """
    GIVEN = "measured"
    """The times at which a program saw the transactions arrive in the binlog, in microseconds."""


@dataclass(frozen=True, eq=False)
class SetTraffic:
    """The transactions of a binlog set, with the bytes of each that a slave receives, under each filter of the
    simulation.
    """

    time: Ints
    """The commit time of each transaction, microseconds since 1970. It never decreases."""
    clock: Clock
    end: Ints
    """The byte offset at which each transaction ends in its binlog file."""
    file: Ints
    """The index in ``files`` of the binlog file in which each transaction ends."""
    files: tuple[str, ...]
    sent: Callable[[int | None], Sent]
    """A function that returns the traffic of a slave, by the index of the slave's filter (None: no filter)."""
    stand_in_bytes: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    """For each transaction, the bytes of the stand-in (empty transaction) that a real replica gets when the
    transaction is dropped. 0: the transaction has no GTID.
    """
    stand_in_events: int = 0
    """The number of events in one stand-in (an empty transaction in place of a dropped one)."""
    stand_ins_joined: bool = False
    """Whether one stand-in (empty transaction) replaces a run of consecutive dropped transactions, as for MariaDB."""
    warnings: tuple[str, ...] = ()
    server_version: str = ""
    family: str = "mysql"
    nbytes: int = 0
    """The total size of the set's files, bytes."""

    def __len__(self) -> int:
        return len(self.time)
