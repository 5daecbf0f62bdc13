"""The upgrade of a relay directory that an earlier release wrote.

A relay log of release 0.1.0 (format 1 of the state files) does not tell what the master dropped. Only ``master.info``
does, for everything up to its position. The upgrade therefore appends a Gap event to the relay log, at that position.
The Gap event has the GTIDs of the dropped transactions. From there on the relay log alone tells the slave's GTID set.

The upgrade ends with one rename, that of ``master.info``. A crash before the rename leaves the old state: the appended
event lies beyond the position that ``master.info`` records, so the next start removes the event. A crash after the
rename leaves ``relay-log.info`` in the old format, which the next start upgrades.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import structlog

from dumpfilter.binlog.events import EventHeader
from dumpfilter.binlog.format import Family, FormatDescription
from dumpfilter.binlog.gap_events import Gap, is_gap_event, make_gap, make_head, parse_gap_event, source_bytes
from dumpfilter.binlog.gtid import GtidSet, MariadbGtidSet, MysqlGtidSet, parse_gtid_set
from dumpfilter.binlog.reader import iter_events
from dumpfilter.errors import BinlogError, RelayLogDamaged
from dumpfilter.slave.state import master_info, relay_log_info, state_file
from dumpfilter.slave.state.master_info import MasterInfo
from dumpfilter.slave.state.relay_log import RelayLog, RelayPosition, read_index
from dumpfilter.slave.state.relay_log_info import PASSED_OVER, RelayLogInfo
from dumpfilter.slave.threads.gtids import gtid_of

log = structlog.get_logger("dumpfilter.slave")

_EVENTS_ADDED = 2
"""The events that the upgrade appends to a relay log: one that names the master, and a Gap event."""


def upgrade(directory: Path, *, by_gtid: bool = False) -> None:
    """Bring the files of a relay directory to the newest format. The caller has locked the directory.

    A directory in the newest format, or without state files, is left alone. ``by_gtid`` says that the channel uses
    ``SOURCE_AUTO_POSITION``. Raises StateCorrupt for an unusable file, and OutputError when a file cannot be written.
    """
    received = state_file.load_document(directory / master_info.NAME, master_info.NAME)
    applied = state_file.load_document(directory / relay_log_info.NAME, relay_log_info.NAME)
    old = min((found.format for found in (received, applied) if found is not None), default=state_file.FORMAT)
    if received is None or old == state_file.FORMAT:
        return
    _from_1_to_2(directory, received, applied, by_gtid=by_gtid)
    log.info("upgraded the relay directory", directory=str(directory), format=state_file.FORMAT, before=old)


def _from_1_to_2(
    directory: Path, received: state_file.Document, applied: state_file.Document | None, *, by_gtid: bool
) -> None:
    master_path, relay_path = directory / master_info.NAME, directory / relay_log_info.NAME
    info = state_file.upgraded(received, MasterInfo, master_path)
    relay = RelayLogInfo() if applied is None else state_file.upgraded(applied, RelayLogInfo, relay_path)
    unwanted = "" if applied is None else applied.members.get(PASSED_OVER, "")
    dropped = _find_dropped(directory, info, relay, unwanted)
    if received.format == 1:
        info = _with_told_gap(directory, info, relay, dropped)
        if by_gtid and not info.except_gtids:
            # Transactions that were applied are never wanted again, also when the master's binlog holds them later on.
            info = info.model_copy(update={"except_gtids": relay.executed})
        state_file.save(master_path, master_info.NAME, info, synced=True)
    if applied is not None and applied.format == 1:
        known = {"executed": str(parse_gtid_set(relay.executed, info.family or None) | dropped.before)}
        if relay.relay_file == info.relay_file:
            known["master_uuid"] = info.master_uuid
        state_file.save(relay_path, relay_log_info.NAME, relay.model_copy(update=known), synced=True)


@dataclass(frozen=True)
class _Dropped:
    """The GTIDs of the transactions that the master dropped, of which the applier does not know yet."""

    before: GtidSet
    """The GTIDs of transactions before the applier's position."""
    after: GtidSet
    """The other GTIDs. They are known to lie before the end of the relay log, and no more."""


