"""Synthesis of Gtid events for a MySQL replica of a slave, for transactions that the slave's master dropped.

In the slave's relay log, only Gap events name these transactions. A replica that is served from a relay log shall see
the writer's files, positions and GTIDs. The writer is the server that wrote the binlog of the slave's master.

- ``sequence_number`` is the one that the writer gave. A server numbers the transactions of a file without holes, and
  Gap events tell how many transactions they stand for.
- ``last_committed`` is 0, because a transaction without changes waits for no other.
- The times are those of the newest event before the Gap event, so that the lag of a replica stays meaningful.
"""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt

from dumpfilter.binlog.cursor import encode_varlen
from dumpfilter.binlog.events import CHECKSUM_LENGTH, HEADER_LENGTH, EventType
from dumpfilter.binlog.format import FormatDescription
from dumpfilter.binlog.gtid import SourceKey
from dumpfilter.binlog.writer import make_event
from dumpfilter.dump.packets import _kernels as K
from dumpfilter.dump.stand_ins import BEGIN_LENGTH, XID_LENGTH

Integers = npt.NDArray[np.int64]

# The versions of MySQL from which on a Gtid event has more fields.
_WITH_SEQUENCE = (5, 7)
_WITH_COMMIT_TIME = (8, 0, 2)
_WITH_SERVER_VERSION = (8, 0, 14)

_LARGEST_SHORT_LENGTH = 250
"""The largest number that a length-encoded integer of one byte can hold."""

_MICROSECONDS = 1_000_000

_FIELDS = {
    "timestamp": (0, "<u4"),
    "number": (HEADER_LENGTH + 17, "<u8"),
    "sequence": (HEADER_LENGTH + 34, "<u8"),
    "commit_time": (HEADER_LENGTH + 42, "<u8"),
}
"""The offset and type of each field in which Gtid events differ. Early versions lack the last two fields."""

_SERIALIZATION_VERSION = 1
"""The version of ``mysql::serialization``, in which a GTID_TAGGED event is written."""


@functools.cache
def layout(size: int, **fields: tuple[int, str]) -> np.dtype[np.void]:
    """Return the numpy dtype of an array of events of ``size`` bytes each.

    ``fields`` gives each field's byte offset in the event and numpy type. A field that does not fit into such an
    event is left out.
    """
    types = {name: (at, np.dtype(kind)) for name, (at, kind) in fields.items()}
    has = {name: (at, kind) for name, (at, kind) in types.items() if at + kind.itemsize <= size}
    offsets, formats = zip(*has.values(), strict=True)
    return np.dtype({"names": list(has), "formats": formats, "offsets": offsets, "itemsize": size})


class GtidSynthesis:
    """A synthesizer of Gtid events for transactions without changes. The events have the form of the server version
    that ``fd``, a format description event, names.
    """

    def __init__(self, fd: FormatDescription) -> None:
        self._checksum = fd.checksum
        self._tail = CHECKSUM_LENGTH if fd.checksum else 0
        self._server_id = fd.header.server_id
        version = fd.version
        self._version = version[0] * 10_000 + version[1] * 100 + version[2]
        self._has_sequence = version >= _WITH_SEQUENCE
        self._has_commit_time = version >= _WITH_COMMIT_TIME
        self._has_server_version = version >= _WITH_SERVER_VERSION

    def gtids(
        self, key: SourceKey, first: int, count: int, sequence: int, time: int, end_log_pos: int
    ) -> tuple[bytes | memoryview, int | Integers]:
        """Return the bytes of ``count`` Gtid events with the GTID source ``key`` (a server UUID, with a tag or none)
        and the transaction numbers from ``first`` on. Also return the length of each event.

        The length is an array if the events differ in length. ``sequence`` is the ``sequence_number`` of the first
        event. All events have the same ``time`` (Unix seconds) and ``end_log_pos``.
        """
        uuid, tag = key
        assert isinstance(uuid, bytes)
        if tag:
            events = [
                self._tagged(uuid, str(tag), first + n, sequence + n, time, end_log_pos) for n in range(count)
            ]
            return b"".join(events), np.array([len(event) for event in events], np.int64)
        template = self._template(uuid, end_log_pos)
        out = np.frombuffer(bytearray(template * count), layout(len(template), **_FIELDS))
        out["timestamp"] = time
        out["number"] = np.arange(first, first + count)
        if self._has_sequence:
            out["sequence"] = np.arange(sequence, sequence + count)
        if self._has_commit_time:
            # The time has 7 bytes. The byte after it belongs to the template.
            out["commit_time"] |= time * _MICROSECONDS
        made = out.view(np.uint8)
        if self._checksum:
            K.seal(made)
        return made.data, len(template)

    def _event(self, kind: EventType, body: bytes, time: int, end_log_pos: int) -> bytes:
        return make_event(
            kind,
            body,
            timestamp=time,
            server_id=self._server_id,
            end_log_pos=end_log_pos & 0xFFFFFFFF,
            checksum=self._checksum,
        )

    def _transaction_length(self, gtid_length: int) -> int:
        return gtid_length + BEGIN_LENGTH + XID_LENGTH + 2 * self._tail

    def _template(self, uuid: bytes, end_log_pos: int) -> bytes:
        body = bytes(1) + uuid + bytes(8)
        if self._has_sequence:
            body += b"\x02" + bytes(16)
        if self._has_commit_time:
            rest = 1 + (4 if self._has_server_version else 0)
            length = self._transaction_length(HEADER_LENGTH + len(body) + 7 + rest + self._tail)
            assert length <= _LARGEST_SHORT_LENGTH
            body += bytes(7) + bytes([length])
        if self._has_server_version:
            body += self._version.to_bytes(4, "little")
        return self._event(EventType.GTID, body, 0, end_log_pos)

    def _tagged(
        self, uuid: bytes, tag: str, number: int, sequence: int, time: int, end_log_pos: int
    ) -> bytes:
        """Return a GTID_TAGGED event (:func:`~dumpfilter.binlog.gtid_events.decode_gtid_tagged` has the layout)."""

        def body(length: int) -> bytes:
            numbers = [0, 0, 1, *uuid, 2, number << 1, 3, len(tag)]
            times = [4, 0, 5, sequence << 1, 6, time * _MICROSECONDS, 8, length, 9, self._version]
            fields = _varlens(numbers) + tag.encode() + _varlens(times)
            content = _varlens([0]) + fields
            size = len(_varlens([_SERIALIZATION_VERSION])) + len(content)
            # The size counts itself.
            size += len(_varlens([size + 1]))
            return _varlens([_SERIALIZATION_VERSION, size]) + content

        length = 0
        while (found := self._transaction_length(HEADER_LENGTH + len(body(length)) + self._tail)) != length:
            length = found
        return self._event(EventType.GTID_TAGGED, body(length), time, end_log_pos)


def _varlens(numbers: list[int]) -> bytes:
    return b"".join(map(encode_varlen, numbers))
