"""GTIDs and GTID sets of MySQL and MariaDB, with their texts. The sets of both families have the same methods
(:class:`GtidSet`).

MySQL writes a GTID as ``uuid:gno`` and, since 8.3, as ``uuid:tag:gno``. The text follows MySQL 9.7
(``sql/rpl_gtid_set.cc``, ``libs/mysql/gtids``). MariaDB writes ``domain-server-seq_no``. A MariaDB server only knows
positions (``gtid_slave_pos``: the last GTID of each domain). A position stands for the set of all GTIDs up to the last
GTID of each domain. A filtered stream can have other sets, with holes. Their text has intervals: ``0-11-5:74`` stands
for the sequence numbers 5 to 74.
"""

from __future__ import annotations

import itertools
import re
from abc import ABC, abstractmethod
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Literal, NamedTuple, Self, TypeAlias
from uuid import UUID

import numpy as np
import numpy.typing as npt

from dumpfilter.base.compiler.arrays import Bools, Int64s, UInt64s
from dumpfilter.base.errors import GtidError

GNO_MAX = 2**63 - 2
"""The largest transaction number (gno) in a GTID of MySQL (``GNO_END - 1``)."""

SEQ_NO_MAX = 2**64 - 1
"""The largest sequence number (seq_no) in a GTID of MariaDB."""

TsidKey: TypeAlias = tuple[bytes, str]
"""MySQL's transaction source identifier (TSID): the 16 bytes of the server's UUID, and the tag (``""`` for none)."""

SourceKey: TypeAlias = TsidKey | tuple[int, int]
"""A GTID source: ``(uuid of 16 bytes, tag)`` for MySQL, ``(domain id, server id)`` for MariaDB."""

Key: TypeAlias = TsidKey | int
"""The key under which a GTID set keeps its intervals of numbers: (UUID, tag) for MySQL, the domain id for MariaDB."""

UUID_TEXT = re.compile(
    r"\{[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\}"
    r"|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{32}",
    # Without re.ASCII, a pattern that ignores case would take the letter U+212A (the Kelvin sign) for the letter k.
    re.IGNORECASE | re.ASCII,
)
TAG = "[a-z_][a-z0-9_]{0,31}"
"""The regular expression of a tag in lower case, as MySQL keeps tags."""
TAG_TEXT = re.compile(TAG, re.IGNORECASE | re.ASCII)
MARIADB_TEXT = re.compile(r"([0-9]+)-([0-9]+)-([0-9]+)(?::([0-9]+))?")


def format_uuid(uuid: bytes) -> str:
    """Return the server's text of a UUID's 16 bytes: lower case with dashes.

    >>> format_uuid(bytes(range(16)))
    '00010203-0405-0607-0809-0a0b0c0d0e0f'
    """
    return str(UUID(bytes=uuid))


def parse_uuid(text: str) -> bytes:
    """Return the 16 bytes of a UUID's text.

    The function takes the server's three spellings: with dashes, with dashes and braces, or 32 hex digits. White space
    around the text is ignored. Raises GtidError for any other text.
    """
    stripped = text.strip()
    if not UUID_TEXT.fullmatch(stripped):
        raise GtidError(f"not a uuid: {shortened(stripped)!r}")
    return bytes.fromhex(stripped.strip("{}").replace("-", ""))


class MysqlGtid(NamedTuple):
    """The GTID of a MySQL transaction: the 16 bytes of the server's UUID, the number (gno), and the tag (``""`` for
    none).

    >>> str(MysqlGtid(parse_uuid("3E11FA47-71CA-11E1-9E33-C80AA9429562"), 23, "tag"))
    '3e11fa47-71ca-11e1-9e33-c80aa9429562:tag:23'
    """

    uuid: bytes
    gno: int
    tag: str = ""

    @property
    def source(self) -> SourceKey:
        """The GTID source: the UUID and the tag, within which the transaction's number (gno) is unique."""
        return self.uuid, self.tag

    @property
    def number(self) -> int:
        """The transaction's number (gno), which is unique within its UUID and tag."""
        return self.gno

    def __str__(self) -> str:
        return f"{format_uuid(self.uuid)}:{self.tag + ':' if self.tag else ''}{self.gno}"


