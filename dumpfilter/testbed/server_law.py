"""The check of the law for real replicas, by reference replicas that read the origin and filter for themselves."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from dumpfilter.errors import ConnectionLost, ServerError
from dumpfilter.servers import Difference, References, Route, SourceAddress
from dumpfilter.testbed.errors import NotCaughtUp, StartFailed
from dumpfilter.testbed.ground import HOST, Ground, write_secret
from dumpfilter.testbed.keeping import Child
from dumpfilter.testbed.node import TestbedNode
from dumpfilter.testbed.server_nodes import SqlNode, StartedServer

_START_TIMEOUT = 60.0
_POLL = 0.01
_USER = "reference"


class ServerLaw:
    """The references of a topology's real replicas. They are started at the first check, and end with the topology."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._directory = ground.directory / "references"
        self._references = References(self._directory, self._spawn)
        self._masters: dict[str, tuple[Child, SourceAddress]] = {}
        """A master without filters for each origin that is files, by the origin's name."""

    def check(
        self, node: StartedServer, filters: Mapping[str, Sequence[tuple[str, ...]]], timeout: float
    ) -> tuple[Difference, ...]:
        """Return the differences between a real replica and its reference. There are none if the law holds.

        ``filters`` has, for each channel, the rules of the filters from the origin to the replica, in order. Raises
        NotCaughtUp and StartFailed.
        """
        self._directory.mkdir(exist_ok=True)
        try:
            routes = {
                feed.channel: Route(self._source(feed.origin), tuple(filters[feed.channel]))
                for feed in node.feeds
            }
            return self._references.check(node.server, routes, timeout, node.node.options)
        except (ServerError, ConnectionLost) as error:
            raise NotCaughtUp(f"{node.name}: cannot be compared with its reference: {error}") from None

    def close(self) -> None:
        """End the references and their masters."""
        self._references.close()
        for child, _ in self._masters.values():
            child.kill()
        self._masters.clear()

    def _spawn(self, command: Sequence[str], environment: Mapping[str, str]) -> Child:
        log = self._directory / "start.log"
        return self._ground.start("reference", command, log, environment, is_executed=True)

    def _source(self, origin: TestbedNode) -> SourceAddress:
        """Return the address at which a reference reads everything of an origin."""
        if isinstance(origin, SqlNode):
            return SourceAddress(origin.host, origin.port, origin.account.user, origin.account.password)
        found = self._masters.get(origin.name)
        if found is None or found[0].poll() is not None:
            found = self._masters[origin.name] = self._start_master(origin)
        return found[1]

    def _start_master(self, origin: TestbedNode) -> tuple[Child, SourceAddress]:
        """Start a master that serves the files of an origin without a filter."""
        password = self._ground.replication_password
        home = self._directory / f"master of {origin.name}"
        home.mkdir(exist_ok=True)
        config, note, log = home / "replicas.toml", home / "replica-port", home / "master.log"
        note.unlink(missing_ok=True)
        write_secret(
            config,
            f"[[replica]]\nuser = {json.dumps(_USER)}\npassword = {json.dumps(password)}\nrules = []\n",
        )
        arguments = ["master", str(origin.watched.source), "--port", "0", "--config", str(config)]
        arguments += ["--replica-port", "0", "--replica-port-file", str(note)]
        child = self._ground.start(f"reference of {origin.name}", arguments, log)
        return child, SourceAddress(HOST, _port(child, note, log), _USER, password)


def _port(child: Child, note: Path, log: Path) -> int:
    deadline = time.monotonic() + _START_TIMEOUT
    while not note.exists():
        if child.poll() is not None or time.monotonic() > deadline:
            raise StartFailed(
                f"the master of the references did not start:\n{log.read_text(errors='replace')}"
            )
        time.sleep(_POLL)
    return int(note.read_text())
