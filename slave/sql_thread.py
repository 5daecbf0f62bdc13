"""The SQL thread: lets the applier follow the relay log, and keeps ``relay-log.info``."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from dumpfilter.binlog.format import Family
from dumpfilter.binlog.gtid import GtidSet, parse_gtid_set
from dumpfilter.binlog.reader import iter_events
from dumpfilter.filter import ReplicationFilter
from slave.applier import EventApplier
from slave.errors import AFRESH, StateCorrupt, StreamError
from slave.master_info import MasterInfo
from slave.relay_end import RelayEnd
from slave.relay_log import RelayPosition, file_number, read_index
from slave.relay_log_info import RelayLogInfo, RelayLogInfoFile

if TYPE_CHECKING:
    from slave.targets import Target

SAVE_PERIOD = 1.0
"""How often ``relay-log.info`` is replaced at most, seconds."""

_READ_BUFFER = 1 << 18


def _order(position: RelayPosition | None) -> tuple[int, int]:
    return (file_number(position.file), position.offset) if position else (0, 0)


class SqlThread:
    """Applies the relay log up to its recorded end. :meth:`run` blocks; :meth:`stop` is for other threads.

    ``make_filter`` makes the slave's own filter for the family of the master's binlogs. The target's state is
    restored when the object is made.
    """

    def __init__(
        self,
        directory: Path,
        relay_end: RelayEnd,
        target: Target,
        make_filter: Callable[[Family], ReplicationFilter],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._directory = directory
        self._relay_end = relay_end
        self._target = target
        self._make_filter = make_filter
        self._clock = clock
        self._file = RelayLogInfoFile(directory)
        self._stop = threading.Event()
        self._info = self._file.load()
        self._saved_at = clock()
        self._here: dict[str, str | int] = {}  # how much further the applier is than that
        self._applier: EventApplier | None = None
        self._executed: GtidSet = parse_gtid_set("")
        if _order(self._info.relay_position) > _order(relay_end.info.relay_position):
            raise StateCorrupt(
                f"{self._file.path}: is ahead of the relay log, which was complete up to "
                f"{relay_end.info.relay_position}; {AFRESH}"
            )
        if self._info.relay_file:
            try:
                target.restore(self._info.target)
            except (ValueError, TypeError, KeyError) as error:
                raise StateCorrupt(
                    f"{self._file.path}: holds no state of this target ({error}); {AFRESH}"
                ) from error

    @property
    def info(self) -> RelayLogInfo:
        """How far the applier is; what the target's state was when it was last saved."""
        return self._info.model_copy(update=self._here) if self._here else self._info

    def stop(self) -> None:
        """End :meth:`run` after the transaction that is being applied."""
        self._stop.set()

    def run(self) -> None:
        """Apply until :meth:`stop`, or until the relay log's end when nothing more will come."""
        seen: MasterInfo | None = None
        last = False
        while not self._stop.is_set() and not (last and self._relay_end.info is seen):
            newest, last = self._relay_end.wait_beyond(seen, SAVE_PERIOD / 4)
            if newest is not seen:
                self._apply_up_to(newest)
                seen = newest
            self._save_if_due()
        self._save()

    def _apply_up_to(self, newest: MasterInfo) -> None:
        end = newest.relay_position
        if end is None or newest.family == "":
            return
        if self._applier is None:
            self._executed = parse_gtid_set(self._info.executed, newest.family)
            self._applier = EventApplier(
                self._make_filter(newest.family), self._target, on_complete=self._executed.add
            )
        here = self.info.relay_position
        files = read_index(self._directory)
        first = files.index(here.file) if here is not None else 0
        for name in files[first : files.index(end.file) + 1]:
            start = here.offset if here is not None and here.file == name else 4
            path = self._directory / name
            if not self._apply_file(path, start, end.offset if name == end.file else path.stat().st_size):
                return
        self._executed.update(parse_gtid_set(newest.retrieved, newest.family))
        self._here = {
            "relay_file": end.file,
            "relay_offset": end.offset,
            "source_file": newest.source_file,
            "source_position": newest.source_position,
        }

    def _apply_file(self, path: Path, start: int, end: int) -> bool:
        """Apply a part of one relay log. False when :meth:`stop` cut it short."""
        applier = self._applier
        assert applier is not None
        with path.open("rb", buffering=_READ_BUFFER) as source:
            for event in iter_events(source, file=str(path), start=start, end=end):
                applier.feed(event, file=str(path))
                if applier.inside:
                    continue
                # the state is made of this when it is saved: thousands of transactions go by between
                self._here = {
                    "relay_file": path.name,
                    "relay_offset": event.offset + len(event.raw),
                    "source_file": applier.source_file,
                    "source_position": event.header.end_log_pos or self._source_position(),
                }
                self._save_if_due()
                if self._stop.is_set():
                    return False
        if applier.inside:
            raise StreamError(f"{path}: the resume point {end} lies inside a transaction")
        return True

    def _source_position(self) -> str | int:
        """For events that the master's file does not have, such as the artificial Rotate."""
        return self._here.get("source_position", self._info.source_position)

    def _save_if_due(self) -> None:
        if self._here and self._clock() - self._saved_at >= SAVE_PERIOD:
            self._save()

    def _save(self) -> None:
        """Between two transactions only: the target's state belongs to the position."""
        if not self._here:
            return
        more = {"executed": str(self._executed), "target": self._target.state()}
        self._info = self._info.model_copy(update={**self._here, **more})
        self._here = {}
        self._file.save(self._info)
        self._saved_at = self._clock()
