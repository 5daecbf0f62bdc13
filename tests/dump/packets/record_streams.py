"""``python -m tests.dump.packets.record_streams PORT BINLOGS OUTPUT``: record what a real server sends to a replica.

The server listens on PORT of 127.0.0.1 and has a user ``repl`` with the password ``repl``. Its data directory must have
the binlog set BINLOGS: copy the files there and list them in its index file, then start the server. The server begins a
file of its own, which the recording leaves out. ``tests/data/streams/README.md`` describes the recording.
"""

from __future__ import annotations

import argparse
import json
import struct
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pymysql

from dumpfilter.binlog.events import EventHeader, EventType
from dumpfilter.binlog.gtid import MysqlGtidSet
from dumpfilter.binlog.gtid_events import encode_previous_gtids
from dumpfilter.index.fileset import BinlogSet

COM_BINLOG_DUMP = 0x12
COM_BINLOG_DUMP_GTID = 0x1E
NON_BLOCK = 1
SERVER_ID = 77


class Request(NamedTuple):
    """One dump that a replica asks for."""

    name: str
    file: str = ""
    position: int = 4
    gtids: str | None = None
    """The GTIDs that the replica has; None for a dump with file and position."""
    flags: int = 2
    """The flags of the command. 2 asks MySQL for heartbeats of version 2, and MariaDB for Annotate_rows events."""
    checksum: str = "CRC32"
    """The replica's ``@source_binlog_checksum``."""


def requests(binlogs: BinlogSet, family: str, all_gtids: str) -> Iterator[Request]:
    """Yield the dumps to record."""
    first, second = binlogs.names[:2]
    with binlogs.file(second) as file:
        boundary = EventHeader.unpack(file.read(file.first_event, 19)).end_log_pos
        end, after_format = file.size, file.first_event
    source, _, last = all_gtids.rpartition("-")
    some = source.split(":")[0] + ":1-5:9" if family == "mysql" else f"{source}-5"
    most = f"{source}-{int(last) - 1}"
    yield Request("no-gtids", gtids="")
    yield Request("some-gtids", gtids=some)
    yield Request("most-gtids", gtids=most)
    yield Request("without-checksums", gtids="", checksum="NONE")
    yield Request("first-file", file=first)
    yield Request("position", file=second, position=boundary)
    yield Request("after-format-description", file=second, position=after_format)
    yield Request("end-of-file", file=second, position=end)
    if family == "mariadb":
        yield Request("without-annotate-rows", gtids="", flags=0)


def packets(port: int, family: str, request: Request, password: str = "repl") -> Iterator[tuple[int, bytes]]:
    """Yield the sequence number and the payload of each packet of a dump, up to the end of the binlog."""
    # MariaDB of Debian has no TLS.
    connection = pymysql.connect(
        host="127.0.0.1", port=port, user="repl", password=password, ssl_disabled=family == "mariadb"
    )
    cursor = connection.cursor()
    settings: dict[str, str | int] = {
        "master_binlog_checksum": request.checksum,
        "source_binlog_checksum": request.checksum,
    }
    if family == "mariadb":
        settings["mariadb_slave_capability"] = 4
        if request.gtids is not None:
            settings["slave_connect_state"] = request.gtids
    for name, value in settings.items():
        cursor.execute(f"SET @{name} = %s", (value,))
    flags = request.flags | NON_BLOCK
    wire: Any = connection  # the client library has no public way to send a command
    if family == "mysql" and request.gtids is not None:
        gtids = encode_previous_gtids(MysqlGtidSet.parse(request.gtids))
        head = struct.pack("<HII", flags, SERVER_ID, len(request.file)) + request.file.encode()
        wire._execute_command(
            COM_BINLOG_DUMP_GTID, head + struct.pack("<QI", request.position, len(gtids)) + gtids
        )
    else:
        asked = struct.pack("<IHI", request.position, flags, SERVER_ID) + request.file.encode()
        wire._execute_command(COM_BINLOG_DUMP, asked)
    while True:
        head = wire._rfile.read(4)
        payload = wire._rfile.read(int.from_bytes(head[:3], "little"))
        if payload[0] == 0xFE:
            break
        if payload[0] == 0xFF:
            raise SystemExit(f"{request.name}: {payload[3:].decode('utf-8', 'replace')}")
        yield head[3], payload
    connection.close()


def recorded(port: int, family: str, data: dict[str, bytes], request: Request) -> list[list[object]]:
    """Return the events of one dump: places in the binlog files, and the bytes of all other events."""
    out: list[list[object]] = []
    expected = 1
    file = ""
    for sequence, payload in packets(port, family, request):
        assert sequence == expected, request
        assert payload[0] == 0, request
        expected = (expected + 1) % 256
        event = payload[1:]
        header = EventHeader.unpack(event)
        if header.type == EventType.ROTATE and header.timestamp == 0:
            file = event[27 : header.size].decode("ascii", "replace")
            file = next((name for name in data if file.startswith(name)), "")
            if not file:
                break
        at = header.end_log_pos - header.size
        is_in_file = at >= 4 and data[file][at : at + header.size] == event
        if not is_in_file:
            out.append(["made", event.hex()])
        elif out and out[-1][0] == file and out[-1][2] == at:
            out[-1][2] = at + header.size
        else:
            out.append([file, at, at + header.size])
    return out


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("port", type=int)
    parser.add_argument("binlogs", type=Path, help="the directory with the binlog set")
    parser.add_argument("output", type=Path)
    given = parser.parse_args(arguments)
    binlogs = BinlogSet.open(given.binlogs / "bin.index")
    with binlogs.file(binlogs.names[0]) as file:
        family, version = file.format_description.family, file.format_description.server_version
    all_gtids = json.loads((given.binlogs / "oracle.json").read_text())["gtid"]
    data = {name: (given.binlogs / name).read_bytes() for name in binlogs.names}
    streams = [
        {**request._asdict(), "events": recorded(given.port, family, data, request)}
        for request in requests(binlogs, family, all_gtids)
    ]
    document = {"server": version, "binlogs": given.binlogs.name, "streams": streams}
    # One event a line.
    text = json.dumps(document).replace("[[", "[\n[").replace("], [", "],\n[").replace("}, {", "},\n{")
    given.output.write_text(text + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
