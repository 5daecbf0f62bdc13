"""``python -m tests.real.live_edge mariadb|mysql``: compare replicas beside a slave with replicas at the source.

The workload, the events and the comparison are those of :mod:`tests.real.live`. Each filter has its own slave, and the
replicas behind dumpfilter follow the slave's port. The slaves and their master are killed, too.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

from tests.real import live
from tests.real.behind import ReplicaUser
from tests.real.edge import USER, Edge
from tests.real.live import Live, Plan, Replica, Twins
from tests.real.server import Servers, wait_for
from tests.slave.processes import Launcher

PARTS = (
    "stop",
    "flush",
    "kill dumpfilter",
    "kill edge",
    "kill replica",
    "cut",
    "cut in the middle",
    "fail over",
)


class LiveEdge(Live):
    """A run of a plan with slaves between dumpfilter and the replicas."""

    def __init__(
        self, plan: Plan, servers: Servers, launcher: Launcher, directory: Path, ports: Callable[[], int]
    ) -> None:
        self._launcher = launcher
        self._grpc = ports()
        self._edges: dict[str, Edge] = {}
        self._edge_directory = directory / "edges"
        self._next_port = ports
        super().__init__(plan, servers, launcher, directory, ports)

    def _configure(self) -> None:
        for replica in self.replicas:
            replica.behind_user = USER
        self.dumpfilter.configure([ReplicaUser("nobody", ())])

    def _start_dumpfilter(self) -> None:
        self.dumpfilter.start(self.source.data / "bin.index", "--port", str(self._grpc))
        for twins in self.twins:
            if twins.behind.name not in self._edges:
                self._edges[twins.behind.name] = self._new_edge(twins, self._next_port())

    def _new_edge(self, twins: Twins, port: int) -> Edge:
        directory = self._edge_directory / twins.behind.name
        edge = Edge(self._launcher, directory, *twins.filter, "--auto-position", port=port)
        edge.start(self._grpc)
        return edge

    def _connect(self, twins: Twins, replica: Replica) -> None:
        self._set_filter(twins, replica)
        replica.follow(self._edges[twins.behind.name].port if replica.is_behind else self.source.port)

    def _kill_edge(self, replica: Replica) -> None:
        edge = self._edges[self._twins_of(replica).behind.name]
        edge.kill()
        time.sleep(self._random.random())
        edge.start(self._grpc)

    def _change_a_filter(self) -> None:
        """Start a slave that has applied everything with another filter."""
        twins = self._random.choice(self.twins)
        if not twins.rules:
            return
        for replica in twins.both:
            replica.server.control("STOP")
        edge = self._edges[twins.behind.name]
        end = self.source.binlog_end()

        def applied() -> bool:
            info = json.loads((edge.relay_dir / "relay-log.info").read_bytes())
            return (info["source_file"], info["source_position"]) == (end.file, end.position)

        wait_for(applied, edge.log, live.CATCH_UP)
        edge.kill()
        twins.narrowed = not twins.narrowed
        self._edges[twins.behind.name] = self._new_edge(twins, edge.port)
        for replica in twins.both:
            self._set_filter(twins, replica)
            replica.server.control("START")
        self.plan.happened["change of filter"] += 1


if __name__ == "__main__":
    live.PARTS = PARTS
    live.Live = LiveEdge  # type: ignore[misc]
    live.main()
