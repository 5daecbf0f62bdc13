"""The thread of a master that receives the binlog of a running server (the source) into a directory (the store).

An error of the source never ends the master. The master continues to serve the files in the store, and the thread tries
again.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import wait
from dataclasses import dataclass
from pathlib import Path

from dumpfilter.base.errors import (
    BinlogError,
    DumpfilterError,
    SourcePurged,
    SourceReplaced,
    SourceStreamDamaged,
)
from dumpfilter.base.logs import logger
from dumpfilter.base.printable import printable
from dumpfilter.binlog.gtid import MariadbGtid, MariadbGtidSet, MysqlGtidSet
from dumpfilter.master.store import Logged
from dumpfilter.receiver.login import SourceConnection, SourceFacts, ask_facts
from dumpfilter.receiver.reception import Follower, FollowOptions
from dumpfilter.receiver.store import BinlogDirectory, Sync
from dumpfilter.receiver.url import SourceUrl

log = logger("dumpfilter.master")

_RETRY_SECONDS = 30.0
"""The wait after an error that does not disappear by itself, such as a wrong password, seconds."""

_LONGEST_WAIT = 15.0
"""The longest wait between two attempts to reconnect to a lost source, seconds."""

_ENDED = (SourceReplaced, SourcePurged)
"""The errors after which the source (the followed server) can never send the events that follow those in the store,
the directory of received files.
"""

_BETWEEN_TURNS = 0.002
"""The shortest time between two iterations of the asyncio loop that receive events, seconds. Commits that come faster
are received, stored and sent together.
"""

_BETWEEN_IDLE_TURNS = 0.02
"""The shortest time between two iterations of the asyncio loop that receive events while no dump runs, seconds. Nobody
waits for the commits then.
"""

_TICK_SECONDS = 1.0
"""The interval at which the asyncio loop checks whether the source is silent, and syncs received events to the disk,
seconds.
"""

_END_SECONDS = 20.0
"""The longest wait for the end of the receiving thread, seconds. A login in progress may take half of this time."""


@dataclass(frozen=True)
class FollowedSource:
    """The running server whose binlog a master receives and serves, and the directory for the received binlog files."""

    url: SourceUrl
    directory: Path
    sync: Sync = Sync.INTERVAL
    keeps_waiting: bool = False
    """Whether slaves and replicas wait at the end of the received files if the server can never send the events that
    follow. Otherwise their dumps end there with an error.
    """


class SourceEnded(BinlogError):
    """The error for a received binlog that will never grow again. The server that wrote it has begun new binlogs, or
    has purged files that the master has not received.
    """


class LoopTurns:
    """The reception of the binlog of a running server (the source) in the asyncio loop that also runs the dumps. The
    receiving thread uses this object while few events arrive.

    A commit is then received, stored and sent to slaves in one iteration (turn) of the loop, without another thread.

    Parameters:
        loop: the loop.
        received: a function that is called in the loop after whole events were stored. Its arguments are the binlog
            file, the byte offset in the file, and the bytes of the events.
        has_dumps: a function that tells whether dumps run.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        received: Callable[[str, int, bytes], None],
        has_dumps: Callable[[], bool],
    ) -> None:
        self._loop = loop
        self._has_dumps = has_dumps
        self._is_closed = False
        self._ended = loop.create_future()
        """The future that, once it has a result, ends the reception of events in the asyncio loop."""
        self.received = received

    def run(self, stream: socket.socket, turn: Callable[[], int | None], tick: Callable[[], None]) -> None:
        """Receive events from the source (the running server) in the asyncio loop, until ``turn`` returns None or the
        loop ends. The calling thread waits.

        ``stream`` is the connection to the source. The loop calls ``turn`` when the connection has data, and in short
        intervals while events arrive fast. ``turn`` receives and stores events, and returns the number of bytes read.
        The loop calls ``tick`` every second. The method raises the errors of both functions.
        """
        receiving = self._receive(stream, turn, tick)
        try:
            running = asyncio.run_coroutine_threadsafe(receiving, self._loop)
        except RuntimeError:
            # The loop has ended.
            receiving.close()
            return
        while not wait([running], _TICK_SECONDS).done:
            if self._loop.is_closed():
                return
        running.result()

    async def _receive(
        self, stream: socket.socket, turn: Callable[[], int | None], tick: Callable[[], None]
    ) -> None:
        if self._is_closed:
            return
        ended = self._ended = self._loop.create_future()
        earliest, is_watched, in_row = 0.0, True, 0

        def take_turn() -> None:
            nonlocal earliest, is_watched, in_row
            # The loop may call the function once more after the end.
            if ended.done():
                return
            now = self._loop.time()
            if is_watched and now < earliest:
                # A turn costs nearly the same for one commit as for several.
                self._loop.remove_reader(stream)
                is_watched = False
                self._loop.call_at(earliest, take_turn)
                return
            earliest = now + (_BETWEEN_TURNS if self._has_dumps() else _BETWEEN_IDLE_TURNS)
            in_row = 0 if is_watched else in_row + 1
            try:
                got = turn()
            except Exception as error:
                # The receiving thread raises the error.
                ended.set_exception(error)
                return
            if got is None:
                ended.set_result(None)
            elif in_row > 1 and got:
                # While commits come fast, a timer alone begins the turns. To watch the socket between two turns would
                # wake the process twice for each.
                self._loop.call_at(earliest, take_turn)
            elif not is_watched:
                self._loop.add_reader(stream, take_turn)
                is_watched = True

        self._loop.add_reader(stream, take_turn)
        try:
            while not (await asyncio.wait([ended], timeout=_TICK_SECONDS))[0]:
                tick()
            ended.result()
        finally:
            # Otherwise a delayed turn would use the connection and the store after an error of ``tick``.
            ended.cancel()
            self._loop.remove_reader(stream)

    def close(self) -> None:
        """End the reception of the binlog in the asyncio loop, because the loop ends. The receiving thread, which has
        waited, then reads from the source (the running server) without the loop. Must be called in the loop.
        """
        self._is_closed = True
        if not self._ended.done():
            self._ended.set_result(None)


