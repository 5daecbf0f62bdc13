"""The counters and latencies that a master records for its metrics while it works.

The process has a single object with all of them, as prometheus_client has for its own metrics. So the code that records
needs one import and one call. The master reads all other metrics from its objects when Prometheus asks for them.
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Iterator

from dumpfilter.base.errors import DumpfilterError
from dumpfilter.console.facts import DELAY_BUCKETS, WORK_BUCKETS, Latency

_OF_CALLS = ("dumpfilter.base.errors", "dumpfilter.dump", "dumpfilter.master")
"""The packages and modules that define the errors with which gRPC calls and dumps end."""


class Measurements:
    """All counters and latencies that the master records for its metrics. The counters count failed gRPC calls and
    dumps, and the scanned bytes and events. The latencies are the times to plan and to make chunks (messages to
    slaves), and the delay from a commit until its chunk is sent. To plan a chunk is to decide which events the chunk
    has. Thread-safe.
    """

    def __init__(self) -> None:
        self.plan = Latency(WORK_BUCKETS)
        self.encode = Latency(WORK_BUCKETS)
        self.send_delay = Latency(DELAY_BUCKETS)
        self.scanned_bytes = 0
        """The bytes of binlog files that were scanned. A part of a file that was scanned twice counts once."""
        self.scanned_events = 0
        self._failures = Counter[str]()
        self._lock = threading.Lock()

    def count_scan(self, nbytes: int, events: int) -> None:
        """Count ``nbytes`` bytes with ``events`` events, a newly scanned part of a binlog file."""
        with self._lock:
            self.scanned_bytes += nbytes
            self.scanned_events += events

    def count_failure(self, error: BaseException) -> None:
        """Count a gRPC call, or a dump, that failed with this error."""
        with self._lock:
            self._failures[reason_of(type(error))] += 1

    def failures(self) -> dict[str, int]:
        """Return the number of failed gRPC calls and dumps by reason (the name of the error's class), with 0 for each
        reason for which a call may fail later.

        Prometheus can only tell that a counter has grown if it has seen the counter before.
        """
        found = dict.fromkeys(map(reason_of, _errors_of_calls(DumpfilterError)), 0)
        with self._lock:
            return found | self._failures


MEASURED = Measurements()
"""The single object of this process with all measurements."""


def _errors_of_calls(kind: type[DumpfilterError]) -> Iterator[type[DumpfilterError]]:
    """Yield those of the error class ``kind`` and its subclasses with which a gRPC call may end. These are the classes
    with another gRPC status code than DumpfilterError has.
    """
    if kind.grpc_code != DumpfilterError.grpc_code and kind.__module__.startswith(_OF_CALLS):
        yield kind
    for each in kind.__subclasses__():
        yield from _errors_of_calls(each)


def reason_of(error: type[BaseException]) -> str:
    """Return the reason under which an error of this class is counted: the class name in lower case with underscores.

    >>> reason_of(PermissionError)
    'permission_error'
    """
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", error.__name__).lower()
