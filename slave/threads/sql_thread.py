"""The SQL thread: it lets the applier follow the relay log, and it writes ``relay-log.info``."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from dumpfilter.binlog.events import LOG_EVENT_ARTIFICIAL_F, EventType
from dumpfilter.binlog.format import NameCollation, NameRules
from dumpfilter.binlog.gtid import GtidSet, parse_gtid_set
from dumpfilter.binlog.reader import Event, iter_events
from dumpfilter.errors import StateCorrupt, StreamError
from dumpfilter.filter import ReplicationFilter
from dumpfilter.filter.origin import OriginFilter
from dumpfilter.slave.state import AFRESH
from dumpfilter.slave.state.master_info import MasterInfo
from dumpfilter.slave.state.relay_log import RelayPosition, file_number, read_index
from dumpfilter.slave.state.relay_log_info import RelayLogInfo, RelayLogInfoFile
from dumpfilter.slave.threads.applier import EventApplier
from dumpfilter.slave.threads.gtids import gtids_between, up_to
from dumpfilter.slave.threads.relay_end import Hits, RecordedState, RelayEnd
from dumpfilter.slave.threads.until import Ahead, Until

if TYPE_CHECKING:
    from dumpfilter.slave.targets import Target

SAVE_PERIOD = 1.0
"""The shortest time between two writes of ``relay-log.info`` while the applier works, seconds."""

_READ_BUFFER = 1 << 18


def _order(position: RelayPosition | None) -> tuple[int, int]:
    """Return a sort key. The beginning of the relay log, None, comes first."""
    return (file_number(position.file), position.offset) if position else (0, 0)


class SqlThread:
    """The thread that applies the relay log from one recorded state to the next.

    :meth:`run` blocks and may be called once. Any thread may call :meth:`stop`. The constructor restores the
    target's state from ``relay-log.info``.

    ``make_filter`` makes the slave's own filter for the family and the collation for names of the master's
    binlogs. ``on_hits`` receives the hits since its last call, both the applier's and the master's.

    Raises StateCorrupt when ``relay-log.info`` does not fit the relay log or the target.
    """

    def __init__(
        self,
        directory: Path,
        relay_end: RelayEnd,
        target: Target,
        make_filter: Callable[[NameRules], ReplicationFilter],
        *,
        origin: OriginFilter | None = None,
        on_hits: Callable[[Hits], None] = lambda hits: None,
        until: Until | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._directory = directory
        self._relay_end = relay_end
        self._target = target
        self._make_filter = make_filter
        self._origin = origin
        self._on_hits = on_hits
        self._until = until
        self._clock = clock
        self._file = RelayLogInfoFile(directory)
        self._stop = threading.Event()
        self._info = self._file.load()
        self._saved_at = clock()
        # The members of RelayLogInfo that have changed since the file was saved.
        self._unsaved: dict[str, str | int] = {}
        self._applier: EventApplier | None = None
        self._executed: GtidSet = parse_gtid_set("")
        self._passed_over: GtidSet = parse_gtid_set("")
        self._filter_is_old = False
        if _order(self._info.relay_position) > _order(relay_end.info.relay_position):
            raise StateCorrupt(
                f"{self._file.path}: is ahead of the relay log, which is complete up to "
                f"{relay_end.info.relay_position}; {AFRESH}"
            )
        if self._info.target:
            try:
                target.restore(self._info.target)
            except (ValueError, TypeError, KeyError) as error:
                raise StateCorrupt(
                    f"{self._file.path}: holds no state that this target can restore ({error}); {AFRESH}"
                ) from error

    @property
    def info(self) -> RelayLogInfo:
        """The applier's position. The member ``target`` holds the target's state at the newest save."""
        return self._info.model_copy(update=self._unsaved) if self._unsaved else self._info

    @property
    def reached(self) -> MasterInfo:
        """The resume point at the applier's saved position, from which the master may send again with another
        filter.

        ``master.info`` would hold this resume point if the slave had received nothing beyond the applier's
        position. The thread must not be running.
        """
        here = self._info  # the saved position, because after an error the next thread begins there
        position = here.relay_position
        next_state, _ = self._relay_end.wait(0)
        later = self._relay_end.info if next_state is None else next_state.info
        if position is None:
            return MasterInfo(family=later.family, retrieved=here.executed)
        for state in (self._relay_end.newest_reached, later):
            if state is not None and (position, here.source_position) == (
                state.relay_position,
                state.source_position,
            ):
                return state
        at = {"source_file": here.source_file, "source_position": here.source_position}
        at |= {"relay_file": position.file, "relay_offset": position.offset}
        is_new = self._relay_end.newest_reached is not None and not here.master_uuid
        if later.relay_file != position.file and later.master_uuid != here.master_uuid and not is_new:
            # The slave changed masters in between, and the file may belong to either master.
            at["master_uuid"] = ""
        # The position lies between two recorded states. The relay log has the GTIDs that were applied up to there, but
        # not the GTIDs that the master dropped up to there. GTIDs below the highest applied GTID of the same server
        # UUID or domain were dropped before this position, because they come in the order of their numbers.
        family = later.family or None
        executed = parse_gtid_set(here.executed, family)
        retrieved = parse_gtid_set(later.retrieved, family) & up_to(executed)
        retrieved -= parse_gtid_set(here.passed_over, family)
        if position != later.relay_position and later.relay_position is not None:
            retrieved -= gtids_between(self._directory, position, later.relay_position, family)
        return later.model_copy(update={**at, "retrieved": str(retrieved | executed)})

    def follow_filter(self) -> None:
        """Make a new filter with ``make_filter`` at the next recorded state."""
        self._filter_is_old = True

    def stop(self) -> None:
        """Make :meth:`run` end after the current transaction, or at the next recorded state.

        The thread continues to the next recorded state if the master counted hits up to there. Only at the recorded
        state are the position and the hits of dropped transactions known together.
        """
        self._stop.set()
        self._relay_end.wake()

    def run(self) -> None:
        """Apply until :meth:`stop`, until the condition ``until``, or until the end of a relay log that will
        not grow."""
        self._relay_end.begin()
        self._executed = parse_gtid_set(self._info.executed, self._relay_end.info.family or None)
        try:
            while not self._stop.is_set() and not self._is_met():
                state, last = self._relay_end.wait(SAVE_PERIOD / 4)
                if state is not None:
                    if not self._apply_up_to(state):
                        break
                elif last:
                    break
                else:
                    self._save()  # the applier has caught up, and SHOW REPLICA STATUS has to show that
                self._save_if_due()
        except BaseException:
            self._report_hits()
            # The next thread begins at the saved position, and the target must be there, too.
            self._unsaved = {}
            self._target.restore(self._info.target)
            raise
        self._save()

    def _apply_up_to(self, state: RecordedState) -> bool:
        """Apply the relay log up to a recorded state. Return False when this thread has to end there or
        earlier."""
        newest = state.info
        end = newest.relay_position
        if end is None or newest.family == "":
            self._relay_end.reached(state)
            return True
        if self._applier is None or self._filter_is_old:
            self._filter_is_old = False
            self._report_hits()
            if self._applier is None:
                self._executed = parse_gtid_set(self._info.executed, newest.family)
                self._passed_over = parse_gtid_set(self._info.passed_over, newest.family)
            self._applier = EventApplier(
                self._make_filter(
                    NameRules(newest.family, newest.name_collation or NameCollation.GENERAL_CI)
                ),
                self._target,
                origin=self._origin,
                on_complete=self._executed.add,
                on_passed_over=self._passed_over.add,
            )
            self._applier.source_file = str(self._unsaved.get("source_file", self._info.source_file))
        retrieved = parse_gtid_set(newest.retrieved, newest.family)
        here = self.info.relay_position
        if _order(here) < _order(end):
            files = read_index(self._directory)
            first = files.index(here.file) if here is not None else 0
            for name in files[first : files.index(end.file) + 1]:
                start = here.offset if here is not None and here.file == name else 4
                path = self._directory / name
                stop_at = end.offset if name == end.file else path.stat().st_size
                if not self._apply_file(path, start, stop_at, retrieved, prompt=not state.hits):
                    return False
        self._executed.update(retrieved - self._passed_over)
        self._unsaved = {
            "relay_file": end.file,
            "relay_offset": end.offset,
            "source_file": newest.source_file,
            "source_position": newest.source_position,
            "master_uuid": newest.master_uuid,
        }
        self._relay_end.reached(state)
        if state.hits:
            self._on_hits(state.hits)
        self._report_hits()
        return not self._is_met()

    def _apply_file(self, path: Path, start: int, end: int, retrieved: GtidSet, *, prompt: bool) -> bool:
        """Apply a part of one relay log. Return False when this thread has to end.

        ``retrieved`` are the GTIDs up to the next recorded state. With ``prompt`` the thread ends at the
        first boundary after :meth:`stop`; without, it continues to the recorded state.
        """
        applier = self._applier
        assert applier is not None
        with path.open("rb", buffering=_READ_BUFFER) as file:
            for event in iter_events(file, file=str(path), start=start, end=end):
                if (
                    self._until is not None
                    and not applier.inside
                    and self._is_passed_by(event, path, retrieved)
                ):
                    return False
                applier.feed(event, file=str(path))
                if applier.inside or event.type == EventType.FORMAT_DESCRIPTION:
                    continue  # the head of a relay log ends with the Rotate event after the format description event
                # Thousands of transactions pass between two saves, and a RelayLogInfo for each would cost time.
                self._unsaved = {
                    **self._unsaved,
                    "relay_file": path.name,
                    "relay_offset": event.offset + len(event.raw),
                    "source_file": applier.source_file,
                    "source_position": self._source_position(event, applier),
                }
                self._save_if_due()
                if self._stop.is_set() and prompt:
                    return False
                if self._is_met():
                    return False
        if applier.inside:
            raise StreamError(f"{path}: the resume point {end} lies inside a transaction")
        return True

    def _is_met(self) -> bool:
        return self._until is not None and self._until.met(self.info, self._executed)

    def _is_passed_by(self, event: Event, path: Path, retrieved: GtidSet) -> bool:
        assert self._until is not None
        assert self._applier is not None
        ahead = Ahead(event, path.name, self._applier.source_file, retrieved, self._executed)
        return self._until.passed_by(ahead)

    def _source_position(self, event: Event, applier: EventApplier) -> str | int:
        """Return the position in the master's file after an event that ends a transaction."""
        if event.type == EventType.ROTATE and event.header.flags & LOG_EVENT_ARTIFICIAL_F:
            return applier.source_begin
        return event.header.end_log_pos or self._unsaved.get("source_position", self._info.source_position)

    def _report_hits(self) -> None:
        if self._applier is not None and self._applier.hits:
            self._on_hits(self._applier.take_hits())

    def _save_if_due(self) -> None:
        if self._unsaved and self._clock() - self._saved_at >= SAVE_PERIOD:
            self._save()

    def _save(self) -> None:
        """Write ``relay-log.info``. Call this method between two transactions only, because it saves the
        target's state."""
        self._report_hits()
        if not self._unsaved:
            return
        more = {"executed": str(self._executed), "passed_over": str(self._passed_over)}
        target = self._target.state()
        self._info = self._info.model_copy(update={**self._unsaved, **more, "target": target})
        self._unsaved = {}
        self._file.save(self._info)
        self._saved_at = self._clock()
