"""The running topology: its nodes and links, waiting, the check of the law, and the end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from dumpfilter.testbed.values import Lag, LinkStatus, NodeStatus, TestbedStatus
from dumpfilter.topology.model import Topology

WAIT = 30.0
"""The longest wait for a node to catch up, seconds, if the caller says nothing."""


class TestbedNode:
    """A node of a running topology."""

    __test__ = False

    name: str
    directory: Path

    @property
    def port(self) -> int:
        """The port for SQL clients: the server's port, or the console's port of a node of dumpfilter."""
        raise NotImplementedError

    @property
    def url(self) -> str:
        """The address for SQL clients, ``mysql://USER[:PASSWORD]@127.0.0.1:PORT/``."""
        raise NotImplementedError

    def connect(self, **options: Any) -> Any:
        """Return a new PyMySQL connection to the server or console. ``options`` are those of pymysql.connect."""
        raise NotImplementedError

    def execute(self, sql: str, args: Any = None) -> list[tuple[Any, ...]]:
        """Run one statement on a connection of its own, and return its rows. Raises NodeIsDown, SqlFailed."""
        raise NotImplementedError

    def wait_caught_up(self, timeout: float = WAIT) -> None:
        """Wait until the node has applied all that its origins have written before the call. Raises NotCaughtUp."""
        raise NotImplementedError

    @property
    def lag(self) -> Lag:
        """How far the node is behind the origins of its data."""
        raise NotImplementedError

    def status(self) -> NodeStatus:
        """Return the node's status."""
        raise NotImplementedError

    def kill(self) -> None:
        """Kill the node's process with SIGKILL, and wait for its end."""
        raise NotImplementedError

    def stop(self) -> None:
        """End the node's process in order. A recording or workload pauses."""
        raise NotImplementedError

    def start(self) -> None:
        """Start the node again after :meth:`kill` or :meth:`stop`, at the same port. Raises StartFailed."""
        raise NotImplementedError

    def restart(self) -> None:
        """Stop the node and start it again."""
        raise NotImplementedError

    @property
    def logs(self) -> str:
        """The text of the node's log."""
        raise NotImplementedError

    def hold_behind(self, seconds: float) -> None:
        """Hold the node's data so many seconds behind its sources. 0 ends the delay."""
        raise NotImplementedError


class TestbedLink:
    """A link of a running topology."""

    __test__ = False

    name: str

    def cut(self) -> None:
        """Reset all connections of the link, and refuse new ones."""
        raise NotImplementedError

    def heal(self) -> None:
        """Let connections through again."""
        raise NotImplementedError

    def set(
        self,
        *,
        rate: int | str | None = ...,  # type: ignore[assignment]
        delay: float | str = ...,  # type: ignore[assignment]
        jitter: float | str = ...,  # type: ignore[assignment]
    ) -> None:
        """Change the rate (bits a second or ``"2mbit"``), the delay or the jitter (seconds or ``"50ms"``)."""
        raise NotImplementedError

    def cut_after(self, nbytes: int) -> None:
        """Cut the link after so many more bytes towards the target."""
        raise NotImplementedError

    @property
    def counters(self) -> Any:
        """The bytes each way and the connections (:class:`dumpfilter.links.client.Counters`)."""
        raise NotImplementedError

    @property
    def history(self) -> Sequence[Any]:
        """The link's changes, cuts and connections with their times, and its bytes over time."""
        raise NotImplementedError

    def status(self) -> LinkStatus:
        """Return the link's status."""
        raise NotImplementedError


class Testbed(AbstractContextManager["Testbed"]):
    """A running topology. At the end of the ``with`` block everything that it started ends."""

    __test__ = False

    topology: Topology
    directory: Path

    def __getitem__(self, name: str) -> TestbedNode:
        """Return a node. Raises Unknown."""
        raise NotImplementedError

    def __iter__(self) -> Iterator[TestbedNode]:
        raise NotImplementedError

    @property
    def nodes(self) -> Mapping[str, TestbedNode]:
        """All nodes by name."""
        raise NotImplementedError

    @property
    def links(self) -> Mapping[str, TestbedLink]:
        """All links by name (``SOURCE:TARGET``)."""
        raise NotImplementedError

    def link(self, source: str, target: str = "") -> TestbedLink:
        """Return the link from ``source`` to ``target``, or the link with the name ``SOURCE:TARGET``. Raises Unknown.

        If a master of dumpfilter stands between the two, the link from this master to ``target`` is returned.
        """
        raise NotImplementedError

    def wait_caught_up(self, timeout: float = WAIT) -> None:
        """Wait until every running node has applied what its origins have written before the call.

        Raises NotCaughtUp.
        """
        raise NotImplementedError

    def wait_done(self, timeout: float = WAIT) -> None:
        """Wait until all recordings and workloads have written everything. Raises NotCaughtUp."""
        raise NotImplementedError

    def check(self, timeout: float = WAIT) -> None:
        """Wait until all have caught up, and check the law for each node. Raises LawBroken, NotCaughtUp."""
        raise NotImplementedError

    def status(self) -> TestbedStatus:
        """Return the status of all nodes and links."""
        raise NotImplementedError

    def report(self) -> dict[str, Any]:
        """Return bytes by link, bytes saved, and lag over the run, as values that JSON can represent."""
        raise NotImplementedError

    def reset(self, timeout: float = WAIT) -> None:
        """Return to the state after :func:`up`: links healed, nodes running, no databases but those of ``init``."""
        raise NotImplementedError

    def down(self) -> None:
        """End all processes, and remove the directory if :func:`up` made it. Calling it twice is harmless."""
        raise NotImplementedError

    def __exit__(self, *_: object) -> None:
        self.down()


def up(
    topology: Topology | str | Path,
    directory: Path | None = None,
    *,
    keep: bool = False,
    timeout: float = 60.0,
) -> Testbed:
    """Start a topology, and return when all nodes run and every node has a connection to its sources.

    ``topology`` is an object, the path of a TOML file, or the short string. Without ``directory`` all files are in a
    temporary directory, which goes away with the testbed unless ``keep``. Raises OptionError for a topology that is not
    valid, NotRunnable for one that the testbed cannot run, StartFailed, and TopologyBusy.
    """
    raise NotImplementedError
