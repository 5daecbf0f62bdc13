"""The detection that a binlog set has grown, for all dumps that wait for new events."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

POLL_INTERVAL = 0.02
"""The interval at which the watcher polls the binlog files while a dump waits for new events, seconds."""


class Watcher:
    """Detects that the binlog set has grown, and then calls :attr:`listener`.

    A receiver in this process reports each write, by the function of :meth:`follow_writer`. For a set that another
    process writes, a thread calls ``look`` every 20 ms, and compares the results. ``look`` returns a value that changes
    when the set grows, such as file sizes. Polling works on every file system, unlike inotify. Polling costs two stat
    calls in 20 ms, and nothing while no dump waits.
    """

    def __init__(self, look: Callable[[], object]) -> None:
        self._look = look
        self._changed = threading.Condition()
        self._seen: object = None
        self._is_wanted = False
        self._closed = False
        self._thread: threading.Thread | None = None
        self.is_told = False
        """Whether a writer in this process reports growth, so that no polling is needed."""
        self._listened = 0
        """The value of :attr:`generation` at the last call of the listener."""
        self.file_in_use: Callable[[], str] = lambda: ""
        """The function that returns the name of the file that a writer in this process is writing; empty without such
        a writer.
        """
        self.listener: Callable[[], None] = lambda: None
        self.generation = 0
        """A number that increases whenever the binlog set has grown, before the listener is called."""

    def follow_writer(self, file_in_use: Callable[[], str] = lambda: "") -> Callable[[], None]:
        """Return the function that a writer in this process must call after each write, from any thread.

        ``file_in_use`` names the file that the writer is writing. The writer calls the returned function after the name
        has changed.
        """
        self.file_in_use = file_in_use
        self.is_told = True
        return self._grown

    def note(self) -> None:
        """Record that the binlog set has grown, without a call of the listener. Use this method when the listener
        already knows of the growth.
        """
        with self._changed:
            self.generation += 1
            self._listened = self.generation

    def _grown(self) -> None:
        with self._changed:
            self.generation += 1
            if self.is_told and not self._is_wanted:
                return
            self._listened = self.generation
        self.listener()

    def watch(self, wanted: bool) -> None:
        """Start to watch the binlog set for growth if ``wanted``; otherwise stop. Growth is reported only while the
        watch is started.

        If a writer in this process has reported growth while the watch was stopped, the start reports it.
        """
        if wanted == self._is_wanted:
            return
        with self._changed:
            self._is_wanted = wanted
            is_late = self.is_told and wanted and self._listened != self.generation
            self._listened = self.generation
            if wanted and self._thread is None and not (self._closed or self.is_told):
                self._thread = threading.Thread(target=self._run, name="binlog-watcher", daemon=True)
                self._thread.start()
            self._changed.notify_all()
        if is_late:
            self.listener()

    def close(self) -> None:
        """Stop the thread that polls the binlog set. It does not start again."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._is_wanted or self._closed)
                if self._closed:
                    return
            try:
                seen = self._look()
            except OSError as error:
                # Looking at the files may fail because a file was purged. The waiting dumps then read again, and
                # report the error themselves.
                seen = str(error)
            if seen != self._seen:
                self._seen = seen
                self._grown()
            # The pause after growth lets transactions that are committed together be sent together. A wait for the
            # condition would take twice the processor time.
            time.sleep(POLL_INTERVAL)