class MariadbGtid(NamedTuple):
    """The GTID of a MariaDB transaction (event group): domain id, server id and sequence number.

    >>> str(MariadbGtid.parse("0-11-74"))
    '0-11-74'
    """

    domain_id: int
    server_id: int
    seq_no: int

    @property
    def source(self) -> SourceKey:
        """The GTID source: the domain id, and the id of the server that wrote the transaction."""
        return self.domain_id, self.server_id

    @property
    def number(self) -> int:
        """The transaction's sequence number (seq_no), which counts the transactions of a domain."""
        return self.seq_no

    @classmethod
    def parse(cls, text: str) -> MariadbGtid:
        """Return the GTID of a text ``domain-server-seq_no``. Raises GtidError for any other text."""
        match = MARIADB_TEXT.fullmatch(text.strip())
        if not match or match[4] is not None:
            raise GtidError(f"not a GTID: {text!r} (domain-server-number)")
        return cls(*mariadb_ids(match), read_number(match[3], SEQ_NO_MAX, text, least=0))

    def __str__(self) -> str:
        return f"{self.domain_id}-{self.server_id}-{self.seq_no}"


Gtid: TypeAlias = MysqlGtid | MariadbGtid


def read_number(digits: str, most: int, where: str, *, least: int = 1) -> int:
    # A number of more than 100 digits is refused unread, because int() raises ValueError for thousands of digits.
    value = int(digits) if len(digits) <= 100 else most + 1
    if not least <= value <= most:
        raise GtidError(f"{digits[:40]} in {where.strip()!r} is out of range ({least} to {most})")
    return value


def mariadb_ids(match: re.Match[str]) -> tuple[int, int]:
    domain, server = (read_number(match[i], 2**32 - 1, match[0], least=0) for i in (1, 2))
    return domain, server


def shortened(text: str) -> str:
    return text if len(text) <= 120 else text[:117] + "..."


ONE = np.uint64(1)


