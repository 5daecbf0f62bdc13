"""The messages of a dump as gRPC carries them: the protocol's version, chunks with their gaps, and the check of
received events. Master and slave share this module, so that both read and write alike.

A chunk may have a MiB of events, which the generated code of protocol buffers copies several times. Therefore this
module writes and reads the field ``events`` by itself, and leaves the other fields to the generated code. On the wire
the message is an ordinary one, whose first field is ``events``.

The CRC32 of a chunk covers all fields but the events. Of the events it covers only the length, because each event ends
in a checksum, which :class:`EventProof` checks.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

import grpc
import numpy as np
import numpy.typing as npt

from dumpfilter.base.errors import ProtocolMismatch, StreamDamaged
from dumpfilter.binlog.crc32 import all_sound
from dumpfilter.binlog.events import CHECKSUM_LENGTH, HEADER_LENGTH, MAX_EVENT, SOUND
from dumpfilter.binlog.gap_columns import GapColumns
from dumpfilter.binlog.gap_events import SOURCE, source_bytes
from dumpfilter.binlog.gtid import SourceKey
from dumpfilter.binlog.whole_events import UNLIMITED, whole_events
from dumpfilter.dump.stream._kernels import write_lists
from dumpfilter.filter.convert import kind_from_number, kind_number
from dumpfilter.filter.rules import SLAVE_RULE_KINDS, Hits
from dumpfilter.v1 import dumpfilter_pb2 as pb
from dumpfilter.v1 import dumpfilter_pb2_grpc as rpc

if TYPE_CHECKING:
    from dumpfilter.dump.chunk import Gaps

PROTOCOL = 2
"""The version of the protocol that this release speaks (``dumpfilter.proto`` tells what each version has)."""


class Speaker(NamedTuple):
    """A program and the version of the protocol that it speaks. For an old program, which names neither itself nor a
    version, the fields are 0 and empty.
    """

    protocol: int
    program: str

    def __str__(self) -> str:
        program = f"dumpfilter {self.program}" if self.program else "an early dumpfilter"
        return f"({program}) speaks version {self.protocol or 1}"


def check_versions(*, slave: Speaker, master: Speaker) -> None:
    """Raise ProtocolMismatch if slave and master speak different versions. The error's text names the side to
    upgrade.
    """
    if slave.protocol != master.protocol:
        behind = "slave" if slave.protocol < master.protocol else "master"
        raise ProtocolMismatch(
            f"slave and master speak different versions of the protocol: the slave {slave}, the master {master}; "
            f"upgrade the {behind}"
        )


_DUMP = f"/{pb.DESCRIPTOR.services_by_name['DumpFilter'].full_name}/Dump"

_EVENTS_KEY = pb.Chunk.EVENTS_FIELD_NUMBER << 3 | 2
"""The key (tag) of the field ``events`` on the wire: the field's number, and the wire type of bytes."""

_GAPS_KEY = pb.Chunk.GAPS_FIELD_NUMBER << 3 | 2
"""The key (tag) of the field ``gaps`` (the dropped transactions) on the wire: the field's number, and the wire type of
messages.
"""

_CRC32_KEY = pb.Chunk.CRC32_FIELD_NUMBER << 3
"""The key (tag) of the field ``crc32`` on the wire: the field's number, and the wire type of numbers."""

_LONGEST_VARINT = 10
"""The largest size of a varint of protocol buffers, bytes."""


def chunk_crc32(chunk: pb.Chunk, events: int | None = None) -> int:
    """Return the CRC32 of a chunk, at least 1. A chunk is one message of the stream to a slave.

    The CRC32 is taken over the length of the chunk's events in decimal digits, a colon, and the serialized message
    without the fields ``events`` and ``crc32``. ``events`` is the length; None: ``chunk`` holds the events.
    """
    bare = pb.Chunk()
    bare.CopyFrom(chunk)
    bare.ClearField("events")
    bare.ClearField("crc32")
    return _crc32(len(chunk.events) if events is None else events, bare.SerializeToString(deterministic=True))


def _crc32(events: int, fields: bytes) -> int:
    return zlib.crc32(fields, zlib.crc32(b"%d:" % events)) or 1


class Kept(NamedTuple):
    """The size and CRC32 of the events of an incomplete transaction that a slave has received. These events lie after
    the slave's last resume point, a transaction boundary at which a broken stream can begin again.

    The slave's relay log ends with these bytes. After a lost connection the master need not send them again.
    """

    size: int = 0
    crc32: int = 0

    def add(self, events: bytes | memoryview) -> Kept:
        """Return a new :class:`Kept` that includes ``events``, the next events of the incomplete transaction that the
        slave has received. The object itself stays unchanged.
        """
        return Kept(self.size + len(events), zlib.crc32(events, self.crc32))


