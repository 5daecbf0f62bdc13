"""The SQL thread of a channel: it applies the relay log as it grows, and saves its position in ``relay-log.info``.

The thread checks the condition of ``START REPLICA … UNTIL`` between two transactions. UNTIL stops the applier where an
unfiltered replica would stop, even if the master dropped the transaction that the condition names. A Gap event of the
relay log names the GTIDs and the end position of consecutive dropped transactions. The applier stops before or after
all of them, never between them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Literal, Protocol

from dumpfilter.base.errors import BinlogError, RelayLogDamaged, StreamError
from dumpfilter.base.options.values import FIRST_EVENT
from dumpfilter.binlog.events import EventType
from dumpfilter.binlog.format import NameCollation, NameRules
from dumpfilter.binlog.gap_events import Gap, Head, is_gap_event, parse_gap_event
from dumpfilter.binlog.gtid import Gtid, GtidSet, MariadbGtidSet, parse_gtid_set
from dumpfilter.binlog.reader import Event, iter_events
from dumpfilter.dump.stream.message import hits_from_numbers
from dumpfilter.filter.base import OriginFilter, ReplicationFilter
from dumpfilter.filter.rules import Hits
from dumpfilter.index.fileset import FileBegin
from dumpfilter.slave.applier import EventApplier, gtid_of
from dumpfilter.slave.relay_log import read_head, read_index, unusable
from dumpfilter.slave.relay_position import RelayPosition, file_number, place_order
from dumpfilter.slave.state import Place, RelayLogInfo, SourceInfo
from dumpfilter.slave.targets import Target
from dumpfilter.slave.threads import ChannelMeasurements, ChannelThread, Owner, Progress, RelayEnd


@dataclass(frozen=True)
class UntilPosition:
    """The condition UNTIL ``SOURCE_LOG_FILE``, ``SOURCE_LOG_POS``, or ``RELAY_LOG_FILE``, ``RELAY_LOG_POS``.

    The applier stops at the first transaction boundary at or after the byte offset ``position`` in ``file``. Every
    position in a later file counts as after this offset. ``log`` says whose file this is: a binlog file of the master
    (``Source``), or a relay log file of the slave (``Relay``).
    """

    log: Literal["Source", "Relay"]
    file: str
    position: int

    @property
    def shown(self) -> tuple[str, str, int]:
        """The condition in the columns ``Until_Condition``, ``Until_Log_File`` and ``Until_Log_Pos`` of SHOW REPLICA
        STATUS.
        """
        return self.log, self.file, self.position

    def stops(
        self, relay: RelayPosition | None, source: tuple[str, int], gtids: GtidSet, *, comes: bool = False
    ) -> bool:
        """Tell whether the applier must stop at a transaction boundary because of START REPLICA UNTIL.

        The boundary is the position ``relay`` in the relay log and ``source`` in the master's binlog. An offset of 0
        stands for an unknown position, at which the applier does not stop. The applier asks twice at a boundary. After
        a transaction, ``gtids`` are all executed GTIDs. Before the next transaction, ``comes`` is True, and ``gtids``
        are the GTIDs of that transaction, or of a run of dropped transactions. A condition by position ignores
        ``gtids`` and ``comes``; the same method of :class:`UntilGtids` uses them.
        """
        file, position = (relay or ("", 0)) if self.log == "Relay" else source
        return bool(position) and (file_number(file), position) >= (file_number(self.file), self.position)


class UntilGtids:
    """The condition UNTIL ``SQL_BEFORE_GTIDS`` or UNTIL ``SQL_AFTER_GTIDS``.

    With ``before`` the applier stops before the first transaction whose GTID is in the set. Without ``before`` it stops
    when all transactions of the set have been applied, or dropped by the master. A MariaDB GTID such as 0-1-5 stands
    for this one transaction, as in ``MASTER_GTID_POS``, and not for all transactions up to it. A set of MySQL's GTIDs
    never stops the applier of a MariaDB binlog, nor the other way round.
    """

    def __init__(self, gtids: str, *, before: bool) -> None:
        """Parse the GTID set ``gtids``. ``before`` is True for SQL_BEFORE_GTIDS, and False for SQL_AFTER_GTIDS. Raises
        GtidError for a text that is no GTID set.
        """
        self._gtids = parse_gtid_set(gtids)
        if isinstance(self._gtids, MariadbGtidSet):
            # The parsed MariaDB set of 0-1-5 also holds the GTIDs 0-1-1 to 0-1-4, which the user did not name.
            named = MariadbGtidSet()
            for gtid in self._gtids.gtids():
                named.add(gtid)
            self._gtids = named
        self._before = before

    @property
    def shown(self) -> tuple[str, str, int]:
        return ("SQL_BEFORE_GTIDS" if self._before else "SQL_AFTER_GTIDS"), "", 0

    def stops(
        self, relay: RelayPosition | None, source: tuple[str, int], gtids: GtidSet, *, comes: bool = False
    ) -> bool:
        if type(gtids) is not type(self._gtids):
            return False
        return bool(gtids & self._gtids) if self._before else not comes and gtids.issuperset(self._gtids)


Until = UntilPosition | UntilGtids
"""A condition of START REPLICA UNTIL, at which the applier stops."""


SAVE_PERIOD = 1.0
"""The shortest time between two writes of ``relay-log.info`` while the applier works, seconds."""

_READ_BUFFER = 1 << 18

_FRAME_OF_A_FILE = frozenset({EventType.FORMAT_DESCRIPTION, EventType.ROTATE})


def _events_between(path: Path, start: int, end: int) -> Iterator[Event]:
    """Yield the events of the relay log file ``path`` between the byte offsets ``start`` and ``end``. Raises
    RelayLogDamaged when the file cannot be read or an event is damaged, and BinlogUnreadable when the file cannot be
    read now (:func:`.relay_log.unusable`).

    If the file ends before ``end``, RelayLogDamaged is raised before the first event. The first events (the head),
    which name the master and its collation, may then be incomplete, too. The applier must not save a position in such a
    file.
    """
    try:
        size = path.stat().st_size
        if size >= end:
            with path.open("rb", buffering=_READ_BUFFER) as file:
                yield from iter_events(file, file=str(path), start=start, end=end)
    except (OSError, BinlogError) as error:
        raise unusable(path, error, str(error)) from error
    if size < end:
        raise RelayLogDamaged(f"{path}: ends at {size}, but the slave has received events up to {end}")


def _widened(position: int, end_log_pos: int) -> int:
    """Return the full end position of an event in a binlog file. ``end_log_pos`` has only the low 32 bits of this
    position, which do not suffice in files of more than 4 GiB.

    ``position`` is a known position before the event's end. The result is the first position, at or after ``position``,
    whose low 32 bits are ``end_log_pos``.
    """
    return position + ((end_log_pos - position) & 0xFFFFFFFF)


class Applying(Owner, Protocol):
    """The interface through which an applier uses its channel: the relay log, the target, and the methods that the
    applier calls. The target is the object to which transactions are applied.
    """

    name: str
    info: SourceInfo
    """The channel's configuration, with the filters that the master's operator imposes."""
    place: Place[RelayLogInfo]
    """The position and state that the applier has reached, and the file ``relay-log.info`` in which it is saved."""
    relay_end: RelayEnd
    """The position up to which the relay log is complete."""
    target: Target
    """The object to which transactions are applied."""
    measured: ChannelMeasurements
    progress: Progress
    """The object that wakes SQL statements that wait for the applier."""

    @property
    def origin(self) -> OriginFilter:
        """The filter that drops whole transactions by the server id or MariaDB domain id of the server that wrote
        them.
        """

    def applied_filter(self, names: NameRules) -> ReplicationFilter:
        """Return the filter by which the slave itself drops events of the relay log. ``names`` says which family of
        servers (MySQL or MariaDB) wrote the binlog and how names are compared.
        """

    def hit(self, hits: Hits) -> None:
        """Add new rule hits (matches of filter rules with events) to the channel's counts. ``hits`` has their numbers
        by kind of rule, such as Replicate_Do_DB.

        The applier reports the hits of its own filter, and those on the master. The relay log has the master's numbers
        in its Gap events, which stand for dropped events.
        """


class SqlThread(ChannelThread):
    """The SQL thread, which applies a channel's relay log to the target (the object to which a slave applies
    transactions).

    ``owner`` is the channel. ``until`` is the condition of START REPLICA; None: there is none. The constructor restores
    the target to the saved state.
    """

    def __init__(self, owner: Applying, until: Until | None = None) -> None:
        super().__init__(f"{owner.name or 'default'}-sql", owner)
        self._owner: Applying = owner
        self._place = place = owner.place
        self._directory = place.path.parent
        self._relay_end = owner.relay_end
        self._measured = owner.measured
        self._origin = owner.origin
        self.until = until
        """The condition of START REPLICA UNTIL, also after the thread has ended."""
        self._completed: list[Gtid] = []
        """The GTIDs of completed transactions that have not been added to the executed GTIDs (``_place.gtids``) yet."""
        self._applier: EventApplier | None = None
        self._filtered_by: tuple[NameRules, list[str]] | None = None
        """The collation for names, and the filters set by the master's operator, that :attr:`_applier` uses. None
        before there is an applier.
        """
        self._pending: Hits = Counter()
        """The rule hits (matches of filter rules) that the master has counted in the next transaction. The relay log
        tells their numbers before this transaction.
        """
        owner.target.restore(place.saved.target)

    def stop(self) -> None:
        """Ask the thread to end at the next transaction boundary, and do not wait for its end."""
        super().stop()
        self._relay_end.told()

    def run(self) -> None:
        """Apply transactions until :meth:`stop` is called or the condition of START REPLICA UNTIL is true.

        If the I/O thread has ended (``relay_end.is_last``), the thread also ends at the end of the relay log. After an
        error the thread goes back to its saved position, restores the target (the slave's data) to the saved state, and
        raises the error.
        """
        try:
            while not self.stopping and not self._is_met():
                here = self._place.now.relay_position
                self._relay_end.until(lambda here=here: self._is_woken(here), SAVE_PERIOD / 4)  # type: ignore[misc]
                is_last, end = self._relay_end.is_last, self._relay_end.position
                if end is not None and place_order(here) < place_order(end):
                    before = self._measured.transactions
                    goes_on = self._apply_up_to(here, end)
                    if self._measured.transactions != before:
                        self._measured.apply_delay.observe_since(self._measured.committed_at)
                    if not goes_on:
                        break
                elif is_last:
                    break
                else:
                    # The applier has applied everything received. The status of the relay directory must show the new
                    # position at once, not only at the next periodic save.
                    self._save()
                if self._place.is_due:
                    self._save()
            self._save()
        except BaseException:
            self._go_back()
            raise

    def _is_woken(self, here: RelayPosition | None) -> bool:
        end = self._relay_end
        return self.stopping or end.is_last or end.position != here

    def _go_back(self) -> None:
        """Go back to the saved position in ``relay-log.info``, and restore the target (the object that holds the
        slave's data) to its state there. The next events are filtered by a new :class:`EventApplier`.
        """
        self._report_hits()
        self._place.go_back(self._place.saved)
        self._completed.clear()
        self._applier = None
        self._pending.clear()
        self._owner.target.restore(self._place.saved.target)

    def _apply_up_to(self, here: RelayPosition | None, end: RelayPosition) -> bool:
        """Apply the events of the relay log from the position ``here`` (None: from its beginning) to the position
        ``end``. Return True if the thread shall continue, and False if STOP REPLICA or the condition of START REPLICA
        UNTIL ends it.

        Raises RelayLogDamaged for a relay log that is damaged, or shorter than ``end``.
        """
        names = read_index(self._directory)
        try:
            names = names[names.index(here.file) if here else 0 : names.index(end.file) + 1]
        except ValueError:
            names = []
        if not names:
            raise RelayLogDamaged(f"{self._directory}: the relay log's index does not name {end.file}")
        for name, following in zip_longest(names, names[1:]):
            path = self._directory / name
            head = read_head(path)
            self._prepare_applier(head)
            start = here.offset if here is not None and here.file == name else FIRST_EVENT
            if start == FIRST_EVENT and self._ends_before(RelayPosition(name, start), head.file, 0, None):
                return False
            stop_at = self._size_of(path, following) if following else end.offset
            if not self._apply_file(path, head, start, stop_at):
                return False
        return not self._is_met()

    def _size_of(self, path: Path, following: str) -> int:
        """Return the size that the relay log file ``path`` must have, bytes. The head (the first events) of the next
        relay log file, called ``following``, records this size. A smaller file has lost events.

        If that head does not name the file ``path``, return the present size of ``path``.
        """
        origin = read_head(self._directory / following).origin
        if origin.get("previous_file") == path.name:
            return int(origin["previous_size"])
        return path.stat().st_size

    def _prepare_applier(self, head: FileBegin) -> None:
        """Make a new :class:`EventApplier`, which filters events and applies them, unless the present one still has the
        right imposed filters (set by the master's operator) and collation for names.

        ``head`` is the content of the first events of the next relay log file, which name the collation.
        """
        family = head.format_description.family
        names = NameRules(family, NameCollation(head.origin.get("names") or NameCollation.GENERAL_CI))
        filtered_by = names, self._owner.info.imposed
        if self._applier is not None and filtered_by == self._filtered_by:
            return
        self._report_hits()
        if self._applier is None:
            self._place.gtids = parse_gtid_set(self._place.saved.executed, family)
        self._filtered_by = filtered_by
        self._applier = EventApplier(
            self._owner.applied_filter(names),
            self._owner.target,
            origin=self._origin,
            on_complete=self._completed.append,
            measured=self._measured,
        )

    def _apply_file(self, path: Path, head: FileBegin, start: int, end: int) -> bool:
        """Apply the events of the relay log file ``path`` between the byte offsets ``start`` and ``end``. Return True
        if the thread shall continue, and False if STOP REPLICA or the condition of START REPLICA UNTIL ends it.

        ``head`` is the content of the file's first events, which name the master's binlog file. Raises RelayLogDamaged
        for a damaged event, and StreamError if ``end`` lies inside a transaction.
        """
        applier = self._applier
        assert applier is not None
        # Another master's file may have the same name, so that the old position must not go on in another file.
        source_position = head.position if start < head.end else self._place.now.source_position
        for event in _events_between(path, start, end):
            gap = parse_gap_event(event.body) if is_gap_event(event.type, event.body) else None
            if isinstance(gap, Gap) and not gap.end:
                # The hits belong to the transaction that goes on or follows, so they count when it is complete.
                (applier.hits if applier.inside else self._pending).update(hits_from_numbers(gap.hits))
                continue
            is_after_head = event.offset >= head.end
            at = RelayPosition(path.name, event.offset)
            is_boundary = is_after_head and not applier.inside
            if is_boundary and self._ends_before(at, head.file, source_position, gap or event):
                return False
            if isinstance(gap, Gap):
                if applier.inside:
                    raise RelayLogDamaged(f"{path}: at {event.offset}: a Gap event lies inside a transaction")
                self._owner.hit(hits_from_numbers(gap.hits))
                source_position = gap.end
            elif gap is not None:
                self._place.move(master_uuid=gap.members.get("master_uuid", ""))
            else:
                applier.feed(event, file=str(path))
                if event.header.end_log_pos and is_after_head and not applier.inside:
                    source_position = _widened(source_position, event.header.end_log_pos)
            after = event.offset + len(event.raw)
            if applier.inside or after < head.end:
                # Inside a transaction and inside the head of a file there is no position to save.
                continue
            self._complete(RelayPosition(path.name, after), head.file, source_position, gap)
            if self.stopping or self._is_met():
                return False
        if applier.inside:
            raise StreamError(f"{path}: the resume point {end} lies inside a transaction")
        return True

    def _complete(
        self, at: RelayPosition, source_file: str, source_position: int, gap: Gap | Head | None
    ) -> None:
        """Record that the applier has reached a transaction boundary: ``at`` in the relay log, and ``source_position``
        in the master's binlog file ``source_file``.

        The GTIDs of completed transactions are added to the executed ones. ``gap`` is the content of the event before
        the boundary, if this event is dumpfilter's own. For a Gap event, which stands for dropped transactions, their
        GTIDs are added, too. For a Head event, which names the master, and for None (any other event), none are added.
        """
        assert self._applier is not None
        self._applier.hits.update(self._pending)
        self._pending.clear()
        self._report_hits()
        with self._place.lock:
            if isinstance(gap, Gap):
                gap.add_to(self._place.gtids)
            for gtid in self._completed:
                self._place.gtids.add(gtid)
            self._completed.clear()
            self._place.move(
                relay_file=at.file,
                relay_offset=at.offset,
                source_file=source_file,
                source_position=source_position,
            )
        self._owner.progress.told()
        if self._place.is_due:
            self._save()

    def _is_met(self) -> bool:
        now = self._place.now
        source = now.source_file, now.source_position
        return self.until is not None and self.until.stops(now.relay_position, source, self._place.gtids)

    def _ends_before(
        self, at: RelayPosition, source_file: str, source_position: int, comes: Event | Gap | Head | None
    ) -> bool:
        """Tell whether START REPLICA UNTIL ends the thread before the event at the position ``at`` in the relay log.

        ``comes`` is this event. The event begins a transaction, is a Gap event in place of dropped transactions, or is
        a head event that names the master. None stands for the beginning of a file. ``source_file`` and
        ``source_position`` are the position in the master's binlog before the event.
        """
        if self.until is None or isinstance(comes, Head):
            return False
        begin, gtids = 0, type(self._place.gtids)()
        if isinstance(comes, Gap):
            comes.add_to(gtids)
        elif comes is not None:
            if comes.header.end_log_pos and comes.type not in _FRAME_OF_A_FILE:
                begin = _widened(source_position, comes.header.end_log_pos) - len(comes.raw)
            if (gtid := gtid_of(comes)) is not None:
                gtids.add(gtid)
        return self.until.stops(at, (source_file, begin), gtids, comes=True)

    def _report_hits(self) -> None:
        if self._applier is not None and self._applier.hits:
            self._owner.hit(self._applier.take_hits())

    def _save(self) -> None:
        """Write the applier's position, its GTIDs and the state of the target (the object that holds the slave's data)
        to ``relay-log.info``. Raises OutputError if the file cannot be written.

        The thread may call this method between two transactions only, because a target's state is valid after a commit.
        """
        self._report_hits()
        if self._place.now is not self._place.saved:
            # After a failed write the thread goes back to the state that the file holds.
            self._place.save(target=self._owner.target.state())
