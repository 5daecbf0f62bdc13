"""The resources that all nodes of a running topology share: directory, keeper process, links, passwords and
server ids.
"""

from __future__ import annotations

import secrets
import threading
import time
from dataclasses import KW_ONLY, dataclass
from pathlib import Path

from dumpfilter.testbed.keeping import Child, Keeper, Program
from dumpfilter.testbed.servers.server import Spawn, write_secret
from dumpfilter.topology.model import Topology

HOST = "127.0.0.1"
"""The address on which all nodes listen."""

FIRST_SERVER_ID = 101

_END_TIMEOUT = 30.0

REPLICATION_USER = "repl"
"""The user with which real replicas log in at the replication ports of dumpfilter."""


@dataclass
class Ground:
    """The directory, the processes, the server ids and the passwords of one running topology, which all its nodes
    share.
    """

    topology: Topology
    directory: Path
    keeper: Keeper
    _: KW_ONLY
    holds_files: bool
    """Whether recordings and workloads wait for :meth:`dumpfilter.testbed.bed.Testbed.release`."""
    start_timeout: float
    """The time limit for the start of one node, seconds."""
    wait_timeout: float
    """The default time limit of a wait, seconds."""

    def __post_init__(self) -> None:
        self._children: list[Child] = []
        self.is_ending = threading.Event()
        """Set when the topology is ending."""
        (self.directory / "logs").mkdir(exist_ok=True)
        self.console_password = secrets.token_urlsafe(12)
        self.replication_password = secrets.token_urlsafe(12)
        self.console_password_file = self.directory / "console.password"
        write_secret(self.console_password_file, self.console_password)
        # A server's working directory is its data directory.
        self.certificate = self.directory.resolve() / "certificate.pem"
        """The certificate of all nodes with ``tls``. It is self-signed, so that readers verify it as their CA."""
        self.key = self.certificate.with_name("key.pem")
        if any(node.tls for node in self.topology.nodes):
            from dumpfilter.base.security.tls import make_key_pair

            made = make_key_pair(HOST)
            self.certificate.write_bytes(made.certificate)
            write_secret(self.key, made.key.decode())
        self._server_ids = {
            node.name: number for number, node in enumerate(self.topology.nodes, start=FIRST_SERVER_ID)
        }

    def deadline(self, timeout: float | None) -> float:
        """Return the end of a wait as a time of ``time.monotonic``.

        ``timeout`` is the wait's limit in seconds; None means the default limit of the topology's waits.
        """
        return time.monotonic() + (self.wait_timeout if timeout is None else timeout)

    def server_id(self, name: str) -> int:
        """Return the server id of the node ``name``. A server with which only checks compare a replica is no node of
        the topology, and gets the next free id.
        """
        return self._server_ids.setdefault(name, FIRST_SERVER_ID + len(self._server_ids))

    def start(self, program: Program) -> Child:
        """Start a program as a process that ends with the topology. Raises StartFailed."""
        child = self.keeper.start(program)
        self._children.append(child)
        if self.is_ending.is_set():
            child.kill()
        return child

    def spawner(self, name: str, log: Path) -> Spawn:
        """Return a function that starts a database server's command as a process of the topology. ``name`` is the
        node's name, and ``log`` the file for the server's output.
        """
        return lambda command, environment: self.start(Program(name, command, log, environment, True))

    def end_all(self) -> None:
        """Kill all processes of the topology. Processes that are started later are killed at once."""
        self.is_ending.set()
        self.keeper.end_if_importing()
        for child in tuple(self._children):
            if child.poll() is None:
                child.kill()
                child.wait(_END_TIMEOUT)
