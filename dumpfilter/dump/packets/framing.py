"""The packets in which a server sends events to a replica: one event a packet, after a byte 0 (OK)."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import chain, repeat

import numpy as np
import numpy.typing as npt

from dumpfilter.base.errors import BinlogCorrupt
from dumpfilter.dump.packets import _kernels as K

_PACKET_HEAD = struct.Struct("<IB")
_TYPE_AT = 4

Bytes = bytes | bytearray | memoryview | npt.NDArray[np.uint8]
"""Bytes of events, in any kind of buffer."""

NOTHING = -1
"""The value of ``left_out`` when all events become packets. No event type is negative."""


def as_array(events: Bytes) -> npt.NDArray[np.uint8]:
    """Return bytes as an array of uint8, without a copy."""
    return np.frombuffer(events, np.uint8)


def frame(events: Bytes, sequence: int, *, left_out: int = NOTHING) -> tuple[memoryview, int]:
    """Return packets of the client/server protocol with one event each, and the sequence number after the last packet.

    An event of 16 MiB - 2 bytes or more becomes several packets, as the protocol demands.

    Parameters:
        events: the bytes of whole events, one after another.
        sequence: the sequence number of the first packet, 0 to 255.
        left_out: the type of events that the replica does not get. MariaDB sends Annotate_rows events only to those who
            ask for them with the flag 2 (``BINLOG_SEND_ANNOTATE_ROWS_EVENT``) in COM_BINLOG_DUMP.

    Raises BinlogCorrupt for bytes that are not whole events, and for a Gtid event of MySQL without another event of its
    transaction, because such an event crashes a mysqld replica.
    """
    data = as_array(events)
    found = K.Measured(*K.measure(data, left_out))
    if found.wrong >= 0:
        raise BinlogCorrupt(f"byte {found.wrong} of the {len(data)} bytes of a message begins no whole event")
    if found.alone >= 0:
        raise BinlogCorrupt(
            f"no event of its transaction follows a Gtid event, which ends at byte {found.alone} of a message; "
            "a replica must not get it"
        )
    out = np.empty(found.room, np.uint8)
    after = K.frame(data, sequence, left_out, out)
    return out.data, int(after)


def frame_each(events: Sequence[bytes], sequence: int, *, left_out: int = NOTHING) -> tuple[bytes, int]:
    """Return packets of the client/server protocol with one event each, and the sequence number after the last packet.

    Unlike :func:`frame` this function is for a few small events that are known to be whole. ``sequence`` is the first
    packet's number. Events of the type ``left_out`` get no packet.
    """
    if left_out != NOTHING:
        events = [event for event in events if event[_TYPE_AT] != left_out]
    heads = [len(event) + 1 | (number & 0xFF) << 24 for number, event in enumerate(events, sequence)]
    packets = zip(map(_PACKET_HEAD.pack, heads, repeat(K.OK_BYTE)), events, strict=True)
    return b"".join(chain.from_iterable(packets)), (sequence + len(events)) & 0xFF


def last_events(events: Bytes) -> tuple[int, int]:
    """Return the byte offset of the last event, and the last ``end_log_pos`` that is not 0. ``events`` are whole
    events.

    Some events inside a transaction of MariaDB have ``end_log_pos`` 0. The returned position is 0 if all have.
    """
    found = K.Measured(*K.measure(as_array(events), NOTHING))
    return found.last, found.end_log_pos
