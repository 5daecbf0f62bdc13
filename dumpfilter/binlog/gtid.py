"""GTIDs and GTID sets of both families, as text and as the servers' binary forms.

MySQL: ``uuid:gno`` and, since 8.3, ``uuid:tag:gno``; a set keeps intervals of gno for each (uuid, tag).
The text follows what MySQL 9.7 accepts and prints (``sql/rpl_gtid_set.cc``, ``libs/mysql/gtids``).

MariaDB: ``domain-server-seq_no``; a set keeps intervals of seq_no for each domain. The server itself
only knows positions (``gtid_slave_pos``: the last GTID of each domain), which here are the sets that
begin at 1 in each of their domains; a filtered stream can have other sets, written ``0-11-5:74``.

Both sets have one API, :class:`GtidSet`. Intervals are closed, sorted, disjoint and never adjacent.
"""

from __future__ import annotations

import re
import struct
from abc import ABC, abstractmethod
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from dumpfilter.errors import BinlogCorrupt, GtidError

GNO_MAX = 2**63 - 2
"""The largest gno of MySQL (``GNO_END - 1``)."""

SEQ_NO_MAX = 2**64 - 1
"""The largest seq_no of MariaDB."""

TAG_MAX_LENGTH = 32
"""The longest tag, characters (``mysql::gtids::tag_max_length``)."""

FLAG_UNTIL_REACHED = 1 << 28
"""Gtid_list: the slave's UNTIL position was reached (artificial events only)."""

FLAG_IGN_GTIDS = 1 << 29
"""Gtid_list: the slave shall not take the list for its position (artificial events only)."""

TsidKey: TypeAlias = tuple[bytes, str]
"""What MySQL calls a TSID: the uuid's 16 bytes and the tag (``""`` for none)."""

Key: TypeAlias = TsidKey | int
"""What a set's intervals belong to: (uuid, tag), or MariaDB's domain id."""

_U64: TypeAlias = npt.NDArray[np.uint64]

_UUID = re.compile(
    r"\{[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\}"
    r"|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{32}",
    re.IGNORECASE | re.ASCII,  # ASCII: else letters such as U+212A count as the k they fold to
)
_TAG = re.compile(r"[a-z_][a-z0-9_]{0,31}", re.IGNORECASE | re.ASCII)
_INTERVAL = re.compile(r"([0-9]+)(?:\s*-\s*([0-9]+))?", re.ASCII)
_MARIADB = re.compile(r"([0-9]+)-([0-9]+)-([0-9]+)(?::([0-9]+))?")
_ONE = np.uint64(1)
_UINT64_MAX = np.uint64(2**64 - 1)


def format_uuid(uuid: bytes) -> str:
    """The server's text of a uuid's 16 bytes, lower case with dashes.

    >>> format_uuid(bytes(range(16)))
    '00010203-0405-0607-0809-0a0b0c0d0e0f'
    """
    text = uuid.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def parse_uuid(text: str) -> bytes:
    """The 16 bytes of a uuid, in any of the spellings the server takes: with dashes, with dashes and
    braces, or 32 hex digits. Raises GtidError."""
    stripped = text.strip()
    if not _UUID.fullmatch(stripped):
        raise GtidError(f"not a uuid: {_shortened(stripped)!r}")
    return bytes.fromhex(stripped.strip("{}").replace("-", ""))


def normalize_tag(text: str) -> str:
    """A tag in the server's lower-case form. Raises GtidError for what is no tag (``""`` is: no tag).

    >>> normalize_tag(" Tag_A ")
    'tag_a'
    """
    tag = text.strip()
    if tag and not _TAG.fullmatch(tag):
        raise GtidError(
            f"not a GTID tag: {_shortened(tag)!r} (a letter or _, then up to 31 letters, digits or _)"
        )
    return tag.lower()


