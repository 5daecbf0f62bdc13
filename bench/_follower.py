"""A simulated slave: it proves a master's stream as the product's slave does, and keeps digests instead of relay logs.

:class:`Follower` takes chunks. It has the place from which a slave would resume, and for this place the digest of all
events before it. After a lost connection, or a change of filter, the follower goes back to such a place.
"""

from __future__ import annotations

import hashlib
import uuid
from array import array
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from bench._growing import MARK, MARK_LENGTH
from dumpfilter.binlog.workload.generate import UUID
from dumpfilter.dump.stream.message import chunk_crc32
from dumpfilter.dump.stream.versions import PROTOCOL
from dumpfilter.v1 import dumpfilter_pb2 as pb

if TYPE_CHECKING:
    from hashlib import _Hash

_REMEMBERED = 16
"""The number of resume points that a follower remembers for changes of its filter."""


def registration(number: int, definition: pb.FilterDefinition) -> pb.RegisterRequest:
    """Return the request with which the follower of a number registers, each time with the same identity."""
    return pb.RegisterRequest(
        server_id=number + 1000,
        uuid=str(uuid.UUID(int=number + 1)),
        filter=definition,
        secret=number.to_bytes(16, "little"),
        protocol=PROTOCOL,
    )


def dump(channel: Any, request: pb.DumpRequest) -> Any:
    """Begin a dump. Its messages are not decoded."""
    method = "/dumpfilter.v1.DumpFilter/Dump"
    return channel.unary_stream(method, request_serializer=pb.DumpRequest.SerializeToString)(request)


class WrongStream(Exception):
    """The error for a chunk that a slave would refuse, or that tells something untrue."""


class Start(NamedTuple):
    """The place at which a follower's first stream begins, and the number of the last transaction before it."""

    file: str = ""
    position: int = 4
    transactions: int = 0


class Place(NamedTuple):
    """A resume point: a place between two transactions, and what a follower knows about all events before it."""

    file: str
    position: int
    digest: _Hash
    size: int
    """The number of bytes of events."""
    transactions: int
    """The number of transactions, sent and dropped. The binlogs of the benchmarks have GTIDs from 1 on."""
    dropped: int
    """The number of transactions that gaps tell of."""
    marks: int
    """The number of marks in the events."""


