"""The master's state directory, which keeps counts, drains and changed filters for the next start of the master.

The directory is the master's own, beside the binlogs and never among them. :mod:`dumpfilter.state_file` describes the
files. A file that cannot be used costs the counts in it, and never the service.
"""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import structlog
from pydantic import Field

from dumpfilter.errors import OptionError, OutputError
from dumpfilter.files import DirectoryLock
from dumpfilter.master.counters import MOST_REMEMBERED, SlaveCounts
from dumpfilter.master.drain import MOST_DRAINS, Drain
from dumpfilter.master.replicas.changes import ChangedFilter
from dumpfilter.printable import printable
from dumpfilter.state_file import Format, State, StateFile

log = structlog.get_logger("dumpfilter.master")

COUNTERS, DRAINS, REPLICA_FILTERS = "slave-counters.json", "drains.json", "replica-filters.json"
LOCK = "master.lock"
"""The names of the files in a state directory."""

FORMAT = Format(2, "state directory", "to start afresh, remove the file")
"""The format of the state files that this release writes and reads."""


class Counters(State):
    """The content of ``slave-counters.json``."""

    slaves: list[SlaveCounts] = Field(default_factory=list)


class SavedDrains(State):
    """The content of ``drains.json``."""

    drains: list[Drain] = Field(default_factory=list)


class SavedFilters(State):
    """The content of ``replica-filters.json``."""

    filters: list[ChangedFilter] = Field(default_factory=list)


S = TypeVar("S", bound=State)


class StateDirectory:
    """The state directory of a running master, which locks it until :meth:`close`.

    Raises OptionError when the directory cannot be made or used, and DirectoryBusy when another master uses it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
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

    def close(self) -> None:
        """Give up the lock on the directory."""
        self._lock.release()

    def load_counters(self) -> list[SlaveCounts]:
        """Return the saved counts of the slaves. Without a usable file there are none."""
        return self._load(COUNTERS, Counters).slaves[:MOST_REMEMBERED]

    def save_counters(self, records: list[SlaveCounts]) -> None:
        """Replace the saved counts of the slaves. Raises OutputError."""
        self._file(COUNTERS, Counters).save(Counters(slaves=records))

    def load_drains(self) -> list[Drain]:
        """Return the saved drains. Without a usable file there are none."""
        return self._load(DRAINS, SavedDrains).drains[:MOST_DRAINS]

    def save_drains(self, drains: list[Drain]) -> None:
        """Replace the saved drains, without the drain of a master that ends. Raises OutputError."""
        kept = [drain for drain in drains if not drain.ends_with_master]
        self._file(DRAINS, SavedDrains).save(SavedDrains(drains=kept))

    def load_replica_filters(self) -> list[ChangedFilter]:
        """Return the saved filters of real replicas that were changed on the console. Without a usable file: none."""
        return self._load(REPLICA_FILTERS, SavedFilters).filters

    def save_replica_filters(self, changed: list[ChangedFilter]) -> None:
        """Replace the saved filters of real replicas that were changed on the console. Raises OutputError."""
        self._file(REPLICA_FILTERS, SavedFilters).save(SavedFilters(filters=changed))

    def _file(self, name: str, model: type[S]) -> StateFile[S]:
        return StateFile(self.path / name, model, FORMAT)

    def _load(self, name: str, model: type[S]) -> S:
        file = self._file(name, model)

        def warn(reason: str, aside: str) -> None:
            log.warning(
                "state file cannot be used",
                file=str(file.path),
                reason=printable(reason),
                hint=f"the master begins without the state in it; the file is kept as {aside}, and a copy of a "
                "whole file can be put back while the master is stopped",
            )

        return file.load_or_set_aside(warn) or model()