class MysqlGtid(NamedTuple):
    """One transaction of MySQL: the 16 bytes of the server's uuid, gno, and the tag (``""`` for none).

    >>> str(MysqlGtid.parse("3E11FA47-71CA-11E1-9E33-C80AA9429562:Tag:23"))
    '3e11fa47-71ca-11e1-9e33-c80aa9429562:tag:23'
    """

    uuid: bytes
    gno: int
    tag: str = ""

    @classmethod
    def parse(cls, text: str) -> MysqlGtid:
        """Read ``uuid:gno`` or ``uuid:tag:gno``. Raises GtidError."""
        pieces = text.split(":")
        if len(pieces) not in (2, 3) or not re.fullmatch(r"\s*[0-9]+\s*", pieces[-1], re.ASCII):
            raise GtidError(f"not a GTID: {text!r} (uuid:number or uuid:tag:number)")
        if len(pieces) == 3 and not pieces[1].strip():
            raise GtidError(f"not a GTID: {text!r} (the tag is empty)")
        gno = _number(pieces[-1].strip(), GNO_MAX, text)
        return cls(parse_uuid(pieces[0]), gno, normalize_tag(pieces[1]) if len(pieces) == 3 else "")

    def __str__(self) -> str:
        return f"{format_uuid(self.uuid)}:{self.tag + ':' if self.tag else ''}{self.gno}"


class MariadbGtid(NamedTuple):
    """One transaction (event group) of MariaDB.

    >>> str(MariadbGtid.parse("0-11-74"))
    '0-11-74'
    """

    domain_id: int
    server_id: int
    seq_no: int

    @classmethod
    def parse(cls, text: str) -> MariadbGtid:
        """Read ``domain-server-seq_no``. Raises GtidError."""
        match = _MARIADB.fullmatch(text.strip())
        if not match or match[4] is not None:
            raise GtidError(f"not a GTID: {text!r} (domain-server-number)")
        return cls(*_mariadb_ids(match), _number(match[3], SEQ_NO_MAX, text, least=0))

    def __str__(self) -> str:
        return f"{self.domain_id}-{self.server_id}-{self.seq_no}"


Gtid: TypeAlias = MysqlGtid | MariadbGtid


def parse_gtid(text: str) -> Gtid:
    """A GTID of either family, by its looks. Raises GtidError."""
    return MysqlGtid.parse(text) if ":" in text else MariadbGtid.parse(text)


def _number(digits: str, most: int, where: str, *, least: int = 1) -> int:
    # the length first: Python refuses to turn thousands of digits into an int, with another error
    value = int(digits) if len(digits) <= 100 else most + 1
    if not least <= value <= most:
        raise GtidError(f"{digits[:40]} in {where.strip()!r} is out of range ({least} to {most})")
    return value


def _mariadb_ids(match: re.Match[str]) -> tuple[int, int]:
    domain, server = (_number(match[i], 2**32 - 1, match[0], least=0) for i in (1, 2))
    return domain, server


class _Intervals:
    """Closed intervals of 1..2**64-1: two arrays of 8 bytes an entry, so that one number is appended
    in O(1), found by bisection, and whole sets are combined by numpy over the same memory."""

    __slots__ = ("ends", "starts")

    def __init__(self, starts: array[int] | None = None, ends: array[int] | None = None) -> None:
        self.starts = array("Q") if starts is None else starts
        self.ends = array("Q") if ends is None else ends

    @classmethod
    def of(cls, starts: _U64, ends: _U64) -> _Intervals:
        made = cls()
        made.starts.frombytes(starts.tobytes())
        made.ends.frombytes(ends.tobytes())
        return made

    def arrays(self) -> tuple[_U64, _U64]:
        # views: while one is alive its array cannot grow, so none is kept beyond a computation
        return np.frombuffer(self.starts, np.uint64), np.frombuffer(self.ends, np.uint64)

    def copy(self) -> _Intervals:
        return _Intervals(self.starts[:], self.ends[:])

    def __len__(self) -> int:
        return len(self.starts)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Intervals):
            return NotImplemented
        return self.starts == other.starts and self.ends == other.ends

    __hash__ = None  # type: ignore[assignment]  # mutable

    def count(self) -> int:
        starts, ends = self.arrays()
        return int((ends - starts).sum(dtype=np.uint64)) + len(starts)

    def covers(self, first: int, last: int) -> bool:
        i = bisect_right(self.starts, first) - 1
        return i >= 0 and self.ends[i] >= last

    def covers_all(self, other: _Intervals) -> bool:
        if len(other) <= 4:
            return all(self.covers(*pair) for pair in zip(other.starts, other.ends, strict=True))
        starts, ends = self.arrays()
        wanted_starts, wanted_ends = other.arrays()
        at = np.searchsorted(starts, wanted_starts, "right") - 1
        return bool((at >= 0).all() and (ends[at] >= wanted_ends).all())

    def add_range(self, first: int, last: int) -> None:
        starts, ends = self.starts, self.ends
        if not ends or first > ends[-1] + 1:
            starts.append(first)
            ends.append(last)
            return
        low = bisect_left(ends, first - 1)  # the first that touches or follows
        high = bisect_right(starts, last + 1)  # the first beyond
        if low == high:
            starts.insert(low, first)
            ends.insert(low, last)
            return
        starts[low] = min(starts[low], first)
        ends[low] = max(ends[high - 1], last)
        if high - low > 1:
            del starts[low + 1 : high]
            del ends[low + 1 : high]

    def union(self, other: _Intervals) -> _Intervals:
        return _Intervals.of(*_union(*self.arrays(), *other.arrays()))

    def intersection(self, other: _Intervals) -> _Intervals:
        return _Intervals.of(*_intersection(*self.arrays(), *other.arrays()))

    def difference(self, other: _Intervals) -> _Intervals:
        if not len(other):
            return self.copy()
        return _Intervals.of(*_intersection(*self.arrays(), *_complement(*other.arrays())))


