"""A master with a replication port over a recording, and a client that asks for dumps as replicas do."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from pymysql.connections import Connection

from dumpfilter.base.security.client_tls import ClientTls, TlsMode
from dumpfilter.base.security.listening import Endpoint
from dumpfilter.base.security.passwords import StoredPassword
from dumpfilter.base.security.tls import TlsSource
from dumpfilter.binlog.events import EventHeader, EventType
from dumpfilter.console.port import ConnectionDirectory
from dumpfilter.master.config import MasterConfig, ReplicaEntry
from dumpfilter.master.console import MasterConsole
from dumpfilter.master.replica_filters import ReplicaFilters
from dumpfilter.master.replicas.connection import ReplicaServer
from dumpfilter.master.server import MasterServer
from dumpfilter.master.store import BinlogStore
from tests.support import DATA

MYSQL = DATA / "oracle" / "mysql-row"
MARIADB = DATA / "oracle" / "mariadb-row"

PASSWORD = "secret"
SHOP = ["--replicate-wild-do-table=shop.%"]
USERS: Mapping[str, Sequence[str]] = {"all": [], "shop": SHOP}
"""The users of the port, with the rules of their filters."""

COM_BINLOG_DUMP = 0x12
COM_REGISTER_SLAVE = 0x15
COM_BINLOG_DUMP_GTID = 0x1E

UUID = "6ccd780c-baba-1026-9564-5b8c656024db"
_OK = 0
_EOF = 0xFE
_ERR = 0xFF
_LARGEST = 0xFFFFFF

_ANY_CERTIFICATE = ClientTls(mode=TlsMode.REQUIRED).context()
"""The TLS context of clients that verify no certificate."""


@dataclass(frozen=True)
class Serving:
    """A running master with its replication port."""

    server: MasterServer
    replicas: ReplicaServer
    filters: ReplicaFilters
    port: int

    def connect(self, user: str = "all", **options: Any) -> Replica:
        """Connect a client and log it in."""
        return Replica(self.port, user, **options)


def entry(
    user: str, rules: Sequence[str], password: StoredPassword | None = None, **conditions: Any
) -> ReplicaEntry:
    made = ReplicaEntry(user=user, rules=tuple(rules), password=PASSWORD, **conditions)
    if password is not None:
        made._stored = password
    return made


@contextmanager
def serving(
    binlogs: Path,
    entries: Sequence[ReplicaEntry] = (),
    *,
    tls: TlsSource | None = None,
    directory: ConnectionDirectory | None = None,
    max_connections: int = 20,
    **options: Any,
) -> Iterator[Serving]:
    """Serve a binlog set to replicas while the ``with`` block runs."""
    tables = entries or [entry(user, rules) for user, rules in USERS.items()]
    config = options.pop("config", MasterConfig()).model_copy(update={"replicas": tuple(tables)})
    server = MasterServer(BinlogStore(binlogs), config=config, **options)
    server.start()
    replicas = ReplicaServer(
        Endpoint(tls=tls),
        server.service,
        server.places,
        MasterConsole(server.service),
        directory=directory,
        max_connections=max_connections,
        denial_seconds=0,
    )
    try:
        with replicas.running(server.loop) as port:
            yield Serving(server, replicas, server.service.filters, port)
    finally:
        server.stop(0)


class EndOfDump(Exception):
    """The end of a dump by an EOF packet."""


class _Connection(Connection):  # type: ignore[misc]  # PyMySQL has no types
    """A connection for which PyMySQL does not load all CA certificates of the machine, which takes 50 ms."""

    def _create_ssl_ctx(self, options: Any) -> Any:
        del options
        return _ANY_CERTIFICATE


class Replica:
    """A client of the replication port."""

    def __init__(
        self,
        port: int,
        user: str = "all",
        password: str = PASSWORD,
        attributes: Mapping[str, str] | None = None,
        **options: Any,
    ) -> None:
        self.connection: Connection[Any] = _Connection(
            host="127.0.0.1",
            port=port,
            user=user,
            password=password,
            autocommit=None,
            defer_connect=True,
            **options,
        )
        if attributes is not None:
            self.connection._connect_attrs = dict(attributes)  # type: ignore[attr-defined]
        self.connection.connect()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection._force_close()  # type: ignore[no-untyped-call]

    def ask(self, statement: str) -> Sequence[Sequence[object]]:
        """Return the rows of a statement."""
        with self.connection.cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall())

    def greet(self, *, uuid: str = "", family: str = "mysql", checksum: str = "CRC32") -> Self:
        """Send what a replica says of itself before it asks for a dump."""
        self.ask(f"SET @master_binlog_checksum='{checksum}', @source_binlog_checksum='{checksum}'")
        if uuid:
            self.ask(f"SET @slave_uuid= '{uuid}', @replica_uuid= '{uuid}'")
        if family == "mariadb":
            self.ask("SET @mariadb_slave_capability=4")
        return self

    def command(self, number: int, data: bytes) -> None:
        self.connection._execute_command(number, data)  # type: ignore[attr-defined]

    def register(self, server_id: int, host: bytes = b"", port: int = 3306) -> None:
        packed = struct.pack("<IB", server_id, len(host)) + host + b"\0\0" + struct.pack("<HII", port, 0, 0)
        self.command(COM_REGISTER_SLAVE, packed)
        assert self.read()[0] == _OK

    def dump(self, file: str = "", position: int = 4, *, flags: int = 1, server_id: int = 7) -> None:
        """Ask for a dump by file and position. With the default ``flags`` it ends at the end of the binlog."""
        self.command(COM_BINLOG_DUMP, struct.pack("<IHI", position, flags, server_id) + file.encode())

    def dump_gtid(self, gtids: bytes, *, flags: int = 1, server_id: int = 7) -> None:
        """Ask for a dump by an encoded GTID set."""
        head = struct.pack("<HIIQI", flags, server_id, 0, 4, len(gtids))
        self.command(COM_BINLOG_DUMP_GTID, head + gtids)

    def read(self) -> bytes:
        """Return the next packet. A long one comes in several parts. Raises pymysql's error for an error packet."""
        return bytes(self.connection._read_packet().get_all_data())  # type: ignore[attr-defined]

    def event(self) -> bytes:
        """Return the next event of the dump. Raises EndOfDump."""
        data = self.read()
        if data[0] == _EOF and len(data) < 9:
            raise EndOfDump
        assert data[0] == _OK
        return data[1:]

    def events(self) -> Iterator[bytes]:
        """Yield the events of the dump up to its end."""
        try:
            while True:
                yield self.event()
        except EndOfDump:
            return


def header(event: bytes) -> EventHeader:
    return EventHeader.unpack(event)


def kinds(events: Sequence[bytes]) -> list[EventType]:
    return [EventType(header(event).type) for event in events]
