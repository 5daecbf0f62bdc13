"""The place of one of a channel's threads: its position with the GTIDs up to there, which a state file follows."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any, Generic, TypeVar

from dumpfilter.slave.state.infos import PlaceInfo

P = TypeVar("P", bound=PlaceInfo)


class Place(Generic[P]):
    """The current position and GTIDs of the I/O thread or of the applier in memory, and the state file to which they
    are saved.

    One thread at a time changes the position. Any thread may read :attr:`info`. ``kind`` is the class of the file's
    content, and ``save_period`` the shortest time between two periodic saves, seconds. The constructor reads the file
    in ``directory``. Raises StateCorrupt for an unusable file.
    """

    def __init__(self, kind: type[P], directory: Path, *, save_period: float) -> None:
        self._kind = kind
        self._file = kind.file(directory)
        self._save_period = save_period
        self._saved_at = time.monotonic()
        self.lock = threading.Lock()
        """The lock under which position and GTIDs change together. It is not held during writes."""
        self.go_back(kind.read(directory))
        self.saved = self.now
        """The content of the file."""

    @property
    def path(self) -> Path:
        """The path of the state file."""
        return self._file.path

    def go_back(self, info: P) -> None:
        """Replace the position and GTIDs in memory by those of ``info``, for example after the relay log was truncated.
        The state file does not change.
        """
        with self.lock:
            self.now = info
            """The present position. Its GTIDs may lack the newest of :attr:`gtids`."""
            self.gtids = info.gtid_set
            """The present GTIDs."""
            self._has_moved = False

    def move(self, **members: Any) -> None:
        """Change fields of the position in memory, given by name. The caller holds :attr:`lock` if it changes
        :attr:`gtids`, too.
        """
        self.now = self.now.model_copy(update=members)
        self._has_moved = True

    @property
    def info(self) -> P:
        """The position and the GTIDs that one thread of the slave has reached, at one moment, from memory.

        They are those of ``master.info`` (received) or of ``relay-log.info`` (applied), and may be newer than the file.
        """
        with self.lock:
            if not self._has_moved:
                return self.now
            return self.now.model_copy(update={self._kind.GTIDS: str(self.gtids)})

    @property
    def is_due(self) -> bool:
        """Whether the position has changed since it was saved, and the last save is at least ``save_period`` seconds
        ago.
        """
        return self.now is not self.saved and time.monotonic() - self._saved_at >= self._save_period

    def save(self, *, synced: bool = True, **members: Any) -> None:
        """Write the position and the GTIDs to the state file. ``members`` are fields to change in memory and in the
        file.

        Raises OutputError, and then neither has changed. With ``synced`` the file is also synced to the disk.
        """
        info = self.info.model_copy(update=members) if members else self.info
        self._file.save(info, synced=synced)
        with self.lock:
            self.saved = self.now = info
            self._has_moved = False
        self._saved_at = time.monotonic()