def _union(a_starts: _U64, a_ends: _U64, b_starts: _U64, b_ends: _U64) -> tuple[_U64, _U64]:
    starts = np.concatenate((a_starts, b_starts))
    if not len(starts):
        return starts, starts
    order = np.argsort(starts, kind="stable")  # two sorted runs: a merge
    starts = starts[order]
    reach = np.maximum.accumulate(np.concatenate((a_ends, b_ends))[order])
    # starts are 1 or more, so this cannot wrap, as reach + 1 could
    begins = np.concatenate(([True], starts[1:] - _ONE > reach[:-1]))
    return starts[begins], reach[np.concatenate((begins[1:], [True]))]


def _intersection(a_starts: _U64, a_ends: _U64, b_starts: _U64, b_ends: _U64) -> tuple[_U64, _U64]:
    low = np.searchsorted(b_ends, a_starts, "left")
    counts = np.searchsorted(b_starts, a_ends, "right") - low  # how many of b each of a overlaps
    a_index = np.repeat(np.arange(len(a_starts)), counts)
    b_index = np.repeat(low - (np.cumsum(counts) - counts), counts) + np.arange(len(a_index))
    return (
        np.maximum(a_starts[a_index], b_starts[b_index]),
        np.minimum(a_ends[a_index], b_ends[b_index]),
    )


def _complement(starts: _U64, ends: _U64) -> tuple[_U64, _U64]:
    """The gaps within 1..2**64-1 of a set that is not empty."""
    gap_starts = np.concatenate((np.ones(1, np.uint64), ends[ends != _UINT64_MAX] + _ONE))
    gap_ends = np.append(starts - _ONE, _UINT64_MAX)[: len(gap_starts)]
    keep = gap_starts <= gap_ends
    return gap_starts[keep], gap_ends[keep]


