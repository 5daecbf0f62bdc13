"""The packets in which a server sends events to a replica, and the artificial events of a dump.

A packet has one event, after a byte 0 (OK). A server makes artificial events for the stream, and no file has them.
Tried with MySQL 9.7 and MariaDB 10.11, of which ``tests/data/streams`` has recordings. A dump sends these events:

1. An artificial Rotate with the file and the position at which the dump begins. A dump by GTID begins at position 4.
   This first Rotate has a checksum if the replica has asked for checksums (``@source_binlog_checksum`` is CRC32).
2. The file's format description event (:func:`format_description`).
3. The file's events from the position on. A dump from position 4 sends Previous_gtids or Gtid_list as the file has it.
4. If the dump passes over transactions that the replica has: before the next event, the position after them. MySQL
   tells the position in a heartbeat, MariaDB in an artificial Gtid_list with the replica's GTID position.
5. At the file's end its own Rotate, if the file has one. After that an artificial Rotate to position 4 of the next
   file. It has a checksum if the file *before* has checksums, because the replica does not know the next file yet.
6. While nothing happens: a heartbeat after each heartbeat period.
7. A dump with the flag BINLOG_DUMP_NON_BLOCK ends with an EOF packet of five bytes, ``fe 00 00 02 00``.

A replica of MySQL adds up the lengths of events, and a replica of MariaDB reads ``end_log_pos``. After dropped
transactions the position is therefore told anew:

- MySQL with GTIDs: a heartbeat with a larger position moves Read_Source_Log_Pos and Exec_Source_Log_Pos at once.
- MySQL with file and position: no event moves the positions but an artificial Rotate, which begins a new relay log.
- MariaDB, with GTIDs or without: a heartbeat moves nothing. :func:`gtid_list` moves Read_Master_Log_Pos and
  Exec_Master_Log_Pos at once, in the same relay log.

Replicas of both families end their connection (error 1595) at a heartbeat with a smaller position than their own.

The number of a dump's first packet is 1. Artificial events have the source's server id, and 0 as their time.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dumpfilter.base.errors import BinlogCorrupt
from dumpfilter.binlog.cursor import packed_integer
from dumpfilter.binlog.events import HEADER_LENGTH, LOG_EVENT_ARTIFICIAL_F, EventType, seal
from dumpfilter.binlog.format import FormatDescription
from dumpfilter.binlog.gtid import MariadbGtid
from dumpfilter.binlog.gtid_events import GtidList, encode_gtid_list
from dumpfilter.binlog.writer import make_event
from dumpfilter.dump.packets import _kernels as K

_END_LOG_POS_AT = 13
_CREATED_AT = HEADER_LENGTH + 2 + 50
_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")

LARGEST_V1_POSITION = 0xFFFFFFFF
"""The largest position that the header field ``end_log_pos``, and therefore a heartbeat of version 1, can hold.

