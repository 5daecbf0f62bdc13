"""The reading of one binlog set for many dumps at once.

Dumps are coroutines of one asyncio loop. Worker threads scan the binlog, decide about events and read them. A dump asks
for the next step (the next chunks) from its place. A place is a binlog position with everything that decides the next
chunks, such as the filter. Dumps with equal places share one step, and the messages of its chunks are made once. When
the binlog grows, the places at its end are planned together. Little work on data in memory runs in the loop, because a
hand-over to a thread would take as long.

Results are stored in two caches with limits. A slow slave keeps no result in memory. Its dump holds only the place,
from which the step can be made again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar
from weakref import WeakSet

from dumpfilter.dump.chunk import MessageBytes
from dumpfilter.dump.thread import Reach
from dumpfilter.filter.flags import TableFlags
from dumpfilter.index.scanner import SEGMENT_SIZE
from dumpfilter.master.advance import DumpPlace, PlacedPlan, Step, steps_from
from dumpfilter.master.commits import Commit, CommitStep, Decider, Tail
from dumpfilter.master.indexed_file import CacheState, IndexedFile, NotCached, RecentCache
from dumpfilter.master.limits import started_pool
from dumpfilter.master.measurements import MEASURED
from dumpfilter.master.store import BinlogStore, Logged

T = TypeVar("T")

MESSAGE_CACHE_BYTES = 48 << 20
"""The limit on the memory of messages that are cached for slower dumps, bytes."""

_STEP_CACHE_BYTES = 48 << 20
"""The limit on the memory of steps (choices of the events that a dump sends next) that are cached for slower dumps,
bytes. With an equal filter a slower dump uses the steps of a faster one, and so comes near enough to share
messages, too.
"""

_LARGEST_KEPT = MESSAGE_CACHE_BYTES // 4
"""The size above which messages are not cached, bytes. One event of 1 GiB would displace all others."""

_SMALL = 64 << 10
"""The size of events that takes little work, bytes. If a dump's next message is that small, the message is made when
its events are chosen. If the binlog has grown by no more, the asyncio loop itself chooses the events to send.
"""

_CHUNKS_AHEAD = 4
"""The number of chunks (messages to a slave) left to send below which the master begins to choose the events of the
following chunks.
"""

_MADE_IN_A_TURN = 16
"""The largest number of chunks (messages to slaves) that are made in one iteration of the asyncio loop. A chunk of 1
MiB takes half a millisecond.
"""

_WORKERS = 4
"""The number of threads that scan binlog files, decide which events are sent, and read these. Two are enough for two
processors; the others wait for the disk.
"""

_SERVANTS = 8
"""The number of threads for calls other than dumps. A call may wait a second to have a password checked."""

_MOST_FOLLOWERS = 128
"""The number of running dumps above which new commits are no longer sent in the same iteration of the asyncio loop in
which the master receives them.
"""

_PLANNED_IN_THE_LOOP = 64
"""The largest number of dump places (position, filter and state) for which the asyncio loop itself decides which new
events are sent, when little was written.
"""

_BETWEEN_CLEANUPS = 30.0
"""The shortest time between two cleanups of the caches, which remove the entries of filters that no running dump uses,
seconds.
"""

_End = tuple[IndexedFile, int, int]
"""The known end of the binlog: the newest file, the byte offset of its end, and the watcher's generation.

The generation is a number that grows with the binlog. With another generation this end is out of date.
"""

_Segment = tuple[IndexedFile, int]
"""The key of a segment (a scanned part of a file): the file, and the byte offset at which the segment begins."""

_Found = Step | CommitStep | Exception | None
"""The answer to a dump's request for its next messages: a step (object with these messages), the error that ends the
dump, or None if there are no messages.
"""


MAX_DROPPED_SECONDS = 0.02
"""The longest time for which the GTIDs of dropped commits wait to be sent together with later commits, seconds. Waiting
saves work, since writing to a connection costs most of what a live commit costs.
"""

QUIET_SECONDS = 0.05
"""The time without events after which a dump corrects its replica's position, seconds."""