@dataclass(slots=True)
class Intervals:
    """A set of transaction numbers (1 to 2**64-1) as closed intervals. The intervals are sorted, disjoint and never
    adjacent.

    Each interval takes 16 bytes in two arrays. Appending a number is O(1), and finding a number is a bisection. Set
    operations use numpy on the same arrays.
    """

    starts: array[int] = field(default_factory=partial(array, "Q"))
    ends: array[int] = field(default_factory=partial(array, "Q"))

    @classmethod
    def of(cls, starts: UInt64s, ends: UInt64s) -> Intervals:
        return cls(array("Q", starts.tobytes()), array("Q", ends.tobytes()))

    def arrays(self) -> tuple[UInt64s, UInt64s]:
        # An array of Python cannot grow while a numpy view of its memory exists, so no caller keeps a view beyond a
        # computation.
        return np.frombuffer(self.starts, np.uint64), np.frombuffer(self.ends, np.uint64)

    def copy(self) -> Intervals:
        return Intervals(self.starts[:], self.ends[:])

    def __len__(self) -> int:
        return len(self.starts)

    def count(self) -> int:
        starts, ends = self.arrays()
        return int((ends - starts).sum(dtype=np.uint64)) + len(starts)

    def overlaps(self, first: int, last: int) -> bool:
        i = bisect_right(self.starts, last) - 1
        return i >= 0 and self.ends[i] >= first

    def contains(self, numbers: Int64s) -> Bools:
        starts, ends = self.arrays()
        if not len(starts):
            return np.zeros(len(numbers), np.bool_)
        numbers = numbers.view(np.uint64)
        at = np.searchsorted(starts, numbers, "right") - 1
        found: Bools = (at >= 0) & (numbers <= ends[at])
        return found

    def gaps(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        for k in range(bisect_left(self.ends, first), len(self)):
            if self.starts[k] > last:
                break
            if first < self.starts[k]:
                yield first, self.starts[k] - 1
            first = self.ends[k] + 1
        if first <= last:
            yield first, last

    def add_range(self, first: int, last: int) -> None:
        # The new interval takes the place of those that it overlaps or touches.
        low, high = bisect_left(self.ends, first - 1), bisect_right(self.starts, last + 1)
        if low < high:
            first, last = min(first, self.starts[low]), max(last, self.ends[high - 1])
        self.starts[low:high], self.ends[low:high] = array("Q", (first,)), array("Q", (last,))

    def update(self, other: Intervals) -> None:
        """Add the transaction numbers of ``other`` to this set. Intervals of ``other`` may be adjacent or overlap."""
        if len(other) == 1:
            # Most calls add a single interval, the GTIDs of a chunk of a stream. Adding the interval in place avoids
            # a copy of the whole set.
            self.add_range(other.starts[0], other.ends[0])
            return
        made = self.combined(other, np.logical_or)
        self.starts, self.ends = made.starts, made.ends

    def combined(self, other: Intervals, has: Callable[[Bools, Bools], Bools]) -> Intervals:
        """Return a set operation of this set and ``other``. The result has the numbers for which ``has`` is true. For
        example, ``np.logical_and`` makes the intersection.

        The numbers are divided wherever an interval of either set begins or ends. ``has`` gets two bool arrays with one
        entry for each part: whether this set contains the part, and whether ``other`` does. ``has`` must be false for a
        part that neither set contains.
        """
        # An interval covers the numbers above its start minus 1, up to its end. So 2**64-1 needs no number above it.
        sides = [
            (np.sort(starts, kind="stable") - ONE, np.sort(ends, kind="stable"))
            for starts, ends in (self.arrays(), other.arrays())
        ]
        edges = np.sort(np.concatenate([edge for side in sides for edge in side]), kind="stable")
        in_self, in_other = (
            np.searchsorted(below, edges, "right") > np.searchsorted(ends, edges, "right")
            for below, ends in sides
        )
        changes = edges[np.flatnonzero(np.diff(has(in_self, in_other), prepend=False))]
        return Intervals.of(changes[::2] + ONE, changes[1::2])


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

    _gtid: ClassVar[type[MysqlGtid] | type[MariadbGtid]]

    __slots__ = ("_servers", "_sets")

    def __init__(self) -> None:
        self._sets: dict[Any, Intervals] = {}
        self._servers: dict[int, tuple[int, int]] = {}
        """For MariaDB, the seq_no and the server id of the last GTID of each domain id."""

    @classmethod
    @abstractmethod
    def parse(cls, text: str) -> Self:
        """Return the GTID set that a text in the form of ``gtid_executed`` or ``gtid_slave_pos`` names.

        Raises GtidError, whose text quotes the wrong part.
        """

    @abstractmethod
    def __str__(self) -> str: ...

    def add(self, gtid: Gtid) -> None:
        """Add one GTID to the set. Raises GtidError for a GTID of the other server family, or for a number out of
        range.
        """
        source, number = self._place(gtid)
        self.add_range(source, number, number)

    def _place(self, gtid: Gtid) -> tuple[SourceKey, int]:
        """Return the source and the number of a GTID. Raises GtidError for a GTID of the other family (MySQL, MariaDB).

        The source is (UUID, tag) or (domain id, server id). The number is the gno or the seq_no.
        """
        if not isinstance(gtid, self._gtid):
            raise GtidError(f"not a GTID of {'MySQL' if self.family == 'mysql' else 'MariaDB'}: {gtid}")
        return gtid.source, gtid.number

    @abstractmethod
    def _key(self, source: SourceKey) -> Any:
        """Return the key under which the set keeps the intervals of a GTID source: (UUID, tag), or MariaDB's domain id.

        ``source`` is a (UUID, tag), or MariaDB's (domain id, server id). Raises GtidError for a source of the other
        family (MySQL, MariaDB).
        """

    def _served(self, source: SourceKey, number: int) -> None:
        """Record the server id of a GTID that was added to the set. The text of a MariaDB set names the server of each
        domain's last GTID.

        ``source`` is the GTID's (domain id, server id), and ``number`` is its seq_no. The call has no effect for MySQL,
        for the server id 0, or if a later GTID of the domain is known.
        """
        domain, server = source
        if isinstance(domain, int) and server and number >= self._servers.get(domain, (0, 0))[0]:
            self._servers[domain] = (number, int(server))

    def __repr__(self) -> str:
        return f"{type(self).__name__}.parse({str(self)!r})"

    def __bool__(self) -> bool:
        return bool(self._sets)

    def count(self) -> int:
        """Return the number of GTIDs in the set, which may be larger than ``len()`` can return."""
        return sum(one.count() for one in self._sets.values())

    def __len__(self) -> int:
        return self.count()

    def __iter__(self) -> Iterator[tuple[Any, int, int]]:
        for key in sorted(self._sets):
            one = self._sets[key]
            for first, last in zip(one.starts, one.ends, strict=True):
                yield key, first, last

    def _of(self, source: SourceKey) -> Intervals:
        return self._sets.get(self._key(source), _NOTHING)

    def contains(self, source: SourceKey, numbers: Int64s) -> Bools:
        """Return for each of ``numbers`` whether the set contains the GTID of ``source`` with this number, as a bool
        array.

        ``source`` is a (UUID of 16 bytes, tag), or MariaDB's (domain id, server id). A number is a gno or a seq_no. A
        seq_no of 2**63 or more is negative in ``numbers``. Raises GtidError for a source of the other family (MySQL,
        MariaDB).
        """
        return self._of(source).contains(numbers)

    def overlaps(self, source: SourceKey, first: int, last: int) -> bool:
        """Tell whether the set has any GTID with a number from ``first`` to ``last`` (included) of a GTID source.

        ``source`` is a (UUID of 16 bytes, tag), or MariaDB's (domain id, server id). Raises GtidError for a source of
        the other family (MySQL, MariaDB).
        """
        return self._of(source).overlaps(first, last)

    def highest(self, source: SourceKey) -> int:
        """Return the highest number (gno or seq_no) that the set has of a GTID source; 0 if it has none.

        ``source`` is a (UUID of 16 bytes, tag), or MariaDB's (domain id, server id). Raises GtidError for a source of
        the other family (MySQL, MariaDB).
        """
        return next(reversed(self._of(source).ends), 0)

    def missing(self, source: SourceKey, first: int, last: int) -> list[tuple[int, int]]:
        """Return which of the numbers (gnos or seq_nos) ``first`` to ``last`` of a GTID source the set lacks.

        ``source`` is a (UUID of 16 bytes, tag), or MariaDB's (domain id, server id). Each interval in the result is a
        pair of first and last missing number, both included. Raises GtidError for a source of the other family (MySQL,
        MariaDB).
        """
        return list(self._of(source).gaps(first, last))

    def __contains__(self, item: object) -> bool:
        if isinstance(item, GtidSet):
            return self.issuperset(item)
        if not isinstance(item, MysqlGtid | MariadbGtid):
            raise GtidError(f"not a GTID nor a GTID set: {item!r}")
        source, number = self._place(item)
        return self.overlaps(source, number, number)

    def issuperset(self, other: GtidSet) -> bool:
        """Tell whether every GTID of ``other`` is in this set.

        Raises GtidError for a set of the other family (MySQL, MariaDB).
        """
        self._same_family(other)
        missing = (self._sets.get(key, _NOTHING).gaps(first, last) for key, first, last in other)
        return next(itertools.chain.from_iterable(missing), None) is None

    def issubset(self, other: GtidSet) -> bool:
        """Tell whether every GTID of this set is in ``other``.

        Raises GtidError for a set of the other family (MySQL, MariaDB).
        """
        return other.issuperset(self)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, GtidSet) or other.family != self.family:
            return NotImplemented
        return self._sets == other._sets

    __hash__ = None  # type: ignore[assignment]  # mutable

    def add_range(self, source: SourceKey, first: int, last: int) -> None:
        """Add the GTIDs of one GTID source with the numbers ``first`` to ``last``, both included.

        ``source`` is (UUID of 16 bytes, tag) for MySQL, and (domain id, server id) for MariaDB. MariaDB's server id
        should name the server that wrote the GTID with the number ``last``; 0 if unknown.

        Raises GtidError when a number is out of range, when ``first`` is larger than ``last``, or when the source is
        one of the other family (MySQL, MariaDB).
        """
        key = self._key(source)
        if not 1 <= first <= last <= self.max_number:
            what = f"{first} is out of range" if first == last else f"{first}-{last} is no interval"
            raise GtidError(f"{what} (1 to {self.max_number})")
        self._intervals(key).add_range(first, last)
        self._served(source, last)

    def add_many(self, source: SourceKey, numbers: npt.NDArray[np.integer[Any]]) -> None:
        """Add the GTIDs of one GTID source with the given numbers, in any order, repeated or not.

        ``source`` is (UUID of 16 bytes, tag) for MySQL, and (domain id, server id) for MariaDB. MariaDB's server id
        should name the server that wrote the GTID with the largest number; 0 if unknown. ``numbers`` is an array of
        integers with one dimension.

        Raises GtidError for a number out of range, and for a source of the other family (MySQL, MariaDB).
        """
        key = self._key(source)
        if not numbers.size:
            return
        low, high = int(numbers.min()), int(numbers.max())
        if low < 1 or high > self.max_number:
            raise GtidError(f"{low if low < 1 else high} is out of range (1 to {self.max_number})")
        values = numbers.astype(np.uint64, copy=False)
        self.add_intervals(key, values, values)
        self._served(source, high)

    def update(self, other: GtidSet) -> None:
        """Add every GTID of the set ``other`` to this set (``|=``). Each of MariaDB's domains keeps the server id of
        its largest seq_no. Raises GtidError for a set of the other family (MySQL, MariaDB).
        """
        self._same_family(other)
        for key, theirs in other._sets.items():
            self._intervals(key).update(theirs)
        for domain, (number, server) in other._servers.items():
            self._served((domain, server), number)

    def copy(self) -> Self:
        """Return a new set with the same GTIDs, which can change independently."""
        made = type(self)()
        made._sets = {key: one.copy() for key, one in self._sets.items()}
        made._servers = dict(self._servers)
        return made

    def __or__(self, other: GtidSet) -> Self:
        made = self.copy()
        made.update(other)
        return made

    def __ior__(self, other: GtidSet) -> Self:
        self.update(other)
        return self

    def __and__(self, other: GtidSet) -> Self:
        return self._combined(other, np.logical_and)

    def __sub__(self, other: GtidSet) -> Self:
        return self._combined(other, np.greater)

    def _combined(self, other: GtidSet, has: Callable[[Bools, Bools], Bools]) -> Self:
        self._same_family(other)
        made = type(self)()
        for key, one in self._sets.items():
            if len(left := one.combined(other._sets.get(key, _NOTHING), has)):
                made._sets[key] = left
        # A difference or intersection may have removed the last GTID of a domain. Its server id is the best guess for
        # the new last GTID.
        made._servers = {
            domain: (made._sets[domain].ends[-1], server)
            for domain, (_, server) in self._servers.items()
            if domain in made._sets
        }
        return made

    def _intervals(self, key: Key) -> Intervals:
        one = self._sets.get(key)
        if one is None:
            one = self._sets[key] = Intervals()
        return one

    def add_intervals(self, key: Key, starts: UInt64s, ends: UInt64s) -> None:
        """Add the GTIDs of many intervals of numbers (gnos or seq_nos) under one key.

        ``key`` is a (UUID, tag) for MySQL and a domain id for MariaDB. ``starts`` and ``ends`` (uint64) have the first
        and the last number of each interval, both included. The numbers are not checked.
        """
        if len(starts):
            self._intervals(key).update(Intervals.of(starts, ends))

    def _same_family(self, other: object) -> None:
        if not isinstance(other, GtidSet):
            raise GtidError(f"not a GTID set: {other!r}")
        if other.family != self.family:
            raise GtidError(f"a {self.family} GTID set and a {other.family} one cannot be combined")