Servers write the low 32 bits of larger positions there.
"""

_V2_END = 0
_V2_FILE = 1
_V2_POSITION = 2


def rotate(file: str, position: int, server_id: int, checksum: bool) -> bytes:
    """Return the artificial Rotate event that tells a replica from which file and position the following events come.

    ``server_id`` is the source's server id, and ``checksum`` tells whether the event ends in a checksum.
    """
    return make_event(
        EventType.ROTATE,
        _U64.pack(position) + file.encode(),
        server_id=server_id,
        flags=LOG_EVENT_ARTIFICIAL_F,
        checksum=checksum,
    )


def format_description(
    fd: FormatDescription, *, is_whole_file: bool, keeps_temporary_tables: bool = False
) -> bytes:
    """Return a file's format description event as a server sends it, without LOG_EVENT_BINLOG_IN_USE_F.

    A replica drops its temporary tables when the field ``created`` is not 0, because it takes this for a restart of
    the source. So a dump that begins inside the file sends 0.

    Parameters:
        is_whole_file: whether the dump sends the file from position 4 on. If not, ``end_log_pos`` and ``created`` are
            0.
        keeps_temporary_tables: whether ``created`` is 0 in any case. Servers do this in a dump by GTID if the replica
            has the first transaction of the file in which the dump begins. MySQL does it for the files after it, too.

    A real server leaves the checksum of a changed event wrong if the file has no checksums. The result of this function
    has a right checksum.
    """
    event = bytearray(fd.raw)
    if not is_whole_file:
        _U32.pack_into(event, _END_LOG_POS_AT, 0)
    if not is_whole_file or keeps_temporary_tables:
        _U32.pack_into(event, _CREATED_AT, 0)
    if fd.ends_in_checksum:
        seal(event)
    return bytes(event)


def heartbeat(file: str, position: int, server_id: int, checksum: bool, v2: bool = False) -> bytes:
    """Return the heartbeat event that tells a replica that the server is alive, and that the dump is at ``position`` of
    ``file``.

    ``server_id`` is the source's server id, and ``checksum`` tells whether the event ends in a checksum. The event is
    of version 2 if ``v2`` is True, and of version 1 otherwise.

    Version 2 is for replicas of MySQL that ask for it with the flag 2 in COM_BINLOG_DUMP or COM_BINLOG_DUMP_GTID
    (``USE_HEARTBEAT_EVENT_V2``). To MariaDB this flag means Annotate_rows events, so its heartbeats are of version 1.
    Version 1 cannot tell a position of 4 GiB and more.
    """
    name = file.encode()
    end_log_pos = position & LARGEST_V1_POSITION
    if not v2:
        return make_event(
            EventType.HEARTBEAT, name, server_id=server_id, end_log_pos=end_log_pos, checksum=checksum
        )
    number = packed_integer(position)
    body = (
        bytes([_V2_FILE, len(name)]) + name + bytes([_V2_POSITION, len(number)]) + number + bytes([_V2_END])
    )
    return make_event(
        EventType.HEARTBEAT_V2, body, server_id=server_id, end_log_pos=end_log_pos, checksum=checksum
    )


def gtid_list(position: int, server_id: int, checksum: bool, gtids: Sequence[MariadbGtid] = ()) -> bytes:
    """Return MariaDB's artificial Gtid_list event, which tells a replica the position that a dump has reached.

    MariaDB sends one after it has passed over transactions that the replica has, before the next event. ``gtids`` are
    then the replica's GTIDs, the last of each domain. Without GTIDs the event only moves the replica's file position.
    ``server_id`` is the source's server id, and ``checksum`` tells whether the event ends in a checksum.
    """
    return make_event(
        EventType.GTID_LIST,
        encode_gtid_list(GtidList(tuple(gtids))),
        server_id=server_id,
        end_log_pos=position & LARGEST_V1_POSITION,
        flags=LOG_EVENT_ARTIFICIAL_F,
        checksum=checksum,
    )


_PACKET_HEAD = struct.Struct("<IB")

Bytes = bytes | bytearray | memoryview | npt.NDArray[np.uint8]
"""Bytes of events, in any kind of buffer."""

NOTHING = -1
"""The value of ``left_out`` when all events become packets. No event type is negative."""


def as_array(events: Bytes) -> npt.NDArray[np.uint8]:
    """Return bytes as an array of uint8, without a copy."""
    return np.frombuffer(events, np.uint8)


class Framed(NamedTuple):
    """The packets of consecutive events, with the sequence number after them. The offset and the ``end_log_pos`` of the
    last event tell a connection its replica's position.
    """

    packets: memoryview
    sequence: int
    """The sequence number after the last packet."""
    last: int
    """The byte offset of the last event among the events that were given."""
    end_log_pos: int
    """The last ``end_log_pos`` that is not 0 among the events; 0 for none."""


def frame(events: Bytes, sequence: int, *, left_out: int = NOTHING) -> Framed:
    """Return packets of the client/server protocol with one event each.

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
    most_events, most_full = len(data) // HEADER_LENGTH, len(data) // K.LARGEST + 1
    out = np.empty(len(data) + most_events * _PACKET_HEAD.size + most_full * K.PACKET_HEADER, np.uint8)
    size, after, wrong, alone, last, end_log_pos = K.frame(data, sequence, left_out, out)
    if wrong >= 0:
        raise BinlogCorrupt(f"byte {wrong} of the {len(events)} bytes of a message begins no whole event")
    if alone >= 0:
        raise BinlogCorrupt(
            f"no event of its transaction follows a Gtid event, which ends at byte {alone} of a message; "
            "a replica must not get it"
        )
    return Framed(out.data[:size], after, last, end_log_pos)