class SourceThread(Follower):
    """The thread that receives the binlog of a running server and stores it in a directory, which the master serves.
    The constructor starts the thread, and raises DumpfilterError for a directory that cannot be used.
    """

    def __init__(self, source: FollowedSource, *, retry_seconds: float = _RETRY_SECONDS) -> None:
        store = BinlogDirectory(source.directory, sync=source.sync)
        # No dump may read the torn tail that a crash has left. The thread itself reports a file that cannot be read.
        with contextlib.suppress(DumpfilterError):
            store.resume()
            store.close_file(synced=False)
        self._has_files = threading.Event()
        self.on_written: Callable[[], None] = lambda: None
        """The function that the thread calls after it has written events to the store (directory of received files)."""
        self._is_new = not store.names
        self._retry_seconds = retry_seconds
        self._keeps_waiting = source.keeps_waiting
        self.on_ended: Callable[[], None] = lambda: None
        """The function that is called when the server can never send the next events, so that waiting dumps end with
        the error of :meth:`ended`.
        """
        options = FollowOptions(
            stop_never=True, retries=0, wait_for_first=not self._is_new, longest_wait=_LONGEST_WAIT
        )
        super().__init__(source.url, store, options, on_progress=self._tell)
        self._thread = threading.Thread(target=self._run, name="source", daemon=True)
        self._thread.start()

    def _tell(self) -> None:
        if not self._has_files.is_set():
            self._has_files.set()
        self.on_written()

    @property
    def state(self) -> str:
        """The state of the reception from the source: ``receiving``, ``connecting``, or ``failed`` after an error that
        retries do not remove.
        """
        if self.is_connected:
            return "receiving"
        return "connecting" if self.error is None else "failed"

    def ended(self) -> SourceEnded | None:
        """Return the error with which dumps end at the end of the received binlog, because the source (the followed
        server) can never continue there. Return None if the source can continue. Also return None if slaves and
        replicas shall wait there in any case (``FollowedSource.keeps_waiting``).
        """
        if self._keeps_waiting or not isinstance(self.error, _ENDED):
            return None
        return SourceEnded(
            f"the source of this master cannot go on after this place: {self.error}. Set this slave up again from a "
            "backup of the source, and the master with an empty --store"
        )

    def ask_logged(self) -> Logged:
        """Ask the source (the followed server) for the GTIDs that it has logged, over a separate connection. Raises
        DumpfilterError when the source cannot be asked.
        """
        connection = SourceConnection(self.url)
        try:
            facts, known = ask_facts(connection), self.store.source
            if known is not None:
                known.check_is(facts.family, facts.server_uuid, str(self.url), self.store.directory)
            return _ask_logged(connection, facts)
        finally:
            connection.close()

    def wait_for_files(self) -> None:
        """Wait until the store (the directory of received binlog files) has a file to serve. If an error leaves the
        store empty, raise this error.
        """
        if not self._is_new:
            return
        self._has_files.wait()
        if self.error is not None and not self.store.names:
            raise self.error

    def _run(self) -> None:
        try:
            with contextlib.suppress(DumpfilterError):
                self.run()
        finally:
            self._has_files.set()
            self.store.close()

    def _receive(self) -> None:
        try:
            super()._receive()
        except DumpfilterError:
            raise
        except Exception as error:
            log.error("unforeseen error", exc_info=error)
            raise DumpfilterError(f"unforeseen error: {type(error).__name__}: {error}") from None

    def lasting(self, error: DumpfilterError) -> float:
        """Log an error of the source (the followed server) that retries alone do not remove. Return the seconds until
        the next attempt. Raise the error if the store (the directory of received files) is still empty, because the
        master then has nothing to serve.
        """
        said, self.error = str(self.error), error
        if self._is_new and not self._has_files.is_set():
            # The process ends with the error, and prints it.
            raise error
        if str(error) != said:
            log.error(
                "source failed",
                source=str(self.url),
                error=printable(str(error), 500),
                hint="the master goes on to serve what the store has, and tries the source again",
            )
        if self.ended() is not None:
            self.on_ended()
        self._has_files.set()
        return self._retry_seconds

    def close(self) -> None:
        """End the reception and the thread. At its end the thread closes the store (the directory of received
        files).
        """
        self.stop()
        self._thread.join(_END_SECONDS)


