"""Slaves with a port for real replicas, in this process, and a client that receives as a replica does."""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pymysql

from dumpfilter.base.security.listening import Endpoint
from dumpfilter.binlog.events import LOG_EVENT_ARTIFICIAL_F, EventHeader, EventType
from dumpfilter.binlog.format import FormatDescription
from dumpfilter.binlog.gtid import MysqlGtidSet
from dumpfilter.binlog.gtid_events import decode_mysql_gtid, encode_previous_gtids
from dumpfilter.console.port import ConnectionDirectory
from dumpfilter.edge import Edge
from dumpfilter.slave.console import SlaveConsole
from dumpfilter.slave.options import EdgeOptions
from tests.master.replicas.serving import PASSWORD, UUID, Replica
from tests.slave.driven import Driven, wait_until

USER = "edge"
_MOMENTARY = 1105
"""The error after which a replica connects again."""
_FATAL = 1236
"""The error after which a replica does not connect again."""


@dataclass
class Edged:
    """A slave with a port for replicas."""

    driven: Driven
    edge: Edge
    directory: ConnectionDirectory

    def port(self, channel: str = "") -> int:
        return self.edge.chosen_ports[channel]

    def connect(self, channel: str = "") -> Replica:
        """Connect as a replica, as soon as the slave has published a part of its relay log."""
        while True:
            try:
                return self.connect_now(channel)
            except pymysql.err.OperationalError as error:
                if error.args[0] != _MOMENTARY:
                    raise
                time.sleep(0.01)

    def connect_now(self, channel: str = "") -> Replica:
        """Connect as a replica. Raises OperationalError 1105 before the slave has published anything."""
        return Replica(self.port(channel), USER)


@contextmanager
def edged(
    directory: Path, *options: str, ports: dict[str, int] | None = None, rules: str = "", **more: Any
) -> Iterator[Edged]:
    """Run a slave with a port as long as the block runs. ``rules`` are TOML strings with the replicas' filter."""
    config = directory.with_name(f"{directory.name}.toml")
    config.touch(mode=0o600)
    config.write_text(f'[[replica]]\nuser = "{USER}"\npassword = "{PASSWORD}"\nrules = [{rules}]\n')
    texts = [f"{name}={port}" for name, port in ({"": 0} if ports is None else ports).items()]
    edge = Edge(EdgeOptions(replica_port=texts, config=config), Endpoint())
    server_id = more.pop("server_id", 1001)
    driven = Driven(directory, options, server_id, more, readers=edge.channels)
    driven.console = SlaveConsole(driven.slave, edge.replicas)
    connections = ConnectionDirectory()
    try:
        with edge.serving(driven.slave, driven.console, connections):
            yield Edged(driven, edge, connections)
    finally:
        driven.close()


@dataclass
class Chained:
    """A slave with a port for other slaves."""

    driven: Driven
    edge: Edge

    @property
    def port(self) -> int:
        """The port of the default channel. A slave follows it like a master's (:meth:`Driven.follow`)."""
        return self.edge.slave_ports[""]


@contextmanager
def chained(
    directory: Path, *options: str, port: int = 0, config: Path | None = None, **more: Any
) -> Iterator[Chained]:
    """Run a slave with a port for other slaves as long as the block runs."""
    edge = Edge(EdgeOptions(serve_port=[str(port)], config=config), Endpoint())
    server_id = zlib.crc32(bytes(directory)) % 10**9 + 1
    driven = Driven(directory, options, server_id, more, readers=edge.channels)
    driven.console = SlaveConsole(driven.slave, edge.replicas)
    try:
        with edge.serving(driven.slave, driven.console, ConnectionDirectory()):
            yield Chained(driven, edge)
    finally:
        driven.close()


@dataclass
class Follower:
    """A client that keeps the GTIDs that it has received, and connects again after an error, as a replica does."""

    edged: Edged
    gtids: MysqlGtidSet = field(default_factory=MysqlGtidSet)
    order: list[str] = field(default_factory=list)
    """The GTIDs of the whole transactions, in the order of their arrival."""
    events: list[bytes] = field(default_factory=list)
    """The events of the whole transactions, without those that are not in a binlog."""
    errors: list[str] = field(default_factory=list)
    place: str = ""
    """The writer's file that the newest artificial Rotate event has named."""

    def receive(self, wanted: str, channel: str = "") -> None:
        """Receive until these GTIDs are there."""
        goal = MysqlGtidSet.parse(wanted)
        done = self.gtids.issuperset(goal)

        def attempt() -> bool:
            nonlocal done
            try:
                with self.edged.connect(channel) as replica:
                    self._dump(replica, goal)
                    done = True
            except pymysql.Error as error:
                if error.args[0] == _FATAL:
                    raise
                self.errors.append(str(error.args[1]))
            return done

        if not done:
            wait_until(attempt, lambda: f"{self.gtids}, not {goal}: {self.errors[-3:]}")

    def _dump(self, replica: Replica, goal: MysqlGtidSet) -> None:
        replica.greet(uuid=UUID)
        replica.register(7)
        replica.dump_gtid(encode_previous_gtids(self.gtids), flags=0)
        open_events: list[bytes] = []
        gtid = None
        fd: FormatDescription | None = None
        while not self.gtids.issuperset(goal):
            event = replica.event()
            header = EventHeader.unpack(event)
            if header.type == EventType.FORMAT_DESCRIPTION:
                fd = FormatDescription.parse(event)
            elif header.type == EventType.ROTATE and header.flags & LOG_EVENT_ARTIFICIAL_F:
                self.place = event[27:].split(b".")[0].decode() + "." + event[27:].split(b".")[1][:6].decode()
            elif header.type == EventType.GTID:
                assert gtid is None
                assert fd is not None
                gtid = decode_mysql_gtid(fd.body(event)).gtid
                assert gtid is not None
                assert gtid not in self.gtids, f"{gtid} comes twice"
                open_events.append(event)
            elif gtid is not None:
                open_events.append(event)
                if _ends(event, len(open_events), fd):
                    self.gtids.add(gtid)
                    self.order.append(str(gtid))
                    self.events += open_events
                    open_events, gtid = [], None


def _ends(event: bytes, number: int, fd: FormatDescription | None) -> bool:
    """Tell whether an event ends its transaction, whose second event is a BEGIN or a single statement."""
    assert fd is not None
    header = EventHeader.unpack(event)
    if header.type in (EventType.XID, EventType.XA_PREPARE, EventType.TRANSACTION_PAYLOAD):
        return True
    if header.type != EventType.QUERY:
        return False
    body = bytes(fd.body(event))
    if number == 2:
        return not (body.endswith(b"\0BEGIN") or b"XA START" in body)
    return body.endswith((b"\0COMMIT", b"\0ROLLBACK"))
