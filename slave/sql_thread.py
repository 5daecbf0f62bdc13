"""The SQL thread: lets the applier follow the relay log, and keeps ``relay-log.info``."""

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
from dumpfilter.filter import ReplicationFilter
from dumpfilter.filter.origin import OriginFilter
from dumpfilter.slave.applier import EventApplier
from dumpfilter.slave.errors import AFRESH, StateCorrupt, StreamError
from dumpfilter.slave.gtids import gtids_between, up_to
from dumpfilter.slave.master_info import MasterInfo
from dumpfilter.slave.relay_end import Hits, Reached, RelayEnd
from dumpfilter.slave.relay_log import RelayPosition, file_number, read_index
from dumpfilter.slave.relay_log_info import RelayLogInfo, RelayLogInfoFile
from dumpfilter.slave.until import Ahead, Until

if TYPE_CHECKING:
    from dumpfilter.slave.targets import Target

SAVE_PERIOD = 1.0
"""How often ``relay-log.info`` is replaced at most, seconds."""

_READ_BUFFER = 1 << 18


def _order(position: RelayPosition | None) -> tuple[int, int]:
    return (file_number(position.file), position.offset) if position else (0, 0)


class SqlThread:
    """Applies the relay log up to its recorded end. :meth:`run` blocks, once; :meth:`stop` is for other threads.

    ``make_filter`` makes the slave's own filter for the family and the collation for names of the master's binlogs.
    The target's state is restored when the object is made. ``on_hits`` is told how often rules decided something,
    here and on the master, since it was told last.
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
        self._here: dict[str, str | int] = {}  # how much further the applier is than that
        self._applier: EventApplier | None = None
        self._executed: GtidSet = parse_gtid_set("")
        self._passed_over: GtidSet = parse_gtid_set("")
        self._filter_is_old = False
        if _order(self._info.relay_position) > _order(relay_end.info.relay_position):
            raise StateCorrupt(
                f"{self._file.path}: is ahead of the relay log, which was complete up to "
                f"{relay_end.info.relay_position}; {AFRESH}"
            )
        if self._info.target:
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

    @property
    def reached(self) -> MasterInfo:
        """What ``master.info`` would say if everything up to here had been received and nothing more.

        For a thread that is not running: from here the master may send anew.
        """
        here = self._info  # as it was saved: a thread that ended with an error begins again there
        position = here.relay_position
        next_state, _ = self._relay_end.wait(0)
        later = self._relay_end.info if next_state is None else next_state.info
        if position is None:
            return MasterInfo(family=later.family, retrieved=here.executed)
        for state in (self._relay_end.passed, later):
            if state is not None and (position, here.source_position) == (
                state.relay_position,
                state.source_position,
            ):
                return state
        at = {"source_file": here.source_file, "source_position": here.source_position}
        at |= {"relay_file": position.file, "relay_offset": position.offset}
        is_new = self._relay_end.passed is not None and not here.master_uuid
        if later.relay_file != position.file and later.master_uuid != here.master_uuid and not is_new:
            at["master_uuid"] = ""  # another master may have taken over in between: the file may be either's
        # Between two recorded states the relay log tells what was applied, not what the master dropped in between.
        # Of that, what has a smaller number than something applied of the same source was before it.
        family = later.family or None
        executed = parse_gtid_set(here.executed, family)
        retrieved = parse_gtid_set(later.retrieved, family) & up_to(executed)
        retrieved -= parse_gtid_set(here.passed_over, family)
        if position != later.relay_position and later.relay_position is not None:
            retrieved -= gtids_between(self._directory, position, later.relay_position, family)
        return later.model_copy(update={**at, "retrieved": str(retrieved | executed)})

    def follow_filter(self) -> None:
        """Ask ``make_filter`` again, at the next recorded state."""
        self._filter_is_old = True

    def stop(self) -> None:
        """End :meth:`run` after the transaction that is being applied; after a few more where the master dropped
        something in between, since only the end of such a stretch is a place that both know."""
        self._stop.set()
        self._relay_end.wake()

    def run(self) -> None:
        """Apply until :meth:`stop`, ``until``, or the relay log's end when nothing more will come."""
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
                    self._save()  # caught up: what is shown is as far as the applier is
                self._save_if_due()
        except BaseException:
            self._tell_hits()
            # from there the next thread begins
            self._here = {}
            self._target.restore(self._info.target)
            raise
        self._save()

    def _apply_up_to(self, state: Reached) -> bool:
        """Apply to a recorded state. False when this thread ends there or before."""
        newest = state.info
        end = newest.relay_position
        if end is None or newest.family == "":
            self._relay_end.reached(state)
            return True
        if self._applier is None or self._filter_is_old:
            self._filter_is_old = False
            self._tell_hits()
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
            self._applier.source_file = str(self._here.get("source_file", self._info.source_file))
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
        self._here = {
            "relay_file": end.file,
            "relay_offset": end.offset,
            "source_file": newest.source_file,
            "source_position": newest.source_position,
            "master_uuid": newest.master_uuid,
        }
        self._relay_end.reached(state)
        if state.hits:
            self._on_hits(state.hits)
        self._tell_hits()
        return not self._is_met()

    def _apply_file(self, path: Path, start: int, end: int, retrieved: GtidSet, *, prompt: bool) -> bool:
        """Apply a part of one relay log, of which the master told ``retrieved``. False when this thread is to end
        before; with ``prompt`` it may."""
        applier = self._applier
        assert applier is not None
        with path.open("rb", buffering=_READ_BUFFER) as source:
            for event in iter_events(source, file=str(path), start=start, end=end):
                if (
                    self._until is not None
                    and not applier.inside
                    and self._is_passed_by(event, path, retrieved)
                ):
                    return False
                applier.feed(event, file=str(path))
                if applier.inside or event.type == EventType.FORMAT_DESCRIPTION:
                    continue  # a relay log's head is whole only with the Rotate event that follows
                # the state is made of this when it is saved: thousands of transactions go by between
                self._here = {
                    **self._here,
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
        """Where in the master's file an event that ends a transaction ends."""
        if event.type == EventType.ROTATE and event.header.flags & LOG_EVENT_ARTIFICIAL_F:
            return applier.source_begin
        return event.header.end_log_pos or self._here.get("source_position", self._info.source_position)

    def _tell_hits(self) -> None:
        if self._applier is not None and self._applier.hits:
            self._on_hits(self._applier.take_hits())

    def _save_if_due(self) -> None:
        if self._here and self._clock() - self._saved_at >= SAVE_PERIOD:
            self._save()

    def _save(self) -> None:
        """Between two transactions only: the target's state belongs to the position."""
        self._tell_hits()
        if not self._here:
            return
        more = {"executed": str(self._executed), "passed_over": str(self._passed_over)}
        target = self._target.state()
        self._info = self._info.model_copy(update={**self._here, **more, "target": target})
        self._here = {}
        self._file.save(self._info)
        self._saved_at = self._clock()
