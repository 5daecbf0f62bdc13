"""The errors of a running topology (the processes of servers, masters and slaves in a test), such as a node that does
not run or has not caught up.
"""

from __future__ import annotations

from dumpfilter.base.errors import ConnectionLost, DirectoryBusy, DumpfilterError, OptionError


class TestbedError(DumpfilterError):
    """The base class of errors about a running topology, which is the processes of servers, masters and slaves in a
    test.
    """

    __test__ = False


class NotRunnable(TestbedError, OptionError):
    """An error about a topology that is valid but that the testbed cannot run. The text names the node and the
    remedy.
    """


class ServerMissing(TestbedError):
    """An error about a server program that is not installed on this machine. The text names the cure."""


class StartFailed(TestbedError):
    """An error about a node or server that did not start. The text says why, or has the end of the log."""


class NodeIsDown(TestbedError, ConnectionLost):
    """An error about a node or server that is not running or cannot be reached, although the call needs it."""


class NotCaughtUp(TestbedError):
    """An error about nodes that have not caught up in time, or cannot catch up because a replication thread has
    stopped.

    The text says which position or GTID set each node has reached, and which one it should have reached.
    """

    exit_code = 4


class LawBroken(TestbedError):
    """An error about a replica whose data, position or GTID set differs from that of a replica that reads everything
    and filters for itself. So a filter between source and replica has changed its data.

    The text names the node, the table and the difference.
    """

    exit_code = 4


class TopologyBusy(TestbedError, DirectoryBusy):
    """An error about a directory that cannot be used for a new topology, because another process runs a topology
    there.
    """


class NotUp(TestbedError, ConnectionLost):
    """An error about a call to the topology of a directory in which no topology runs."""


class Unknown(TestbedError, OptionError):
    """An error about a name of a node or link that the running topology does not have."""


class SqlFailed(TestbedError):
    """An error about a statement that a node refuses, or about a node that takes no SQL."""

    def __init__(self, text: str, number: int = 0) -> None:
        super().__init__(text)
        self.number = number
        """The number of the server's error. 0 for an error that the testbed found."""
