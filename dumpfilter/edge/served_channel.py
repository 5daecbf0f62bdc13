"""One channel of a slave as other slaves and real replicas see it: the dumps of its relay log."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import structlog

from dumpfilter.binlog.format import NameRules
from dumpfilter.edge.relay_set import ReceivedEnd, RelayWentBack
from dumpfilter.edge.relay_store import RelayStore
from dumpfilter.errors import BinlogUnreadable
from dumpfilter.master.config import MasterConfig
from dumpfilter.master.limits import ServerLimits
from dumpfilter.master.service import DumpFilterService
from dumpfilter.master.sharing import SharedReader
from dumpfilter.slave.state.relay_log import RelayPosition, place_order

log = structlog.get_logger("dumpfilter.slave")

_CLOSE_AFTER = 10.0
"""The time after which the threads of a closed relay log end, seconds. Its dumps have ended long before."""


class ServedChannel:
    """A channel with a port. :meth:`note` may be called from any thread, :meth:`service` as well.

    The channel's relay log only grows, until the slave changes its filter, resets the channel, or discards a damaged
    part. Then all dumps end, and slaves and replicas connect again. The dumps that begin afterwards read the new relay
    log through another service. GTIDs, or positions of the writer, decide what each still needs.

    ``load_config`` returns the users and the imposed filters for a way of comparing names.
    """

    def __init__(
        self,
        name: str,
        loop: asyncio.AbstractEventLoop,
        *,
        limits: ServerLimits | None = None,
        load_config: Callable[[NameRules], MasterConfig] = lambda names: MasterConfig(),
    ) -> None:
        self._load_config = load_config
        self.name = name
        self._loop = loop
        self._server_uuid = ""
        self._limits = limits
        self._lock = threading.Lock()
        self._directory: Path | None = None
        self._is_complete = False
        self._end: ReceivedEnd | None = None
        self._reader: SharedReader | None = None
        self._service: DumpFilterService | None = None
        self._is_closed = False

    def configure(self, directory: Path, server_uuid: str, *, is_complete: bool) -> None:
        """Say where the channel's relay log is, and as which source the slave presents itself.

        ``is_complete`` says that the channel received its first binlog file from the beginning, or by GTIDs.
        """
        with self._lock:
            self._directory, self._server_uuid, self._is_complete = directory, server_uuid, is_complete

    def note(self, position: RelayPosition | None) -> None:
        """Note the position up to which the relay log is complete. A position further back ends all dumps.

        The method returns when nobody relies on the discarded part any more.
        """
        with self._lock:
            if self._end is not None and place_order(position) < place_order(self._end.position):
                self._close_relay_log()
            if position is None or self._is_closed:
                return
            if self._end is None:
                self._end = ReceivedEnd(position)
            else:
                self._end.position = position

    def service(self) -> DumpFilterService:
        """Return the service over the present relay log. Raises BinlogError, a momentary one without a relay log."""
        with self._lock:
            if self._is_closed:
                raise BinlogUnreadable("the slave is shutting down; connect again", momentary=True)
            if self._service is None:
                if self._end is None or self._directory is None:
                    raise BinlogUnreadable(
                        "the slave has received nothing from its master yet; try again later", momentary=True
                    )
                store = RelayStore(self._directory, self._end, is_complete=self._is_complete)
                self._reader = SharedReader(store, self._loop)
                self._service = DumpFilterService(
                    self._reader,
                    master_uuid=self._server_uuid,
                    config=self._load_config(store.names),
                    limits=self._limits,
                )
            return self._service

    @property
    def running(self) -> DumpFilterService | None:
        """The service over the present relay log, or None if nobody has connected since it began."""
        return self._service

    def stop(self) -> None:
        """End all dumps with an error after which slaves connect again. No dump begins any more."""
        with self._lock:
            self._is_closed = True
            service = self._service
        if service is not None:
            service.stopping = True
            for slave in service.register.all():
                slave.dump = 0
                slave.notify()

    def close(self) -> None:
        """End all dumps, and close the relay log for good."""
        with self._lock:
            self._is_closed = True
            reader, self._reader, self._service = self._reader, None, None
            if self._end is not None:
                self._end.close()
        if reader is not None:
            _close(reader)

    def _close_relay_log(self) -> None:
        end, service, reader = self._end, self._service, self._reader
        self._end = self._service = self._reader = None
        assert end is not None
        end.close()
        if service is None or reader is None:
            return
        service.store.give_up(RelayWentBack())
        gone = service.register.remove_all(lambda slave: RelayWentBack())
        log.info("the relay log goes back", channel=self.name, registrations=len(gone))
        closing = threading.Timer(_CLOSE_AFTER, _close, [reader])
        closing.daemon = True
        closing.start()


def _close(reader: SharedReader) -> None:
    reader.close()
    reader.store.close()