class GtidSet(ABC):
    """A set of GTIDs of one family; mutable, so not hashable.

    ``|``, ``-``, ``&``, ``==``, ``in`` (a GTID, or a whole set) work as for Python's set; iterating
    gives ``(key, first, last)``, sorted. Combining the families raises GtidError. The cost of the
    operators is linear in the number of intervals; :meth:`add` of the next number is O(1).
    """

    family: ClassVar[Literal["mysql", "mariadb"]]
    max_number: ClassVar[int]
    """The largest number (gno or seq_no); the smallest is 1."""

    __slots__ = ("_sets",)
    _sets: dict[Any, _Intervals]

    def __init__(self) -> None:
        self._sets = {}

    @classmethod
    @abstractmethod
    def parse(cls, text: str) -> Self:
        """Read the text form. Raises GtidError with the offending piece."""

    @abstractmethod
    def __str__(self) -> str: ...

    @abstractmethod
    def add(self, gtid: Gtid) -> None:
        """Add one GTID. Raises GtidError for the other family's, or a number out of range."""

    @abstractmethod
    def advance(self, gtid: Gtid) -> None:
        """Add ``gtid`` and everything before it under its key (MariaDB's notion of a position)."""

    @abstractmethod
    def _place(self, gtid: Gtid) -> tuple[Key, int]:
        """Key and number of a GTID; GtidError for the other family's."""

    @abstractmethod
    def _check_key(self, key: Key) -> None:
        """Raise GtidError for what is not a key of this family."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}.parse({str(self)!r})"

    # what is in it

    def __bool__(self) -> bool:
        return bool(self._sets)

    def count(self) -> int:
        """The number of GTIDs; unlike ``len()`` it has no upper bound."""
        return sum(one.count() for one in self._sets.values())

    def __len__(self) -> int:
        return self.count()

    def interval_count(self) -> int:
        """The number of intervals: what the set costs, in units of 16 bytes."""
        return sum(len(one) for one in self._sets.values())

    def __iter__(self) -> Iterator[tuple[Key, int, int]]:
        for key in sorted(self._sets):
            one = self._sets[key]
            for first, last in zip(one.starts, one.ends, strict=True):
                yield key, first, last

    def last(self, key: Key) -> int | None:
        """The largest number under ``key``; None when there is none."""
        one = self._sets.get(key)
        return one.ends[-1] if one else None

    def __contains__(self, item: object) -> bool:
        if isinstance(item, GtidSet):
            return self.issuperset(item)
        if not isinstance(item, MysqlGtid | MariadbGtid):
            raise GtidError(f"not a GTID nor a GTID set: {item!r}")
        key, number = self._place(item)
        one = self._sets.get(key)
        return one is not None and one.covers(number, number)

    def issuperset(self, other: GtidSet) -> bool:
        """Whether every GTID of ``other`` is in this set. Raises GtidError for the other family's."""
        self._same_family(other)
        return all(
            (mine := self._sets.get(key)) is not None and mine.covers_all(theirs)
            for key, theirs in other._sets.items()
        )

    def issubset(self, other: GtidSet) -> bool:
        """Whether every GTID of this set is in ``other``. Raises GtidError for the other family's."""
        return other.issuperset(self)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, GtidSet) or other.family != self.family:
            return NotImplemented
        return self._sets == other._sets

    __hash__ = None  # type: ignore[assignment]  # mutable

    # changing it

    def add_range(self, key: Key, first: int, last: int) -> None:
        """Add the numbers ``first`` to ``last``, both included. Raises GtidError when out of range."""
        self._check_key(key)
        if not 1 <= first <= last <= self.max_number:
            raise GtidError(f"{first}-{last} is no interval within 1 to {self.max_number}")
        self._intervals(key).add_range(first, last)

    def add_many(self, key: Key, numbers: npt.NDArray[np.integer[Any]]) -> None:
        """Add many numbers, in any order, repeated or not. Raises GtidError when one is out of range."""
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
        breaks = values[1:] - values[:-1] != _ONE
        starts = values[np.concatenate(([True], breaks))]
        ends = values[np.concatenate((breaks, [True]))]
        self._add_intervals(key, starts, ends)

    def update(self, other: GtidSet) -> None:
        """Add every GTID of ``other`` (``|=``). Raises GtidError for the other family's."""
        self._same_family(other)
        for key, theirs in other._sets.items():
            mine = self._sets.get(key)
            if mine is None:
                self._sets[key] = theirs.copy()
            elif len(theirs) == 1:  # the usual step of a stream; keeps it from copying the whole set
                mine.add_range(theirs.starts[0], theirs.ends[0])
            else:
                self._sets[key] = mine.union(theirs)

    def copy(self) -> Self:
        """A set of its own with the same GTIDs."""
        made = type(self)()
        made._sets = {key: one.copy() for key, one in self._sets.items()}
        return made

    # combining

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
        nothing = _Intervals()
        return self._with(
            {key: one.difference(other._sets.get(key, nothing)) for key, one in self._sets.items()}
        )

    # inside

    def _with(self, sets: dict[Any, _Intervals]) -> Self:
        made = type(self)()
        made._sets = {key: one for key, one in sets.items() if len(one)}
        return made

    def _intervals(self, key: Key) -> _Intervals:
        one = self._sets.get(key)
        if one is None:
            one = self._sets[key] = _Intervals()
        return one

    def _add_intervals(self, key: Key, starts: _U64, ends: _U64) -> None:
        """Add sorted, disjoint intervals that are known to be in range."""
        if len(starts):
            mine = self._sets.get(key)
            theirs = _Intervals.of(starts, ends)
            # also for a first set: adjacent intervals become one
            self._sets[key] = (mine if mine is not None else _Intervals()).union(theirs)

    def _same_family(self, other: object) -> None:
        if not isinstance(other, GtidSet):
            raise GtidError(f"not a GTID set: {other!r}")
        if other.family != self.family:
            raise GtidError(f"a {self.family} GTID set and a {other.family} one cannot be combined")