_NOTHING = Intervals()


_INTERVAL = re.compile(r"([0-9]+)(?:\s*-\s*([0-9]+))?", re.ASCII)


class MysqlGtidSet(GtidSet):
    """A set of MySQL's GTIDs: intervals of gno for each UUID and tag.

    >>> executed = MysqlGtidSet.parse("3E11FA47-71CA-11E1-9E33-C80AA9429562:1-3:5:tag_a:7")
    >>> executed.add(MysqlGtid(parse_uuid("3e11fa47-71ca-11e1-9e33-c80aa9429562"), 4))
    >>> str(executed)
    '3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5:tag_a:7'
    >>> len(executed)
    6
    """

    family = "mysql"
    max_number = GNO_MAX
    _gtid = MysqlGtid
    __slots__ = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the GTID set that a text names, as ``SET GLOBAL gtid_purged`` reads it.

        Like the server, the method accepts letters of either case, white space between any two tokens, and empty pieces
        between commas. A UUID without an interval adds nothing, and neither does an interval that ends before it
        begins, such as ``5-3``. Raises GtidError, whose text quotes the wrong piece.
        """
        made = cls()
        items = filter(None, map(str.strip, text.split(",")))
        # Intervals in descending order would take a time that grows with the square of their number.
        for key, first, last in sorted(itertools.chain.from_iterable(map(_intervals_of, items))):
            made._intervals(key).add_range(first, last)
        return made

    def __str__(self) -> str:
        pieces: list[str] = []
        before: TsidKey | None = None
        for key, first, last in self:
            if before is None or key[0] != before[0]:
                pieces.append(("," if pieces else "") + format_uuid(key[0]))
            if key[1] and key != before:
                pieces.append(f":{key[1]}")
            before = key
            pieces.append(f":{first}" if first == last else f":{first}-{last}")
        return "".join(pieces)

    def has_tags(self) -> bool:
        """Tell whether any GTID of the set has a tag. Servers before MySQL 8.3 cannot read a set with tags."""
        return any(tag for _, tag in self._sets)

    def _key(self, source: SourceKey) -> SourceKey:
        if len(source) != 2 or not isinstance(source[0], bytes) or len(source[0]) != 16:
            raise GtidError(f"not a source of MySQL's GTIDs: {source!r} (uuid's 16 bytes, tag)")
        return source


def _intervals_of(item: str) -> Iterator[tuple[TsidKey, int, int]]:
    """Yield the intervals in ``item``, a part of a MySQL GTID set's text between two commas, such as
    ``uuid:1-5:tag:7``. Each interval has the pair of UUID and tag, the first number and the last number. Raises
    GtidError, whose text quotes the wrong part.
    """
    head, *rest = item.split(":")
    try:
        uuid = parse_uuid(head)
    except GtidError as error:
        raise GtidError(f"{error}, in {shortened(item)!r}") from None
    key = (uuid, "")
    for token in map(str.strip, rest):
        interval = _INTERVAL.fullmatch(token)
        if interval:
            first = read_number(interval[1], GNO_MAX, shortened(item))
            last = first
            if interval[2] is not None:
                last = read_number(interval[2], GNO_MAX, shortened(item), least=0)
            if first <= last:
                yield key, first, last
        elif token and TAG_TEXT.fullmatch(token):
            key = (uuid, token.lower())
        else:
            raise GtidError(f"{shortened(token)!r} is no interval and no tag, in {shortened(item)!r}")


class MariadbGtidSet(GtidSet):
    """A set of MariaDB's GTIDs: intervals of seq_no for each domain.

    Only domain and seq_no count. The server id says which server wrote a transaction, so sets that differ only in
    server ids are equal. The text has the server id of the last GTID of each domain; 0 stands for an unknown one.

    A domain whose numbers are 1 to n is written ``domain-server-n``, which is a position as in ``gtid_slave_pos``.
    Another domain writes each of its intervals as ``domain-server-first:last``. A position with seq_no 0 adds nothing.

    >>> done = MariadbGtidSet.parse("0-11-74,1-12-5")
    >>> done.add(MariadbGtid.parse("0-11-75"))
    >>> done.add(MariadbGtid.parse("2-13-500"))       # just this one
    >>> str(done)
    '0-11-75,1-12-5,2-13-500:500'
    >>> done.add_range((2, 13), 1, 500)               # a position: all up to it
    >>> str(done)
    '0-11-75,1-12-5,2-13-500'
    """

    family = "mariadb"
    max_number = SEQ_NO_MAX
    _gtid = MariadbGtid
    __slots__ = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the GTID set that a position (``gtid_slave_pos``) or the text of a set names.

        White space around commas is allowed. Raises GtidError for a malformed text, and for a domain with two
        positions, as the server does (error 1943).
        """
        made = cls()
        positions: set[int] = set()
        found: list[tuple[SourceKey, int, int]] = []
        for piece in text.split(","):
            item = piece.strip()
            if not item:
                if text.strip():
                    raise GtidError(f"an empty piece in {shortened(text.strip())!r}")
                continue
            match = MARIADB_TEXT.fullmatch(item)
            if not match:
                raise GtidError(f"not a GTID of MariaDB: {shortened(item)!r} (domain-server-number)")
            domain, server = mariadb_ids(match)
            first, last = 1, read_number(match[3], SEQ_NO_MAX, item, least=0)
            if match[4] is not None:
                first, last = last, read_number(match[4], SEQ_NO_MAX, item)
                if not 1 <= first <= last:
                    raise GtidError(f"{first}:{last} is no interval, in {item!r}")
            elif domain in positions:
                raise GtidError(f"domain {domain} has two positions in {shortened(text.strip())!r}")
            else:
                positions.add(domain)
            if first <= last:
                found.append(((domain, server), first, last))
        for source, first, last in sorted(found, key=lambda one: (one[0][0], one[2])):
            made.add_range(source, first, last)
        return made

    def __str__(self) -> str:
        pieces: list[str] = []
        for domain in sorted(self._sets):
            one = self._sets[domain]
            server = self.server_id(domain)
            if len(one) == 1 and one.starts[0] == 1:
                pieces.append(f"{domain}-{server}-{one.ends[0]}")
            else:
                pieces += [f"{domain}-{server}-{a}:{b}" for a, b in zip(one.starts, one.ends, strict=True)]
        return ",".join(pieces)

    def server_id(self, domain_id: int) -> int:
        """Return the server id of the last GTID of a domain; 0 when the set does not know the server id."""
        return self._servers.get(domain_id, (0, 0))[1]

    def gtids(self) -> tuple[MariadbGtid, ...]:
        """Return the last GTID of each domain, as ``gtid_slave_pos`` would hold them, sorted by domain."""
        return tuple(MariadbGtid(d, self.server_id(d), self._sets[d].ends[-1]) for d in sorted(self._sets))

    def is_position(self) -> bool:
        """Tell whether the set has, for each of its domains, all GTIDs from 1 to the last. A MariaDB server can then
        read the set's text as a position (``gtid_slave_pos``).
        """
        return all(len(one) == 1 and one.starts[0] == 1 for one in self._sets.values())

    def _key(self, source: SourceKey) -> int:
        domain = source[0]
        if not isinstance(domain, int) or not 0 <= domain < 2**32:
            raise GtidError(f"not a domain id: {domain!r}")
        return domain


