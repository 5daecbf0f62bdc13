"""What can go wrong on the slave's side, beside the errors of :mod:`dumpfilter.errors`."""

from __future__ import annotations

from dumpfilter.errors import DumpfilterError


class SlaveError(DumpfilterError):
    """Root of the errors that only a slave has."""


class DirectoryBusy(SlaveError):
    """Another slave process works in the same relay directory."""


class StateCorrupt(SlaveError):
    """``master.info``, ``relay-log.info``, the relay log index or a relay log is not what this slave
    left there. Names the file and the cure."""


class StreamError(SlaveError):
    """The master sent something that breaks the contract of ``Chunk``."""


class RegistrationRefused(SlaveError):
    """The master refused the slave or one of its rules; the text is the master's."""

    exit_code = 2


class DumpTakenOver(SlaveError):
    """A newer dump of the same slave took this one's place."""


class SlaveIncident(SlaveError):
    """The master logged an incident (``ER_SLAVE_INCIDENT``): something is missing from its binlog."""


AFRESH = "to start afresh, remove the relay directory"
"""The cure that always works: everything in the directory can be fetched again."""
