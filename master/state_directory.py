"""The master's state directory. It keeps the slaves' counts, the drains (orders to send slaves away) and the filters
that operators changed, for the next start of the master.

The directory belongs to the master alone, and must not hold the binlogs. :mod:`dumpfilter.base.state_file` describes
the files. If a file is unusable, the master starts without the state in it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

import structlog
from pydantic import Field

from dumpfilter.base.errors import OptionError, OutputError
from dumpfilter.base.files import DirectoryLock
from dumpfilter.base.printable import printable, replace_invalid_utf8
from dumpfilter.base.state_file import Format, State, StateFile
from dumpfilter.master.register import CounterBook, SlaveCounts
from dumpfilter.master.replicas.filters import ChangedFilter
from dumpfilter.master.who import MOST_DRAINS, Drain, Drains

if TYPE_CHECKING:
    from dumpfilter.master.replicas.filters import ReplicaFilters

log = structlog.get_logger("dumpfilter.master")

SAVE_SECONDS = 5.0
"""The interval at which changed counts are saved, seconds. A crash loses at most the counts of this time."""

COUNTERS, DRAINS, REPLICA_FILTERS = "slave-counters.json", "drains.json", "replica-filters.json"
LOCK = "master.lock"
"""The name of the lock file in a state directory."""

FORMAT = Format(2, "state directory", "to start afresh, remove the file")
"""The format of the state files that this release writes and reads."""


T = TypeVar("T")


class Saved(State, Generic[T]):
    """The content of a state file: a list of entries, such as the counts of each slave."""

    entries: list[T] = Field(default_factory=list)


class Kept(Generic[T]):
    """One state file of a master. The file holds a list, which is loaded at the master's start and replaced when the
    list has changed.

    ``model`` is the class that checks the file's content. ``most`` is the largest number of entries that are loaded;
    None for no limit.
    """

    def __init__(self, path: Path, model: type[Saved[T]], most: int | None = None) -> None:
        self._file = StateFile(path, model, FORMAT)
        self._model = model
        self._most = most

    def load(self) -> list[T]:
        """Return the saved entries. Return an empty list if the file is missing or unusable; an unusable file is
        renamed, and a warning is logged.
        """
        found = self._file.load_or_set_aside(self._warn) or self._model()
        return found.entries[: self._most]

    def save(self, entries: list[T]) -> None:
        """Replace the saved entries. Raises OutputError when the file cannot be written."""
        self._file.save(self._model(entries=entries))

    def _warn(self, reason: str, aside: str) -> None:
        log.warning(
            "state file cannot be used",
            file=str(self._file.path),
            reason=printable(reason),
            hint=f"the master begins without the state in it; the file is kept as {aside}, and a copy of a whole file "
            "can be put back while the master is stopped",
        )


class StateDirectory:
    """The state directory of a running master, which locks it until :meth:`close`.

    From :meth:`keep` on, a thread saves the counts of the slaves every few seconds, if they have changed, and at the
    end. Drains (the operator's orders to send slaves away) and filters are saved at once. A change that the console has
    confirmed therefore survives a crash. A save that fails is logged once, until a save succeeds again.

    Raises OptionError when the directory cannot be made or used, and DirectoryBusy when another master uses it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.counters = Kept(path / COUNTERS, Saved[SlaveCounts], CounterBook.most)
        self.drains = Kept(path / DRAINS, Saved[Drain], MOST_DRAINS + 1)
        self.filters = Kept(path / REPLICA_FILTERS, Saved[ChangedFilter])
        """The filters of real replicas that operators changed on the console."""
        self._saving = threading.Lock()
        self._failing = False
        self._stop = threading.Event()
        self._end: Callable[[], object] = lambda: None
        try:
            path.mkdir(mode=0o750, parents=True, exist_ok=True)
            self._lock = DirectoryLock(
                path / LOCK,
                f"--state-dir={path}: another master keeps its state here; stop that process, or give this master a "
                "state directory of its own",
            )
        except (OSError, OutputError) as error:
            cause = error if isinstance(error, OSError) else error.__cause__
            raise OptionError(
                f"--state-dir={path}: cannot be used: {getattr(cause, 'strerror', error)}; name a directory that this "
                "user may write to"
            ) from None

    def keep(self, counters: CounterBook, drains: Drains, *, seconds: float = SAVE_SECONDS) -> None:
        """Begin to save state of the master. The slaves' counts are saved every ``seconds`` if they have changed, and
        the drains (the operator's orders to send slaves away) after each change.
        """

        def run() -> None:
            saved, is_last = counters.generation, False
            while not is_last:
                is_last = self._stop.wait(seconds)
                generation = counters.generation
                if generation != saved and self._try(self.counters, map(_storable, counters.records())):
                    saved = generation

        drains.on_change.append(
            lambda: self._try(self.drains, (one for one in drains.all() if not one.ends_with_master))
        )
        thread = threading.Thread(target=run, name="master-state", daemon=True)
        thread.start()
        self._end = thread.join

    def keep_filters(self, filters: ReplicaFilters) -> None:
        """Load the saved filters of real replicas into ``filters``, and save the changed filters after each later
        change.
        """
        filters.restore(self.filters.load())
        filters.on_change.append(lambda: self._try(self.filters, filters.changes))

    def close(self) -> None:
        """Save the state that has changed since the last save, stop the saving thread, and release the lock on the
        directory.
        """
        self._stop.set()
        self._end()
        self._lock.release()

    def _try(self, kept: Kept[T], entries: Iterable[T]) -> bool:
        """Save the entries of one state file, and return whether that succeeded. Log the first failure."""
        with self._saving:
            try:
                kept.save(list(entries))
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
                log.info("state saved again", directory=str(self.path))
            return True


def _storable(record: SlaveCounts) -> SlaveCounts:
    """Return the counts as a state file can hold them: the name of a binlog file may have bytes that are not UTF-8."""
    return replace(record, file=replace_invalid_utf8(record.file))
