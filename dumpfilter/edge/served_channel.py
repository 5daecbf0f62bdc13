"""One channel of a slave as other slaves and real replicas see it: a binlog read from the channel's relay log."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import structlog

from dumpfilter.base.errors import BinlogUnreadable, OptionError
from dumpfilter.base.options.defaults import FIRST_EVENT
from dumpfilter.base.printable import printable
from dumpfilter.binlog.format import DEFAULT_NAMES, NameRules
from dumpfilter.index.fileset import BinlogSet, PublishedEnd, RelayWentBack
from dumpfilter.master.config import MasterConfig
from dumpfilter.master.service import DumpFilterService
from dumpfilter.master.sharing import SharedReader
from dumpfilter.master.store import BinlogStore
from dumpfilter.slave.slave import Slave
from dumpfilter.slave.state.relay_log import BASENAME, RelayPosition, file_number, place_order

log = structlog.get_logger("dumpfilter.slave")

_CLOSE_AFTER = 10.0
"""The delay before the reader threads of a discarded relay log are closed, seconds. Its dumps have ended long before.
"""


class ServedChannel(DumpFilterService):
    """The dump service over one channel's relay log. :meth:`note` may be called from any thread.

    The channel's relay log only grows, until the slave changes its filter, resets the channel, or discards a damaged
    part. Then all dumps end, and slaves and replicas connect again. The dumps that begin afterwards read the new relay
    log. GTIDs, or positions of the writer (the server that wrote the events), decide which events each still needs.

    Parameters:
        name: the name of the channel.
        loop: the loop of the ports.
        load_config: reads the configuration with users and imposed filters. Its argument says how the server that wrote
            the binlog compares names.
    """

    def __init__(
        self,
        name: str,
        loop: asyncio.AbstractEventLoop,
        *,
        load_config: Callable[[NameRules], MasterConfig] = lambda names: MasterConfig(),
    ) -> None:
        super().__init__(None, config=load_config(DEFAULT_NAMES))
        self.name = name
        self._load_config = load_config
        self._loop = loop
        self._lock = threading.RLock()
        self._end: PublishedEnd | None = None
        self._grown: Callable[[], None] = lambda: None
        self.opened: SharedReader | None = None
        """The reader of the present relay log. None if no slave or replica has read since that relay log began."""
        self._slave: Slave | None = None
        self.on_open: Callable[[MasterConfig], None] = lambda config: None
        """The function that is called with the configuration (users and imposed filters) whenever a relay log has been
        opened.
        """

    def serve(self, slave: Slave) -> None:
        """Serve the relay log of that channel of ``slave`` whose name is :attr:`name`. The slave's server UUID becomes
        the UUID of the served binlog.
        """
        self._slave, self.master_uuid = slave, slave.uuid

    def note(self, position: RelayPosition | None) -> None:
        """Record the position up to which the relay log is complete, and wake the dumps that wait for more events.

        A position before the last one means that the slave discards a part of the relay log, and ends all dumps. The
        method returns when no dump relies on the discarded part any more. None means that no relay log exists.
        """
        with self._lock:
            if self._end is not None and place_order(position) < place_order(self._end.position):
                self._close_relay_log()
            if position is None or self.stopping:
                return
            if self._end is None:
                self._end = PublishedEnd(position)
            self._end.position = position
            grown = self._grown
        grown()

    @property
    def needed_file(self) -> str | None:
        """The name of the oldest relay log file that a connected slave or replica still reads. None if nobody reads."""
        files = [slave.file for slave in self.register.all() if slave.dump and slave.file]
        return min(files, key=file_number, default=None)

    @property
    def reader(self) -> SharedReader:
        """The reader of the current relay log, which is opened on first use.

        Raises BinlogError for a relay log that cannot be read. The error is marked as momentary while the slave shuts
        down or has received nothing yet.
        """
        with self._lock:
            if self.stopping:
                raise BinlogUnreadable("the slave is shutting down; connect again", momentary=True)
            if self.opened is None:
                self.opened = self._open_relay_log()
            return self.opened

    def _open_relay_log(self) -> SharedReader:
        # A client may have added the channel on the console.
        channels = () if self._slave is None else self._slave.channels_now
        channel = next((one for one in channels if one.name == self.name), None)
        if self._end is None or channel is None:
            raise BinlogUnreadable(
                "the slave has received nothing from its master yet; try again later", momentary=True
            )
        info = channel.info
        is_complete = info.auto_position or not info.log_file or info.log_pos <= FIRST_EVENT
        binlogs = BinlogSet.from_index(channel.directory / f"{BASENAME}.index", self._end)
        store = BinlogStore(binlogs, is_complete=is_complete, subjects=self.subjects)
        try:
            # How names are compared is known only now. The file may have changed since the start.
            config = self._load_config(store.names)
            self.check_reconfigurable(config)
        except OptionError as error:
            store.close()
            log.error("the configuration cannot be used", channel=self.name, reason=printable(str(error)))
            raise BinlogUnreadable(
                "the slave's configuration file cannot be used, as its log says; try again later",
                momentary=True,
            ) from None
        self.reconfigure(config)
        self.on_open(config)
        self._grown = store.watcher.follow_writer()
        return SharedReader(store, self._loop)

    def close(self) -> None:
        """Close the relay log, and let :attr:`reader` raise an error from now on. All dumps must have ended."""
        with self._lock:
            self.stopping = True
            reader = self._forget()
        if reader is not None:
            _close(reader)

    def _forget(self) -> SharedReader | None:
        """Detach the present relay log, so that no new dump reads it. Return its reader; None if it was not opened."""
        found = self.opened
        if self._end is not None:
            self._end.is_closed = True
        self._end = self.opened = None
        self._grown = lambda: None
        return found

    def _close_relay_log(self) -> None:
        reader = self._forget()
        if reader is None:
            return
        reader.store.give_up(RelayWentBack())
        gone = self.register.remove_all(lambda slave: RelayWentBack())
        log.info("the relay log goes back", channel=self.name, registrations=len(gone))
        closing = threading.Timer(_CLOSE_AFTER, _close, [reader])
        closing.daemon = True
        closing.start()


def _close(reader: SharedReader) -> None:
    reader.close()
    reader.store.close()