class Follower:
    """The state of one simulated slave. The caller passes each message of the stream to :meth:`take`.

    ``exact`` says whether the follower keeps a digest of all events. Without the digest it counts the bytes alone.
    """

    def __init__(self, start: Start, *, exact: bool = True) -> None:
        self._exact = exact
        self.resume = Place(start.file, start.position, hashlib.sha256(), 0, start.transactions, 0, 0)
        """The place at which the next stream begins."""
        self.remembered: deque[Place] = deque(maxlen=_REMEMBERED)
        """The newest resume points, which a change of filter may name."""
        self.marks = array("I")
        """The numbers of all marks in the events."""
        self._format_descriptions: dict[str, bytes] = {}
        self.end_of_log = False
        self._digest = hashlib.sha256()
        self._size = 0
        self._tail = b""
        self._completed = 0
        self._dropped = 0
        self._next: tuple[str, int] | None = None
        self._file_ended = False
        self._begins_anywhere = True

    @property
    def place(self) -> tuple[str, int]:
        """The file and the position that the follower has reached."""
        return self._next or (self.resume.file, self.resume.position)

    def begin(self) -> pb.DumpRequest:
        """Begin a new stream at the resume point. Return the request, without the id of the slave."""
        here = self.resume
        self._go_to(here)
        self._next = None
        self._begins_anywhere = not here.file
        request = pb.DumpRequest()
        getattr(request, "from").CopyFrom(pb.BinlogPosition(file=here.file, position=here.position))
        return request

    def change_filter(self, place: Place) -> None:
        """Discard everything after ``place``. The next stream begins there, with another filter."""
        self.resume = place
        self._go_to(place)
        self.remembered.clear()

    def take(self, raw: bytes) -> None:
        """Prove a message and take its events. Raises WrongStream."""
        chunk = pb.Chunk.FromString(raw)
        events = chunk.events
        self._prove(chunk)
        self._enter(chunk)
        self._take_events(chunk, events)
        self._next = (chunk.file, chunk.end_position)
        self._file_ended = chunk.end_of_file
        self.end_of_log |= chunk.end_of_log

    def _go_to(self, place: Place) -> None:
        self._digest, self._size, self._tail = place.digest.copy(), place.size, b""
        self._completed, self._dropped = place.transactions, place.dropped
        del self.marks[place.marks :]

    def _prove(self, chunk: pb.Chunk) -> None:
        where = f"{chunk.file} at {chunk.begin_position}"
        if chunk.crc32 != chunk_crc32(chunk):
            raise WrongStream(f"{where}: the CRC32 does not match")
        if self._next is None:
            return
        file, position = self._next
        if chunk.file == file and not self._file_ended:
            follows = chunk.begin_position == position and not chunk.format_description
        else:
            follows = self._file_ended and chunk.previous_file == file and chunk.file != file
        if not follows:
            raise WrongStream(f"{where}: the chunk before ended at {position} of {file}")

    def _enter(self, chunk: pb.Chunk) -> None:
        """Check the beginning of a stream, and of a file."""
        here = self.resume
        begins = self._next is None
        if begins and not chunk.format_description:
            raise WrongStream(f"{chunk.file}: a stream begins without a format description event")
        if not chunk.format_description:
            return
        known = self._format_descriptions.setdefault(chunk.file, chunk.format_description)
        if chunk.format_description != known:
            raise WrongStream(f"{chunk.file}: another format description event than before")
        first = 4 + len(chunk.format_description)
        wanted = here.position if begins else 0
        same_file = not begins or self._begins_anywhere or chunk.file == here.file
        if not same_file or max(chunk.start_position, first) != max(wanted, first):
            raise WrongStream(
                f"the stream begins at {chunk.start_position} of {chunk.file}, asked for {wanted} of {here.file}"
            )
        self._begins_anywhere = False
        self.resume = here._replace(file=chunk.file, position=chunk.start_position)

    def _take_events(self, chunk: pb.Chunk, events: bytes) -> None:
        here = self.resume
        if chunk.resume_position < here.position or chunk.resume_bytes > len(events):
            raise WrongStream(f"{chunk.file}: the resume point {chunk.resume_position} is impossible")
        incomplete = self._size > here.size
        self._note_transactions(chunk, events)
        marks_before = len(self.marks)
        complete = self._find_marks(events, chunk.resume_bytes)
        if self._exact:
            self._digest.update(events[: chunk.resume_bytes] if chunk.resume_bytes < len(events) else events)
        self._size += chunk.resume_bytes
        moved = chunk.resume_bytes or (not incomplete and chunk.resume_position != here.position)
        if moved:
            marks = marks_before + complete
            self.resume = Place(
                chunk.file,
                chunk.resume_position,
                self._digest.copy(),
                self._size,
                self._completed,
                self._dropped,
                marks,
            )
            self.remembered.append(self.resume)
        if self._exact and chunk.resume_bytes < len(events):
            self._digest.update(events[chunk.resume_bytes :])
        self._size += len(events) - chunk.resume_bytes

    def _note_transactions(self, chunk: pb.Chunk, events: bytes) -> None:
        for first, last in _runs(chunk.completed):
            if first != self._completed + 1:
                raise WrongStream(
                    f"{chunk.file} at {chunk.begin_position}: transaction {first} after {self._completed}"
                )
            self._completed = last
        gaps = chunk.gaps
        if len(gaps.offset) and sum(gaps.offset) > len(events):
            raise WrongStream(f"{chunk.file} at {chunk.begin_position}: a gap lies beyond its chunk")
        self._dropped += sum(gaps.run_length)

    def _find_marks(self, events: bytes, complete: int) -> int:
        """Note the marks in the events. Return how many of them lie in the first ``complete`` bytes.

        A mark may be cut by the end of a chunk, since a large event is spread over several chunks.
        """
        before, found = len(self._tail), 0
        data = self._tail + events if before else events
        at = data.find(MARK)
        while 0 <= at <= len(data) - MARK_LENGTH:
            self.marks.append(int(data[at + len(MARK) : at + MARK_LENGTH]))
            found += at + MARK_LENGTH <= before + complete
            at = data.find(MARK, at + MARK_LENGTH)
        # The next chunk finds a mark that begins in the last bytes. A whole mark is longer than this rest.
        self._tail = data[-(MARK_LENGTH - 1) :]
        return found


def _runs(completed: pb.GtidRunsSet) -> Iterator[tuple[int, int]]:
    for member in completed.members:
        if member.uuid != UUID.bytes or member.tag:
            raise WrongStream(f"GTIDs of an unknown source {member.uuid.hex()}")
        last = 0
        for distance, length in zip(member.runs[::2], member.runs[1::2], strict=True):
            yield last + distance, last + distance + length - 1
            last += distance + length - 1