class Follower(Protocol):
    """The interface of a dump that waits at the end of the binlog and can send new commits from memory at once, without
    a read of the file.

    :class:`SharedReader` calls :meth:`take` in the same iteration of the asyncio loop in which the commits arrive.
    """

    quiet_seconds: float | None
    """The time without a message after which the dump must be woken before the next heartbeat is due, seconds. None:
    the heartbeat alone wakes the dump.
    """

    def take(self, step: CommitStep, now: float) -> bool:
        """Send ``step``, which has the commits that follow the dump's position, to the slave, and move the dump's
        position behind them. Return whether the commits were sent. ``now`` is the time on the monotonic clock, seconds.

        If the dump cannot send the commits without waiting, do nothing and return False.
        """

    def patience(self) -> float:
        """Return the number of seconds until the dump must be woken even if the binlog does not grow, for example for a
        heartbeat. 0 means now.
        """


class Waiter:
    """The waiting state of one dump, which may wait in the asyncio loop for its next step (the next messages to its
    slave). Other threads can wake the dump by this object.
    """

    def __init__(self, later: Callable[[Callable[[], None]], None]) -> None:
        self._later = later
        self.is_woken = False
        """Whether the dump's present wait must end without new messages, or its next wait if it does not wait now."""
        self.follower: Follower | None = None
        """The dump itself if it can send new commits at once. Otherwise None."""
        self.flags: TableFlags | None = None
        """The verdicts (send or drop) of the filter that the dump uses. None before the dump knows its filter."""
        self.answer: asyncio.Future[_Found] | None = None
        """The future that ends the present wait. None: the dump does not wait."""
        self.timer: asyncio.TimerHandle | None = None
        """The timer that wakes the dump without new messages. None: the dump does not wait for the binlog to grow."""

    def wake(self) -> None:
        """Wake the dump from its present wait, or end its next wait at once. Any thread may call this method."""
        self._later(self._wake)

    def _wake(self) -> None:
        self.is_woken = True
        _settle(self.answer, None)


@dataclass(eq=False, slots=True)
class _Request:
    """A request for the next step (the next messages to slaves) from one place, with the dumps that wait for the
    answer. A place is a binlog position with the filter and the dump's state.
    """

    place: DumpPlace
    """The position, with filter and state, from which the next messages begin. The value changes when dumps that can
    send new commits at once (followers) have sent some.
    """
    waiters: set[Waiter] = field(default_factory=set)