def empty_set(family: str) -> GtidSet:
    """Return an empty GTID set of a family, ``"mysql"`` or ``"mariadb"``."""
    return MariadbGtidSet() if family == "mariadb" else MysqlGtidSet()


def parse_gtid_set(
    text: str, family: Literal["mysql", "mariadb"] | None = None
) -> MysqlGtidSet | MariadbGtidSet:
    """Return the GTID set that a text names.

    ``family`` says whose form the text must have. With None the text tells the family, and an empty text is an empty
    set of MySQL. Raises GtidError for a malformed text, for GTIDs of both families, and for a text of the wrong family.

    >>> parse_gtid_set("0-11-74").family, parse_gtid_set("").family
    ('mariadb', 'mysql')
    """
    pieces = [piece.strip() for piece in text.split(",") if piece.strip()]
    mariadb = [piece for piece in pieces if MARIADB_TEXT.fullmatch(piece)]
    mysql = [piece for piece in pieces if UUID_TEXT.match(piece)]
    if mariadb and mysql:
        raise GtidError(f"GTIDs of two families: {shortened(mysql[0])!r} and {mariadb[0]!r}")
    if family == "mariadb" or (family is None and mariadb):
        return MariadbGtidSet.parse(text)
    return MysqlGtidSet.parse(text)
