"""The state file ``counters.info``: what a channel has counted since its first start.

The counts outlive the channel's threads, its connections and the slave's process. Nothing depends on them. Therefore a
damaged file is set aside with a warning, and the channel counts from zero.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import structlog
from pydantic import Field, NonNegativeInt

from dumpfilter.base import files
from dumpfilter.base.errors import OutputError
from dumpfilter.base.state_file import State, StateFile
from dumpfilter.slave.state import FORMAT
from dumpfilter.v1 import dumpfilter_pb2 as pb

# At run time this import would load the reading of statements, which dumpfilter status does not need.
if TYPE_CHECKING:
    from dumpfilter.filter.hits import Hits

log = structlog.get_logger("dumpfilter.slave")

NAME = "counters.info"

_LONGEST_ERROR = 2000
"""The length at which the text of an error is cut, characters."""


class CountersInfo(State):
    """The content of ``counters.info``. Times are Unix times in seconds, 0 for never."""

    since: float = 0.0
    """The time at which the channel began to count."""
    connections: NonNegativeInt = 0
    heartbeats: NonNegativeInt = 0
    chunks: NonNegativeInt = 0
    bytes_received: NonNegativeInt = 0
    """The size of all received events, bytes. Events that the slave had to receive twice count twice."""
    counts: dict[str, NonNegativeInt] = Field(default_factory=dict)
    """The numbers of events and bytes that the master says it has read, sent and dropped for the channel.

    The keys are the names of the members of the protobuf message ``Counts``.
    """
    hits: dict[str, NonNegativeInt] = Field(default_factory=dict)
    """The number of hits of rules of each kind, by the kind's option."""
    io_errors: NonNegativeInt = 0
    """The number of lost connections, failed attempts to connect, and errors that ended the I/O thread."""
    sql_errors: NonNegativeInt = 0
    """The number of errors that ended the SQL thread."""
    last_io_error: str = ""
    last_io_error_at: float = 0.0
    last_sql_error: str = ""
    last_sql_error_at: float = 0.0


class ChannelCounters:
    """The counts of one channel. Any thread can add to them, and :meth:`save` writes them to ``counters.info``."""

    def __init__(self, directory: Path) -> None:
        self._file = counters_file(directory)
        self._lock = threading.Lock()
        self._saving = threading.Lock()
        self._failing = False
        self._is_changed = False
        found = self._file.load_or_set_aside(self._warn) or CountersInfo(since=time.time())
        self._values = found.model_dump()
        self._values["counts"] = {
            name: found.counts.get(name, 0) for name in pb.Counts.DESCRIPTOR.fields_by_name
        }
        self.begin()

    @property
    def info(self) -> CountersInfo:
        """The counts at present."""
        with self._lock:
            return CountersInfo(**self._values)

    def begin(self) -> None:
        """Note that an I/O thread starts, from which :attr:`received` counts."""
        self._begun = self.info
        self.last_heartbeat_at = 0.0
        """The Unix time of the newest heartbeat since then, seconds. 0 before the first heartbeat."""

    @property
    def received(self) -> CountersInfo:
        """The connections, messages, bytes and the master's counts since the newest start of the I/O thread."""
        now, begun = self.info, self._begun
        names = ("connections", "heartbeats", "chunks", "bytes_received")
        since = {name: getattr(now, name) - getattr(begun, name) for name in names}
        counts = {name: number - begun.counts[name] for name, number in now.counts.items()}
        return now.model_copy(update={**since, "counts": counts})

    def count_chunk(self, chunk: pb.Chunk, size: int) -> None:
        """Add one received message of the master's stream, which has ``size`` bytes of events."""
        with self._lock:
            self._add("chunks", 1)
            self._add("bytes_received", size)
            if chunk.heartbeat:
                self._add("heartbeats", 1)
                self.last_heartbeat_at = time.time()
            counts, more = self._values["counts"], chunk.counts
            for name in counts:
                counts[name] += getattr(more, name)

    def count_connection(self) -> None:
        """Add one connection with a stream of events."""
        with self._lock:
            self._add("connections", 1)

    def count_hits(self, hits: Hits) -> None:
        """Add hits of filter rules."""
        with self._lock:
            known = self._values["hits"]
            for kind, count in hits.items():
                known[kind.option] = known.get(kind.option, 0) + count
            self._is_changed = True

    def count_error(self, thread: Literal["io", "sql"], text: str) -> None:
        """Add an error of a thread, which ended the thread, or only a connection of the I/O thread."""
        with self._lock:
            self._add(f"{thread}_errors", 1)
            self._values[f"last_{thread}_error"] = _utf8(text[:_LONGEST_ERROR])
            self._values[f"last_{thread}_error_at"] = time.time()

    def _add(self, name: str, number: int) -> None:
        self._values[name] += number
        self._is_changed = True

    def save(self) -> None:
        """Write the counts to ``counters.info`` if they have changed. A failure is an event of the log, once."""
        with self._saving:
            with self._lock:
                if not self._is_changed:
                    return
                self._is_changed = False
            try:
                self._file.save(self.info)
            except OutputError as error:
                self._is_changed = True
                if not self._failing:
                    log.error(
                        "counters not saved",
                        reason=str(error),
                        hint="the slave goes on, and tries again; a restart would lose the counts since the last save",
                    )
                self._failing = True
            else:
                self._failing = False

    def _warn(self, reason: str, aside: str) -> None:
        log.warning(
            "counters cannot be used",
            file=str(self._file.path),
            reason=reason,
            hint=f"the channel counts from zero; the file is kept as {aside}",
        )

    def remove(self) -> None:
        """Remove the file, because the channel is removed. Raises OutputError."""
        with self._saving, self._lock:
            self._is_changed = False
            files.remove(self._file.path)


def counters_file(directory: Path) -> StateFile[CountersInfo]:
    """Return the file ``counters.info`` of a channel's directory."""
    return StateFile(directory / NAME, CountersInfo, FORMAT)


def _utf8(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
