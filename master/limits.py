"""The bounds on what clients can make a master spend: threads, connections, memory and messages.

docs/limits.md lists the bounds, and says what a client gets beyond each of them.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum

from dumpfilter.base.errors import DumpfilterError

MAX_REQUEST = 2 << 20
"""The largest request that the master receives, bytes. A filter with the most rules, or the longest GTID set, fits."""

MAX_SMALL_REQUEST = 16 << 10
"""The largest request of a method whose requests hold only ids, names and passwords, bytes."""

MAX_RULES = 10_000
"""The largest number of rules in a slave's filter."""

MAX_RULES_TEXT = 1 << 20
"""The most characters that the rules of one filter have together."""

MAX_NAME = 1024
"""The longest rule value, host name, channel or user name that the master accepts from a slave, characters."""

MAX_IDS = 10_000
"""The most server ids, and the most domain ids, that a slave can name in IGNORE_SERVER_IDS and similar lists."""

MAX_GTID_TEXT = 1 << 20
"""The longest GTID set that a slave can send, characters. The GTID set of a long chain of masters has 170,000."""

MIN_CHUNK_SIZE = 4 << 10
"""The smallest chunk of a dump, bytes. Smaller chunks cost more for their heads than for their events."""

MAX_CHUNK_SIZE = 4 << 20
"""The largest chunk (message with events) that a slave may ask for, bytes.

The master holds up to two chunks for a slave that does not read.
"""

MIN_HEARTBEAT_PERIOD = 0.25
"""The shortest time between the heartbeats of a dump, seconds."""

MAX_DUMPS = 5000
"""The default of the largest number of slaves that can receive events at once. Each dump occupies a connection."""

MAX_CALLS = 256
"""The most calls besides dumps that the master answers at once. A call counts while its request is under way."""

MAX_CALLS_OF_HOST = 128
"""The most calls besides dumps that the master answers at once for one host. Other hosts always find a place."""

MAX_WATCHES = 64
"""The most health watches at once."""

MAX_WATCHES_OF_HOST = 16
"""The most health watches of one host at once."""

_REFUSED_AT_ONCE = 1000
"""The calls without a place that are told so at once. gRPC ends further ones by itself."""

MAX_DECODING = 2
"""The most requests that the master decodes at once. A decoded request can be 40 times as large as its bytes."""

REQUEST_SECONDS = 120.0
"""The time within which a client must send the whole request of a call, seconds. The lines of some slaves are slow."""

MIN_NET_TIMEOUT = 1.0
"""The shortest silence of a slave after which the master ends its dump, seconds."""

SPARE_CONNECTIONS = 250
"""The connections that the master accepts besides one for each dump."""

MIN_CONNECTIONS = 16
"""The number of connections that the master accepts even where the system allows few open files."""

MAX_STREAMS = 320
"""The most calls at once on one connection. A slave with MySQL's most channels (256) needs one for each channel."""


REFUSALS_LOGGED = 100
"""The most refusals of calls without a password or id that the master logs in 10 seconds."""


class Overloaded(DumpfilterError):
    """The error for a request that is refused because the master is at one of its bounds.

    The same request may succeed later.
    """

    grpc_code = "RESOURCE_EXHAUSTED"


@dataclass(frozen=True)
class ServerLimits:
    """The bounds that an operator can choose, or that tests make narrow."""

    max_dumps: int = MAX_DUMPS
    max_dumps_of_host: int = 0
    """The largest number of dumps to one host; 0 for ``max_dumps``."""
    max_calls: int = MAX_CALLS
    max_calls_of_host: int = MAX_CALLS_OF_HOST
    max_watches: int = MAX_WATCHES
    max_watches_of_host: int = MAX_WATCHES_OF_HOST
    request_seconds: float = REQUEST_SECONDS
    min_chunk_size: int = MIN_CHUNK_SIZE
    min_heartbeat_period: float = MIN_HEARTBEAT_PERIOD

    @property
    def calls(self) -> int:
        """The most calls that gRPC lets in: those that have a place, and others that are told why they have none."""
        return self.max_dumps + self.max_calls + self.max_watches + _REFUSED_AT_ONCE

    def connections(self, open_files: int) -> int:
        """Return how many connections the master accepts, when the system allows it ``open_files`` open files.

        Half of the files are left for binlog files and for the console.
        """
        return max(MIN_CONNECTIONS, min(self.max_dumps + SPARE_CONNECTIONS, open_files // 2))


class Kind(Enum):
    """The kinds of work for which clients compete, each with its own bound."""

    CALL = "calls"
    DUMP = "dumps"
    WATCH = "health watches"
    FREE = "health checks"
    """Calls that need no place, because each is answered at once."""


_CURES = {
    Kind.CALL: "try again in a few seconds",
    Kind.DUMP: "try again later, or start the master with a larger --max-dumps",
    Kind.WATCH: "use Check instead of Watch",
}


class Places:
    """The numbers of calls, dumps and watches under way, of all clients and of each host. Thread-safe."""

    def __init__(self, limits: ServerLimits) -> None:
        self._most = {
            Kind.CALL: (limits.max_calls, limits.max_calls_of_host),
            Kind.DUMP: (limits.max_dumps, limits.max_dumps_of_host or limits.max_dumps),
            Kind.WATCH: (limits.max_watches, limits.max_watches_of_host),
        }
        self._used: Counter[tuple[Kind, str | None]] = Counter()
        self._lock = threading.Lock()

    @contextmanager
    def take(self, kind: Kind, peer: str) -> Iterator[None]:
        """Take a place of a kind for a client while the ``with`` block runs.

        ``peer`` is the client's address as gRPC writes it. Raises Overloaded when no place is free.
        """
        keys = ((kind, None), (kind, host_of(peer)))
        with self._lock:
            for key, most in zip(keys, self._most[kind], strict=True):
                if self._used[key] >= most:
                    whose = "of this host " if key[1] is not None else ""
                    raise Overloaded(
                        f"the master has {most} {kind.value} {whose}under way, the most it allows; {_CURES[kind]}"
                    )
            self._used.update(keys)
        try:
            yield
        finally:
            with self._lock:
                for key in keys:
                    self._used[key] -= 1
                    if not self._used[key]:
                        del self._used[key]

    def used(self, kind: Kind) -> int:
        """Return how many places of a kind are taken."""
        with self._lock:
            return self._used[kind, None]


def host_of(peer: str) -> str:
    """Return the host in the address of a gRPC client, without the port.

    >>> host_of("ipv4:10.0.0.7:51234"), host_of("ipv6:%5B::1%5D:51234"), host_of("unix:")
    ('ipv4:10.0.0.7', 'ipv6:%5B::1%5D', 'unix:')
    """
    return peer.rpartition(":")[0] if peer.startswith("ip") else peer
