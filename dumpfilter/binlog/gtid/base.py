"""The operations that the GTID sets of MySQL and MariaDB have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt

from dumpfilter.base.errors import GtidError
from dumpfilter.binlog.gtid.gtids import Gtid, Key, MariadbGtid, MysqlGtid
from dumpfilter.binlog.gtid.intervals import ONE, U64, Intervals


class GtidSet(ABC):
    """A set of GTIDs of one family (MySQL or MariaDB). A set can change and is therefore not hashable.

    ``|``, ``-``, ``&``, ``==`` and ``in`` (a GTID, or a whole set) work as for Python's set. Iterating yields ``(key,
    first, last)`` for each interval of consecutive numbers, sorted. The key is (UUID, tag) for MySQL and the domain id
    for MariaDB. Combining sets of two families raises GtidError. The operators are linear in the number of intervals;
    :meth:`add` of the next number is O(1).
    """

    family: ClassVar[Literal["mysql", "mariadb"]]
    max_number: ClassVar[int]
    """The largest gno or seq_no that a GTID of this family can have. The smallest is 1."""

    __slots__ = ("_sets",)
    _sets: dict[Any, Intervals]

    def __init__(self) -> None:
        self._sets = {}

    @classmethod
    @abstractmethod
    def parse(cls, text: str) -> Self:
        """Return the GTID set that a text such as ``gtid_executed`` names.

        Raises GtidError, which names the wrong piece.
        """

    @abstractmethod
    def __str__(self) -> str: ...

    def add(self, gtid: Gtid) -> None:
        """Add one GTID to the set. Raises GtidError for a GTID of the other family or a number out of range."""
        key, number = self._place(gtid)
        self.add_range(key, number, number)

    def advance(self, gtid: Gtid) -> None:
        """Add ``gtid`` and all smaller numbers of its UUID and tag, or of its domain.

        A position of MariaDB has this meaning: it names the last GTID and includes all GTIDs before.
        """
        key, number = self._place(gtid)
        self.add_range(key, 1, number)

    @abstractmethod
    def _place(self, gtid: Gtid) -> tuple[Key, int]:
        """Return a GTID's key (UUID and tag, or domain id) and number. Raises GtidError for a GTID of the other
        family.
        """

    @abstractmethod
    def _check_key(self, key: Key) -> None:
        """Raise GtidError when ``key`` is of the other family: MySQL's keys are pairs (UUID, tag), MariaDB's are
        domain ids.
        """

    def __repr__(self) -> str:
        return f"{type(self).__name__}.parse({str(self)!r})"

    def __bool__(self) -> bool:
        return bool(self._sets)

    def count(self) -> int:
        """Return the number of GTIDs in the set. The number may be larger than ``len()`` allows."""
        return sum(one.count() for one in self._sets.values())

    def __len__(self) -> int:
        return self.count()

    def __iter__(self) -> Iterator[tuple[Key, int, int]]:
        for key in sorted(self._sets):
            one = self._sets[key]
            for first, last in zip(one.starts, one.ends, strict=True):
                yield key, first, last

    def last(self, key: Key) -> int | None:
        """Return the largest gno or seq_no in the set for ``key`` (UUID and tag, or domain id); None when the set has
        no such GTID.
        """
        one = self._sets.get(key)
        return one.ends[-1] if one else None

    def ranges(self, key: Key) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return the first and the last numbers of the intervals of ``key``, sorted.

        The set must not change as long as the arrays are in use.
        """
        starts, ends = self._sets.get(key, _NOTHING).arrays()
        return starts.view(np.int64), ends.view(np.int64)

    def __contains__(self, item: object) -> bool:
        if isinstance(item, GtidSet):
            return self.issuperset(item)
        if not isinstance(item, MysqlGtid | MariadbGtid):
            raise GtidError(f"not a GTID nor a GTID set: {item!r}")
        key, number = self._place(item)
        one = self._sets.get(key)
        return one is not None and one.covers(number, number)

    def issuperset(self, other: GtidSet) -> bool:
        """Tell whether every GTID of ``other`` is in this set. Raises GtidError for a set of the other family."""
        self._same_family(other)
        return all(
            (mine := self._sets.get(key)) is not None and mine.covers_all(theirs)
            for key, theirs in other._sets.items()
        )

    def issubset(self, other: GtidSet) -> bool:
        """Tell whether every GTID of this set is in ``other``. Raises GtidError for a set of the other family."""
        return other.issuperset(self)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, GtidSet) or other.family != self.family:
            return NotImplemented
        return self._sets == other._sets

    __hash__ = None  # type: ignore[assignment]  # mutable

    def add_range(self, key: Key, first: int, last: int) -> None:
        """Add the GTIDs of ``key`` (UUID and tag, or domain id) with the numbers ``first`` to ``last``, both included.

        Raises GtidError when a number is out of range.
        """
        self._check_key(key)
        if not 1 <= first <= last <= self.max_number:
            raise GtidError(f"{first}-{last} is no interval within 1 to {self.max_number}")
        self._intervals(key).add_range(first, last)

    def add_many(self, key: Key, numbers: npt.NDArray[np.integer[Any]]) -> None:
        """Add the GTIDs of ``key`` (UUID and tag, or domain id) with many numbers, in any order, repeated or not.

        Raises GtidError when a number is out of range.
        """
        self._check_key(key)
        given = np.asarray(numbers)
        if not given.size:
            return
        if given.ndim != 1 or given.dtype.kind not in "iu":
            raise GtidError(f"numbers must be integers, not {given.dtype} of {given.ndim} dimensions")
        low, high = int(given.min()), int(given.max())
        if low < 1 or high > self.max_number:
            raise GtidError(f"{low if low < 1 else high} is out of range (1 to {self.max_number})")
        values = given.astype(np.uint64, copy=False)
        if not bool((values[1:] > values[:-1]).all()):
            values = np.sort(values)
            values = values[np.concatenate(([True], values[1:] != values[:-1]))]
        breaks = values[1:] - values[:-1] != ONE
        starts = values[np.concatenate(([True], breaks))]
        ends = values[np.concatenate((breaks, [True]))]
        self._add_intervals(key, starts, ends)

    def update(self, other: GtidSet) -> None:
        """Add every GTID of the set ``other`` to this set (``|=``). Raises GtidError for a set of the other family."""
        self._same_family(other)
        for key, theirs in other._sets.items():
            mine = self._sets.get(key)
            if mine is None:
                self._sets[key] = theirs.copy()
            elif (
                len(theirs) == 1
                # Most calls add a single interval, the GTIDs of a chunk of a stream. Adding the interval in place
                # avoids a copy of the whole set.
            ):
                mine.add_range(theirs.starts[0], theirs.ends[0])
            else:
                self._sets[key] = mine.union(theirs)

    def copy(self) -> Self:
        """Return a new set with the same GTIDs."""
        made = type(self)()
        made._sets = {key: one.copy() for key, one in self._sets.items()}
        return made

    def __or__(self, other: GtidSet) -> Self:
        self._same_family(other)
        made = self.copy()
        made.update(other)
        return made

    def __ior__(self, other: GtidSet) -> Self:
        self.update(other)
        return self

    def __and__(self, other: GtidSet) -> Self:
        self._same_family(other)
        return self._with(
            {key: one.intersection(other._sets[key]) for key, one in self._sets.items() if key in other._sets}
        )

    def __sub__(self, other: GtidSet) -> Self:
        self._same_family(other)
        nothing = Intervals()
        return self._with(
            {key: one.difference(other._sets.get(key, nothing)) for key, one in self._sets.items()}
        )

    def _with(self, sets: dict[Any, Intervals]) -> Self:
        made = type(self)()
        made._sets = {key: one for key, one in sets.items() if len(one)}
        return made

    def _intervals(self, key: Key) -> Intervals:
        one = self._sets.get(key)
        if one is None:
            one = self._sets[key] = Intervals()
        return one

    def _add_intervals(self, key: Key, starts: U64, ends: U64) -> None:
        if len(starts):
            mine = self._sets.get(key)
            theirs = Intervals.of(starts, ends)
            # The union is computed even when the set has no intervals for the key, because the union joins adjacent
            # new intervals.
            self._sets[key] = (mine if mine is not None else Intervals()).union(theirs)

    def _same_family(self, other: object) -> None:
        if not isinstance(other, GtidSet):
            raise GtidError(f"not a GTID set: {other!r}")
        if other.family != self.family:
            raise GtidError(f"a {self.family} GTID set and a {other.family} one cannot be combined")


_NOTHING = Intervals()