class SharedReader:
    """The reader of the binlog for all dumps of one master. Dumps at equal positions with equal filters share its scans
    and messages. Raises Overloaded if the system gives the process no more threads.

    All methods but :meth:`close`, :meth:`caches` and :meth:`waits_at` must be called in the asyncio loop's thread.
    """

    def __init__(self, store: BinlogStore, loop: asyncio.AbstractEventLoop) -> None:
        self.store = store
        self._loop = loop
        self._workers = started_pool(_WORKERS, "dump-work")
        self._servants = started_pool(_SERVANTS, "grpc-call")
        self._asker = started_pool(1, "ask-source")
        self._question: Future[Logged] | None = None
        """The newest query of the GTIDs that the source, the server from which the binlog is received, has logged. None
        before the first query.
        """
        self._steps: RecentCache[DumpPlace, Step] = RecentCache(_STEP_CACHE_BYTES, lambda step: step.nbytes)
        self._messages: RecentCache[PlacedPlan, tuple[MessageBytes, ...]] = RecentCache(
            MESSAGE_CACHE_BYTES, lambda messages: sum(map(len, messages)), largest=_LARGEST_KEPT
        )
        self._dumps = WeakSet[Waiter]()
        """The dumps that have not ended."""
        self._cleanup_at = 0.0
        """The time of the asyncio loop from which on the next dump that begins cleans up the caches, seconds."""
        self._made_here = 0
        """The number of chunks (messages to slaves) that were made in the present iteration of the asyncio loop."""
        self._making: dict[PlacedPlan, asyncio.Future[tuple[MessageBytes, ...]]] = {}
        self._requests: dict[DumpPlace, _Request] = {}
        """All requests of dumps for their next messages that are not answered yet, by the dump's place (position,
        filter and state).
        """
        self._queue: OrderedDict[_Segment, list[_Request]] = OrderedDict()
        """The requests for which the events to send are not chosen yet, by file and byte offset of the segment (a
        scanned part of the file). The events for all requests of one segment are chosen together.
        """
        self._is_planning = False
        """Whether a worker thread chooses the events of a segment (a scanned part of a file) that dumps send. Meanwhile
        requests for other segments gather. Deciding about them together takes less time, and brings dumps with equal
        filters to equal positions.
        """
        self._waiting: dict[_Request, None] = {}
        """The requests of dumps that wait for the binlog to grow. The values have no meaning."""
        self._end: _End | None = None
        """The last known end of the binlog. A dump that asks for messages from this position waits for growth."""
        self._made_steps = 0
        """The number of steps (a dump's next messages) that were made, for the cache's statistics."""
        self._joined = 0
        """The number of times that a dump asked for a step (next messages) for which another dump had already asked."""
        self._tail = Tail()
        self._live: IndexedFile | None = None
        """The file of the newest received commits. None before a dump has waited at its end."""
        self._recent_steps: dict[DumpPlace, CommitStep | None] = {}
        """The steps (messages with received commits that are still in memory) by the place (position and state) at
        which each begins. None: the dump must read the commits from the file. Cleared when further events are received.
        """
        self._recent_runs: dict[int, tuple[list[Commit], Reach]] = {}
        """The received commits from a position on, with their GTID ranges and server ids (reach), by position. Cleared
        when further events are received.
        """
        self._late: asyncio.TimerHandle | None = None
        """The timer after which dumps tell their slaves the GTIDs of commits that they have dropped. None: no dump has
        such GTIDs to send.
        """
        self._decider = Decider(store.subjects, store.sources)
        store.watcher.listener = lambda: self._later(self._plan_waiting)
        store.on_forgotten = lambda files: self._later(lambda: self._forget_files(files))

    def caches(self) -> dict[str, CacheState]:
        """Return the sizes and hit counts of two caches by name: ``steps``, the planned next messages of dumps, and
        ``chunks``, finished messages. Any thread may call this method.
        """
        steps, messages = self._steps, self._messages
        return {
            "steps": replace(steps.state(), hits=steps.hits + self._joined, misses=self._made_steps),
            "chunks": messages.state(),
        }

    def close(self) -> None:
        """Stop the threads that read the binlog and those that serve other requests."""
        for pool in (self._workers, self._servants):
            pool.shutdown(wait=True, cancel_futures=True)
        # A query of a source that does not answer ends by its timeout, for which only the end of the process waits.
        self._asker.shutdown(wait=False, cancel_futures=True)

    def waiter(self) -> Waiter:
        """Return a new :class:`Waiter` (waiting state) for a dump, by which the dump can be woken while it waits for
        its next messages. The dump counts as running (:meth:`has_dumps`) until :meth:`leave`, or until nothing refers
        to the Waiter.
        """
        if self._loop.time() >= self._cleanup_at:
            self._cleanup_at = self._loop.time() + _BETWEEN_CLEANUPS
            self._forget_filters()
        waiter = Waiter(self._later)
        self._dumps.add(waiter)
        return waiter

    def _forget_filters(self) -> None:
        """Remove the cached steps and decisions of filters that no running dump uses. A step is the next messages of a
        dump, and the limit of the cache counts only its own size. A filter with 10,000 rules takes far more memory.
        """
        used = {waiter.flags for waiter in self._dumps}
        self._recent_steps.clear()
        self._steps.remove_if(lambda place: place.thread.flags not in used)
        self._decider.keep(used)

    def leave(self, waiter: Waiter) -> None:
        """Record that the dump that waits with ``waiter`` has ended. Otherwise the dump would count as running until
        the garbage collector frees the object.
        """
        self._dumps.discard(waiter)

    def has_dumps(self) -> bool:
        """Tell whether any dump is running."""
        return bool(self._dumps)

    async def call(self, function: Callable[[], T]) -> T:
        """Run ``function``, which reads the binlog for a dump, in a worker thread. Return its result or raise its
        error.
        """
        return await self._loop.run_in_executor(self._workers, function)

    async def serve(self, function: Callable[[], T]) -> T:
        """Run ``function``, which serves a request other than a dump, in a thread that dumps do not use. Return the
        function's result or raise its error.
        """
        return await self._loop.run_in_executor(self._servants, function)

    async def ask_source(self, upstream: Callable[[], Logged]) -> Logged:
        """Ask the source, the server from which the binlog is received, for its logged GTIDs. ``upstream`` is the
        function that asks the source (:attr:`BinlogStore.upstream`). Return the function's result or raise its error.

        Callers share a question only if it has not begun yet. The answer to a question that is already running may be
        too old for a new caller: it may lack transactions that the caller's slave has received since the question
        began.
        """
        question = self._question
        if question is None or question.running() or question.done():
            question = self._question = self._asker.submit(upstream)
        answer = asyncio.wrap_future(question)
        # The loop would log an error for which a caller that has ended no longer waits.
        answer.add_done_callback(lambda done: done.cancelled() or done.exception())
        # The end of one caller must not cancel the question of the others.
        return await asyncio.shield(answer)

    async def step(self, place: DumpPlace, seconds: float, waiter: Waiter) -> Step | CommitStep | None:
        """Return the next step (chunks, which are messages) of a dump. The step begins at ``place``, the dump's
        position, filter and state. ``waiter`` is the dump's waiting state, by which others can wake the dump.

        Return None when the binlog has not grown for ``seconds``, or when the dump is woken. With 0 for ``seconds`` the
        method does not wait for growth. Raises DumpfilterError, for example where the binlog is damaged.

        Commits that this process has just received are returned as a CommitStep. A dump that is a :class:`Follower` may
        instead send such commits to its slave while this method waits. The returned step then begins after these
        commits.
        """
        step = self._steps.get(place) or self._recent_step(place)
        if step is not None:
            return step
        if waiter.is_woken:
            waiter.is_woken = False
            return None
        answer = waiter.answer = self._loop.create_future()
        request = self._request(place)
        request.waiters.add(waiter)
        if seconds > 0:
            self._wake_after(waiter, seconds)
        elif request in self._waiting:
            _settle(answer, None)
        try:
            found: _Found = await answer
        finally:
            waiter.answer, waiter.is_woken = None, False
            if waiter.timer is not None:
                waiter.timer.cancel()
                waiter.timer = None
            request.waiters.discard(waiter)
            if not request.waiters:
                self._forget(request)
        if isinstance(found, Exception):
            raise found
        return found

    def _expire(self, waiter: Waiter) -> None:
        """End the wait of a dump when the timer of ``waiter``, the dump's waiting state, has run out. The dump then
        sends a heartbeat, for example.

        A dump that is a :class:`Follower` can send new commits during its wait. Afterwards the dump's heartbeat is due
        later than the timer says. In this case the dump is not woken, and the timer is set to the later time.
        """
        left = 0.0 if waiter.follower is None else waiter.follower.patience()
        if left > 0:
            self._wake_after(waiter, left)
        else:
            _settle(waiter.answer, None)

    def _wake_after(self, waiter: Waiter, seconds: float) -> None:
        if waiter.timer is not None:
            waiter.timer.cancel()
        waiter.timer = self._loop.call_later(seconds, self._expire, waiter)

    def _request(self, place: DumpPlace) -> _Request:
        request = self._requests.get(place)
        if request is None:
            request = self._requests[place] = _Request(place)
            if self._is_end(place):
                self._waiting[request] = None
                self.store.watcher.start()
            else:
                self._made_steps += 1
                self._enqueue([request])
        else:
            self._joined += 1
        return request

    def waits_at(self, place: DumpPlace) -> bool:
        """Tell whether a dump at ``place`` (position, filter and state) waits for the binlog to grow. Any thread may
        call the method.
        """
        return self._requests.get(place) in self._waiting

    def _forget(self, request: _Request) -> None:
        """Remove a request for the next messages that no dump waits for any more, if the request waits for the binlog
        to grow. Any other request is removed when it is answered.
        """
        if request in self._waiting:
            del self._waiting[request]
            del self._requests[request.place]

    def _enqueue(self, requests: Sequence[_Request]) -> None:
        """Queue the ``requests`` of dumps for their next messages. The next iteration of the asyncio loop plans them
        (decides which events are sent) or hands them to worker threads. The delay lets the dumps that ask begin to
        wait. Further requests for the same segment (a scanned part of a file) may come in the meantime, and are planned
        together with these.
        """
        if not requests:
            return
        segments = set()
        for request in requests:
            source = request.place.source
            segment = source, source.segment_start(request.place.position)
            self._queue.setdefault(segment, []).append(request)
            segments.add(segment)
        self._loop.call_soon(self._begin_planning, segments if self._is_little(requests) else ())

    def _is_little(self, requests: Sequence[_Request]) -> bool:
        """Tell whether choosing the events for ``requests`` is so little work that the asyncio loop does it itself.
        This is so if there are few requests, and the first one asks for the end of the file that this process itself is
        writing. At most ``_SMALL`` bytes may follow the request's position, or be left to scan. No earlier file may
        have to be searched for a prepared XA transaction.
        """
        watcher, place = self.store.watcher, requests[0].place
        if not watcher.is_told or len(requests) > _PLANNED_IN_THE_LOOP:
            return False
        # The change to the next file may read all of an earlier file, to check that it is complete.
        if watcher.file_in_use() not in ("", place.file):
            return False
        source, position = place.source, place.position
        # The planning meets the error of a file that cannot be read, even one that nobody foresaw.
        with contextlib.suppress(Exception):
            is_small = source.file.size - min(position, source.scanned_to) <= _SMALL
            return is_small and not source.has_unknown_ends(position)
        return False

    def _begin_planning(self, here: Iterable[_Segment] = ()) -> None:
        """Plan the queued requests of dumps for their next chunks (messages to slaves), so that it is decided which
        events are sent. Worker threads do this, except for the segments ``here``, which take little work. This
        iteration of the asyncio loop plans these, because that takes less time than a hand-over to a thread.
        """
        for segment in here:
            # A worker may have got the segment's requests meanwhile.
            if (group := self._queue.pop(segment, None)) is not None:
                self._planned(*self._plan(group))
        if self._queue and not self._is_planning:
            _, group = self._queue.popitem(last=False)
            self._is_planning = True
            # After the end of the threads the master stops.
            with contextlib.suppress(RuntimeError):
                self._workers.submit(self._plan_in_worker, group)

    def _plan_in_worker(self, group: Sequence[_Request]) -> None:
        planned = self._plan(group)

        def finish() -> None:
            self._is_planning = False
            self._planned(*planned)
            self._begin_planning()

        self._later(finish)

    def _plan(self, group: Sequence[_Request]) -> tuple[list[tuple[_Request, _Found]], int, _End | None]:
        """Make the next steps (chunks to send) for requests of dumps in one segment (a scanned part of a file). Return
        three results: the answer to each request (a step, an error, or None without more events), the generation, and
        the end of the binlog.

        The generation is a number of the binlog's watcher that grows with the binlog, taken before the binlog was read.
        By it the caller notices growth during the planning. The end (file, position and generation) is None unless a
        step leads to the end.
        """
        generation = self.store.watcher.generation
        found = self._found([request.place for request in group])
        step = next((one for one in found if isinstance(one, Step)), None)
        end = None if step is None else self._end_at(step.after, generation)
        return list(zip(group, found, strict=True)), generation, end

    def _end_at(self, place: DumpPlace, generation: int) -> _End | None:
        """Return the end of the binlog as file, position and ``generation`` if the end is at ``place``. Return None if
        the binlog has events or another file after this position.

        ``generation`` is the watcher's number that increases when the binlog grows. The caller has taken the number
        before it read the binlog, so that growth in the meantime is noticed later.
        """
        source, store = place.source, self.store
        # The next planning meets the error of a file that cannot be read. An error here, even one that nobody foresaw,
        # would leave the dumps without the answers that are already there.
        with contextlib.suppress(Exception):
            if place.position == source.file.size and (
                store.watcher.file_in_use() == source.name or store.file_after(source.name) is None
            ):
                return source, place.position, generation
        return None

    def _found(self, places: Sequence[DumpPlace]) -> list[_Found]:
        """Return for each of ``places``, which lie in one segment (a scanned part of a file), the next step of a dump
        (its next chunks). Where a step cannot be made, the result has the error. Where the binlog has no more events,
        the result has None.

        Also make the messages of each step's first chunk if the chunk is small, and begin to scan the events after the
        segment.
        """
        try:
            found: list[_Found] = [*steps_from(self.store, places)]
            for step in found:
                if isinstance(step, Step):
                    self._make_small(step)
            after = next((step.after for step in found if isinstance(step, Step)), None)
            if after is not None:
                self._scan_ahead(after.source, after.position)
            return found
        except Exception as error:
            # The dumps that wait for the steps raise the error, even one that nobody foresaw. Planning one by one finds
            # out whose plan fails.
            return [error] if len(places) == 1 else [one for place in places for one in self._found([place])]

    def _scan_ahead(self, source: IndexedFile, position: int) -> None:
        """Start to scan the segment (run of events) at the byte offset ``position`` in a worker thread, before a dump
        needs it. Nothing is scanned ahead near the end of a file, where a server may be writing. A dump that needs the
        segment meets the errors of the scan again.
        """
        if source.scanned_to <= position <= source.file.size - 2 * SEGMENT_SIZE:
            # After the end of the threads the master stops.
            with contextlib.suppress(RuntimeError):
                self._workers.submit(self.store.segment_of, source, position)

    def _make_small(self, step: Step) -> None:
        """Make and cache the messages of the first chunk of ``step`` (a dump's next chunks, which are messages to
        slaves) if this chunk is small. The dumps that wait for the step then find the messages ready. Dumps share the
        chunk if their filters select the same events.
        """
        piece = step.pieces[0]
        if isinstance(piece, PlacedPlan) and piece.plan.size <= _SMALL and piece not in self._messages:
            self._make(piece, step.before.thread.chunk_size)

    def _later(self, function: Callable[[], None]) -> None:
        """Call a function in the asyncio loop soon, without waiting for it. Any thread may call this method. Do nothing
        after the loop's end.
        """
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function)

    def _make(self, piece: PlacedPlan, chunk_size: int, *, cached: bool = False) -> tuple[MessageBytes, ...]:
        with MEASURED.encode.measured():
            messages = tuple(piece.messages(chunk_size, cached=cached))
            if len(self._dumps) > 1 or piece.plan.size <= _SMALL:
                # A cached view would keep all bytes of a scan in memory. A small message is made before its only dump
                # asks for it, and the dump may end before.
                messages = tuple(map(bytes, messages))
        self._messages.add(piece, messages)
        if not self.store.holds(piece.source):
            # A dump still reads a file that was purged. A cached message would keep the file open after the dump.
            self._messages.remove(piece)
        return messages

    def _planned(self, answers: Sequence[tuple[_Request, _Found]], generation: int, end: _End | None) -> None:
        self._end = end or self._end
        again = []
        for request, found in answers:
            place = request.place
            if found is None:
                for one in request.waiters:
                    if one.timer is None:
                        _settle(one.answer, None)
                if not request.waiters:
                    del self._requests[place]
                elif generation != self.store.watcher.generation:
                    again.append(request)
                else:
                    self._waiting[request] = None
                    self.store.watcher.start()
                continue
            del self._requests[place]
            if isinstance(found, Step) and self.store.holds(place.source):
                self._steps.add(place, found)
            for one in request.waiters:
                _settle(one.answer, found)
        self._enqueue(again)

    def _is_end(self, place: DumpPlace) -> bool:
        return self._end == (place.source, place.position, self.store.watcher.generation)

    def _plan_waiting(self) -> None:
        waiting, self._waiting = list(self._waiting), {}
        self._enqueue(waiting)

    def received(self, file: str, offset: int, data: bytes) -> None:
        """Send events that this process has just received to the waiting dumps, in the present iteration of the asyncio
        loop.

        ``data`` are whole events, which the binlog file ``file`` has from the byte offset ``offset`` on. Dumps that
        cannot send the events at once read them from the binlog, as after any other growth.
        """
        self._recent_steps.clear()
        self._recent_runs.clear()
        source = self._live
        for request in self._waiting:
            if request.place.source.name == file:
                source = request.place.source
                break
        if source is not None and (not self._dumps or source.name != file or source.file.is_relay_log):
            source = None
        self._live, commits = source, None
        if source is not None:
            commits = self._tail.add(file, offset, data, source.file.format_description)
        if commits == []:
            # Nobody can be sent a part of a transaction.
            return
        self.store.watcher.note()
        if source is None or not commits or len(self._dumps) > _MOST_FOLLOWERS:
            self._plan_waiting()
            return
        end = commits[-1].end
        self._end = source, end, self.store.watcher.generation
        # While commits come often, the timer need not wake the process.
        may_wait = self._late is None or self._late.when() - self._loop.time() > MAX_DROPPED_SECONDS / 2
        self._send_to_end(commits if may_wait else [])
        if end - source.scanned_to > 2 * SEGMENT_SIZE:
            self._scan_ahead(source, source.scanned_to)

    def _send_late(self) -> None:
        """Let the dumps that have dropped the last commits tell their slaves the GTIDs of these commits. A real replica
        gets stand-ins (empty transactions), and a dumpfilter slave gets gaps (lists of dropped transactions). A timer
        calls this method if no later commit was sent.
        """
        self._late = None
        self._send_to_end([])

    def _send_to_end(self, newest: Sequence[Commit]) -> None:
        """Let the waiting dumps send all received commits that they have not sent yet. If dumps must read the commits
        from the binlog, a later iteration of the asyncio loop decides what these dumps send.

        ``newest`` are the commits that have just been received. A dump that drops all of these commits sends nothing
        now. The GTIDs of the dropped commits are sent together with later commits, or by a timer (:meth:`_send_late`).
        With an empty ``newest`` no dump waits for later commits.
        """
        waiting, self._waiting = self._waiting, {}
        rest, is_behind, now = [], False, self._loop.time()
        for request in waiting:
            place = request.place
            if newest and place.source is self._live and self._decider.drops(place, newest):
                self._waiting[request] = None
                is_behind = True
            elif self._is_end(place):
                self._waiting[request] = None
            elif (step := self._recent_step(place)) is not None:
                self._hand_over(request, step, now)
                is_behind = is_behind or not self._is_end(step.after)
            else:
                rest.append(request)
        if self._late is None and is_behind:
            self._late = self._loop.call_later(MAX_DROPPED_SECONDS, self._send_late)
        elif self._late is not None and not is_behind:
            self._late.cancel()
            self._late = None
        self._enqueue(rest)

    def _recent_step(self, place: DumpPlace) -> CommitStep | None:
        """Return the next step (message to the slave) from ``place``, a dump's position and state. The step has
        received commits that are still in memory. Return None if there are no such commits, or if the dump must read
        them from the file.
        """
        if place.source is not self._live:
            return None
        if place not in self._recent_steps:
            position = place.position
            if position not in self._recent_runs:
                commits = self._tail.since(place.file, position)
                self._recent_runs[position] = commits, self._decider.reach(commits)
            commits, reach = self._recent_runs[position]
            self._recent_steps[place] = self._decider.step(place, commits, reach) if commits else None
        return self._recent_steps[place]

    def _hand_over(self, request: _Request, step: CommitStep, now: float) -> None:
        """Give ``step``, commits that were just received, to the dumps that wait for ``request``. A dump that can send
        at once (a :class:`Follower`) sends the commits, and then waits for the next growth of the binlog. A follower
        that cannot send ``step`` now is woken. Any other dump gets ``step`` as the answer to its request.

        ``now`` is the loop's time, seconds.
        """
        del self._requests[request.place]
        is_free = step.after not in self._requests
        for waiter in tuple(request.waiters):
            follower, answer = waiter.follower, waiter.answer
            try:
                if follower is None:
                    _settle(answer, step)
                elif answer is not None and not answer.done() and follower.take(step, now):
                    if is_free:
                        if follower.quiet_seconds is not None:
                            self._wait_at_most(waiter, follower, now)
                        continue
                    # The dump asks again, and joins the dumps that wait at an equal place.
                    _settle(answer, None)
                else:
                    _settle(answer, None)
            except Exception as error:
                # The dump raises the error.
                _settle(answer, error)
            request.waiters.discard(waiter)
        if request.waiters:
            request.place = step.after
            self._requests[step.after] = request
            self._waiting[request] = None

    def _wait_at_most(self, waiter: Waiter, follower: Follower, now: float) -> None:
        """Shorten the wait of the dump ``follower``, which has just sent commits, if the dump must be woken earlier
        than its timer says. For example, an empty message may be due soon after the commits, at which a replica's
        position is corrected. ``waiter`` has the timer, and ``now`` is the loop's time, seconds.
        """
        if waiter.timer is not None and (due := waiter.timer.when()) > now + QUIET_SECONDS:
            seconds = follower.patience()
            if due > now + seconds:
                self._wake_after(waiter, seconds)

    def _forget_files(self, files: Sequence[IndexedFile]) -> None:
        """Remove the cached messages of these files from memory, and the cached steps, which say what to send. The disk
        space of a purged file is freed once no object holds the file open.
        """
        gone = set(files)
        self._recent_steps.clear()
        self._recent_runs.clear()
        self._live = None if self._live in gone else self._live
        self._steps.remove_if(lambda place: place.source in gone)
        self._messages.remove_if(lambda piece: piece.source in gone)

    async def messages(self, piece: PlacedPlan, chunk_size: int) -> Sequence[MessageBytes]:
        """Return the messages of ``piece``, a planned chunk (events that are sent together), from the cache or newly
        made. A chunk with more than twice ``chunk_size`` bytes of events may be split into several messages. Raises
        BinlogError if the events cannot be read.
        """
        kept = self._messages.get(piece)
        if kept is None and piece not in self._making:
            kept = self._make_here(piece, chunk_size)
        if kept is None:
            # Another dump may wait for the same messages when this dump is cancelled.
            kept = await asyncio.shield(self._begin(piece, chunk_size))
        if len(self._dumps) < 2:
            # Another dump has no use for the messages.
            self._messages.remove(piece)
        return kept

    def prepare(self, step: Step, number: int) -> None:
        """Begin to choose the events that a dump sends after ``step`` (chunks to send one after another), if few chunks
        of ``step`` are left. The dump then waits less for its next step. ``number`` is the index in ``step`` of the
        chunk that the dump sends next.
        """
        after = step.after
        if (
            number + _CHUNKS_AHEAD > len(step.pieces)
            and after not in self._steps
            and after not in self._requests
            and not self._is_end(after)
        ):
            self._request(after)

    def _make_here(self, piece: PlacedPlan, chunk_size: int) -> tuple[MessageBytes, ...] | None:
        """Make the messages of ``piece``, a planned chunk (events that are sent together), in this iteration of the
        asyncio loop, which takes less time than a hand-over to a thread. A chunk with more than twice ``chunk_size``
        bytes of events may be split into several messages.

        Return None if bytes must be read from the disk, or if this iteration has made too many chunks already. A worker
        thread must then make the messages. Raises BinlogError if the events cannot be read.
        """
        if self._made_here >= _MADE_IN_A_TURN:
            return None
        if not self._made_here:
            self._loop.call_soon(self._begin_turn)
        self._made_here += 1
        try:
            return self._make(piece, chunk_size, cached=True)
        except NotCached:
            return None

    def _begin_turn(self) -> None:
        self._made_here = 0

    def _begin(self, piece: PlacedPlan, chunk_size: int) -> asyncio.Future[tuple[MessageBytes, ...]]:
        """Let a worker thread make the messages of ``piece``, a planned chunk (events that are sent together), unless a
        thread is already doing so. Return the future with the messages. A chunk with more than twice ``chunk_size``
        bytes of events may be split into several messages.
        """
        making = self._making.get(piece)
        if making is None:
            making = self._loop.run_in_executor(self._workers, self._make, piece, chunk_size)
            self._making[piece] = making

            def made(done: asyncio.Future[tuple[MessageBytes, ...]]) -> None:
                del self._making[piece]
                if not done.cancelled():
                    # The dump that asks for the messages meets the error again. Nobody may ask any more.
                    done.exception()

            making.add_done_callback(made)
        return making


def _settle(answer: asyncio.Future[_Found] | None, found: _Found) -> None:
    if answer is not None and not answer.done():
        answer.set_result(found)
