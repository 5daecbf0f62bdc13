"""The follower, which keeps a store (the received binlog files) up to date with its source, and reconnects after
errors.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from dumpfilter.base.errors import ConnectionLost, DumpfilterError, OptionError, SourceStreamDamaged, TlsError
from dumpfilter.base.printable import printable
from dumpfilter.base.waiting import Backoff
from dumpfilter.receiver.credentials import find_credentials
from dumpfilter.receiver.login import SourceConnection, SourceFacts, ask_facts
from dumpfilter.receiver.reception import Progress, Reception, Turns
from dumpfilter.receiver.store import BinlogDirectory, is_binlog_name
from dumpfilter.receiver.url import SourceUrl

log = structlog.get_logger("dumpfilter.receiver")

OLDEST = "oldest"
NEWEST = "newest"

_LONGEST_WAIT = 60.0
_MOST_DAMAGED = 3
"""The number of damaged streams in a row, without an event between them, after which a receiver gives up."""


@dataclass(frozen=True)
class FollowOptions:
    """The options of a :class:`Follower`: when the follower ends, and how often it tries to connect again."""

    stop_never: bool = False
    """Whether the follower waits for new events at the end of the newest file, instead of ending there."""
    retries: int = 10
    """The number of failed attempts in a row after which the follower gives up; 0: it never gives up."""
    wait_for_first: bool = False
    """Whether the follower tries again if the source cannot be reached at the start. Later it tries again in any
    case.
    """
    longest_wait: float = _LONGEST_WAIT


class Follower:
    """Receives the binlog of one source (a running server) into one store (directory of received files). :meth:`run`
    works in the caller's thread until it is done.

    Parameters:
        url: the source's address.
        store: the open directory to which the received files are written.
        options: when the follower ends, and how often it tries again.
        on_progress: called after each write, in the thread of :meth:`run`.
        on_connect: called after each login, with the source's family, version, UUID and binlog files.
    """

    def __init__(
        self,
        url: SourceUrl,
        store: BinlogDirectory,
        options: FollowOptions | None = None,
        *,
        on_progress: Callable[[], None] = lambda: None,
        on_connect: Callable[[SourceFacts], None] = lambda facts: None,
    ) -> None:
        self.url = url
        self.store = store
        self.progress = Progress()
        self.is_connected = False
        """Whether the source is sending its binlog at present."""
        self.connections = 0
        """The number of connections on which a dump was requested."""
        self.failures = 0
        """The number of failed attempts to connect, and of connections that ended in an error."""
        self.last_error = ""
        self.last_error_at = 0.0
        self._options = options or FollowOptions()
        self._on_progress = on_progress
        self._on_connect = on_connect
        self._stopped = threading.Event()
        self._connection: SourceConnection | None = None
        self.turns: Turns | None = None
        """The event loop that waits for the source while few events arrive. None: the thread of :meth:`run` waits
        itself.
        """
        self._has_warned = False

    @property
    def is_stopped(self) -> bool:
        """Whether :meth:`stop` was called."""
        return self._stopped.is_set()

    def stop(self) -> None:
        """Make :meth:`run` return soon. Any thread and any signal handler may call this method."""
        self._stopped.set()
        connection = self._connection
        if connection is not None:
            connection.interrupt()

    def run(self) -> None:
        """Receive until the end of the source's binlog, or until :meth:`stop`.

        After a lost connection the follower connects again. Raises DumpfilterError for an error that no further attempt
        can cure, or after too many failed attempts.
        """
        self._warn_of_impostors()
        damaged, backoff = 0, Backoff(self._options.longest_wait)
        while not self._stopped.is_set():
            before = self.progress.bytes
            try:
                self._receive()
                return
            except DumpfilterError as error:
                if self._stopped.is_set():
                    return
                self.failures += 1
                self.last_error, self.last_error_at = str(error), time.time()
                if self.progress.bytes > before:
                    damaged = 0
                    backoff.reset()
                damaged += isinstance(error, SourceStreamDamaged)
                wait = backoff.next()
                if not self._may_pass(error, backoff.attempts, damaged):
                    raise
                log.warning(
                    "source lost",
                    source=str(self.url),
                    error=printable(str(error), 500),
                    retry_in_seconds=round(wait, 1),
                )
                self._stopped.wait(wait)

    def _warn_of_impostors(self) -> None:
        """Log a warning, once, of the data that a fake server at the source's address could obtain. With a verified
        certificate there is none.
        """
        if self.url.socket or self._has_warned:
            return
        self._has_warned = True
        gets = find_credentials(self.url).impostor_gets()
        if gets:
            log.warning(
                "source not verified",
                source=str(self.url),
                reason=f"whoever answers in its place gets {gets}, and can send any binlog",
                hint="verify the source's certificate with ca=FILE",
            )

    def _may_pass(self, error: DumpfilterError, failed: int, damaged: int) -> bool:
        if self._options.retries and failed >= self._options.retries:
            return False
        if isinstance(error, SourceStreamDamaged):
            return self.connections > 0 and damaged < _MOST_DAMAGED
        if isinstance(error, TlsError):
            return self.connections > 0
        return isinstance(error, ConnectionLost) and (self.connections > 0 or self._options.wait_for_first)

    def _receive(self) -> None:
        """Receive over one connection until the dump ends."""
        connection = SourceConnection(self.url)
        self._connection = connection
        try:
            if self._stopped.is_set():
                return
            facts = ask_facts(connection)
            self.store.recognize(facts.family, facts.server_uuid, str(self.url))
            self.progress.files = facts.logs or []
            first, last = self._range(facts)
            if self._options.stop_never:
                log.info(
                    "source connected",
                    source=str(self.url),
                    version=facts.version,
                    tls=connection.is_encrypted,
                )
            self.is_connected = True
            self.connections += 1
            self._on_connect(facts)
            reception = Reception(
                connection, facts, self.store, self.progress, self._on_progress, lambda: self.turns
            )
            reception.run(first, last, blocking=self._options.stop_never)
        finally:
            self.is_connected = False
            self._connection = None
            connection.close()
            self.store.close_file()

    def _range(self, facts: SourceFacts) -> tuple[str, str]:
        """Return the first and the last file to receive, from the URL's options ``from`` and ``to``.

        Only an empty store (directory of received files) begins at the first file. An empty name stands for the
        source's oldest file, or for no last file. ``facts`` has the source's files. Raises OptionError for a name that
        no binlog file has, and for a file from which the store cannot continue.
        """
        first = "" if self.url.first == OLDEST else self.url.first
        last = self.url.last
        if first == NEWEST:
            if not facts.logs:
                raise OptionError(
                    f"{self.url}: from=newest needs a user who may list the source's binlogs: GRANT REPLICATION CLIENT "
                    "(MySQL) or BINLOG MONITOR (MariaDB)"
                )
            first = facts.logs[-1][0]
        for option, name in (("from", first), ("to", last)):
            if name and not is_binlog_name(name):
                raise OptionError(
                    f"{self.url}: {option}={name}: no name of a binlog file, such as binlog.000012"
                )
        names = self.store.names
        if self.url.first not in ("", OLDEST, NEWEST) and names and first not in names:
            raise OptionError(
                f"{self.url}: from={first}: {self.store.directory} has {names[0]} to {names[-1]} already, and goes on "
                "there; name another directory"
            )
        return first, last
