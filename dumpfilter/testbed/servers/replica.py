"""A channel of a real replica: its source, its threads, its status, and the wait for a GTID set."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from dumpfilter.analyse.report.text import human_seconds
from dumpfilter.base.errors import ReplicaBehind, ServerError
from dumpfilter.testbed.servers.dialect import SourceAddress
from dumpfilter.testbed.servers.session import SqlServer
from dumpfilter.testbed.values import Place

_TURN = 1.0
"""The length of one wait for GTIDs, seconds. After each wait the threads' errors are checked."""


class ThreadError(NamedTuple):
    """The last error of a thread of a replica."""

    number: int
    text: str

    def __str__(self) -> str:
        return f"error {self.number}: {self.text}"


@dataclass(frozen=True)
class ReplicaStatus:
    """The status of one replication channel, under the same names for MariaDB and MySQL."""

    channel: str
    io_state: str
    """The state of the I/O thread: ``Yes``, ``No``, ``Connecting`` or ``Preparing``."""
    sql_running: bool
    received: Place
    applied: Place
    io_error: ThreadError | None
    sql_error: ThreadError | None
    received_gtids: str
    raw: Mapping[str, Any] = field(repr=False, default_factory=dict)
    """All columns of SHOW REPLICA STATUS, as the server names them."""

    @property
    def errors(self) -> tuple[ThreadError, ...]:
        """The last errors of the I/O thread and of the SQL thread."""
        return tuple(error for error in (self.io_error, self.sql_error) if error is not None)

    @property
    def sql_state(self) -> str:
        """Whether the SQL thread runs, as ``Yes`` or ``No``."""
        return "Yes" if self.sql_running else "No"

    def __str__(self) -> str:
        return f"I/O thread {self.io_state}, SQL thread {self.sql_state}{''.join(f'; {one}' for one in self.errors)}"

    @property
    def has_stopped(self) -> bool:
        """Whether a thread has stopped permanently, so that waiting is useless."""
        return self.io_state == "No" or not self.sql_running


@dataclass(frozen=True)
class Channel:
    """One channel of a real replica. The name of the default channel is empty."""

    server: SqlServer
    name: str = ""
    rules: Sequence[str] = ()
    """The channel's filter rules. The server's command line must have them, too."""

    def follow(self, source: SourceAddress, *, place: Place | None = None, start: bool = True) -> None:
        """Set the channel's source, and start its threads unless ``start`` is False.

        Replication begins at the position ``place`` of the source's binlog. With None it begins by GTID after the
        transactions that the server has applied. Raises ServerError.
        """
        words = self.server.dialect
        if self.status() is not None:
            self._control("STOP")
        self.server.sql(
            words.follow(self.name, source, place), *words.new_channel_rules(self.name, self.rules)
        )
        if start:
            self._control("START")

    def start(self, thread: str = "") -> None:
        """Start both threads, or one of ``IO_THREAD`` and ``SQL_THREAD``."""
        self._control("START", thread)

    def stop(self, thread: str = "") -> None:
        """Stop both threads, or one of ``IO_THREAD`` and ``SQL_THREAD``."""
        self._control("STOP", thread)

    def _control(self, verb: str, thread: str = "") -> None:
        self.server.sql(self.server.dialect.controlled(verb, self.name, thread))

    def set_delay(self, seconds: int, *, applies: bool = True) -> None:
        """Make the channel apply each transaction ``seconds`` after its commit at the source. 0 ends the delay.

        Without ``applies`` the SQL thread stays stopped.
        """
        words = self.server.dialect
        self.server.sql(
            words.controlled("STOP", self.name),
            words.changed(self.name, f"{words.source}_DELAY={seconds}"),
            words.controlled("START", self.name, "" if applies else "IO_THREAD"),
        )

    def status(self) -> ReplicaStatus | None:
        """Return the channel's status; None if the channel has no source."""
        return next((status for status in replica_status(self.server) if status.channel == self.name), None)


def replica_status(server: SqlServer) -> tuple[ReplicaStatus, ...]:
    """Return the status of all channels of a server; empty for a server without channels.

    Raises ConnectionLost and StatementRefused.
    """
    words = server.dialect
    return tuple(_status(str(row[words.channel_column]), row) for row in server.rows(words.status))


def _status(channel: str, raw: Mapping[str, Any]) -> ReplicaStatus:
    named = {key.replace("Slave", "Replica").replace("Master", "Source"): value for key, value in raw.items()}

    def error(thread: str) -> ThreadError | None:
        number = int(named[f"Last_{thread}_Errno"])
        return ThreadError(number, str(named[f"Last_{thread}_Error"])) if number else None

    return ReplicaStatus(
        channel,
        str(named["Replica_IO_Running"]),
        named["Replica_SQL_Running"] == "Yes",
        Place(named["Source_Log_File"], int(named["Read_Source_Log_Pos"])),
        Place(named["Relay_Source_Log_File"], int(named["Exec_Source_Log_Pos"])),
        error("IO"),
        error("SQL"),
        str(named.get("Retrieved_Gtid_Set") or named.get("Gtid_IO_Pos") or "").replace("\n", ""),
        raw,
    )


def wait_for_gtids(
    server: SqlServer, gtids: str, timeout: float, *, held: Callable[[], str] = lambda: ""
) -> None:
    """Wait until a replica has applied a GTID set.

    ``held`` returns why the replica's threads are paused on purpose, or an empty text. The threads of a paused replica
    may start again, so that the wait continues to its limit. Raises ReplicaBehind after ``timeout`` seconds, or when a
    thread of the replica has stopped.
    """
    deadline = time.monotonic() + timeout
    stopped_before = False
    while gtids:
        left = max(deadline - time.monotonic(), 0.0)
        try:
            if server.sql(server.dialect.wait(gtids, min(left, _TURN))) == [(0,)]:
                return
            channels = replica_status(server)
        except ServerError as error:
            raise ReplicaBehind(f"{server.name}: cannot be waited for: {error}") from None
        if not channels:
            raise ReplicaBehind(f"{server.name}: is no replica: point it at a source")
        # A thread without an error may be about to start, after a restart of the server or a change of its delay.
        paused = held()
        stopped = not paused and any(status.has_stopped for status in channels)
        has_failed = stopped and (stopped_before or any(status.errors for status in channels))
        stopped_before = stopped
        if has_failed or left == 0.0:
            why = "has stopped before" if has_failed else f"did not reach within {human_seconds(timeout)}"
            # The threads of a paused replica have stopped on purpose.
            states = "".join(
                f"; channel {status.channel!r}: applied up to {status.applied}, {status}"
                for status in channels
                if not paused
            )
            raise ReplicaBehind(
                f"{server.name}: {f'{paused}: ' if paused else ''}{why} {gtids}, and is at "
                f"{server.applied_gtids() or 'no GTID'}{states}"
            )
