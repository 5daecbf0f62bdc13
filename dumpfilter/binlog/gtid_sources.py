"""The numbering of GTID sources for compiled code, which compares small numbers.

A GTID source is a server UUID with its tag (MySQL), or a domain id with a server id (MariaDB). A segment (consecutive
events scanned at once) stores a transaction's GTID as two integers: the number of its GTID source, and its gno or
seq_no.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dumpfilter.binlog.gtid import SourceKey

HASH_FACTORS = (0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93)
"""The factors of the hash by which GTID sources are looked up. Compiled code and Python compute the same one."""

_64_BITS = (1 << 64) - 1

_TAGGED = np.iinfo(np.uint64).max
"""The number that stands for the first half of the UUID when a GTID source has a tag, in an array of UUIDs.

No server has a UUID that begins with this number.
"""


class SourceNumbers:
    """A register that gives each GTID source of a binlog set a number, from 0 on.

    A GTID source is a server UUID with its tag, or MariaDB's domain id and server id. Compiled code stores the small
    number instead of the UUID with each transaction. All readers of the binlog set share one register.
    """

    def __init__(self) -> None:
        self.raw: npt.NDArray[np.uint64] = np.zeros((64, 2), np.uint64)
        """The GTID sources as the compiled scan compares them, two uint64 for each source: a UUID, or domain id and
        server id.
        """
        self.slots: npt.NDArray[np.int64] = np.full(2 * len(self.raw), -1, np.int64)
        """A hash table with the numbers of the GTID sources without a tag, by ``raw``. -1 is a free entry."""
        self.count = 0
        """The number of GTID sources that have a number so far."""
        self._tagged: dict[tuple[bytes, str], int] = {}
        self._tagged_keys: dict[int, tuple[bytes, str]] = {}

    def tagged(self, uuid: bytes, tag: str) -> int:
        """Return the number of a MySQL GTID source, which is a server UUID with a tag. A new source gets the next free
        number.
        """
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

    def number(self, key: SourceKey) -> int:
        """Return the number that stands for a GTID source in compiled code. A new source gets the next free number.

        ``key`` is the source: a (UUID, tag), or MariaDB's (domain id, server id).
        """
        first, second = key
        if isinstance(first, bytes) and second:
            return self.tagged(first, str(second))
        raw = np.frombuffer(first, np.uint64) if isinstance(first, bytes) else np.array(key, np.uint64)
        slot = self._slot(raw)
        if self.slots[slot] < 0:
            if self.count >= len(self.raw):
                self.grow()
                slot = self._slot(raw)
            self.raw[self.count] = raw
            self.slots[slot] = self.count
            self.count += 1
        return int(self.slots[slot])

    def _slot(self, raw: npt.NDArray[np.uint64]) -> int:
        """Return the index in ``slots`` at which a GTID source is, or at which it belongs."""
        high, low = raw.tolist()
        value = high ^ low * HASH_FACTORS[0] & _64_BITS
        value = (value ^ value >> 32) * HASH_FACTORS[1] & _64_BITS
        slot = (value ^ value >> 29) & len(self.slots) - 1
        while (number := int(self.slots[slot])) >= 0 and self.raw[number].tolist() != [high, low]:
            slot = slot + 1 & len(self.slots) - 1
        return int(slot)

    def grow(self) -> None:
        """Double the room for GTID sources (server UUIDs, or domain ids with server ids) in the array and its hash
        table.

        The compiled scan of a binlog cannot enlarge them itself.
        """
        self.raw = np.concatenate([self.raw, np.zeros_like(self.raw)])
        self.slots = np.full(2 * len(self.raw), -1, np.int64)
        for number in range(self.count):
            if number not in self._tagged_keys:
                self.slots[self._slot(self.raw[number])] = number

    def key(self, number: int, family: str) -> SourceKey:
        """Return the GTID source for which a number stands: a (UUID, tag), or MariaDB's (domain id, server id).

        ``family`` is ``"mysql"`` or ``"mariadb"``.
        """
        if number in self._tagged_keys:
            return self._tagged_keys[number]
        if family == "mariadb":
            return int(self.raw[number, 0]), int(self.raw[number, 1])
        return self.raw[number].tobytes(), ""
