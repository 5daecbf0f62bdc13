"""All errors that dumpfilter raises on purpose, subclasses of :class:`DumpfilterError`.

An error's text says what is wrong, where (file and position, or the option), and what to do when something can be done.
The command line prints ``str(error)`` and exits with :attr:`DumpfilterError.exit_code`.

>>> str(BinlogCorrupt("event checksum mismatch", file="bin.000001", position=1720))
'bin.000001: at 1720: event checksum mismatch'
"""

from __future__ import annotations

import copy
from typing import Self


class DumpfilterError(Exception):
    """The base class of all errors that dumpfilter raises on purpose.

    The exit codes of all commands are in docs/exit-codes.md. After exit code 1 the same command line may succeed later,
    for example when a file is no longer in use. Exit code 2 is for a command line that can never succeed.
    """

    exit_code = 1
    grpc_code = "INTERNAL"
    """The name of the gRPC status code with which a master ends a call because of the error."""


class KernelsMissing(DumpfilterError):
    """The error when dumpfilter's numerical functions (kernels) are not compiled for this machine and cannot be
    compiled now.

    The text names the cure.
    """


class OptionError(DumpfilterError):
    """An error about an option or a filter rule that dumpfilter cannot use. The text names the option."""

    exit_code = 2
    grpc_code = "INVALID_ARGUMENT"


class PortTaken(OptionError):
    """An error about a TCP port on which another program listens. The text names the options of the address."""

    exit_code = 1


class BinlogError(DumpfilterError):
    """An error in a binlog. The text names the file and the position of the bad event."""

    grpc_code = "DATA_LOSS"

    def __init__(self, what: str, *, file: str | None = None, position: int | None = None) -> None:
        self.what = what
        self.file = file
        self.position = position
        super().__init__(what)

    def __str__(self) -> str:
        where = ([self.file] if self.file is not None else []) + (
            [f"at {self.position}"] if self.position is not None else []
        )
        return ": ".join([*where, self.what])

    def located(self, file: str | None, position: int | None = None) -> Self:
        """Return a copy of the error that names the binlog file and the position.

        A file or position that the error already has stays.
        """
        found = copy.copy(self)
        found.file = file if self.file is None else self.file
        found.position = position if self.position is None else self.position
        return found


class BinlogCorrupt(BinlogError):
    """An error about bytes that are no valid binlog: wrong magic number, bad checksum, impossible length."""


class BinlogTruncated(BinlogError):
    """An error about a binlog file that ends inside an event or a transaction and that no server is writing."""


class BinlogUnsupported(BinlogError):
    """An error about a valid binlog that dumpfilter cannot read: an encrypted file, or a format before version 4."""


class ColumnsChanged(BinlogError):
    """An error about a table that was altered after a Spark query had fixed its columns. The text names the columns."""


class BinlogUnreadable(BinlogError):
    """An error about a binlog file that the operating system cannot open or read, for example a disk error (EIO)."""

    def __init__(
        self, what: str, *, file: str | None = None, position: int | None = None, momentary: bool = False
    ) -> None:
        super().__init__(what, file=file, position=position)
        self.momentary = momentary
        """Whether the error may pass by itself, for example because the process has too many open files."""
        if momentary:
            # Slaves retry after this status code. They end after DATA_LOSS.
            self.grpc_code = "UNAVAILABLE"


class BinlogReplaced(BinlogError):
    """An error about a binlog file whose name now belongs to another file with other events."""


class BinlogMissing(BinlogError):
    """An error about a binlog file that does not exist, although the index file or a slave's position names it."""

    grpc_code = "OUT_OF_RANGE"


class PositionError(BinlogError):
    """An error about a position or GTID set from which the master cannot send the binlog, such as a purged one."""

    grpc_code = "OUT_OF_RANGE"


