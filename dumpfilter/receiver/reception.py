"""The reception of the binlog of a source (a running server). Packets come in, and binlog files of the store are
written. Everything that the source sends is checked.

A :class:`Reception` receives over one connection. A :class:`Follower` keeps a store (the received binlog files) up to
date with its source, and reconnects after errors.
"""

from __future__ import annotations

import contextlib
import queue
import select
import socket
import ssl
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from dumpfilter.base import errors as E
from dumpfilter.base.logs import logger
from dumpfilter.base.options.values import FIRST_EVENT
from dumpfilter.base.printable import printable
from dumpfilter.base.waiting import Backoff
from dumpfilter.binlog import events
from dumpfilter.binlog.context_events import Rotate, decode_rotate
from dumpfilter.binlog.format import FormatDescription
from dumpfilter.binlog.gtid import empty_set, parse_gtid_set, shortened
from dumpfilter.index.fileset import BinlogFile, gtids_through
from dumpfilter.receiver import login
from dumpfilter.receiver._deframe_kernels import HEARTBEATS
from dumpfilter.receiver.deframing import Deframer, Item, LargeEvent
from dumpfilter.receiver.store import BinlogDirectory, OpenFile, Sync, check_binlog_name, is_binlog_name
from dumpfilter.receiver.url import SourceUrl

_SYNC_SECONDS = 1.0
"""The interval of syncs to the disk with :attr:`Sync.INTERVAL`, seconds."""

_TICK_MILLISECONDS = 500
"""The interval at which the receiving thread checks whether the source is silent, or a sync is due, milliseconds."""

_BROKEN = select.POLLERR | select.POLLHUP
"""The results of ``poll`` for a connection that was reset, or that both sides have closed."""

_TELL_SECONDS = 0.02
"""The longest time between two calls of ``on_progress``, which reports new events, while the source sends without a
pause, seconds.
"""

_POSITION_LOST = 1236
"""The error number with which a source refuses a file and position."""

_ERROR = 0xFF
_END = 0xFE
_LONGEST_END = 9
_ENDLESS_CONTROL = 100_000
"""The number of packets without an ordinary event (such as heartbeats) in a minute above which the stream counts as
damaged. A server sends one heartbeat in each period.
"""

_CONTROL_SECONDS = 60.0

_MOST_IN_A_TURN = 64 << 10
"""The number of bytes from the source after which one iteration of the asyncio loop stops reading."""

_MOST_TURNS = 16
"""The number of full turns in a row after which the receiving thread takes over from the asyncio loop. A turn is one
iteration of the loop. It is full if it reads at least :data:`_MOST_IN_A_TURN` bytes. Fewer full turns are only a burst
of events, or follow a short delay.
"""


@dataclass
class Progress:
    """The progress of the reception of a source's binlog: the binlog file and position up to which events are stored,
    the number of received bytes, and the source's files. Other threads may read this object.
    """

    file: str = ""
    position: int = 0
    bytes: int = 0
    """The number of bytes of events that came from the source since the start."""
    events_at: float = 0.0
    """The Unix time at which the last event came, seconds; 0 before the first one."""
    files: list[tuple[str, int]] = field(default_factory=list)
    """The source's files with their sizes at the last connection; empty if the user may not list them."""


class Turns(Protocol):
    """The interface to an asyncio loop that receives a source's events and also sends them to the master's slaves.
    While few events arrive, this loop reads the source's socket, and the receiving thread sleeps.

    If the receiving thread read the socket instead, each commit would wake two threads: first the receiving thread, and
    then the loop's thread.
    """

    def run(self, stream: socket.socket, turn: Callable[[], int | None], tick: Callable[[], None]) -> None:
        """Let the master's asyncio loop call ``turn`` when the socket ``stream`` has data, and ``tick`` about once a
        second. While much arrives, the loop may call ``turn`` in short intervals instead. Meanwhile the receiving
        thread waits in this method.

        ``turn`` reads the available data, stores the events, and returns the number of bytes read. ``tick`` checks
        whether the source is silent or a sync is due. Return when ``turn`` returns None, or when the loop ends. Raises
        the errors of both functions.
        """

    def received(self, file: str, offset: int, data: bytes) -> None:
        """Send received events to the slaves that wait for new events. ``data`` has whole events, which are already
        stored in the binlog file ``file`` at the byte offset ``offset``.
        """