class MysqlGtidSet(GtidSet):
    """A set of MySQL's GTIDs, by (uuid, tag).

    >>> executed = MysqlGtidSet.parse("3E11FA47-71CA-11E1-9E33-C80AA9429562:1-3:5:tag_a:7")
    >>> executed.add(MysqlGtid.parse("3e11fa47-71ca-11e1-9e33-c80aa9429562:4"))
    >>> str(executed)
    '3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5:tag_a:7'
    >>> len(executed)
    6
    """

    family = "mysql"
    max_number = GNO_MAX
    __slots__ = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a set as ``SET GLOBAL gtid_purged`` does.

        Letters of either case, white space between any two tokens, empty pieces between commas, a uuid
        with no interval (nothing), and ``5-3`` (nothing) are all accepted, as by the server. Raises
        GtidError with the offending piece.
        """
        made = cls()
        for piece in text.split(","):
            item = piece.strip()
            if item:
                made._add_text(item)
        return made

    def _add_text(self, item: str) -> None:
        head, *rest = item.split(":")
        try:
            uuid = parse_uuid(head)
        except GtidError as error:
            raise GtidError(f"{error}, in {_shortened(item)!r}") from None
        key = (uuid, "")
        for token in map(str.strip, rest):
            interval = _INTERVAL.fullmatch(token)
            if interval:
                first = _number(interval[1], GNO_MAX, _shortened(item))
                last = first
                if interval[2] is not None:
                    last = _number(interval[2], GNO_MAX, _shortened(item), least=0)
                if first <= last:
                    self._intervals(key).add_range(first, last)
            elif token and _TAG.fullmatch(token):
                key = (uuid, token.lower())
            else:
                raise GtidError(f"{_shortened(token)!r} is no interval and no tag, in {_shortened(item)!r}")

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

    def __iter__(self) -> Iterator[tuple[TsidKey, int, int]]:
        return super().__iter__()  # type: ignore[return-value]  # the keys are this family's

    def add(self, gtid: Gtid) -> None:
        """Add one GTID. Raises GtidError for MariaDB's, or a gno out of range."""
        key, gno = self._place(gtid)
        if not 1 <= gno <= GNO_MAX:
            raise GtidError(f"gno {gno} is out of range (1 to {GNO_MAX})")
        self._intervals(key).add_range(gno, gno)

    def advance(self, gtid: Gtid) -> None:
        """Add ``gtid`` and every smaller gno of its uuid and tag."""
        key, gno = self._place(gtid)
        self.add_range(key, 1, gno)

    def has_tags(self) -> bool:
        """Whether any GTID has a tag, which servers before 8.3 cannot read."""
        return any(tag for _, tag in self._sets)

    def _place(self, gtid: Gtid) -> tuple[TsidKey, int]:
        if not isinstance(gtid, MysqlGtid):
            raise GtidError(f"not a GTID of MySQL: {gtid}")
        return (gtid.uuid, gtid.tag), gtid.gno

    def _check_key(self, key: Key) -> None:
        if not (isinstance(key, tuple) and len(key) == 2 and isinstance(key[0], bytes) and len(key[0]) == 16):
            raise GtidError(f"not a key of a MySQL GTID set: {key!r} (uuid's 16 bytes, tag)")


