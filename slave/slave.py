"""A slave: all its replication channels with their filters, and the operations that SQL statements need.

The operations add, change, start, stop and reset channels. The server has them in ``Multisource_info``.
:mod:`dumpfilter.slave.console` checks beforehand whether a statement is allowed.
"""

from __future__ import annotations

import hashlib
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import structlog

from dumpfilter import files
from dumpfilter.errors import OutputError, StateCorrupt
from dumpfilter.filter.channels import ChannelFilters, UnknownChannel, fold_channel
from dumpfilter.filter.origin import OriginFilter
from dumpfilter.filter.rules import FilterClause, FilterOn
from dumpfilter.slave.channel import Channel, ChannelOptions, check, check_server_id
from dumpfilter.slave.state import lock_directory, source_info
from dumpfilter.slave.state.identity import server_uuid
from dumpfilter.slave.state.relay_log import RelayPosition
from dumpfilter.slave.state.source_info import SourceInfo, source_info_file
from dumpfilter.slave.targets import DEFAULT_TARGET, make_target
from dumpfilter.slave.threads.master_options import MasterOptions
from dumpfilter.sql.commands import Threads
from dumpfilter.v1 import dumpfilter_pb2 as pb
from dumpfilter.v1 import dumpfilter_pb2_grpc as rpc

log = structlog.get_logger("dumpfilter.slave")

CHANNELS = "channels"
"""The subdirectory of the relay directory in which each named channel has its own directory.

The default channel keeps its files in the relay directory itself.
"""

SAVE_COUNTERS = 5.0
"""The interval at which changed counts are saved, seconds. A crash loses the counts of this time at most."""

_LONGEST_NAME = 120
"""The longest name of a channel's directory, characters. File systems limit file names.

A longer name is cut, and a hash of the channel's name is appended, so that names stay different.
"""


@dataclass(frozen=True)
class SlaveOptions:
    """The options that all channels of a slave share. An option that a MySQL server has, too, has the server's name."""

    relay_dir: Path
    server_id: int
    lower_case_table_names: int = 0
    replicate_same_server_id: bool = False
    report_host: str = ""
    report_port: int = 0
    plain_password: bool = False
    """``--source-plain-password``: whether passwords may travel unencrypted to masters on other machines."""
    net_timeout: float = 60.0
    """``--replica-net-timeout``: the time without a message from the master after which the slave reconnects,
    seconds."""
    chunk_size: int = 0
    """The size at which the master shall end a message of the stream (chunk), bytes. 0 lets the master choose."""
    once: bool = False
    """Whether the slave ends at the end of the master's newest binlog, instead of waiting for more events."""
    apply: bool = True
    """Whether :meth:`Slave.start` starts the appliers, too. If not, the slave only fills its relay logs."""
    alone: bool = False
    """Whether an error in one thread of a channel leaves the other thread running, as in a server."""
    target: str = DEFAULT_TARGET
    """The name of the target, the object to which each channel applies transactions (``--target``)."""
    sync_relay_log: int = 10_000
    sync_master_info: int = 10_000
    relay_log_expire_seconds: float = 0.0
    """The time after which a relay log file is removed that nobody needs, seconds. 0 keeps all files."""


@dataclass(frozen=True)
class Watching:
    """Functions that the slave calls while it receives. Their first argument is the channel's name.

    ``on_chunk`` is called after each message of the master's stream, ``on_connect`` after each registration.
    ``on_relay_end`` receives the position up to which the channel's relay log is complete (:class:`Channel`).
    """

    on_chunk: Callable[[str, pb.Chunk], None] = lambda channel, chunk: None
    on_connect: Callable[[str, rpc.DumpFilterStub, pb.RegisterResponse], None] = (
        lambda channel, stub, answer: None
    )
    on_relay_end: Callable[[str, RelayPosition | None], None] = lambda channel, position: None
    needed_relay_log: Callable[[str], str | None] = lambda channel: None
    """Return the name of the oldest relay log file of a channel that must not be removed yet; None without one."""


