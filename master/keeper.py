"""The keeper of a master's state, which saves counts, drains and changed filters while the master runs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

import structlog

from dumpfilter.errors import OutputError
from dumpfilter.master.counters import CounterBook
from dumpfilter.master.drain import Drains
from dumpfilter.master.state_directory import StateDirectory

if TYPE_CHECKING:
    from dumpfilter.master.replicas.filters import ReplicaFilters

log = structlog.get_logger("dumpfilter.master")

SAVE_SECONDS = 5.0
"""The interval at which changed counts are saved, seconds. A crash loses the counts of this time at most."""


class Keeper:
    """The thread that saves the counts of the slaves every few seconds, if they have changed, and at the end.

    Drains are saved at once, so that a drain that the console has answered holds after a crash. A save that fails is an
    event of the log, once until a save succeeds again.
    """

    def __init__(
        self,
        directory: StateDirectory,
        counters: CounterBook,
        drains: Drains,
        *,
        seconds: float = SAVE_SECONDS,
    ) -> None:
        self._directory = directory
        self._counters = counters
        self._drains = drains
        self._seconds = seconds
        self._saved = counters.generation
        self._saving = threading.Lock()
        self._failing = False
        self._stop = threading.Event()
        drains.on_change.append(self._save_drains)
        self._thread = threading.Thread(target=self._run, name="master-state", daemon=True)
        self._thread.start()

    def keep_filters(self, filters: ReplicaFilters) -> None:
        """Load the filters of real replicas that operators changed, and save them at once after each change.

        A change that the console has answered holds after a crash.
        """
        saved = self._directory.filters
        filters.restore(saved.load())

        def save() -> None:
            self._try(lambda: saved.save(list(filters.changes)))

        filters.on_change.append(save)

    def close(self) -> None:
        """Save what has changed since the last time, end the thread, and give up the directory."""
        self._stop.set()
        self._thread.join()
        self._save_counters()
        self._directory.close()

    def _run(self) -> None:
        while not self._stop.wait(self._seconds):
            self._save_counters()

    def _save_counters(self) -> None:
        generation, saved = self._counters.generation, self._directory.counters
        if generation != self._saved and self._try(lambda: saved.save(self._counters.records())):
            self._saved = generation

    def _save_drains(self) -> None:
        kept = [drain for drain in self._drains.all() if not drain.ends_with_master]
        self._try(lambda: self._directory.drains.save(kept))

    def _try(self, save: Callable[[], None]) -> bool:
        with self._saving:
            try:
                save()
            except OutputError as error:
                if not self._failing:
                    self._failing = True
                    log.error(
                        "state not saved",
                        reason=str(error),
                        hint="the master goes on, and tries again; a restart would lose the counts since the last save",
                    )
                return False
            if self._failing:
                self._failing = False
                log.info("state saved again", directory=str(self._directory.path))
            return True
