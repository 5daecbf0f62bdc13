"""The expiry of a received binlog set. Old files are removed by age and by total size, unless a known slave still needs
them.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime

import structlog

from dumpfilter.base.errors import BinlogError
from dumpfilter.base.printable import printable
from dumpfilter.console.sql.server_errors import SqlError
from dumpfilter.master.known_slaves import KnownSlave, Presence
from dumpfilter.master.purge import purge
from dumpfilter.master.service import DumpFilterService

log = structlog.get_logger("dumpfilter.master")

_LOOK_SECONDS = 60.0
"""The interval between two checks for expired files, seconds."""
_WARN_SECONDS = 24 * 3600.0
"""The interval at which the warning about a slave that keeps files from expiry is repeated, seconds."""


@dataclass(frozen=True)
class Expiry:
    """The limits of a store (received binlog set) above which old files are removed. None stands for no limit."""

    seconds: float | None = None
    """The age of a file's last write from which on the file may be removed, seconds."""
    nbytes: int | None = None
    """The total size of all files above which the oldest may be removed, bytes."""

    @property
    def is_on(self) -> bool:
        return self.seconds is not None or self.nbytes is not None


class StoreExpiry:
    """Removes the files of a store (received binlog set) that are beyond the limits ``bounds``. One thread calls
    :meth:`run` regularly.

    A file stays while a slave needs it. Slaves count that are connected, or that were last seen within the time of
    ``--keep-slaves``. Once a day the log warns of a slave that keeps files from expiry.
    """

    def __init__(self, service: DumpFilterService, bounds: Expiry) -> None:
        self._service = service
        self._bounds = bounds
        self._looked_at = 0.0
        self._warned_at: dict[tuple[str, str, int | str], float] = {}
        """The time of the last warning about each slave that keeps files from expiry, by the slave's identity."""
        self._failed = ""

    def run(self) -> list[str]:
        """Remove expired files if the last check is at least a minute ago. Return the names of the removed files."""
        if not self._bounds.is_on or time.monotonic() - self._looked_at < _LOOK_SECONDS:
            return []
        self._looked_at = time.monotonic()
        return self.look()

    def look(self) -> list[str]:
        """Remove the expired files that no slave needs, and return their names. Errors are logged, and the returned
        list is then empty.
        """
        binlogs = self._service.store.binlogs
        try:
            binlogs.refresh()
            names = list(binlogs.names)
            wanted = self._beyond(names)
            kept, holders = self._held(names, wanted)
            self._warn(names[kept:wanted], holders)
            if not kept:
                return []
            gone, _ = purge(binlogs, to=names[kept], is_own=True)
        except (OSError, BinlogError, SqlError) as error:
            if str(error) != self._failed:
                self._failed = str(error)
                log.error(
                    "store not expired",
                    reason=printable(str(error)),
                    hint="the master goes on, and tries again each minute",
                )
            return []
        self._failed = ""
        self._service.store.forget_files(gone)
        log.info("store expired", first=gone[0], last=gone[-1], files=len(gone))
        return gone

    def _beyond(self, names: list[str]) -> int:
        """Return how many of the oldest files are beyond a limit on age or size. ``names`` are all files, oldest first.
        The newest file never counts.
        """
        found = [self._service.store.binlogs.path(name).stat() for name in names]
        total = sum(file.st_size for file in found)
        oldest = time.time() - (self._bounds.seconds or 0.0)
        for number, file in enumerate(found[:-1]):
            is_old = self._bounds.seconds is not None and file.st_mtime < oldest
            is_too_much = self._bounds.nbytes is not None and total > self._bounds.nbytes
            if not is_old and not is_too_much:
                return number
            total -= file.st_size
        return len(names) - 1

    def _held(self, names: list[str], wanted: int) -> tuple[int, list[KnownSlave]]:
        """Return how many of the ``wanted`` oldest files no slave needs, and the slaves that need one of the ``wanted``
        files.
        """
        places = {name: number for number, name in enumerate(names)}
        oldest = time.time() - self._service.known_slaves.keep_seconds
        holders = [
            slave
            for slave in self._service.known_slaves.all()
            if slave.presence is not Presence.FINISHED
            and places.get(slave.file, wanted) < wanted
            and (slave.presence is Presence.CONNECTED or slave.last_seen_at > oldest)
        ]
        return min((places[slave.file] for slave in holders), default=wanted), holders

    def _warn(self, files: list[str], holders: list[KnownSlave]) -> None:
        now = time.monotonic()
        self._warned_at = {
            slave.identity: self._warned_at[slave.identity]
            for slave in holders
            if slave.identity in self._warned_at
        }
        for slave in holders:
            if now - self._warned_at.get(slave.identity, -_WARN_SECONDS) < _WARN_SECONDS:
                continue
            self._warned_at[slave.identity] = now
            log.warning(
                "store not expired because of a slave",
                **slave.as_peer.fields,
                state=slave.presence.value,
                file=printable(slave.file),
                held_files=len(files),
                **self._end_of_keeping(slave),
            )

    def _end_of_keeping(self, slave: KnownSlave) -> dict[str, str]:
        if slave.presence is Presence.CONNECTED or not slave.last_seen_at:
            return {"hint": "the slave is behind; the files go once it has got past them"}
        end = datetime.fromtimestamp(slave.last_seen_at + self._service.known_slaves.keep_seconds, UTC)
        return {
            "until": end.isoformat(timespec="seconds"),
            "hint": "then the files go, and the slave cannot go on; start it, raise --keep-slaves, or say UNREGISTER "
            "REPLICA",
        }
