"""GTID sources as numbers, for compiled code, and their translation to and from GTID sets.

A segment stores each transaction's GTID as two numbers: that of the GTID source, and that within the source. A GTID set
has server UUIDs and tags (MySQL), or domain ids and server ids (MariaDB).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dumpfilter.binlog.gtid import GtidSet, MariadbGtidSet, MysqlGtidSet

SourceKey = tuple[bytes, str] | tuple[int, int]
"""``(uuid of 16 bytes, tag)`` for MySQL, ``(domain id, server id)`` for MariaDB."""

_TAGGED = np.iinfo(np.uint64).max
"""The first of the two words that stand for a source with a tag. No server has such a UUID."""


class SourceNumbers:
    """The numbers of a binlog set's GTID sources, from 0. All scans of the binlog set share one object."""

    def __init__(self) -> None:
        self.raw: npt.NDArray[np.uint64] = np.zeros((64, 2), np.uint64)
        """Each source as two words, which the compiled scan compares: a UUID, or domain id and server id."""
        self.count = 0
        """The number of sources known."""
        self._tagged: dict[tuple[bytes, str], int] = {}
        self._tagged_keys: dict[int, tuple[bytes, str]] = {}

    def tagged(self, uuid: bytes, tag: str) -> int:
        """Return the number of a MySQL source with a tag. A new source gets the next number."""
        key = (uuid, tag)
        number = self._tagged.get(key)
        if number is None:
            if self.count >= len(self.raw):
                self.grow()
            number = self.count
            self.raw[number] = (_TAGGED, number)
            self._tagged[key] = number
            self._tagged_keys[number] = key
            self.count += 1
        return number

    def grow(self) -> None:
        """Make room for twice as many sources."""
        self.raw = np.concatenate([self.raw, np.zeros_like(self.raw)])

    def key(self, number: int, family: str) -> SourceKey:
        """Return the source that has a number. ``family`` is ``"mysql"`` or ``"mariadb"``."""
        if number in self._tagged_keys:
            return self._tagged_keys[number]
        if family == "mariadb":
            return int(self.raw[number, 0]), int(self.raw[number, 1])
        return self.raw[number].tobytes(), ""


def add_numbers(gtids: GtidSet, key: SourceKey, numbers: npt.NDArray[np.int64]) -> None:
    """Add GTIDs of one source to a set of the same family."""
    if isinstance(gtids, MariadbGtidSet):
        domain, server = key
        gtids.add_many(domain, numbers, server_id=server)  # type: ignore[arg-type]
    else:
        gtids.add_many(key, numbers)  # type: ignore[arg-type]


def add_run(gtids: GtidSet, key: SourceKey, first: int, last: int) -> None:
    """Add consecutive GTIDs of one source to a set of the same family."""
    if isinstance(gtids, MariadbGtidSet):
        domain, server = key
        gtids.add_range(domain, first, last, server_id=server)  # type: ignore[arg-type]
    else:
        gtids.add_range(key, first, last)  # type: ignore[arg-type]


class Membership:
    """A GTID set prepared for questions about many GTIDs at once. Later changes of the set have no effect."""

    def __init__(self, gtids: GtidSet) -> None:
        self.family = gtids.family
        ranges: dict[object, list[tuple[int, int]]] = {}
        for key, first, last in gtids:
            ranges.setdefault(key, []).append((first, last))
        self._ranges = {
            key: (np.array([f for f, _ in r], np.int64), np.array([e for _, e in r], np.int64))
            for key, r in ranges.items()
        }

    def contains(self, key: SourceKey, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Tell for each number of a source whether the set contains that GTID."""
        found = self._ranges.get(key[0] if self.family == "mariadb" else key)
        if found is None:
            return np.zeros(len(numbers), np.bool_)
        first, last = found
        at = np.searchsorted(first, numbers, side="right") - 1
        return (at >= 0) & (numbers <= last[at])


def empty_set(family: str) -> GtidSet:
    """Return an empty GTID set of a family, ``"mysql"`` or ``"mariadb"``."""
    return MariadbGtidSet() if family == "mariadb" else MysqlGtidSet()
