"""The limits on what clients can make a master spend: threads, connections, memory and messages.

docs/limits.md lists the limits, and says what a client gets beyond each of them.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from enum import Enum

from dumpfilter.base.errors import DumpfilterError

MAX_REQUEST = 2 << 20
"""The largest request that the master receives, bytes. A filter with the largest number of rules, or the longest GTID
set, fits.
"""

MAX_SMALL_REQUEST = 16 << 10
"""The largest request of a method whose requests hold only ids, names and passwords, bytes."""

MAX_RULES = 10_000
"""The largest number of rules in a slave's filter."""

MAX_RULES_TEXT = 1 << 20
"""The largest number of characters of all rules of one filter together."""

MAX_NAME = 1024
"""The longest rule value, host name, channel or user name that the master accepts from a slave, characters."""

MAX_IDS = 10_000
"""The largest number of server ids, or of domain ids, that a slave can name in IGNORE_SERVER_IDS and similar lists."""

MAX_GTID_TEXT = 1 << 20
"""The longest GTID set that a slave can send, characters. The GTID set of a long chain of masters has 170,000
characters.
"""

MIN_CHUNK_SIZE = 4 << 10
"""The smallest chunk (message) of a dump, bytes. In smaller chunks the other fields would cost more than the events."""

MAX_CHUNK_SIZE = 4 << 20
"""The largest chunk (message with events) that a slave may ask for, bytes.

The master holds up to two chunks for a slave that does not read.
"""

MIN_HEARTBEAT_PERIOD = 0.25
"""The shortest time between the heartbeats of a dump, seconds."""

MAX_DUMPS = 5000
"""The default of the largest number of slaves that can receive events at once. Each dump occupies a connection."""

MAX_CALLS = 256
"""The largest number of gRPC calls that the master answers at once, besides dumps, health checks, and slaves' reports
to be alive. A dump also counts as such a call until its request is decoded.
"""

MAX_CALLS_OF_HOST = 128
"""The part of MAX_CALLS that one host can have at once, so that other hosts are still served."""

MAX_SHORT_CALLS = 1000
"""The largest number of health checks and Alive calls at once. An Alive call tells the master that a slave that dumps
is alive.
"""

MAX_SHORT_CALLS_OF_HOST = 250
"""The largest number of health checks and Alive calls of one host at once. By an Alive call a slave reports that it is
alive.
"""

_REFUSED_AT_ONCE = 500
"""The number of calls above the limits that get a proper error at once. gRPC ends further ones by itself."""

REQUEST_SECONDS = 120.0
"""The time within which a client must send the whole request of a call, seconds. Some slaves have slow connections."""

SHORT_REQUEST_SECONDS = 10.0
"""The time within which a client must send the request of a health check or an Alive call (a slave's report that it is
alive), seconds. The request is a few bytes.
"""

MIN_NET_TIMEOUT = 1.0
"""The shortest time within which a slave can promise to make its next call, seconds. The master ends the slave's dump
if no call comes in the promised time.
"""

SPARE_CONNECTIONS = 250
"""The number of connections that the master accepts in addition to one for each dump."""

MIN_CONNECTIONS = 16
"""The number of connections that the master accepts even if the system allows few open files."""

MAX_STREAMS = 320
"""The largest number of calls at once on one connection. A slave with MySQL's largest number of channels (256) needs
one for each.
"""


REFUSALS_LOGGED = 100
"""The largest number of refused calls without a valid password or id that the master logs in 10 seconds."""


class Overloaded(DumpfilterError):
    """The error for a request that is refused because the master has reached one of its limits.

    The same request may succeed later.
    """

    grpc_code = "RESOURCE_EXHAUSTED"


def open_calls(max_dumps: int) -> int:
    """Return the number of calls that gRPC accepts at once, for a master with at most ``max_dumps`` dumps.

    The number exceeds the sum of the limits of all kinds of calls, so that excess calls get a proper error.
    """
    return max_dumps + MAX_CALLS + MAX_SHORT_CALLS + _REFUSED_AT_ONCE


def open_connections(max_dumps: int, open_files: int) -> int:
    """Return how many connections a master with at most ``max_dumps`` dumps accepts. ``open_files`` is the system's
    limit on the open files of the process.

    Half of the files are left for binlog files and for the console.
    """
    return max(MIN_CONNECTIONS, min(max_dumps + SPARE_CONNECTIONS, open_files // 2))


class Kind(Enum):
    """A kind of gRPC call. The master limits the number of concurrent calls of each kind. The value is a pair of texts
    for the error at this limit: a name for such calls, and what the client can do.
    """

    CALL = "calls", "try again in a few seconds"
    DUMP = "dumps", "try again later, or start the master with a larger --max-dumps"
    SHORT = "health checks and Alive calls", "try again in a few seconds"
    """Calls that are answered at once, and that must succeed while other calls wait."""


class Places:
    """A counter of the gRPC calls in progress, by kind of call and by client host. :meth:`take` refuses a call above a
    limit. Not thread-safe, because all calls run in one asyncio loop.
    """

    def __init__(self, max_dumps: int) -> None:
        self.most = {
            Kind.CALL: (MAX_CALLS, MAX_CALLS_OF_HOST),
            Kind.DUMP: (max_dumps, max_dumps),
            Kind.SHORT: (MAX_SHORT_CALLS, MAX_SHORT_CALLS_OF_HOST),
        }
        """The limit of each kind of call, and its limit for one host."""
        self._used: Counter[tuple[Kind, str | None]] = Counter()

    @contextmanager
    def take(self, kind: Kind, peer: str) -> Iterator[None]:
        """Count a call of the kind ``kind`` as in progress while the ``with`` block runs.

        ``peer`` is the client's address in gRPC's notation. Raises Overloaded, before the block, when as many calls of
        this kind are in progress as the master allows in all, or for one client host.
        """
        keys = ((kind, None), (kind, host_of(peer)))
        for key, most in zip(keys, self.most[kind], strict=True):
            if self._used[key] >= most:
                whose = "of this host " if key[1] is not None else ""
                calls, cure = kind.value
                raise Overloaded(
                    f"the master has {most} {calls} {whose}under way, the most it allows; {cure}"
                )
        self._used.update(keys)
        try:
            yield
        finally:
            for key in keys:
                self._used[key] -= 1
                if not self._used[key]:
                    del self._used[key]

    def used(self, kind: Kind) -> int:
        """Return how many calls of this kind are in progress. Any thread may call this method."""
        return self._used[kind, None]


def host_of(peer: str) -> str:
    """Return the host in the address of a gRPC client, without the port.

    >>> host_of("ipv4:10.0.0.7:51234"), host_of("ipv6:%5B::1%5D:51234")
    ('ipv4:10.0.0.7', 'ipv6:%5B::1%5D')
    """
    return peer.rpartition(":")[0]


def started_pool(threads: int, name: str) -> ThreadPoolExecutor:
    """Return a pool whose ``threads`` threads already run, so that a lack of threads is found now and not in a later
    request. Raises Overloaded when the system gives the process no more threads.
    """
    pool = ThreadPoolExecutor(threads, name)
    # The pool starts a thread when a task finds no idle one. The tasks wait for each other, so each gets its own.
    all_there = threading.Barrier(threads + 1)
    try:
        for _ in range(threads):
            pool.submit(all_there.wait)
    except RuntimeError:
        all_there.abort()
        pool.shutdown(cancel_futures=True)
        raise Overloaded("the system gives the master no more threads; raise the limit (ulimit -u)") from None
    all_there.wait()
    return pool