@dataclass
class Configured:
    """A channel that exists on the slave, with its configuration and its directory."""

    info: SourceInfo
    channel: Channel
    directory: Path


class Slave:
    """All channels of one slave and their filters.

    The constructor locks the relay directory and finds the channels of earlier runs there, by their files
    ``source.info``. A caller then names the channels of the command line by :meth:`prepare`, and calls :meth:`open`
    once to create all channels with their filters. After that, :meth:`configure` adds and changes channels.

    Raises OptionError for an invalid server id or target, DirectoryBusy when another process uses the relay
    directory, and StateCorrupt when a file in the directory is unusable.
    """

    def __init__(
        self,
        options: SlaveOptions,
        filters: ChannelFilters,
        *,
        watching: Watching | None = None,
    ) -> None:
        check_server_id(options.server_id)
        # Making a target checks its name. An unknown name shall be an error before the slave writes any file.
        make_target(options.target)
        self.options = options
        self.filters = filters

        self._watching = watching or Watching()
        self.lock = threading.RLock()
        """The lock that protects the list of channels. The console holds the lock while it executes a statement, so
        that two clients cannot change channels at the same time."""
        self._lock = lock_directory(options.relay_dir)
        self._infos: dict[str, SourceInfo] = {}
        self._configured: dict[str, Configured] = {}
        self._closing = threading.Event()
        self._at_close: list[Callable[[], None]] = []
        self._saver = threading.Thread(target=self._save_counters, name="slave-counters", daemon=True)
        try:
            self.uuid = server_uuid(options.relay_dir)
            for directory in (options.relay_dir, *sorted((options.relay_dir / CHANNELS).glob("*/"))):
                info = source_info_file(directory).load()
                if info is not None:
                    self._infos[info.channel] = info
        except BaseException:
            self._lock.release()
            raise

    @property
    def channels(self) -> list[Configured]:
        """All channels of the slave, ordered by name. The default channel, whose name is empty, comes first."""
        with self.lock:
            return [self._configured[name] for name in sorted(self._configured, key=str.encode)]

    @property
    def channels_now(self) -> list[Configured]:
        """All channels of the slave, as :attr:`channels`, but without waiting for a statement that changes them."""
        configured = list(self._configured.values())
        return sorted(configured, key=lambda one: one.info.channel.encode())

    def get(self, name: str) -> Configured:
        """Return the channel with this name. Raises UnknownChannel when there is no such channel."""
        with self.lock:
            try:
                return self._configured[fold_channel(name)]
            except KeyError:
                raise UnknownChannel(name) from None

    def has(self, name: str) -> bool:
        """Tell whether the slave has a channel with this name."""
        return fold_channel(name) in self._configured

    def prepare(self, info: SourceInfo) -> None:
        """Configure a channel as the command line says. Call this method before :meth:`open` only.

        If the channel exists from an earlier run, the new configuration replaces the saved one, and the channel
        keeps its position in the master's binlog.
        """
        info = info.model_copy(update={"channel": fold_channel(info.channel)})
        self._infos[info.channel] = info

    def open(self) -> list[str]:
        """Create all channels with their filters. Their threads are not started.

        Return warnings about filter options for channels that do not exist (WL#7361). Raises OptionError for
        impossible options of a channel, and StateCorrupt when a channel's files are unusable.
        """
        with self.lock:
            warnings = self.filters.finish_startup(self._infos)
            for info in self._infos.values():
                self._add(info)
            self._infos = {}
            self._saver.start()
            return warnings

    def configure(
        self, info: SourceInfo, clauses: Sequence[FilterClause] = (), *, afresh: bool = False
    ) -> None:
        """Add a channel, or change the configuration of an existing one (``CHANGE REPLICATION SOURCE TO``).

        The threads of an existing channel must be stopped. ``clauses`` are filter rules that the statement gives,
        too (WL#2387, WL#2516). With ``afresh`` an existing channel forgets its position in the master's binlog,
        because ``info`` names another master or another position. Raises OptionError before anything has changed,
        StateCorrupt when a file of the channel is unusable, and OutputError when a file cannot be written.
        """
        info = info.model_copy(update={"channel": fold_channel(info.channel)})
        name = info.channel
        with self.lock:
            new = name not in self._configured
            if new:
                self.filters.add_channel(name)
            try:
                check(self._channel_options(info))
                if clauses:
                    self.filters.change(clauses, name)
                if new:
                    self._add(info)
                    return
            except BaseException:
                if new:
                    self.filters.remove_channel(name)
                raise
            configured = self._configured[name]
            source_info_file(configured.directory).save(info)
            configured.info = info
            configured.channel.reconfigure(self._channel_options(info), afresh=afresh)

    def change_filter(self, clauses: Sequence[FilterClause], name: str | None) -> None:
        """Change the filter of the channel ``name``, or of all channels if ``name`` is None.

        This is CHANGE REPLICATION FILTER. The appliers of these channels must not be running. Raises OptionError for
        invalid rules, before any filter has changed.
        """
        with self.lock:
            self.filters.change(clauses, name)
            for configured in self.channels if name is None else [self.get(name)]:
                current = self.filters.current(configured.info.channel)
                configured.channel.change_filter(current.rules, current.semantics)

    def start(self, threads: Threads | None = None) -> None:
        """Start ``threads`` of every channel. Without ``threads``, the option ``apply`` decides whether the appliers
        start, too."""
        for configured in self.channels:
            configured.channel.start(threads)

    def reset(self, name: str, *, all: bool) -> None:
        """Delete the relay logs and the positions of a stopped channel (``RESET REPLICA``).

        With ``all`` also remove the channel, its filter and the state of its target (``RESET REPLICA ALL``).
        """
        with self.lock:
            configured = self.get(name)
            configured.channel.reset()
            if not all:
                return
            configured.channel.close()
            configured.channel.counters.remove()
            del self._configured[configured.info.channel]
            self.filters.remove_channel(name)
            if configured.info.channel:
                shutil.rmtree(configured.directory, ignore_errors=True)
            else:
                for file in (source_info.NAME, "master.info", "relay-log.info", "relay-bin.index"):
                    files.remove(configured.directory / file)

    def wait(self) -> None:
        """Wait until the threads of all channels have ended.

        Threads end at the end of the binlog with the option ``once``, or after an error. A signal interrupts the wait.
        """
        while any(one.channel.running for one in self.channels):
            time.sleep(0.05)

    def stop(self) -> None:
        """Stop the threads of all channels, and wait until they have ended."""
        channels = [one.channel for one in self.channels]
        for channel in channels:
            channel.request_stop()
        for channel in channels:
            channel.join()

    def close(self) -> None:
        """Stop the threads of all channels, and give up the lock on the relay directory for other processes."""
        self._closing.set()
        for callback in list(self._at_close):
            callback()
        self.stop()
        if self._saver.is_alive():
            self._saver.join()
        with self.lock:
            for one in self.channels:
                one.channel.counters.save()
                one.channel.close()
            self._lock.release()

    @property
    def is_closing(self) -> bool:
        """Whether :meth:`close` was called."""
        return self._closing.is_set()

    @contextmanager
    def calling_at_close(self, callback: Callable[[], None]) -> Iterator[None]:
        """Call a function when :meth:`close` is called while the ``with`` block runs."""
        self._at_close.append(callback)
        try:
            yield
        finally:
            self._at_close.remove(callback)

    def _save_counters(self) -> None:
        """Save the counts of all channels, and remove old relay logs, from time to time."""
        while not self._closing.wait(SAVE_COUNTERS):
            for one in list(self._configured.values()):
                one.channel.counters.save()
                self._expire_relay_log(one)

    def _expire_relay_log(self, one: Configured) -> None:
        """Remove old relay log files. A failure is an event of the log, and the slave tries again."""
        seconds = self.options.relay_log_expire_seconds
        if not seconds:
            return
        try:
            one.channel.expire_relay_log(seconds, self._watching.needed_relay_log(one.info.channel))
        except (OutputError, StateCorrupt) as error:
            log.error("relay logs not removed", channel=one.info.channel, reason=str(error))

    @property
    def error(self) -> BaseException | None:
        """The error that ended a thread of any channel.

        If several threads failed, this is the earliest error. Without an error it is None.
        """
        workers = [
            worker for one in self.channels for worker in (one.channel.io_worker, one.channel.sql_worker)
        ]
        failed = [worker for worker in workers if worker.error is not None]
        return min(failed, key=lambda worker: worker.error_at).error if failed else None

    def _add(self, info: SourceInfo) -> None:
        name = info.channel
        directory = self._directory(name)
        directory.mkdir(parents=True, exist_ok=True)
        watching = self._watching
        channel = Channel(
            self._channel_options(info),
            make_target(self.options.target),
            alone=self.options.alone,
            lock=False,
            on_hits=lambda hits: self.filters.count(name, hits),
            on_chunk=lambda chunk: watching.on_chunk(name, chunk),
            on_connect=lambda stub, answer: watching.on_connect(name, stub, answer),
            on_relay_end=lambda position: watching.on_relay_end(name, position),
        )
        source_info_file(directory).save(info)
        self._configured[name] = Configured(info, channel, directory)

    def _directory(self, name: str) -> Path:
        return self.options.relay_dir / CHANNELS / _file_name(name) if name else self.options.relay_dir

    def _channel_options(self, info: SourceInfo) -> ChannelOptions:
        options = self.options
        current = self.filters.current(info.channel)
        master = MasterOptions(
            address=info.address,
            server_id=options.server_id,
            uuid=self.uuid,
            channel=info.channel,
            user=info.user,
            password=info.password,
            plain_password=options.plain_password,
            tls=info.tls,
            report_host=options.report_host,
            report_port=options.report_port,
            once=options.once,
            auto_position=info.auto_position,
            start_file=info.log_file,
            start_position=info.log_pos if info.log_file else 4,
            chunk_size=options.chunk_size,
            heartbeat_period=info.heartbeat_period,
            net_timeout=options.net_timeout,
            connect_retry=info.connect_retry,
            retry_count=info.retry_count,
        )
        return ChannelOptions(
            master=master,
            relay_dir=self._directory(info.channel),
            rules=current.rules,
            semantics=current.semantics,
            origin=OriginFilter(
                ignore_server_ids=frozenset(info.ignore_server_ids),
                do_domain_ids=frozenset(info.do_domain_ids),
                ignore_domain_ids=frozenset(info.ignore_domain_ids),
                own_server_id=0 if options.replicate_same_server_id else options.server_id,
            ),
            lower_case_table_names=options.lower_case_table_names,
            filter_on=FilterOn(info.filter_on),
            apply=options.apply,
            sync_relay_log=options.sync_relay_log,
            sync_master_info=options.sync_master_info,
        )


def _file_name(channel: str) -> str:
    """Return the name of a channel's directory: the channel's name, with the characters escaped that files cannot have.

    Different channels get different directories.

    >>> _file_name("ch1"), _file_name("../x")
    ('ch1', '..%2Fx')
    """
    name = quote(channel, safe=" +,-=@_")
    if not name.strip("."):
        # A channel may have the name "." or "..". In file systems these names stand for other directories.
        name = name.replace(".", "%2E")
    if len(name) > _LONGEST_NAME:
        digest = hashlib.blake2b(channel.encode(), digest_size=8).hexdigest()
        name = f"{name[:_LONGEST_NAME]}-{digest}"
    return name
