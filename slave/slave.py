"""A slave: all its replication channels with their filters, and the operations that SQL statements need.

The operations add, change, start, stop and reset channels. In MySQL the class ``Multisource_info`` has them.
:mod:`dumpfilter.slave.console` checks beforehand whether a statement is allowed.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterable, Sequence

import structlog

from dumpfilter.base import files
from dumpfilter.console.sql.commands import Threads
from dumpfilter.filter.channels import ChannelFilters, UnknownChannel, fold_channel
from dumpfilter.filter.rules import FilterClause
from dumpfilter.slave.channel import Channel, Watching
from dumpfilter.slave.options import SlaveOptions
from dumpfilter.slave.state import CHANNELS, lock_directory
from dumpfilter.slave.state.identity import server_uuid
from dumpfilter.slave.state.infos import MasterInfo, RelayLogInfo, SourceInfo
from dumpfilter.slave.targets import make_target
from dumpfilter.slave.threads.base import Progress

log = structlog.get_logger("dumpfilter.slave")

SAVE_COUNTERS = 5.0
"""The interval at which changed counts are saved, seconds. A crash loses the counts of this time at most."""


class Slave:
    """All replication channels of one slave and their filters.

    The constructor locks the relay directory, and creates all channels with their filters, but does not start their
    threads. Channels of earlier runs are read from their files ``source.info``. ``sources`` are the channels of the
    command line. If one of them exists from an earlier run, it gets the new configuration and keeps its position in the
    master's binlog.

    ``options`` are shared by all channels, and ``watching`` has functions to call for received messages.

    Raises OptionError for an invalid server id or channel option, or an unknown target (the object to which
    transactions are applied). Raises DirectoryBusy when another process uses the relay directory, and StateCorrupt when
    a file in the directory is unusable.
    """

    def __init__(
        self,
        options: SlaveOptions,
        filters: ChannelFilters,
        sources: Iterable[SourceInfo] = (),
        *,
        watching: Watching | None = None,
    ) -> None:
        options.check()
        # Making a target checks its name. An unknown name shall be an error before the slave writes any file.
        make_target(options.target)
        self.options = options
        self.filters = filters

        self.progress = Progress()
        """The object that wakes SQL statements that wait for the appliers."""
        self._watching = watching or Watching()
        self.lock = threading.RLock()
        """The lock that protects the list of channels. The console holds the lock while it executes a statement, so
        that two clients cannot change channels at the same time."""
        self._lock = lock_directory(options.relay_dir)
        self._channels: dict[str, Channel] = {}
        self._closing = threading.Event()
        self._saver = threading.Thread(target=self._save_counters, name="slave-counters", daemon=True)
        try:
            self.uuid = server_uuid(options.relay_dir)
            directories = (options.relay_dir, *sorted((options.relay_dir / CHANNELS).glob("*/")))
            found = (SourceInfo.file(directory).load() for directory in directories)
            infos = {info.channel: info for info in (*filter(None, found), *map(_folded, sources))}
            self.warnings = filters.finish_startup(infos)
            """Warnings about filter options for channels that do not exist (WL#7361)."""
            for info in infos.values():
                self._add(info)
        except BaseException:
            self._lock.release()
            raise
        self._saver.start()

    @property
    def channels(self) -> list[Channel]:
        """The channels of the slave, ordered by name. The default channel, whose name is empty, comes first."""
        with self.lock:
            return self.channels_now

    @property
    def channels_now(self) -> list[Channel]:
        """The channels of the slave, ordered by name. Unlike :attr:`channels`, this does not wait until a statement
        that changes the channels has ended.
        """
        return sorted(self._channels.values(), key=lambda one: one.name.encode())

    def get(self, name: str) -> Channel:
        """Return the channel with this name. Raises UnknownChannel when there is no such channel."""
        with self.lock:
            try:
                return self._channels[fold_channel(name)]
            except KeyError:
                raise UnknownChannel(name) from None

    def has(self, name: str) -> bool:
        """Tell whether the slave has a channel with this name. Upper and lower case mean the same."""
        return fold_channel(name) in self._channels

    def configure(
        self, info: SourceInfo, clauses: Sequence[FilterClause] = (), *, afresh: bool = False
    ) -> None:
        """Add a channel, or change the configuration of an existing one (``CHANGE REPLICATION SOURCE TO``).

        ``info`` is the new configuration. The threads of an existing channel must be stopped. ``clauses`` are the
        filter rules in the same statement, if it has any (WL#2387, WL#2516). With ``afresh`` an existing channel
        forgets its position in the master's binlog, because ``info`` names another master or another position. Raises
        OptionError before anything has changed, StateCorrupt when a file of the channel is unusable, and OutputError
        when a file cannot be written.
        """
        info = _folded(info)
        name = info.channel
        with self.lock:
            channel = self._channels.get(name)
            if channel is not None:
                channel.check(info)
                if clauses:
                    self.filters.change(clauses, name)
                SourceInfo.file(channel.directory).save(info)
                channel.reconfigure(info, afresh=afresh)
                return
            self.filters.add_channel(name)
            try:
                if clauses:
                    self.filters.change(clauses, name)
                self._add(info)
            except BaseException:
                self.filters.remove_channel(name)
                raise

    def change_filter(self, clauses: Sequence[FilterClause], name: str | None) -> None:
        """Change the filter of the channel ``name``, or of all channels if ``name`` is None (``CHANGE REPLICATION
        FILTER``).

        Each of ``clauses`` replaces the rules of one kind. The appliers of these channels must not be running. Raises
        OptionError for invalid rules, before any filter has changed.
        """
        with self.lock:
            self.filters.change(clauses, name)
            for channel in self.channels if name is None else [self.get(name)]:
                channel.follow_filter()

    def start(self, threads: Threads | None = None) -> None:
        """Start ``threads`` of every channel. With None the option ``io_thread_only`` decides which threads start."""
        for channel in self.channels:
            channel.start(threads)

    def reset(self, name: str, *, all: bool) -> None:
        """Delete the relay logs and the positions of a stopped channel (``RESET REPLICA``).

        With ``all`` also remove the channel, its filter, and the state of its target, the object to which transactions
        are applied (``RESET REPLICA ALL``).
        """
        with self.lock:
            channel = self.get(name)
            channel.reset()
            if not all:
                return
            channel.counters.remove()
            del self._channels[channel.name]
            self.filters.remove_channel(name)
            if channel.name:
                shutil.rmtree(channel.directory, ignore_errors=True)
            else:
                for name in (SourceInfo.NAME, MasterInfo.NAME, RelayLogInfo.NAME, "relay-bin.index"):
                    files.remove(channel.directory / name)

    def wait(self) -> None:
        """Wait until the threads of all channels have ended.

        Threads end at the end of the binlog with the option ``once``, or after an error. A signal interrupts the wait.
        """
        while any(one.running for one in self.channels):
            time.sleep(0.05)

    def stop(self) -> None:
        """Stop the threads of all channels, and wait until they have ended."""
        for channel in self.channels:
            channel.request_stop()
        for channel in self.channels:
            channel.stop()

    def close(self) -> None:
        """Stop the threads of all channels, save the channels' counts of events and errors, and release the lock on the
        relay directory.
        """
        self._closing.set()
        self.progress.told()
        self.stop()
        self._saver.join()
        with self.lock:
            for one in self.channels:
                one.counters.save()
            self._lock.release()

    @property
    def is_closing(self) -> bool:
        """Whether :meth:`close` was called."""
        return self._closing.is_set()

    def _save_counters(self) -> None:
        """Save the counts of all channels, and remove expired relay log files, every few seconds until
        :meth:`close`.
        """
        while not self._closing.wait(SAVE_COUNTERS):
            for one in list(self._channels.values()):
                one.counters.save()
                one.expire_relay_log(self.options.relay_log_expire_seconds)

    @property
    def error(self) -> BaseException | None:
        """The earliest error that ended the newest run of any channel's thread. None if there is none."""
        failed = [
            one for channel in self.channels for one in (channel.io, channel.sql) if one.error is not None
        ]
        return min(failed, key=lambda one: one.error_at).error if failed else None

    def _add(self, info: SourceInfo) -> None:
        channel = Channel(self.options, info, self.filters, self.uuid, self._watching, self.progress)
        SourceInfo.file(channel.directory).save(info)
        self._channels[info.channel] = channel


def _folded(info: SourceInfo) -> SourceInfo:
    return info.model_copy(update={"channel": fold_channel(info.channel)})