class MariadbGtidSet(GtidSet):
    """A set of MariaDB's GTIDs, by domain.

    A GTID is in it by domain and seq_no alone, as the server id says only who wrote it; so sets that
    differ in server ids only are equal. The text has the server id of the last GTID of each domain.

    A domain whose numbers are 1 to n is written ``domain-server-n``, which is a position as in
    ``gtid_slave_pos``. Any other writes each of its intervals ``domain-server-first:last``. A server
    id that was never told is 0. A position with seq_no 0 says nothing and is not kept.

    >>> done = MariadbGtidSet.parse("0-11-74,1-12-5")
    >>> done.add(MariadbGtid.parse("0-11-75"))
    >>> done.add(MariadbGtid.parse("2-13-500"))       # just this one
    >>> str(done)
    '0-11-75,1-12-5,2-13-500:500'
    >>> done.advance(MariadbGtid.parse("2-13-500"))   # a position: all up to it
    >>> str(done)
    '0-11-75,1-12-5,2-13-500'
    """

    family = "mariadb"
    max_number = SEQ_NO_MAX
    __slots__ = ("_servers",)

    def __init__(self) -> None:
        super().__init__()
        self._servers: dict[int, tuple[int, int]] = {}  # by domain: seq_no and server id of the last

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a position (``gtid_slave_pos``) or this class' own text; white space around commas is
        accepted. Raises GtidError, also for a domain with two positions, as the server does (1943)."""
        made = cls()
        positions: set[int] = set()
        for piece in text.split(","):
            item = piece.strip()
            if not item:
                if text.strip():
                    raise GtidError(f"an empty piece in {_shortened(text.strip())!r}")
                continue
            match = _MARIADB.fullmatch(item)
            if not match:
                raise GtidError(f"not a GTID of MariaDB: {_shortened(item)!r} (domain-server-number)")
            domain, server = _mariadb_ids(match)
            first, last = 1, _number(match[3], SEQ_NO_MAX, item, least=0)
            if match[4] is not None:
                first, last = last, _number(match[4], SEQ_NO_MAX, item)
                if not 1 <= first <= last:
                    raise GtidError(f"{first}:{last} is no interval, in {item!r}")
            elif domain in positions:
                raise GtidError(f"domain {domain} has two positions in {_shortened(text.strip())!r}")
            else:
                positions.add(domain)
            if first <= last:
                made.add_range(domain, first, last, server_id=server)
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

    def __iter__(self) -> Iterator[tuple[int, int, int]]:
        return super().__iter__()  # type: ignore[return-value]  # the keys are this family's

    def server_id(self, domain_id: int) -> int:
        """The server id of the domain's last GTID; 0 when it was never told."""
        return self._servers.get(domain_id, (0, 0))[1]

    def gtids(self) -> tuple[MariadbGtid, ...]:
        """The last GTID of each domain, by domain: what ``gtid_slave_pos`` would hold."""
        return tuple(MariadbGtid(d, self.server_id(d), self._sets[d].ends[-1]) for d in sorted(self._sets))

    def is_position(self) -> bool:
        """Whether every domain is 1 to n, so that the text is one a server takes for a position."""
        return all(len(one) == 1 and one.starts[0] == 1 for one in self._sets.values())

    def add(self, gtid: Gtid) -> None:
        """Add this one GTID. Raises GtidError for MySQL's, or a seq_no out of range."""
        domain, seq_no = self._place(gtid)
        self.add_range(domain, seq_no, seq_no, server_id=gtid.server_id)  # type: ignore[union-attr]

    def advance(self, gtid: Gtid) -> None:
        """Move the domain's position to ``gtid``: everything in the domain up to it is in the set."""
        domain, seq_no = self._place(gtid)
        self.add_range(domain, 1, seq_no, server_id=gtid.server_id)  # type: ignore[union-attr]

    def add_range(self, key: Key, first: int, last: int, *, server_id: int = 0) -> None:
        """Add the seq_nos ``first`` to ``last``; ``server_id`` is the last one's, 0 if unknown."""
        super().add_range(key, first, last)
        self._served(key, last, server_id)

    def add_many(self, key: Key, numbers: npt.NDArray[np.integer[Any]], *, server_id: int = 0) -> None:
        """Add many seq_nos of a domain; ``server_id`` is the largest one's, 0 if unknown."""
        super().add_many(key, numbers)
        if len(numbers):
            self._served(key, int(np.asarray(numbers).max()), server_id)

    def update(self, other: GtidSet) -> None:
        """Add every GTID of ``other``; the server id of a domain is that of the larger last seq_no."""
        super().update(other)
        if isinstance(other, MariadbGtidSet):
            for domain, (seq_no, server) in other._servers.items():
                self._served(domain, seq_no, server)

    def copy(self) -> Self:
        """A set of its own with the same GTIDs."""
        made = super().copy()
        made._servers = dict(self._servers)
        return made

    def _with(self, sets: dict[Any, _Intervals]) -> Self:
        made = super()._with(sets)
        # what is left may end earlier; the id known for the domain is the best there is
        made._servers = {
            domain: (one.ends[-1], self._servers[domain][1])
            for domain, one in made._sets.items()
            if domain in self._servers
        }
        return made

    def _served(self, domain: Key, seq_no: int, server_id: int) -> None:
        assert isinstance(domain, int)
        if server_id and seq_no >= self._servers.get(domain, (0, 0))[0]:
            self._servers[domain] = (seq_no, server_id)

    def _place(self, gtid: Gtid) -> tuple[int, int]:
        if not isinstance(gtid, MariadbGtid):
            raise GtidError(f"not a GTID of MariaDB: {gtid}")
        return gtid.domain_id, gtid.seq_no

    def _check_key(self, key: Key) -> None:
        if not (isinstance(key, int) and 0 <= key < 2**32):
            raise GtidError(f"not a domain id: {key!r}")


