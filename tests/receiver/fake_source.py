"""A fake server that serves binlog files as a real one does, and that lies where a test asks it to."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from dumpfilter.binlog.context_events import Rotate, encode_rotate
from dumpfilter.binlog.events import HEADER_LENGTH, LOG_EVENT_ARTIFICIAL_F, MAGIC, EventHeader, EventType
from dumpfilter.binlog.format import FormatDescription
from dumpfilter.binlog.writer import make_event

UUID = "11111111-2222-3333-4444-555555555555"
END = b"\xfe\0\0\2\0"
"""The packet that ends a dump."""

_PROTOCOL_41, _SECURE, _PLUGIN_AUTH = 0x200, 0x8000, 0x80000
_LONGEST = 0xFFFFFF
_NON_BLOCKING = 1

Payloads = Iterable[bytes]


def packet(payload: bytes, sequence: int) -> bytes:
    """Return a message as packets, of which all but the last have the greatest length."""
    made = b""
    while True:
        piece, payload = payload[:_LONGEST], payload[_LONGEST:]
        made += len(piece).to_bytes(3, "little") + bytes([sequence & 0xFF]) + piece
        sequence += 1
        if len(piece) < _LONGEST:
            return made


def framed(payloads: Payloads, first: int = 1) -> bytes:
    """Return messages with consecutive sequence numbers."""
    made = []
    for payload in payloads:
        made.append(packet(payload, first))
        first += 1 + len(payload) // _LONGEST
    return b"".join(made)


def events_of(file: bytes) -> list[bytes]:
    """Return the events of a binlog file."""
    found, at = [], len(MAGIC)
    while at < len(file):
        size = EventHeader.unpack(file, at).size
        found.append(file[at : at + size])
        at += size
    return found


def _wait_for_end(connection: socket.socket) -> None:
    """Wait until the receiver ends the connection."""
    while connection.recv(4096):
        pass


def artificial_rotate(name: str, position: int = 4, *, checksum: bool = True) -> bytes:
    """Return the event with which a server names the file and position of the events after it."""
    body = encode_rotate(Rotate(name, position))
    return make_event(EventType.ROTATE, body, flags=LOG_EVENT_ARTIFICIAL_F, checksum=checksum)


def heartbeat(name: str, position: int) -> bytes:
    """Return a heartbeat event."""
    return make_event(EventType.HEARTBEAT, name.encode(), end_log_pos=position)


def without_place(description: bytes) -> bytes:
    """Return a format description event as a server sends it at the begin of a dump inside a file."""
    event = bytearray(description)
    event[13:17] = bytes(4)
    event[HEADER_LENGTH + 52 : HEADER_LENGTH + 56] = bytes(4)
    event[-4:] = zlib.crc32(event[:-4]).to_bytes(4, "little")
    return bytes(event)


def error_packet(number: int, text: str) -> bytes:
    """Return the packet of an error."""
    return b"\xff" + struct.pack("<H", number) + b"#HY000" + text.encode()


@dataclass
class FakeSource:
    """A server in a thread. Its files and its lies may change between two connections."""

    files: dict[str, bytes] = field(default_factory=dict)
    version: str = "9.7.0-fake"
    uuid: str = UUID
    may_list: bool = True
    change: Callable[[list[bytes]], Payloads] = lambda payloads: payloads
    """Makes other messages of the messages of an honest dump."""
    raw: Callable[[list[bytes]], Iterable[bytes]] | None = None
    """Makes the bytes on the wire of the messages of an honest dump. None: correct packets."""
    ready: bytes | None = None
    """The bytes of every dump. A server that makes them anew takes memory of its own."""
    login: Callable[[socket.socket], None] | None = None
    """Plays the login instead of an honest server."""
    answers: dict[str, Callable[[], Iterable[bytes]]] = field(default_factory=dict)
    """The bytes of answers to statements, by the begin of the statement."""
    asked: list[tuple[str, int]] = field(default_factory=list)
    """The places from which dumps were asked for."""
    statements: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._open: list[socket.socket] = []
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """The address of the server."""
        return f"mysql://repl@127.0.0.1:{self.port}/"

    def close(self) -> None:
        """End the server and its connections."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        self._thread.join()

    def cut(self) -> None:
        """End the connections. Later ones are served."""
        for connection in self._open:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def reset(self) -> None:
        """End the newest connection at once, as a server that crashes does, once its bytes had time to be read."""
        threading.Event().wait(0.2)
        self._open[-1].setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._open[-1].close()

    def _serve(self) -> None:
        threads = []
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                break
            self._open.append(connection)
            threads.append(threading.Thread(target=self._talk, args=[connection], daemon=True))
            threads[-1].start()
        for thread in threads:
            thread.join()

    def _talk(self, connection: socket.socket) -> None:
        # A receiver that refuses a lie closes the connection.
        with connection, contextlib.suppress(OSError, EOFError):
            if self.login is not None:
                self.login(connection)
                return
            connection.sendall(packet(greeting(self.version), 0))
            read_packet(connection)
            connection.sendall(packet(OK, 2))
            while True:
                command = read_packet(connection)
                if command[0] == 3:
                    self._answer(connection, command[1:].decode())
                elif command[0] == 0x12:
                    self._dump(connection, command)
                else:
                    connection.sendall(packet(OK, 1))

    def _answer(self, connection: socket.socket, statement: str) -> None:
        self.statements.append(statement)
        for begin, answer in self.answers.items():
            if statement.startswith(begin):
                for piece in answer():
                    connection.sendall(piece)
                return
        if statement.startswith("SHOW GLOBAL VARIABLES"):
            rows = [("version", self.version), ("server_uuid", self.uuid), ("log_bin", "ON")]
            connection.sendall(result(["Variable_name", "Value"], rows))
        elif statement.startswith("SHOW BINARY LOGS") and not self.may_list:
            connection.sendall(packet(error_packet(1227, "Access denied; you need REPLICATION CLIENT"), 1))
        elif statement.startswith("SHOW BINARY LOGS"):
            rows = [(name, str(len(file))) for name, file in self.files.items()]
            connection.sendall(result(["Log_name", "File_size"], rows))
        else:
            connection.sendall(packet(OK, 1))

    def _dump(self, connection: socket.socket, command: bytes) -> None:
        position, flags, _ = struct.unpack_from("<IHI", command, 1)
        name = command[11:].decode() or next(iter(self.files), "")
        self.asked.append((name, position))
        if self.ready is not None:
            connection.sendall(self.ready)
            _wait_for_end(connection)
            return
        payloads = list(self.honest(name, position))
        if flags & _NON_BLOCKING:
            payloads.append(END)
        pieces = [framed(self.change(payloads))] if self.raw is None else self.raw(payloads)
        for piece in pieces:
            connection.sendall(piece)
        _wait_for_end(connection)

    def honest(self, name: str, position: int) -> Iterator[bytes]:
        if name not in self.files:
            yield error_packet(1236, "Could not find first log file name in binary log index file")
            return
        names = list(self.files)
        for each in names[names.index(name) :]:
            file = self.files[each]
            start = position if each == name else 4
            if start > len(file):
                yield error_packet(
                    1236, "Client requested source to start replication from position > file size"
                )
                return
            yield b"\0" + artificial_rotate(each, start)
            events = events_of(file)
            yield b"\0" + (events[0] if start == 4 else without_place(events[0]))
            at = len(MAGIC) + len(events[0])
            for event in events[1:]:
                if at >= start:
                    yield b"\0" + event
                at += len(event)