class Reception:
    """The reception of binlog files from a source (a running server) over one connection. The reception continues at
    the end of the store, the directory of received files.

    Parameters:
        follower: the receiver that opens one connection after another. Its store receives the files. The caller has
            checked that the store is from this source.
        connection: a connection after its login.
        facts: the source's family, version, UUID and binlog files, which were queried after the login.
    """

    def __init__(
        self, follower: Follower, connection: login.SourceConnection, facts: login.SourceFacts
    ) -> None:
        self._follower = follower
        self._connection = connection
        self._facts = facts
        self._store = follower.store
        self._named = ""
        """The file that the last artificial Rotate event named; empty before the first one."""
        self._named_position = 0
        self._file: OpenFile | None = None
        """The file that is being received. None until its format description event has come."""
        self._synced_at = self._told_at = self._controls_since = self._received_at = time.monotonic()
        self._controls = 0
        self._requested = ("", FIRST_EVENT)
        self._resumed = ("", FIRST_EVENT)
        """The name of the received file at whose end the dump began, and the byte offset of this end. The name is empty
        if no file was received before.
        """
        self._readable = select.poll()
        """The poll object that tells whether the source has sent something."""
        self._is_told = True
        """Whether new events were reported (by ``on_progress`` or by the asyncio loop) after the last write."""
        self._last = ""
        self._stream: socket.socket
        self._silence = 0.0
        """The time without data after which the connection counts as lost, seconds."""
        self._deframer: Deframer

    def run(self, first: str, last: str) -> None:
        """Receive until the source ends the dump, or until the file ``last`` is complete. Raises DumpfilterError when
        the connection breaks or the source cannot continue.

        ``first`` is the file at which an empty store (directory of received files) begins; empty for the source's
        oldest file. An empty ``last`` stands for all files.
        """
        opened = self._store.resume()
        if opened is not None:
            if last and _is_past(opened, last):
                return
            self._resumed = opened.name, opened.end
        self._last = last
        self._requested = place = self._place(opened, first)
        assert self._store.source is not None
        blocking = self._follower.options.stop_never
        self._stream = self._connection.begin_stream(
            self._facts.family, self._store.source, place, blocking=blocking
        )
        self._silence = self._stream.gettimeout() or 0.0
        self._deframer = Deframer(self._stream, self._where)
        self._readable.register(self._stream, select.POLLIN)
        try:
            while True:
                item = self._next()
                if not isinstance(item, bytes):
                    self._append(self._current_file(), item)
                elif not self._control(item):
                    return
                if self._store.policy is Sync.TRANSACTION:
                    self._store.sync()
        finally:
            self._tell_progress()

    def _next(self) -> Item:
        """Wait for the next item of the source's stream that the calling thread must process, and return the item. An
        item holds whole events, one large event, or the payload of a packet without an ordinary event. Raises
        ConnectionLost when the connection breaks, and SourceStreamDamaged for a packet that no server sends.

        Items that a master's asyncio loop receives meanwhile are not returned.
        """
        while (item := self._deframer.next()) is None:
            turns, file = self._follower.turns, self._file
            # The loop may wait while the source sends new events and no transaction needs its own sync to the disk.
            is_live = file is not None and not file.is_ahead and self._store.policy is not Sync.TRANSACTION
            if turns is not None and is_live and not self._has_more():
                left = self._wait_in(turns)
                if left is not None:
                    return left
            self._wait()
            try:
                self._deframer.fill()
            except OSError as error:
                raise self._broken(error) from None
        return item

    def _wait_in(self, turns: Turns) -> Item | None:
        """Let the master's asyncio loop ``turns`` receive events in place of this thread. The loop stores them and
        sends them to the slaves.

        Return when much data arrives, or when the source sends something that the receiving thread must process: one
        large event, or a control packet such as an error. Return this item, or None if there is none.
        """
        full, left, deframer = 0, None, self._deframer

        def turn() -> int | None:
            nonlocal full, left
            try:
                got = deframer.fill_at_once(_MOST_IN_A_TURN, self._has_more)
            except OSError as error:
                raise self._broken(error) from None
            if got:
                self._received_at = time.monotonic()
            while (item := deframer.next()) is not None:
                if isinstance(item, memoryview):
                    # The readers of the loop get the same bytes that the store gets.
                    file, data = self._current_file(), bytes(item)
                    end = file.end
                    self._append(file, item)
                    turns.received(file.name, end, data)
                    self._is_told = True
                elif isinstance(item, bytes) and _is_heartbeat(item):
                    self._control(item)
                else:
                    left = item
                    return None
            full = full + got // _MOST_IN_A_TURN if got >= _MOST_IN_A_TURN else 0
            # uvloop reports a broken connection only once, perhaps together with the last bytes. The receiving thread
            # then meets the error.
            is_broken = any(events & _BROKEN for _, events in self._readable.poll(0))
            return None if is_broken or full >= _MOST_TURNS else got

        self._tell_progress()
        self._received_at = time.monotonic()
        self._stream.setblocking(False)
        try:
            turns.run(self._stream, turn, self._tick)
        finally:
            self._stream.settimeout(self._silence)
        return left

    def _broken(self, error: OSError) -> E.ConnectionLost:
        """Return the error, which names the source, for a connection that broke with the operating system's error
        ``error``.
        """
        reason = f"the connection broke: {error.strerror or error}"
        if isinstance(error, TimeoutError):
            reason = "the source is silent, although heartbeats were due"
        return E.ConnectionLost(f"{self._connection.url}: {reason}")

    def _tell_progress(self) -> None:
        """Call the follower's function ``on_progress``, which tells others about new events, if something was written
        since the last call.
        """
        if not self._is_told:
            self._is_told, self._told_at = True, time.monotonic()
            self._follower.on_progress()

    def _wait(self) -> None:
        """Wait until the source sends something. Before that, call the function ``on_progress``, which tells others
        about new events, if the call is due.
        """
        self._received_at = time.monotonic()
        has_more = self._has_more()
        if not has_more or self._received_at - self._told_at > _TELL_SECONDS:
            self._tell_progress()
        self._tick()
        while not has_more and not self._readable.poll(_TICK_MILLISECONDS):
            self._tick()

    def _tick(self) -> None:
        """Start a sync of the received events to the disk in another thread, if a sync is due and none is running.
        Raises ConnectionLost if the source has been silent for too long.
        """
        now = time.monotonic()
        if now - self._received_at > self._silence:
            raise self._broken(TimeoutError())
        store = self._store
        if store.policy is Sync.INTERVAL and not store.is_synced and now - self._synced_at >= _SYNC_SECONDS:
            self._synced_at = now
            if not store.is_syncing:
                store.sync_later()

    def _has_more(self) -> bool:
        """Tell whether the source has sent bytes that the receiver has not read yet, in the socket or in the TLS
        connection.
        """
        stream = self._stream
        return (isinstance(stream, ssl.SSLSocket) and bool(stream.pending())) or bool(self._readable.poll(0))

    def _where(self) -> tuple[str, int]:
        """Return the name of the binlog file and the byte offset in it at which the next event of the stream lies.
        Before a file's first event has come, return the name and offset that the source has announced.
        """
        if self._file is None:
            return self._named, self._named_position
        return self._file.name, self._file.position

    def _place(self, opened: OpenFile | None, first: str) -> tuple[str, int]:
        """Return the file and position at which the dump shall begin.

        ``opened`` is the newest file of the store (the directory of received files); None for an empty store, which
        begins at the file ``first``. Raises SourcePurged, SourceReplaced or SourceRefused when the source cannot
        continue there.
        """
        logs = self._facts.logs
        names = [name for name, _ in logs or []]
        if opened is None:
            if first and names and first not in names:
                raise E.SourcePurged(f"the source has no binlog {first}; it has {names[0]} to {names[-1]}")
            return first, FIRST_EVENT
        name, position = opened.name, opened.position
        if names and name not in names:
            following = opened.next_name or _next_name(name)
            if opened.is_closed and following in names:
                self._check_follows(opened, following)
                return following, FIRST_EVENT
            raise self._gone(opened, names)
        size = dict(logs or []).get(name)
        if size is not None and size < opened.end:
            raise opened.replaced(f"has {size} bytes, and the store has {opened.end} of it")
        if position > login.MOST_POSITION:
            raise E.SourceRefused(
                f"{name}: at {position}: no server can be asked for a place behind 4 GiB; remove the file and "
                "its line in the index, and it is fetched again"
            )
        return name, position

    def _check_follows(self, opened: OpenFile, following: str) -> None:
        """Check that the source's binlog file ``following`` continues the store, the directory of received files. For
        that, all GTIDs in the store must have been logged before this file. Raises SourceReplaced if the source has not
        logged them.

        ``opened`` is the newest file of the store. The source has purged its own file of this name, so that the events
        cannot be compared.
        """
        name = following.replace("'", "''")
        rows = self._connection.ask(f"SHOW BINLOG EVENTS IN '{name}' LIMIT 3")
        told = [str(row[5]) for row in rows if len(row) > 5 and row[2] in ("Previous_gtids", "Gtid_list")]
        had = gtids_through(BinlogFile(opened.path))
        if told and had is not None:
            listed = empty_set(had.family)
            for piece in told[0].strip("[]").split(","):
                listed.update(parse_gtid_set(piece, self._facts.family))
            if not listed.issuperset(had):
                lacked = shortened(str(had - listed))
                raise opened.replaced(
                    f"is purged, and {following} does not follow {lacked}, which the store has"
                )

    def _gone(self, opened: OpenFile, names: list[str]) -> E.SourceError:
        """Return the error for a source that lacks ``opened``, the newest file of the store (directory of received
        files): SourcePurged for a purged file, else SourceReplaced.

        ``names`` are the source's files.
        """
        base, number = check_binlog_name(opened.name)
        oldest_base, oldest = check_binlog_name(names[0])
        have = f"; it has {printable(names[0])} to {printable(names[-1])}"
        if base == oldest_base and number < oldest:
            return _purged(opened.name, have)
        return opened.replaced(f"is not there{have}")

    def _current_file(self) -> OpenFile:
        """Return the received binlog file to which the next event belongs. Raises SourceStreamDamaged if no event may
        come now, such as before the file's format description event.
        """
        if self._file is None:
            raise self._damaged("an event before the format description event of its file")
        if self._file.is_closed and not self._file.is_ahead:
            raise self._damaged("an event after the event that closes the file")
        return self._file

    def _append(self, file: OpenFile, item: memoryview | LargeEvent) -> None:
        """Write an item of the source's stream to the binlog file ``file``. The item holds one or more whole events, or
        is a large event, whose pieces are received from the connection while they are written. Events that the file
        already has are compared with the file instead.

        Raises SourceReplaced when a compared event differs, and OutputError when the file cannot be read or written.
        For a large event, raises ConnectionLost when the connection breaks before the last piece, and
        SourceStreamDamaged when the event's checksum is wrong.
        """
        self._controls = 0
        end = file.end
        if isinstance(item, memoryview):
            file.append(item)
        else:
            try:
                file.append_large(item)
            except OSError as error:
                raise self._broken(error) from None
        self._note(file, file.end - end)

    def _note(self, file: OpenFile, size: int) -> None:
        progress = self._follower.progress
        progress.file, progress.position = file.name, file.position
        if size:
            # An event that the store has already is no progress, or a source could have it asked for without end.
            progress.bytes += size
            progress.events_at = time.time()
        self._is_told = False

    def _control(self, payload: bytes) -> bool:
        """Process a packet that holds no ordinary event, and return whether more packets are expected.

        Such a packet is an error, the end of the dump, or an event such as Rotate, format description or heartbeat.
        """
        first = payload[0]
        if first == _ERROR:
            raise self._error(payload)
        if first == _END and len(payload) < _LONGEST_END:
            if self._follower.options.stop_never:
                raise E.ConnectionLost(f"{self._connection.url}: the source ended the dump")
            self._check_whole()
            return False
        if first != 0 or len(payload) < 1 + events.HEADER_LENGTH:
            raise self._damaged(f"a packet of {len(payload)} bytes that begins with {first:#04x}")
        self._controls += 1
        if time.monotonic() - self._controls_since > _CONTROL_SECONDS:
            self._controls, self._controls_since = 1, time.monotonic()
        if self._controls > _ENDLESS_CONTROL:
            raise self._damaged("packets without end that hold no events")
        event = payload[1:]
        header = events.EventHeader.unpack(event)
        if header.size != len(event):
            raise self._damaged(
                f"a {events.event_name(header.type)} event whose length is {header.size}, in a packet with "
                f"{len(event)} bytes for it"
            )
        is_artificial = bool(header.flags & events.LOG_EVENT_ARTIFICIAL_F) or header.end_log_pos == 0
        if header.type == events.EventType.ROTATE and is_artificial:
            return self._begin(event)
        if header.type == events.EventType.FORMAT_DESCRIPTION:
            self._describe(event, header)
        elif header.type in HEARTBEATS:
            self._heartbeat(event, header)
        elif header.type in (events.EventType.ROTATE, events.EventType.STOP) and not is_artificial:
            self._close(event, header)
            if self._last and self._named == self._last:
                return False
        # Other artificial events tell a replica what it knows already, and stand in no file.
        return True

    def _begin(self, event: bytes) -> bool:
        """Process an artificial Rotate event, which names the file and position of the following events.

        Return False if the dump shall end here, because the named file comes after the last wanted one, and otherwise
        True. Raises SourceStreamDamaged for a file or position that cannot follow. Raises OptionError for a last wanted
        file with another base name, and for one before the first file of the dump.
        """
        body = event[events.HEADER_LENGTH :]
        # Before the format description event, only a right checksum says that there is one.
        if len(body) > 8 + events.CHECKSUM_LENGTH and events.is_sound(event):
            body = body[: -events.CHECKSUM_LENGTH]
        name, position = self._rotate(body)
        base, number = check_binlog_name(name)
        file = self._file
        if not self._named:
            wanted, at = self._requested
            if (wanted and name != wanted) or position != at:
                raise self._damaged(
                    f"events of {printable(name)} at {position}, where {wanted} at {at} was asked for"
                )
        elif file is not None and (name, position) == (file.name, file.position):
            return True
        else:
            self._check_whole()
            if file is None:
                raise self._damaged(f"the begin of {printable(name)} before the rest of {self._named}")
            if file.next_name not in ("", name):
                raise self._damaged(
                    f"the begin of {printable(name)} after a Rotate event to {printable(file.next_name)}"
                )
            if position != FIRST_EVENT:
                raise self._damaged(f"the begin of {printable(name)} at {position}")
            old_base, old = check_binlog_name(self._named)
            if base != old_base or number <= old:
                raise self._damaged(f"a file that goes back: {printable(name)} after {self._named}")
        last_base, last = check_binlog_name(self._last) if self._last else (base, number)
        to = f"{self._connection.url}: to={self._last}"
        if base != last_base:
            raise E.OptionError(
                f"{to}: the source has no such file; its files are named like {printable(name)}"
            )
        if number > last and not self._named:
            raise E.OptionError(f"{to}: lies before {name}, the first file to receive; name a later file")
        if number > last:
            # The last file has ended without a Rotate event, since its server crashed.
            self._store.end_file()
            return False
        if file is not None and not file.is_closed and self._resumed != (file.name, file.end):
            # Either the server crashed at the end of this file, or its binlogs began anew (RESET MASTER) during the
            # dump, and only another dump from this end tells that the source has another file of this name.
            raise E.ConnectionLost(
                f"{self._connection.url}: {file.name} ended without a Rotate event; the source is asked whether it "
                "still has this file"
            )
        self._named, self._named_position, self._file = name, position, None
        return True

    def _rotate(self, body: bytes | memoryview) -> Rotate:
        try:
            return decode_rotate(body)
        except E.BinlogError as error:
            raise self._damaged(f"a Rotate event that cannot be read: {error.what}") from None

    def _check_whole(self) -> None:
        """Check that the source has sent all events that the store (directory of received files) already has of the
        present binlog file. If the source's file ends earlier, it is not the file that was stored, and SourceReplaced
        is raised.
        """
        if self._file is not None and self._file.is_ahead:
            raise self._file.replaced("ends earlier")

    def _describe(self, event: bytes, header: events.EventHeader) -> None:
        """Process a format description event: begin a file in the store (directory of received files) with the event,
        or check that the store's file begins with an equal event.

        The source repeats the event when a dump begins inside a file. Raises SourceStreamDamaged for an event that may
        not come now or is malformed, and SourceReplaced if the store's file begins with another event.
        """
        if not self._named or self._file is not None:
            raise self._damaged("a format description event that does not stand at the begin of a file")
        if (
            self._named_position != FIRST_EVENT
            and event[-events.CHECKSUM_LENGTH - 1 : -events.CHECKSUM_LENGTH] == b"\0"
        ):
            # At the begin of a dump inside a file MariaDB clears the time of creation. Without checksums it does not
            # compute the event's own checksum again.
            changed = bytearray(event)
            events.seal(changed)
            event = bytes(changed)
        try:
            description = FormatDescription.parse(event)
        except E.BinlogError as error:
            raise self._damaged(str(error)) from None
        file = self._store.file
        if file is not None and file.name == self._named:
            file.check_head(description)
            if self._named_position == FIRST_EVENT:
                if description.raw != file.description.raw:
                    raise file.replaced("begins differently")
                file.position = FIRST_EVENT + len(event)
        else:
            if header.end_log_pos not in (0, FIRST_EVENT + len(event)):
                raise self._damaged(f"a format description event that ends at {header.end_log_pos}")
            file = self._store.begin_file(self._named, description.raw, description)
            self._note(file, len(event))
        self._file = file
        self._deframer.checksum = description.checksum

    def _heartbeat(self, event: bytes, header: events.EventHeader) -> None:
        """Check that the position of a heartbeat is the position up to which events were received. Raises
        SourceStreamDamaged if it is not. Nothing is checked while the received file has events that the source has not
        sent again after a reconnection.
        """
        file = self._file
        if header.type != events.EventType.HEARTBEAT or file is None or file.is_ahead:
            return
        name = event[events.HEADER_LENGTH :]
        ours = file.name.encode("utf-8", "surrogateescape")
        is_ours = name[: len(ours)] == ours and len(name) - len(ours) in (0, events.CHECKSUM_LENGTH)
        if is_ours and header.end_log_pos not in (0, file.position & login.MOST_POSITION):
            raise self._damaged(f"a heartbeat from {header.end_log_pos}; events are missing")

    def _close(self, event: bytes, header: events.EventHeader) -> None:
        """Store a Rotate or Stop event with which the server closed the file. Raises SourceStreamDamaged for a
        malformed event.
        """
        file = self._current_file()
        if header.end_log_pos != (file.position + header.size) & login.MOST_POSITION:
            raise self._damaged(f"a {events.event_name(header.type)} event that ends at {header.end_log_pos}")
        if file.description.checksum and not events.is_sound(event):
            raise self._damaged(f"a {events.event_name(header.type)} event with a wrong checksum")
        if header.type == events.EventType.ROTATE:
            file.next_name = self._rotate(file.description.body(event)).name
            check_binlog_name(file.next_name)
        self._append(file, memoryview(event))
        file.is_closed = True
        file.clear_in_use()

    def _error(self, payload: bytes) -> Exception:
        """Return the error for an error packet of the source, such as SourcePurged or SourceRefused."""
        if len(payload) < 3:
            return self._damaged("an error packet without an error")
        (number,) = struct.unpack_from("<H", payload, 1)
        text = payload[3:].decode("utf-8", "replace")
        if text.startswith("#"):
            text = text[6:]
        if number != _POSITION_LOST:
            return self._connection.refusal(number, text)
        name, position = self._requested
        said = printable(text, 500)
        file = self._store.file
        if "could not find" in text.lower() and file is not None:
            if self._file is not None and self._resumed != (file.name, file.end):
                # Only the source's files tell whether it purged them, or began its binlogs anew during this dump.
                return E.ConnectionLost(
                    f"{self._connection.url}: {said}; the source is asked whether it still has {file.name}"
                )
            return _purged(file.name, f", and says: {said}")
        if file is not None and (self._file is None or self._file.is_ahead):
            return file.replaced(f"has no event here, and the source says: {said}")
        return E.SourceRefused(
            f"{self._connection.url}: {name or 'oldest binlog'} at {position}: {said} ({number})"
        )

    def _damaged(self, what: str) -> E.SourceStreamDamaged:
        file, position = self._where()
        place = f"{printable(file)}: at {position}: " if file else f"{self._connection.url}: "
        return E.SourceStreamDamaged(f"{place}the source sent {what}")