def parse_gtid_set(
    text: str, family: Literal["mysql", "mariadb"] | None = None
) -> MysqlGtidSet | MariadbGtidSet:
    """Read a set of either family: ``family``'s, or by its looks (empty text is then MySQL's).

    Raises GtidError, also when the text mixes the families.

    >>> parse_gtid_set("0-11-74").family, parse_gtid_set("").family
    ('mariadb', 'mysql')
    """
    pieces = [piece.strip() for piece in text.split(",") if piece.strip()]
    mariadb = [piece for piece in pieces if _MARIADB.fullmatch(piece)]
    mysql = [piece for piece in pieces if _UUID.match(piece)]
    if mariadb and mysql:
        raise GtidError(f"GTIDs of two families: {_shortened(mysql[0])!r} and {mariadb[0]!r}")
    if family == "mariadb" or (family is None and mariadb):
        return MariadbGtidSet.parse(text)
    return MysqlGtidSet.parse(text)


def _shortened(text: str) -> str:
    return text if len(text) <= 120 else text[:117] + "..."


# Binary forms


def decode_varlen(data: bytes | memoryview, offset: int) -> tuple[int, int]:
    """Read an unsigned integer of ``mysql::serialization`` (``variable_length_integers.h``): value and
    the offset after it. The number of 1 bits at the low end of the first byte is the number of bytes
    that follow; the value is what is above them, little-endian. Raises BinlogCorrupt at the end of data.

    >>> decode_varlen(bytes.fromhex("83120b"), 0)
    (90704, 3)
    """
    if offset >= len(data):
        raise BinlogCorrupt("the event ends inside a variable-length integer")
    first = data[offset]
    extra = (~first & (first + 1)).bit_length() - 1  # 8 for 0xff
    end = offset + 1 + extra
    if end > len(data):
        raise BinlogCorrupt("the event ends inside a variable-length integer")
    if extra == 8:
        return int.from_bytes(data[offset + 1 : end], "little"), end
    return int.from_bytes(data[offset:end], "little") >> (extra + 1), end


