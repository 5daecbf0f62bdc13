"""A slave: a process with any number of channels, their filters, and the effects of statements on both.

This module is the counterpart of the server's ``Multisource_info`` and its channel map.
:mod:`dumpfilter.slave.console` decides whether a statement is allowed, and with which error number it is
refused.
"""

from __future__ import annotations

import hashlib
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import structlog

from dumpfilter.filter.channels import ChannelFilters, UnknownChannel, fold_channel
from dumpfilter.filter.origin import OriginFilter
from dumpfilter.filter.rules import FilterClause, FilterOn
from dumpfilter.slave.channel import Channel, ChannelOptions, check, check_server_id
from dumpfilter.slave.state import durable, source_info
from dumpfilter.slave.state.durable import DirectoryLock
from dumpfilter.slave.state.server_uuid import server_uuid
from dumpfilter.slave.state.source_info import SourceInfo
from dumpfilter.slave.targets import DEFAULT_TARGET, make_target
from dumpfilter.slave.threads.master_options import MasterOptions
from dumpfilter.sql.commands import Threads
from dumpfilter.v1 import dumpfilter_pb2 as pb
from dumpfilter.v1 import dumpfilter_pb2_grpc as rpc

log = structlog.get_logger("dumpfilter.slave")

CHANNELS = "channels"
"""The directory of the named channels' directories. The default channel uses the relay directory itself."""

_LONGEST_NAME = 120
"""The longest name of a channel's directory without a digest, characters. A longer name is cut, and a digest
follows."""


@dataclass(frozen=True)
class SlaveOptions:
    """The options of all channels, by the server's names where the server has them."""

    relay_dir: Path
    server_id: int
    lower_case_table_names: int = 0
    replicate_same_server_id: bool = False
    report_host: str = ""
    report_port: int = 0
    net_timeout: float = 60.0
    """``--replica-net-timeout``, seconds."""
    chunk_size: int = 0
    """The size of a chunk, bytes. 0 leaves the size to the master."""
    once: bool = False
    """End at the end of the newest binlog."""
    apply: bool = True
    """Whether :meth:`Slave.start` starts the appliers."""
    alone: bool = False
    """Whether a channel's two threads run independently of each other, as in a server."""
    target: str = DEFAULT_TARGET
    """The name of the target that every channel applies to (:data:`dumpfilter.slave.targets.TARGETS`)."""
    sync_relay_log: int = 10_000
    sync_master_info: int = 10_000


@dataclass(frozen=True)
class Watching:
    """Callbacks for a channel's progress. Their first argument is the channel's name."""

    on_chunk: Callable[[str, pb.Chunk], None] = lambda channel, chunk: None
    on_connect: Callable[[str, rpc.DumpFilterStub, pb.RegisterResponse], None] = (
        lambda channel, stub, answer: None
    )


@dataclass
class Configured:
    """A channel, its connection to the master, and its directory."""

    info: SourceInfo
    channel: Channel
    directory: Path