def _purged(name: str, said: str) -> E.SourcePurged:
    return E.SourcePurged(
        f"{name}: the source no longer has this file, at whose end the store goes on{said}. The events between are "
        "lost to the store: fetch into another directory, and keep binlogs longer on the source "
        "(binlog_expire_logs_seconds, expire_logs_days)"
    )


def _is_heartbeat(payload: bytes) -> bool:
    """Tell whether a packet may hold a heartbeat event, judged by its event type."""
    return len(payload) > 1 + events.HEADER_LENGTH and payload[0] == 0 and payload[5] in HEARTBEATS


def _is_past(file: OpenFile, last: str) -> bool:
    """Tell whether a store (directory of received files) has the binlog file ``last`` completely. ``file`` is the
    newest file of the store.
    """
    (base, number), (last_base, wanted) = check_binlog_name(file.name), check_binlog_name(last)
    return base == last_base and (number > wanted or (number == wanted and file.is_closed))


def _next_name(name: str) -> str:
    """Return the name of the binlog file that a server begins after the file ``name``.

    >>> _next_name("bin.000009")
    'bin.000010'
    """
    base, _, number = name.rpartition(".")
    return f"{base}.{int(number) + 1:0{len(number)}}"


log = logger("dumpfilter.receiver")

_LONGEST_WAIT = 60.0
_MOST_DAMAGED = 3
"""The number of damaged streams in a row, without an event between them, after which a receiver gives up."""