def encode_varlen(value: int) -> bytes:
    """The bytes :func:`decode_varlen` reads; ``value`` is 0 to 2**64-1.

    >>> encode_varlen(90704).hex()
    '83120b'
    """
    if not 0 <= value < 2**64:
        raise ValueError(f"not an unsigned integer of 64 bits: {value}")
    length = max(1, -(-value.bit_length() // 7))
    if length > 8:
        return b"\xff" + value.to_bytes(8, "little")
    return (value << length | (1 << (length - 1)) - 1).to_bytes(length, "little")


_GTID_LIST_ENTRY = struct.Struct("<IIQ")
_TAGGED = 1  # mysql::gtids::Gtid_format::tagged; untagged is 0


def decode_previous_gtids(body: bytes | memoryview) -> MysqlGtidSet:
    """Read a Previous_gtids event's body, or any other output of ``Gtid_set::encode`` (the body of
    COM_BINLOG_DUMP_GTID has one).

    Classic: u64 number of uuids; for each 16 bytes uuid, u64 number of intervals, then for each
    interval u64 first and u64 last + 1. Tagged (8.3 and later, written when the set has a tag): the
    u64 has the format code 1 in bytes 0 and 7 and the number in the bytes between, and a tag (varlen
    length, bytes) follows each uuid. Raises BinlogCorrupt.
    """
    data = memoryview(body)
    if len(data) < 8:
        raise BinlogCorrupt(f"Previous_gtids: only {len(data)} bytes")
    number, code = int.from_bytes(data[:7], "little"), data[7]
    if code == _TAGGED and data[0] == _TAGGED:
        number >>= 8
    elif code:
        raise BinlogCorrupt(f"Previous_gtids: unknown format, header {data[:8].hex()}")
    made = MysqlGtidSet()
    offset = 8
    for _ in range(number):
        if len(data) - offset < 24:
            raise BinlogCorrupt(f"Previous_gtids: ends before the last of {number} uuids")
        uuid = bytes(data[offset : offset + 16])
        offset += 16
        tag = ""
        if code == _TAGGED:
            tag, offset = decode_tag(data, offset)
        if len(data) - offset < 8:
            raise BinlogCorrupt("Previous_gtids: ends before a number of intervals")
        count = int.from_bytes(data[offset : offset + 8], "little")
        offset += 8
        if count > (len(data) - offset) // 16:
            raise BinlogCorrupt(f"Previous_gtids: {count} intervals in {len(data) - offset} bytes")
        pairs = np.frombuffer(data[offset : offset + 16 * count], "<u8").astype(np.uint64).reshape(-1, 2)
        offset += 16 * count
        firsts, afters = pairs[:, 0], pairs[:, 1]
        if count and (
            firsts[0] < 1
            or afters[-1] > GNO_MAX + 1
            or not bool((firsts < afters).all())
            or not bool((afters[:-1] <= firsts[1:]).all())
        ):
            raise BinlogCorrupt(f"Previous_gtids: intervals of {format_uuid(uuid)} out of order or range")
        made._add_intervals((uuid, tag), firsts, afters - _ONE)
    if offset != len(data):
        raise BinlogCorrupt(f"Previous_gtids: {len(data) - offset} bytes after the end")
    return made


def decode_tag(data: bytes | memoryview, offset: int) -> tuple[str, int]:
    """Read a tag (varlen length, characters) and the offset after it. Raises BinlogCorrupt."""
    length, offset = decode_varlen(data, offset)
    raw = bytes(data[offset : offset + min(length, TAG_MAX_LENGTH)])
    text = raw.decode("latin-1")
    if len(raw) != length or (text and (not text.isascii() or not _TAG.fullmatch(text))):
        raise BinlogCorrupt(f"GTID tag of {length} bytes: {text!r}")
    return text.lower(), offset + length


def encode_previous_gtids(gtids: MysqlGtidSet) -> bytes:
    """The body of a Previous_gtids event, as the server writes it: tagged only when a tag is there.

    >>> encode_previous_gtids(MysqlGtidSet()).hex()
    '0000000000000000'
    """
    tagged = gtids.has_tags()
    keys = sorted(gtids._sets)
    number = len(keys) << 8 | _TAGGED | _TAGGED << 56 if tagged else len(keys)
    pieces = [number.to_bytes(8, "little")]
    for uuid, tag in keys:
        starts, ends = gtids._sets[uuid, tag].arrays()
        pieces.append(uuid)
        if tagged:
            pieces += [encode_varlen(len(tag)), tag.encode()]
        pieces.append(len(starts).to_bytes(8, "little"))
        pieces.append(np.stack((starts, ends + _ONE), axis=1).astype("<u8").tobytes())
    return b"".join(pieces)


@dataclass(frozen=True)
class GtidList:
    """MariaDB's Gtid_list event: for each domain the last GTID of each server, the domain's last one last."""

    gtids: tuple[MariadbGtid, ...]
    flags: int = 0
    """FLAG_UNTIL_REACHED, FLAG_IGN_GTIDS; 0 in files."""

    def position(self) -> MariadbGtidSet:
        """Everything up to the largest seq_no of each domain."""
        made = MariadbGtidSet()
        for gtid in self.gtids:
            if gtid.seq_no:
                made.advance(gtid)
        return made


def decode_gtid_list(body: bytes | memoryview) -> GtidList:
    """Read a Gtid_list event's body (``Gtid_list_log_event``): u32, the number of GTIDs below 4 flag
    bits, then for each u32 domain, u32 server, u64 seq_no. An empty list is padded to 6 bytes.
    Raises BinlogCorrupt."""
    if len(body) < 4:
        raise BinlogCorrupt(f"Gtid_list: only {len(body)} bytes")
    head = int.from_bytes(body[:4], "little")
    count, flags = head & 0x0FFFFFFF, head & 0xF0000000
    end = 4 + 16 * count
    padding = bytes(body[end:])
    if end > len(body) or len(padding) > 2 or any(padding):
        raise BinlogCorrupt(f"Gtid_list: {count} GTIDs in {len(body)} bytes")
    return GtidList(tuple(MariadbGtid(*entry) for entry in _GTID_LIST_ENTRY.iter_unpack(body[4:end])), flags)


def encode_gtid_list(gtids: GtidList) -> bytes:
    """The body of a Gtid_list event, as the server writes it.

    >>> encode_gtid_list(GtidList((MariadbGtid(0, 11, 38),))).hex()
    '01000000000000000b0000002600000000000000'
    """
    head = (len(gtids.gtids) | gtids.flags).to_bytes(4, "little")
    return (head + b"".join(_GTID_LIST_ENTRY.pack(*gtid) for gtid in gtids.gtids)).ljust(6, b"\0")