NOTHING_KEPT = Kept()


class Received(NamedTuple):
    """A chunk (one message of the stream) as a slave receives it: the events, and all other fields."""

    chunk: pb.Chunk
    """All fields of the chunk message except ``events``."""
    events: bytes | memoryview

    @classmethod
    def parse(cls, message: bytes) -> Received:
        """Return the chunk (one message of the stream) that is serialized in ``message``. Raises DecodeError for a
        malformed message.
        """
        if message[:1] != bytes([_EVENTS_KEY]):
            chunk = pb.Chunk.FromString(message)
            return cls(chunk, chunk.events)
        size, begin = _read_varint(message, 1)
        # Slices of a message that ends too early are shorter, which the CRC32 shows.
        view = memoryview(message)
        return cls(pb.Chunk.FromString(message[begin + size :]), view[begin : begin + size])


def client(channel: grpc.Channel) -> rpc.DumpFilterStub:
    """Return a gRPC client of the master's dump service, whose method ``Dump`` yields :class:`Received`. ``channel`` is
    the connection to the master.
    """
    stub = rpc.DumpFilterStub(channel)
    stub.Dump = channel.unary_stream(
        _DUMP, request_serializer=pb.DumpRequest.SerializeToString, response_deserializer=Received.parse
    )
    return stub


def around_events(chunk: pb.Chunk, size: int, gaps: bytes = b"") -> tuple[bytes, bytes]:
    """Return the parts of the serialized message of a chunk (one message of the stream) before and after its events.
    Also set ``crc32`` of ``chunk``.

    ``size`` is the number of bytes of the events. ``gaps`` is the serialized message with the chunk's gaps (runs of
    dropped transactions), if ``chunk`` itself does not hold them.
    """
    before = _varint(_EVENTS_KEY) + _varint(size) if size else b""
    chunk.ClearField("crc32")
    fields = chunk.SerializeToString(deterministic=True)
    if gaps:
        fields = b"".join((fields, _varint(_GAPS_KEY), _varint(len(gaps)), gaps))
    chunk.crc32 = _crc32(size, fields)
    return before, b"".join((fields, _varint(_CRC32_KEY), _varint(chunk.crc32)))


def with_events(chunk: pb.Chunk, events: bytes | memoryview, gaps: bytes = b"") -> bytes:
    """Return the serialized message of a chunk (one message of the stream) with its events. Also set ``crc32`` of
    ``chunk``. ``gaps`` is the serialized message with the chunk's gaps (runs of dropped transactions), if ``chunk``
    itself does not hold them.
    """
    before, after = around_events(chunk, len(events), gaps)
    return b"".join((before, events, after))