def _find_dropped(directory: Path, info: MasterInfo, relay: RelayLogInfo, unwanted: str) -> _Dropped:
    """Find the GTIDs that the slave received, and that neither the applier has executed nor the relay log holds.

    Of each GTID source the numbers below the highest executed one were before the applier's position, because a server
    writes its own transactions in the order of their numbers. ``unwanted`` are GTIDs that the applier skipped.
    """
    family = info.family or None
    executed = parse_gtid_set(relay.executed, family)
    found = parse_gtid_set(info.retrieved, family) - executed - parse_gtid_set(unwanted, family)
    found -= _gtids_between(directory, relay.relay_position, info.relay_position, family)
    reached = executed.copy()
    for key, _, last in executed:
        reached.add_range(key, 1, last)
    before = found & reached
    return _Dropped(before, found - before)


def _gtids_between(
    directory: Path, start: RelayPosition | None, end: RelayPosition | None, family: Family | None
) -> GtidSet:
    """Return the GTIDs that a part of the relay log tells.

    When the relay log is damaged, the result is incomplete. The slave will fetch that part of the relay log again.
    """
    found = parse_gtid_set("", family)
    if end is None:
        return found
    files = read_index(directory)
    first = files.index(start.file) if start is not None and start.file in files else 0
    last = files.index(end.file) if end.file in files else len(files) - 1
    try:
        for name in files[first : last + 1]:
            path = directory / name
            begin = start.offset if start is not None and start.file == name else 4
            stop = end.offset if end.file == name else path.stat().st_size
            with path.open("rb") as file:
                for event in iter_events(file, file=str(path), start=begin, end=stop, verify=False):
                    if is_gap_event(event.type, event.body):
                        gap = parse_gap_event(event.body)
                        if isinstance(gap, Gap):
                            gap.add_to(found)
                    elif (gtid := gtid_of(event)) is not None:
                        found.add(gtid)
    except (OSError, BinlogError) as error:
        log.warning("the relay log is damaged", directory=str(directory), error=str(error))
    return found


def _with_told_gap(directory: Path, info: MasterInfo, relay: RelayLogInfo, dropped: _Dropped) -> MasterInfo:
    """Append events to the relay log that tell the master, the position and the dropped GTIDs. Return the new state.

    A relay log of which the applier knows all stays as it is. So does a damaged relay log, which the slave will fetch
    again.
    """
    is_known = (relay.source_file, relay.source_position) == (info.source_file, info.source_position)
    if info.relay_position is None or (is_known and not dropped.after):
        return info
    relay_log = RelayLog(directory)
    try:
        relay_log.recover(info.relay_position)
        description = relay_log.format_description()
        server_id = EventHeader.unpack(description).server_id
        checksum = FormatDescription.parse(description).checksum
        origin = {"master_uuid": info.master_uuid, "names": info.names, "retrieved": info.retrieved}
        gap = Gap(info.source_position, runs=_runs(dropped.after))
        added = make_head(origin, server_id=server_id, checksum=checksum)
        added += make_gap(gap, server_id=server_id, checksum=checksum)
        relay_log.append(added, events=_EVENTS_ADDED)
        relay_log.sync()
        position = relay_log.position
        assert position is not None
        return info.model_copy(update={"relay_offset": position.offset})
    except RelayLogDamaged:
        return info
    finally:
        relay_log.close()


def _runs(gtids: GtidSet) -> tuple[tuple[bytes, int, int], ...]:
    """Return the GTIDs of a set as a Gap event has them."""
    if isinstance(gtids, MariadbGtidSet):
        # A set keeps one server for each domain.
        return tuple(
            (source_bytes((domain, gtids.server_id(domain))), first, last) for domain, first, last in gtids
        )
    assert isinstance(gtids, MysqlGtidSet)
    return tuple((source_bytes(key), first, last) for key, first, last in gtids)
