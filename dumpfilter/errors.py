"""The tree of errors. Every error that dumpfilter raises on purpose is a :class:`DumpfilterError`.

An error's text says what is wrong, where (file and position, or the option), and what to do when something can be done.
The command line prints ``str(error)`` and exits with :attr:`DumpfilterError.exit_code`.

>>> str(BinlogCorrupt("event checksum mismatch", file="bin.000001", position=1720))
'bin.000001: at 1720: event checksum mismatch'
"""

from __future__ import annotations


class DumpfilterError(Exception):
    """Root of all errors of this product."""

    exit_code = 1


class OptionError(DumpfilterError):
    """An option or rule that cannot be used. The text names the option."""

    exit_code = 2


class BinlogError(DumpfilterError):
    """An error in a binlog. The text names the file and the position of the bad event."""

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

    def located(self, file: str, position: int | None = None) -> BinlogError:
        """Return a copy of the error with file and position filled in where they are missing."""
        return type(self)(
            self.what,
            file=self.file if self.file is not None else file,
            position=self.position if self.position is not None else position,
        )


class BinlogCorrupt(BinlogError):
    """Bytes that the format does not allow: wrong magic, bad checksum, impossible length."""


class BinlogTruncated(BinlogError):
    """A file that ends inside an event or inside a transaction although no server writes to it."""


class BinlogUnsupported(BinlogError):
    """A valid binlog of a kind that dumpfilter does not read: encrypted, or a format before v4."""


class BinlogMissing(BinlogError):
    """A missing file that the index or a position names."""


class PositionError(BinlogError):
    """A position or GTID set from which no stream can start."""


class GtidError(DumpfilterError, ValueError):
    """A GTID or GTID set that cannot be parsed, or sets of two families mixed."""


class OutputError(DumpfilterError):
    """An output that cannot be written, since it exists already or the disk refuses."""


class ConnectionLost(DumpfilterError):
    """A server that cannot be reached. The text names its address."""

    exit_code = 3


class DirectoryBusy(DumpfilterError):
    """Another slave process works in the same relay directory."""


class StateCorrupt(DumpfilterError):
    """A file in a slave's relay directory is missing or damaged. The text names the file and the cure."""


class StreamError(DumpfilterError):
    """The master's stream breaks the contract of the message ``Chunk`` in ``dumpfilter.proto``."""


class RegistrationRefused(DumpfilterError):
    """The master refused the slave or one of its rules. The text is the master's."""

    exit_code = 2


class DumpTakenOver(DumpfilterError):
    """The master ended a slave's dump because another dump with the same server UUID began."""


class SlaveIncident(DumpfilterError):
    """The master logged an incident (``ER_SLAVE_INCIDENT``), which means that events are missing from its binlog."""