class UndecidedEvent(BinlogError):
    """An error about an event that an imposed filter cannot decide, so that the dump stops before the event.

    An imposed filter is one that the master's operator sets for a slave.
    """

    grpc_code = "FAILED_PRECONDITION"
    transaction: int = 0
    """The index of the event's transaction within the segment (the events that are scanned together)."""


class GtidError(DumpfilterError, ValueError):
    """An error about a malformed GTID or GTID set, or about a mix of MySQL's and MariaDB's GTIDs."""

    grpc_code = "INVALID_ARGUMENT"


class OutputError(DumpfilterError):
    """An error about a file or directory that cannot be written: it exists already, or the operating system refuses."""


class ConnectionLost(DumpfilterError):
    """An error about a server that cannot be reached. The text names the server's address."""

    exit_code = 3


class NotAMaster(ConnectionLost):
    """An error about an address at which a server other than a dumpfilter master answers. The text names the address
    and that server.
    """


class LinkError(DumpfilterError):
    """An error about a link (a simulated network connection) of a test topology, for example an unknown name or an
    impossible rate.
    """


class TlsError(ConnectionLost):
    """An error about a slave and a master that cannot agree on TLS. The text names the cure."""


class DirectoryBusy(DumpfilterError):
    """An error about a directory that another process has locked, such as a slave's relay logs or a master's state
    directory.
    """


class StateCorrupt(DumpfilterError):
    """An error about a missing or damaged file in which a slave, a master or a receiver of binlogs keeps its state.

    The text names the file and the cure.
    """


class StreamError(DumpfilterError):
    """An error of a slave whose master sends messages that break the protocol, as ``Chunk`` in ``dumpfilter.proto``
    defines it.
    """


class StreamDamaged(StreamError):
    """An error of a slave that received a damaged, missing or repeated message of the master's stream.

    The slave writes nothing of the message, and asks the master again from its resume point (the last transaction
    boundary up to which everything is received).
    """


class RelayLogDamaged(DumpfilterError):
    """An error of a slave whose relay log is shorter than recorded, or has an event with a wrong checksum or length.

    The slave fetches the damaged part again from its master. If the damage keeps coming back, the error ends the I/O or
    SQL thread that found the damage.
    """


class RegistrationRefused(DumpfilterError):
    """An error of a slave whose master refuses the slave or one of its filter rules. The text is from the master."""

    exit_code = 2


class IdentityTaken(RegistrationRefused):
    """An error of a slave with a server id or a server UUID that another slave of its master uses."""

    exit_code = 1


class ProtocolMismatch(DumpfilterError):
    """An error of a slave and a master that speak no version of the protocol in common. The text names both sides."""

    grpc_code = "FAILED_PRECONDITION"


class DumpTakenOver(DumpfilterError):
    """An error of a slave whose stream the master ended, because a newer connection with the same server UUID reads
    the binlog.
    """


class SlaveIncident(DumpfilterError):
    """An error of a slave that reads an Incident event: the master's binlog lacks events (``ER_SLAVE_INCIDENT``)."""


class SourceError(DumpfilterError):
    """The base class of errors about a MySQL or MariaDB server from which dumpfilter takes its binlog."""


class SourceRefused(SourceError):
    """An error about a source (a running server) that refuses the login or the dump. The text quotes the server, and
    says what to do.
    """

    exit_code = 2
    number: int = 0
    """The number of the error that the source (a running server) sent; 0 for a refusal that dumpfilter itself decided.
    """


class SourcePurged(SourceError):
    """An error about a MySQL or MariaDB server that has purged the binlog file from which dumpfilter must continue to
    fetch.
    """


class SourceReplaced(SourceError):
    """An error about a running server that is not the one whose binlog files were fetched into the same directory
    before.

    The server is another one, or its binlogs have begun anew (``RESET MASTER``).
    """


class SourceStreamDamaged(SourceError):
    """An error about a source (a running server) that sends malformed packets, wrong checksums or wrong positions.

    Nothing of the damaged event is stored.
    """