def _ask_logged(connection: SourceConnection, facts: SourceFacts) -> Logged:
    end = facts.logs[-1] if facts.logs else None
    if facts.family == "mysql":
        return Logged(MysqlGtidSet.parse(_value(connection, "gtid_executed")), end=end)
    state, position = (
        [MariadbGtid.parse(each) for each in _value(connection, name).split(",") if each]
        for name in ("gtid_binlog_state", "gtid_slave_pos")
    )
    logged = Logged(MariadbGtidSet(), slave_position=frozenset(position), end=end)
    logged.list(state)
    return logged


def _value(connection: SourceConnection, variable: str) -> str:
    rows = connection.ask(f"SELECT @@GLOBAL.{variable}")
    if len(rows) != 1 or len(rows[0]) != 1:
        raise SourceStreamDamaged(f"{connection.url}: {variable}: the source answered {len(rows)} rows")
    return str(rows[0][0] or "")


@contextlib.contextmanager
def following(source: FollowedSource) -> Iterator[SourceThread]:
    """Receive the binlog of a running server while the ``with`` block runs, and yield the thread that does so. The
    block begins when the store (the directory of received files) has a file. Raises DumpfilterError when an empty store
    cannot be filled.
    """
    thread = SourceThread(source)
    try:
        thread.wait_for_files()
        yield thread
    finally:
        thread.close()