@dataclass(frozen=True)
class FollowOptions:
    """The options of a :class:`Follower` (the receiver of a running server's binlog): when the follower ends, and how
    often it tries to connect again.
    """

    stop_never: bool = False
    """Whether the receiver waits for new events at the end of the source's newest file, instead of ending there."""
    retries: int = 10
    """The number of failed attempts to connect in a row after which the receiver gives up; 0: it never gives up."""
    wait_for_first: bool = False
    """Whether the receiver tries again if the source cannot be reached at the start. After a first connection it tries
    again in any case.
    """
    longest_wait: float = _LONGEST_WAIT


class Follower:
    """The receiver of one source's binlog (that of a running server) into one store (directory of received files).
    :meth:`run` works in the caller's thread until it is done.

    Parameters:
        url: the source's address.
        store: the open directory to which the received files are written.
        options: when the follower ends, and how often it tries again.
        on_progress: called after writes, in the thread of :meth:`run`.

    The constructor raises OptionError if ``url`` names a first or last file that no binlog file can have as its name.
    """

    def __init__(
        self,
        url: SourceUrl,
        store: BinlogDirectory,
        options: FollowOptions | None = None,
        *,
        on_progress: Callable[[], None] = lambda: None,
    ) -> None:
        first = "" if url.first in ("oldest", "newest") else url.first
        for option, name in (("from", first), ("to", url.last)):
            if name and not is_binlog_name(name):
                raise E.OptionError(
                    f"{url}: {option}={name}: no name of a binlog file, such as binlog.000012"
                )
        self.url = url
        self.store = store
        self.progress = Progress()
        self.is_connected = False
        """Whether the source is sending its binlog at present."""
        self.connections = 0
        """The number of connections on which a dump was requested."""
        self.failures = 0
        """The number of failed attempts to connect, and of connections that ended in an error."""
        self.last_error = ""
        self.last_error_at = 0.0
        self.error: E.DumpfilterError | None = None
        """The error because of which nothing is received, if the error does not disappear by itself. None once a new
        connection is made.
        """
        self.options = options or FollowOptions()
        self.on_progress = on_progress
        self._stops: queue.SimpleQueue[None] = queue.SimpleQueue()
        """The calls of :meth:`stop`, which end a wait. A signal handler may interrupt a wait of the same thread at any
        point. In such a handler ``threading.Event.set`` could wait for ever, and ``SimpleQueue.put`` cannot.
        """
        self._connection: login.SourceConnection | None = None
        self.turns: Turns | None = None
        """The asyncio loop that waits for events of the source, and receives them, while few arrive. None: the thread
        of :meth:`run` always does so itself.
        """
        self._has_warned = False

    def stop(self) -> None:
        """Make :meth:`run` return soon. Any thread and any signal handler may call this method."""
        self._stops.put(None)
        connection = self._connection
        if connection is not None:
            connection.interrupt()

    def run(self) -> None:
        """Receive until the source's binlog ends, until the last wanted file is complete, or until :meth:`stop`. With
        ``options.stop_never``, wait for new events at the end of the newest file.

        After a lost connection the follower connects again. Raises DumpfilterError for an error that no further attempt
        can cure, or after too many failed attempts. A subclass can prevent this by its method :meth:`lasting`.
        """
        damaged, backoff = 0, Backoff(self.options.longest_wait)
        while self._stops.empty():
            before = self.progress.bytes
            try:
                self._receive()
                return
            except E.DumpfilterError as error:
                if not self._stops.empty():
                    return
                self.failures += 1
                self.last_error, self.last_error_at = str(error), time.time()
                if self.progress.bytes > before:
                    damaged = 0
                    backoff.reset()
                damaged += isinstance(error, E.SourceStreamDamaged)
                wait = backoff.next()
                if self._may_pass(error, backoff.attempts, damaged):
                    log.warning(
                        "source lost",
                        source=str(self.url),
                        error=printable(str(error), 500),
                        retry_in_seconds=round(wait, 1),
                    )
                else:
                    wait = self.lasting(error)
                    damaged = 0
                    backoff.reset()
                with contextlib.suppress(queue.Empty):
                    self._stops.get(timeout=wait)
                    return

    def lasting(self, error: E.DumpfilterError) -> float:
        """Decide what follows after ``error``, for which :meth:`run` gives up because it cannot be cured, or has come
        too often. This method raises the error, and so ends :meth:`run`. A subclass can instead return a number of
        seconds, after which :meth:`run` tries again.
        """
        raise error

    def _warn_of_impostors(self) -> None:
        """Log a warning, at the first call only, that names the secret a fake server at the source's address could
        learn, such as the password. Log nothing if the source's certificate is verified, or if its address is a Unix
        socket.
        """
        if self.url.socket or self._has_warned:
            return
        self._has_warned = True
        gets = login.find_credentials(self.url).impostor_gets()
        if gets:
            log.warning(
                "source not verified",
                source=str(self.url),
                reason=f"whoever answers in its place gets {gets}, and can send any binlog",
                hint="verify the source's certificate with ca=FILE",
            )

    def _may_pass(self, error: E.DumpfilterError, failed: int, damaged: int) -> bool:
        if self.options.retries and failed >= self.options.retries:
            return False
        if isinstance(error, E.SourceStreamDamaged):
            return self.connections > 0 and damaged < _MOST_DAMAGED
        if isinstance(error, E.TlsError):
            return self.connections > 0
        return isinstance(error, E.ConnectionLost) and (self.connections > 0 or self.options.wait_for_first)

    def _receive(self) -> None:
        """Connect to the source (a running server), and receive its binlog over this connection. Return when the source
        ends the dump (its stream of events), or the last wanted file is complete. Raises DumpfilterError for any error
        of the connection, the source or the directory of received files.
        """
        self._warn_of_impostors()
        connection = login.SourceConnection(self.url)
        self._connection = connection
        try:
            if not self._stops.empty():
                return
            facts = login.ask_facts(connection)
            self.store.recognize(facts.family, facts.server_uuid, str(self.url))
            self.progress.files = facts.logs or []
            first, last = self._range(facts)
            if self.options.stop_never:
                log.info(
                    "source connected",
                    source=str(self.url),
                    version=facts.version,
                    tls=connection.is_encrypted,
                )
            self.is_connected = True
            self.connections += 1
            self.error = None
            Reception(self, connection, facts).run(first, last)
        finally:
            self.is_connected = False
            self._connection = None
            connection.close()
            self.store.close_file()

    def _range(self, facts: login.SourceFacts) -> tuple[str, str]:
        """Return the first and the last file to receive, from the URL's options ``from`` and ``to``.

        Only an empty store (directory of received files) begins at the first file. An empty name stands for the
        source's oldest file, or for no last file. ``facts`` has the source's files. Raises OptionError for a file from
        which the store cannot continue.
        """
        first, last = "" if self.url.first == "oldest" else self.url.first, self.url.last
        if first == "newest":
            if not facts.logs:
                raise E.OptionError(
                    f"{self.url}: from=newest needs a user who may list the source's binlogs: GRANT REPLICATION CLIENT "
                    "(MySQL) or BINLOG MONITOR (MariaDB)"
                )
            first = facts.logs[-1][0]
        names = self.store.names
        if self.url.first not in ("", "oldest", "newest") and names and first not in names:
            raise E.OptionError(
                f"{self.url}: from={first}: {self.store.directory} has {names[0]} to {names[-1]} already, and goes on "
                "there; name another directory"
            )
        return first, last
