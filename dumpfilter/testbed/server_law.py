"""The check of the law for real replicas, by reference replicas that read the origin and filter for themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dumpfilter.base.errors import ConnectionLost, ServerError
from dumpfilter.testbed.errors import NotCaughtUp
from dumpfilter.testbed.ground import HOST, Ground
from dumpfilter.testbed.keeping import Child
from dumpfilter.testbed.node import Feed, TestbedNode
from dumpfilter.testbed.own_nodes import Master
from dumpfilter.testbed.server_nodes import SqlNode, StartedServer
from dumpfilter.testbed.servers import Difference, References, Route, SourceAddress
from dumpfilter.topology.model import Node, Reading

_USER = "reference"


class ServerLaw:
    """The references of a topology's real replicas. They are started at the first check, and end with the topology."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._directory = ground.directory / "references"
        self._references = References(self._directory, self._spawn)
        self._masters: dict[str, UnfilteredMaster] = {}
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
        for master in self._masters.values():
            master.close()
        self._masters.clear()

    def _spawn(self, command: Sequence[str], environment: Mapping[str, str]) -> Child:
        log = self._directory / "start.log"
        return self._ground.start("reference", command, log, environment, is_executed=True)

    def _source(self, origin: TestbedNode) -> SourceAddress:
        """Return the address at which a reference reads everything of an origin."""
        if isinstance(origin, SqlNode):
            return SourceAddress(origin.host, origin.port, origin.account.user, origin.account.password)
        master = self._masters.get(origin.name)
        if master is None:
            master = self._masters[origin.name] = UnfilteredMaster(self._ground, origin)
        master.start()
        return master.address


class UnfilteredMaster(Master):
    """A master that serves the files of an origin without a filter, for the references of real replicas."""

    def __init__(self, ground: Ground, origin: TestbedNode) -> None:
        node = Node(name=f"master-of-{origin.name}", role="master")
        feed = Feed(Reading.model_validate({"node": origin.name}), "", origin, None)
        super().__init__(ground, node, [feed])

    @property
    def address(self) -> SourceAddress:
        """The address at which references read everything."""
        port = self._known("--replica-port")
        return SourceAddress(HOST, port, _USER, self._ground.replication_password)

    def _port_options(self) -> list[str]:
        return ["--port", "--console-port", "--replica-port"]

    def _accounts(self) -> list[dict[str, object]]:
        return [{"user": _USER, "rules": []}]