def _varint(number: int) -> bytes:
    """Return a number as a varint of protocol buffers."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _read_varint(message: bytes, at: int) -> tuple[int, int]:
    """Return the number in the varint at offset ``at`` of a message, and the offset after the varint."""
    number = shift = 0
    for byte in message[at : at + _LONGEST_VARINT]:
        at += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    return number, at


Integers = npt.NDArray[np.int64]

_FIRST_LIST = pb.Gaps.OFFSET_FIELD_NUMBER
"""The field number of the first packed list in the Gaps message, which tells a slave the dropped transactions. The
other lists have the field numbers after it.
"""

_COLUMNS = [field.name for field in pb.Gaps.DESCRIPTOR.fields if field.number >= _FIRST_LIST]
"""The names of the packed lists of the Gaps message, which tells a slave the dropped transactions."""

_MOST_HITS, _MOST_KIND = 0xFFFF, 0xFF
"""The largest number of kinds of rules with hits (matches) that a Gap event holds, and the largest number of a kind. A
Gap event is a relay log's note about dropped transactions.
"""

_KIND_NUMBERS = np.array([kind_number(kind) for kind in SLAVE_RULE_KINDS], np.int64)


def gaps_to_proto(gaps: Gaps, key_of: Callable[[int], SourceKey]) -> bytes:
    """Return the serialized gRPC message with the gaps (runs of dropped transactions) of one chunk of the stream.
    ``key_of`` returns the GTID source (server UUID, or MariaDB's domain and server id) for a source's number.

    This function encodes the numbers itself, because the generated code takes many times as long for thousands of them.
    """
    offset, end, _, runs_until, hits_until = gaps.row.T
    source, first, last = gaps.runs.T
    sources = sorted(set(source.tolist()))
    first_steps = _steps(first, last)
    # An end of 0 is not known, and the next step begins at the last known end.
    lists = (
        _steps(offset),
        np.where(end > 0, _steps(np.maximum.accumulate(end)), 0),
        _steps(runs_until),
        np.searchsorted(sources, source),
        first_steps << 1 ^ first_steps >> 63,
        last - first + 1,
        _steps(hits_until),
        _KIND_NUMBERS[gaps.hits[:, 0]],
        gaps.hits[:, 1],
    )
    numbers = np.concatenate(lists)
    out = np.empty(_LONGEST_VARINT * (len(numbers) + len(lists)), np.uint8)
    size = write_lists(numbers.view(np.uint64), np.array([*accumulate(map(len, lists))]), _FIRST_LIST, out)
    names = pb.Gaps(source=[source_bytes(key_of(number)) for number in sources])
    return names.SerializeToString() + out[:size].tobytes()


def runs_of(gtids: Iterable[tuple[int, int]]) -> list[list[int]]:
    """Return GTIDs as runs of consecutive transaction numbers of one GTID source (a server UUID, or MariaDB's domain
    and server id). A run has the number of the source, and the first and the last transaction number.

    ``gtids`` are pairs of a source's number and a transaction number, in the order of the binlog.
    """
    runs: list[list[int]] = []
    for source, number in gtids:
        if runs and runs[-1][0] == source and runs[-1][2] + 1 == number:
            runs[-1][2] = number
        else:
            runs.append([source, number, number])
    return runs


class Gap(NamedTuple):
    """One entry of the list by which a message tells the slave what the master drops. An entry has the GTIDs of
    consecutive dropped transactions, the binlog position after them, and the rule hits (matches of filter rules) of
    their events. Or it only has rule hits, of events that are dropped inside the next transaction.
    """

    offset: int
    """The number of bytes of events in the message that come before the dropped transactions."""
    end: int
    """The binlog position after the dropped transactions; 0 for a gap that only has rule hits (matches of filter
    rules).
    """
    runs: list[list[int]]
    """The GTIDs of the dropped transactions. Each run of consecutive GTIDs is the number of the GTID source (such as a
    server UUID), and the first and last transaction number (:func:`runs_of`).
    """
    hits: Mapping[int, int]
    """The numbers of rule hits (matches of filter rules), by the index of the kind of rule in ``SLAVE_RULE_KINDS``."""


def few_gaps_to_proto(few: Sequence[Gap], key_of: Callable[[int], SourceKey]) -> bytes:
    """Return the serialized gRPC message with a few gaps (runs of dropped transactions), as :func:`gaps_to_proto` does
    for many. For a few gaps this function takes a fraction of the time.
    """
    sources = sorted({source for gap in few for source, _, _ in gap.runs})
    gaps = pb.Gaps(source=[source_bytes(key_of(number)) for number in sources])
    offset = told_end = last = 0
    for gap in few:
        gaps.offset.append(gap.offset - offset)
        gaps.end.append(gap.end and gap.end - told_end)
        gaps.runs.append(len(gap.runs))
        gaps.hits.append(len(gap.hits))
        for kind, count in sorted(gap.hits.items()):
            gaps.hit_kind.append(kind_number(SLAVE_RULE_KINDS[kind]))  # type: ignore[arg-type]  # an int on the wire
            gaps.hit_count.append(count)
        for source, first, until in gap.runs:
            gaps.run_source.append(sources.index(source))
            gaps.run_first.append(first - last)
            gaps.run_length.append(until - first + 1)
            last = until
        offset, told_end = gap.offset, gap.end or told_end
    message: bytes = gaps.SerializeToString(deterministic=True)
    return message


def _steps(numbers: Integers, before: Integers | None = None) -> Integers:
    """Return the differences of neighbouring numbers, which are encoded in fewer bytes: each number minus the number
    before it, and the first number minus 0.

    With ``before``, subtract the previous entry of ``before`` instead: number i minus ``before[i-1]``.
    """
    steps = numbers.copy()
    steps[1:] -= (numbers if before is None else before)[:-1]
    return steps


def gaps_from_proto(message: pb.Gaps) -> GapColumns:
    """Decode the gRPC message with the gaps (runs of dropped transactions) of one chunk, a message of the stream.
    Return the gaps as arrays. ``run_source`` of the result has indexes into the message's list of GTID sources (such as
    server UUIDs).

    Raises StreamDamaged for a message whose lists contradict each other.
    """
    columns = [np.array(getattr(message, name)).astype(np.int64) for name in _COLUMNS]
    offset, end, runs, source, first, length, hits, kind, count = columns
    is_sound = (
        len(offset) == len(end) == len(runs) == len(hits)
        and len(source) == len(first) == len(length) == int(runs.sum())
        and len(kind) == len(count) == int(hits.sum())
        and all(int(each.min(initial=0)) >= 0 for each in columns if each is not first)
        and int(source.max(initial=-1)) < len(message.source)
        and int(length.min(initial=1)) > 0
        and int(hits.max(initial=0)) <= _MOST_HITS
        and int(kind.max(initial=0)) <= _MOST_KIND
        and all(map(SOURCE.fullmatch, message.source))
    )
    if is_sound:
        # A run is told by its distance from the end of the run before.
        first = np.cumsum(first + np.concatenate([[0], length - 1])[:-1])
        last = first + length - 1
        sums = [np.cumsum(each) for each in (offset, end, runs, hits)]
        # A sum of more than 63 bits is negative where it first exceeds them. No Gap event
        # can hold such a sum.
        if int(first.min(initial=1)) > 0 and all(int(each.min(initial=0)) >= 0 for each in (last, *sums)):
            offset, ends, runs_until, hits_until = sums
            ends = np.where(end > 0, ends, 0)
            return GapColumns(offset, ends, runs_until, source, first, last, hits_until, kind, count)
    raise StreamDamaged("the gaps of a chunk contradict each other")


def hits_from_numbers(counts: dict[int, int]) -> Hits:
    """Return the numbers of rule hits (matches of filter rules with events) by kind of rule. ``counts`` has these
    numbers by the number that the gRPC protocol gives to each kind.

    Kinds that only a newer master knows are left out.
    """
    kinds = {kind_from_number(number): count for number, count in counts.items()}
    return Hits({kind: count for kind, count in kinds.items() if kind is not None})


_IMPOSSIBLE_LENGTH = "an event has an impossible length"
_WRONG_CHECKSUM = "an event's checksum does not match"


class EventProof:
    """A check of a stream of events for damage. The events are given piece by piece, and a piece may end inside an
    event, even inside its header.

    ``checksum`` tells whether events end in a CRC32. Without checksums only the events' lengths can be checked.
    """

    def __init__(self, *, checksum: bool) -> None:
        self._checksum = checksum
        self._smallest = HEADER_LENGTH + (CHECKSUM_LENGTH if checksum else 0)
        self._header = b""
        """The incomplete header with which the last piece ended; empty if the piece did not end inside a header."""
        self._left = 0
        """The number of bytes that are still missing from an event whose header is complete."""
        self._crc = 0
        """The CRC32 of the incomplete event's bytes so far."""

    @property
    def inside(self) -> bool:
        """Whether the events that were checked so far end with an incomplete event."""
        return bool(self._left or self._header)

    def check(self, events: bytes | memoryview) -> None:
        """Check the next bytes of the stream of events, which may begin and end inside an event. Raises StreamDamaged
        for an impossible length or a wrong checksum.
        """
        at = self._finish(events) if self.inside else 0
        if at >= len(events):
            return
        data = np.frombuffer(events, np.uint8)
        end = int(whole_events(data, at, self._smallest, UNLIMITED))
        if end < 0:
            raise StreamDamaged(_IMPOSSIBLE_LENGTH)
        if self._checksum and not all_sound(data, at, end):
            raise StreamDamaged(_WRONG_CHECKSUM)
        if end < len(events):
            self._finish(events[end:])

    def _finish(self, piece: bytes | memoryview) -> int:
        """Check the beginning of ``piece``, the next bytes of the stream, which belongs to an event that began in an
        earlier piece. Return the number of bytes that belong to this event.

        If the event does not end in ``piece``, the number is the whole length of ``piece``. Raises StreamDamaged for an
        impossible length or a wrong checksum.
        """
        at = 0
        if not self._left:
            at = min(HEADER_LENGTH - len(self._header), len(piece))
            self._header += piece[:at]
            if len(self._header) < HEADER_LENGTH:
                return at
            size = int.from_bytes(self._header[9:13], "little")
            if not self._smallest <= size <= MAX_EVENT:
                raise StreamDamaged(_IMPOSSIBLE_LENGTH)
            self._left, self._crc = size - HEADER_LENGTH, zlib.crc32(self._header)
            self._header = b""
        rest = piece[at : at + self._left]
        self._left -= len(rest)
        if self._checksum:
            self._crc = zlib.crc32(rest, self._crc)
            if not self._left and self._crc != SOUND:
                raise StreamDamaged(_WRONG_CHECKSUM)
        return at + len(rest)
