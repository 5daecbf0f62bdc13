"""The parts of a master that the connections of all replicas share: binlog set, register, filters, facts."""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from dumpfilter.binlog.format import Family
from dumpfilter.console.wire import PacketStream
from dumpfilter.master.drain import Drains
from dumpfilter.master.imposed import ImposedFilter
from dumpfilter.master.limits import Places
from dumpfilter.master.register import Register, RegisteredSlave
from dumpfilter.master.replicas.answers import Source
from dumpfilter.master.replicas.filters import ChosenFilter, ReplicaFilters, ReplicaPeer
from dumpfilter.master.replicas.source import source_of
from dumpfilter.master.service import DumpFilterService
from dumpfilter.master.sharing import Reader
from dumpfilter.master.store import BinlogStore


class ReplicaContext:
    """The parts of a master that the connections of its replicas use.

    The threads ``askers`` ask replicas for their own filters. A replica that does not answer delays nothing else.
    """

    def __init__(
        self, service: DumpFilterService, places: Places, filters: ReplicaFilters, askers: ThreadPoolExecutor
    ) -> None:
        self.service = service
        self._key = secrets.token_bytes(32)
        self.filters = filters
        self._askers = askers
        self.places = places
        self.reader: Reader = service.reader
        self.store: BinlogStore = service.store
        self.register: Register = service.register
        self.drains: Drains = service.drains

    @property
    def family(self) -> Family:
        """The family of the server that wrote the binlog."""
        return self.store.family

    @property
    def source(self) -> Source:
        """The facts about the server that wrote the binlog, as replicas ask for them."""
        return source_of(self.store, self.service.master_uuid)

    @property
    def stopping(self) -> bool:
        """Whether the master is shutting down."""
        return self.service.stopping

    @property
    def imposed(self) -> Sequence[ImposedFilter]:
        """The filters of the configuration that the operator imposes on slaves."""
        return self.service.config.imposed

    async def choose_filter(self, peer: ReplicaPeer) -> ChosenFilter:
        """Return the filter for a replica, which may take seconds. Raises ReplicaRefused."""
        if not self.filters.asks(peer):
            return await self.reader.serve(lambda: self.filters.filter_for(peer))
        return await asyncio.get_running_loop().run_in_executor(
            self._askers, lambda: self.filters.filter_for(peer)
        )

    def filters_for(self, slave: RegisteredSlave) -> bool:
        """Tell whether a slave may be sent less than the whole binlog."""
        write_filter = self.register.write_filter
        return slave.filter.is_on or bool(slave.imposed) or (write_filter is not None and write_filter.is_on)

    def heartbeat_period(self, wanted: float | None) -> float:
        """Return the time between heartbeats for a replica, which may have asked for one; 0 for the default."""
        return max(wanted, self.service.limits.min_heartbeat_period) if wanted else 0.0

    def secret_of(self, user: str, channel: str, uuid: str) -> bytes:
        """Return the secret with which a replica registers, so that the same replica takes over its own dump."""
        names = "\0".join((user, channel, uuid)).encode("utf-8", "surrogatepass")
        return hmac.digest(self._key, names, "sha256")

    @staticmethod
    def peer_of(stream: PacketStream) -> str:
        """Return the address of a client as gRPC spells it, which is how the register knows addresses."""
        address, port = stream.peer_name
        return f"ipv6:%5B{address}%5D:{port}" if ":" in address else f"ipv4:{address}:{port}"