class Slave:
    """The channels of a slave.

    The constructor finds the channels of earlier runs by their files ``source.info``. :meth:`prepare` adds
    channels from the command line. :meth:`open` puts the filters in force. After that, :meth:`configure` adds
    and changes channels.

    Raises OptionError, DirectoryBusy, StateCorrupt.
    """

    def __init__(
        self,
        options: SlaveOptions,
        filters: ChannelFilters,
        *,
        watching: Watching | None = None,
    ) -> None:
        check_server_id(options.server_id)
        make_target(options.target)  # an unknown name is an error before any file is written
        self.options = options
        self.filters = filters

        self._watching = watching or Watching()
        self.lock = threading.RLock()
        """The lock that a statement holds while it changes channels. Reading statements do not take it."""
        self._lock = DirectoryLock(options.relay_dir)
        self._infos: dict[str, SourceInfo] = {}
        self._configured: dict[str, Configured] = {}
        try:
            self.uuid = server_uuid(options.relay_dir)
            for directory in (options.relay_dir, *sorted((options.relay_dir / CHANNELS).glob("*/"))):
                info = source_info.load(directory)
                if info is not None:
                    self._infos[info.channel] = info
        except BaseException:
            self._lock.release()
            raise

    # -- channels

    @property
    def channels(self) -> list[Configured]:
        """The configured channels, ordered by name. The default channel comes first."""
        with self.lock:
            return [self._configured[name] for name in sorted(self._configured, key=str.encode)]

    def get(self, name: str) -> Configured:
        """Return a configured channel. Raises UnknownChannel."""
        with self.lock:
            try:
                return self._configured[fold_channel(name)]
            except KeyError:
                raise UnknownChannel(name) from None

    def has(self, name: str) -> bool:
        """Tell whether a channel is configured."""
        return fold_channel(name) in self._configured

    def prepare(self, info: SourceInfo) -> None:
        """Add or change a channel from the command line, before :meth:`open`. A channel of an earlier run
        keeps its position."""
        info = info.model_copy(update={"channel": fold_channel(info.channel)})
        self._infos[info.channel] = info

    def open(self) -> list[str]:
        """Create all channels, stopped, and put their filters in force.

        Return warnings about filters for channels that do not exist (WL#7361). Raises OptionError,
        StateCorrupt.
        """
        with self.lock:
            warnings = self.filters.finish_startup(self._infos)
            for info in self._infos.values():
                self._add(info)
            self._infos = {}
            return warnings

    def configure(
        self, info: SourceInfo, clauses: Sequence[FilterClause] = (), *, afresh: bool = False
    ) -> None:
        """Add a channel, or reconfigure a stopped one (``CHANGE REPLICATION SOURCE TO``).

        ``clauses`` are the rules of WL#2387 and WL#2516 for the channel's filter. With ``afresh`` a known
        channel loses its position. Raises OptionError before anything has changed, and the errors of the
        directory's files.
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
            source_info.save(configured.directory, info)
            configured.info = info
            configured.channel.reconfigure(self._channel_options(info), afresh=afresh)

    def change_filter(self, clauses: Sequence[FilterClause], name: str | None) -> None:
        """Change the filter of one channel or of all channels (``CHANGE REPLICATION FILTER``).

        The appliers must not be running. Either all filters change or none. Raises OptionError before
        anything has changed.
        """
        with self.lock:
            self.filters.change(clauses, name)
            for configured in self.channels if name is None else [self.get(name)]:
                current = self.filters.current(configured.info.channel)
                configured.channel.change_filter(current.rules, current.semantics)

    def start(self, threads: Threads | None = None) -> None:
        """Start the threads of all channels."""
        for configured in self.channels:
            configured.channel.start(threads)

    def reset(self, name: str, *, all: bool) -> None:
        """Reset a stopped channel (``RESET REPLICA``). With ``all``, remove the channel, its filter and its
        summary too."""
        with self.lock:
            configured = self.get(name)
            configured.channel.reset()
            if not all:
                return
            configured.channel.close()
            del self._configured[configured.info.channel]
            self.filters.remove_channel(name)
            if configured.info.channel:
                shutil.rmtree(configured.directory, ignore_errors=True)
            else:
                for file in (source_info.NAME, "master.info", "relay-log.info", "relay-bin.index"):
                    durable.remove(configured.directory / file)

    # -- the process

    def wait(self) -> None:
        """Wait until the threads of all channels have ended, after a dump with ``once`` or an error. A signal
        interrupts the wait."""
        while any(one.channel.running for one in self.channels):
            time.sleep(0.05)

    def stop(self) -> None:
        """Stop all channels and wait until they have stopped."""
        channels = [one.channel for one in self.channels]
        for channel in channels:
            channel.request_stop()
        for channel in channels:
            channel.join()

    def close(self) -> None:
        """Stop all channels and release the directory."""
        self.stop()
        with self.lock:
            for one in self.channels:
                one.channel.close()
            self._lock.release()

    @property
    def error(self) -> BaseException | None:
        """The earliest of the errors that ended threads. None when there was none."""
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
        )
        source_info.save(directory, info)
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
    """Return a name for a channel's directory. Different channels get different names.

    >>> _file_name("ch1"), _file_name("../x")
    ('ch1', '..%2Fx')
    """
    name = quote(channel, safe=" +,-=@_")
    if not name.strip("."):
        name = name.replace(".", "%2E")  # the names "." and ".." already mean other directories
    if len(name) > _LONGEST_NAME:
        digest = hashlib.blake2b(channel.encode(), digest_size=8).hexdigest()
        name = f"{name[:_LONGEST_NAME]}-{digest}"
    return name