OK = b"\0\0\0\2\0\0\0"


def greeting(version: str, plugin: str = "mysql_native_password") -> bytes:
    """Return the message with which a server without TLS greets a client."""
    flags = _PROTOCOL_41 | _SECURE | _PLUGIN_AUTH
    return (
        b"\x0a" + version.encode() + b"\0" + struct.pack("<I", 1) + b"saltsalt\0"
        + struct.pack("<HBHHB", flags & 0xFFFF, 45, 2, flags >> 16, 21) + bytes(10) + b"saltsaltsalt\0"
        + plugin.encode() + b"\0"
    )  # fmt: skip


def read_packet(connection: socket.socket) -> bytes:
    """Return the next message of a client, without its header. Raises EOFError."""
    head = _read(connection, 4)
    return _read(connection, int.from_bytes(head[:3], "little"))


def _read(connection: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length:
        got = connection.recv(length - len(data))
        if not got:
            raise EOFError
        data += got
    return data


def _text(value: str) -> bytes:
    data = value.encode()
    assert len(data) < 251
    return bytes([len(data)]) + data


def result_head(names: Sequence[str]) -> list[bytes]:
    """Return the messages that begin a result set."""
    columns = [
        _text("def")
        + _text("") * 3
        + _text(name) * 2
        + b"\x0c"
        + struct.pack("<HIBHB2x", 45, 999, 0xFD, 0, 0)
        for name in names
    ]
    return [bytes([len(names)]), *columns, END]


def result(names: Sequence[str], rows: Iterable[Sequence[str]]) -> bytes:
    """Return a result set."""
    return framed([*result_head(names), *(b"".join(map(_text, row)) for row in rows), END])


def small_set(files: int = 2, transactions: int = 3) -> dict[str, bytes]:
    """Return a small binlog set of MySQL: files with a few events that are closed by Rotate events but the last."""
    found: dict[str, bytes] = {}
    for number in range(1, files + 1):
        name = f"bin.{number:06}"
        data = MAGIC + description_event(created=number)
        for _ in range(transactions):
            for kind, body in ((EventType.QUERY, bytes(13) + b"\0BEGIN"), (EventType.XID, bytes(8))):
                data += event_at(len(data), kind, body)
        if number < files:
            data += event_at(len(data), EventType.ROTATE, encode_rotate(Rotate(f"bin.{number + 1:06}", 4)))
        found[name] = data
    return found


def event_at(position: int, kind: int, body: bytes, *, checksum: bool = True) -> bytes:
    """Return an event of a file, in which it begins at ``position``."""
    size = HEADER_LENGTH + len(body) + (4 if checksum else 0)
    return make_event(kind, body, timestamp=1, server_id=1, end_log_pos=position + size, checksum=checksum)


def description_event(*, created: int = 0, checksum: bool = True, version: str = "9.7.0-fake") -> bytes:
    """Return the format description event that begins a file of MySQL."""
    lengths = bytes([0] * 42)
    body = struct.pack("<H50sIB", 4, version.encode(), created, HEADER_LENGTH) + lengths + bytes([checksum])
    event = event_at(4, EventType.FORMAT_DESCRIPTION, body)
    FormatDescription.parse(event)
    return event
