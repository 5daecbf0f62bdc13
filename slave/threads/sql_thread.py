"""The SQL thread of a channel: it applies the relay log as it grows, and saves its position in ``relay-log.info``."""

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
    """Return a key by which positions in the relay log are ordered. None stands for the beginning of the relay log."""
    return (file_number(position.file), position.offset) if position else (0, 0)


class SqlThread:
    """The thread that applies a channel's relay log to the target, up to the positions that the I/O thread records.

    The I/O thread records a position between two transactions in ``relay_end`` as soon as the relay log is complete up
    to it. :meth:`run` works until the thread ends and may be called once. Any thread may call :meth:`stop`. The
    constructor restores the target to the state that ``relay-log.info`` holds.

    ``make_filter`` makes the filter that the slave applies itself. Its argument says which family of servers wrote the
    binlogs and how names are compared. ``origin`` drops transactions by server id or domain. ``on_hits`` receives
    counts of the uses of filter rules since the last call, on the slave and on the master. ``until`` is the condition
    of START REPLICA UNTIL.

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
        # This dictionary holds the members of RelayLogInfo that have changed since the last write of relay-log.info.
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
        """The applier's current position and GTIDs.

        The members ``executed``, ``passed_over`` and ``target`` are those of the newest write of ``relay-log.info``.
        """
        return self._info.model_copy(update=self._unsaved) if self._unsaved else self._info

    @property
    def reached(self) -> MasterInfo:
        """The content that ``master.info`` would have if the slave had received nothing beyond the applier's position.

        When the filter changes, the slave goes back to this point, and the master sends everything after it again
        with the new filter. The thread must not be running.
        """
        # After an error the next SQL thread begins at the saved position, which may be older than the current one.
        here = self._info
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
            # The slave has changed masters between the applier's position and the next recorded state. The binlog file
            # at the applier's position may belong to either master.
            at["master_uuid"] = ""
        # The applier's position lies between two positions that the I/O thread recorded. The relay log has the GTIDs
        # applied before the applier's position, but not the GTIDs of transactions that the master dropped there. GTIDs
        # of one server UUID or domain come in the order of their numbers. So the master dropped a missing GTID before
        # the applier's position if its number is below the highest applied number.
        family = later.family or None
        executed = parse_gtid_set(here.executed, family)
        retrieved = parse_gtid_set(later.retrieved, family) & up_to(executed)
        retrieved -= parse_gtid_set(here.passed_over, family)
        if position != later.relay_position and later.relay_position is not None:
            retrieved -= gtids_between(self._directory, position, later.relay_position, family)
        return later.model_copy(update={**at, "retrieved": str(retrieved | executed)})

    def follow_filter(self) -> None:
        """Make the slave's filter anew before the thread reads on, because the imposed filters have changed.

        The thread does so when it has reached the position up to which it is applying now.
        """
        self._filter_is_old = True

    def stop(self) -> None:
        """Make :meth:`run` end soon, without interrupting a transaction.

        The thread normally ends after the current transaction. If the master dropped transactions and counted rule
        hits for them, the thread goes on to the next position that the I/O thread recorded. Only there do the counts
        of hits and the position agree.
        """
        self._stop.set()
        self._relay_end.wake()

    def run(self) -> None:
        """Apply transactions until :meth:`stop` is called or the condition of START REPLICA UNTIL is true.

        When the I/O thread has ended for good, the thread also ends at the end of the relay log. After an error the
        target is restored to its state at the saved position, and the error is raised.
        """
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
                    # The applier has applied everything received. SHOW REPLICA STATUS must show the new position at
                    # once, not only at the next periodic save.
                    self._save()
                self._save_if_due()
        except BaseException:
            self._report_hits()
            # The next SQL thread begins at the saved position, so the target must have its state at that position.
            self._unsaved = {}
            self._target.restore(self._info.target)
            raise
        self._save()

    def _apply_up_to(self, state: RecordedState) -> bool:
        """Apply the relay log up to the position that ``state`` holds. Return False when this thread has to end.

        The reason to end is STOP REPLICA or the condition of START REPLICA UNTIL.
        """
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
        """Apply the events of one relay log file between two offsets. Return False when this thread has to end.

        ``retrieved`` holds the GTIDs up to the next position that the I/O thread has recorded. With ``prompt`` the
        thread obeys :meth:`stop` after each transaction; without ``prompt`` it first applies the whole part.
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
                    # After the format description event of a relay log follows the Rotate event that names the
                    # master's file. Before this Rotate event there is no position to save.
                    continue
                # The thread collects the changes in a plain dictionary. Thousands of transactions pass between two
                # saves, and making an object RelayLogInfo for each of them would cost time.
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
        """Return the offset in the master's binlog file after an event that ends a transaction.

        The artificial Rotate event at the head of a relay log holds the offset from which the slave read the
        master's file. For other events it is ``end_log_pos``, or the previous offset if ``end_log_pos`` is 0.
        """
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
        """Write the applier's position, its GTIDs and the target's state to ``relay-log.info``.

        The thread calls this method between two transactions only, because a target's state is that after a commit.
        """
        self._report_hits()
        if not self._unsaved:
            return
        more = {"executed": str(self._executed), "passed_over": str(self._passed_over)}
        target = self._target.state()
        self._info = self._info.model_copy(update={**self._unsaved, **more, "target": target})
        self._unsaved = {}
        self._file.save(self._info)
        self._saved_at = self._clock()
