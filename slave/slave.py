"""A slave: a process with any number of channels, their filters, and what statements do to them.

The server's ``Multisource_info`` and its channel map. Which statement is allowed when, and with what number it is
refused, is :mod:`dumpfilter.slave.console`'s.
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
from dumpfilter.slave.targets import SummaryTarget, Target
from dumpfilter.slave.threads.io_thread import MasterOptions
from dumpfilter.sql.commands import Threads
from dumpfilter.v1 import dumpfilter_pb2 as pb
from dumpfilter.v1 import dumpfilter_pb2_grpc as rpc

log = structlog.get_logger("slave")

CHANNELS = "channels"
"""Named channels have their directories in this one; the default channel is in the relay directory itself."""

_LONGEST_NAME = 120


@dataclass(frozen=True)
class SlaveOptions:
    """What holds for all channels, by the server's names where it has them."""

    relay_dir: Path
    server_id: int
    lower_case_table_names: int = 0
    replicate_same_server_id: bool = False
    report_host: str = ""
    report_port: int = 0
    net_timeout: float = 60.0
    """``--replica-net-timeout``, seconds."""
    chunk_size: int = 0
    """Bytes; 0 leaves it to the master."""
    once: bool = False
    """End at the end of the newest binlog."""
    apply: bool = True
    """Whether :meth:`Slave.start` starts the appliers."""
    alone: bool = False
    """See :class:`~dumpfilter.slave.channel.Channel`."""
    sync_relay_log: int = 10_000
    sync_master_info: int = 10_000


@dataclass(frozen=True)
class Watching:
    """Who is told of a channel's progress."""

    on_chunk: Callable[[str, pb.Chunk], None] = lambda channel, chunk: None
    on_connect: Callable[[str, rpc.DumpFilterStub, pb.RegisterResponse], None] = (
        lambda channel, stub, answer: None
    )


@dataclass
class Configured:
    """A channel and how it reaches its master."""

    info: SourceInfo
    channel: Channel
    directory: Path


class Slave:
    """The channels of a slave.

    When it is made it finds the channels there were (``source.info``); :meth:`configure` may add more, as options do,
    until :meth:`open`, from when on the filters are in force. Raises OptionError, DirectoryBusy, StateCorrupt.
    """

    def __init__(
        self,
        options: SlaveOptions,
        filters: ChannelFilters,
        *,
        make_target: Callable[[], Target] = SummaryTarget,
        watching: Watching | None = None,
    ) -> None:
        check_server_id(options.server_id)
        self.options = options
        self.filters = filters
        self._make_target = make_target
        self._watching = watching or Watching()
        self.lock = threading.RLock()
        """Held by a statement that changes channels; what only looks does without."""
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
        """The configured channels, the default one first, the others by name."""
        with self.lock:
            return [self._configured[name] for name in sorted(self._configured, key=str.encode)]

    def get(self, name: str) -> Configured:
        """A configured channel. Raises UnknownChannel."""
        with self.lock:
            try:
                return self._configured[fold_channel(name)]
            except KeyError:
                raise UnknownChannel(name) from None

    def has(self, name: str) -> bool:
        """Whether a channel is configured."""
        return fold_channel(name) in self._configured

    def prepare(self, info: SourceInfo) -> None:
        """Have a channel, as the command line tells; before :meth:`open`. Its position stays as it is."""
        info = info.model_copy(update={"channel": fold_channel(info.channel)})
        self._infos[info.channel] = info

    def open(self) -> list[str]:
        """Bring all channels up, stopped, and their filters into force. Returns the warnings of the filters that
        were discarded (WL#7361). Raises OptionError, StateCorrupt."""
        with self.lock:
            warnings = self.filters.finish_startup(self._infos)
            for info in self._infos.values():
                self._add(info)
            self._infos = {}
            return warnings

    def configure(
        self, info: SourceInfo, clauses: Sequence[FilterClause] = (), *, afresh: bool = False
    ) -> None:
        """``CHANGE REPLICATION SOURCE TO``: a new channel, or another configuration of one that is stopped, with the
        ``clauses`` of WL#2387 and WL#2516 for its filter. Raises OptionError, before anything has changed, and what
        the directory's files raise."""
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
        """``CHANGE REPLICATION FILTER``: of one channel or of all of them, whose appliers do not run. All or nothing:
        raises OptionError before anything has changed."""
        with self.lock:
            self.filters.change(clauses, name)
            for configured in self.channels if name is None else [self.get(name)]:
                current = self.filters.current(configured.info.channel)
                configured.channel.change_filter(current.rules, current.semantics)

    def start(self, threads: Threads | None = None) -> None:
        """Start all channels."""
        for configured in self.channels:
            configured.channel.start(threads)

    def reset(self, name: str, *, all: bool) -> None:
        """``RESET REPLICA [ALL]`` of a stopped channel. With ``all`` the channel is gone, its filter and its
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
        """Wait until the threads of all channels have ended by themselves (a dump asked for once, an error). Can be
        interrupted by signals."""
        while any(one.channel.running for one in self.channels):
            time.sleep(0.05)

    def stop(self) -> None:
        """Stop all channels; returns when they have stopped."""
        channels = [one.channel for one in self.channels]
        for channel in channels:
            channel.request_stop()
        for channel in channels:
            channel.join()

    def close(self) -> None:
        """Stop, and let the directory go."""
        self.stop()
        with self.lock:
            for one in self.channels:
                one.channel.close()
            self._lock.release()

    @property
    def error(self) -> BaseException | None:
        """The first error that ended a thread, if any."""
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
            self._make_target(),
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
        source = MasterOptions(
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
            source=source,
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
    """A directory's name for a channel's: readable, and another one for each.

    >>> _file_name("ch1"), _file_name("../x")
    ('ch1', '..%2Fx')
    """
    name = quote(channel, safe=" +,-=@_")
    if not name.strip("."):
        name = name.replace(".", "%2E")  # a directory of its own, not this one or the one above
    if len(name) > _LONGEST_NAME:
        digest = hashlib.blake2b(channel.encode(), digest_size=8).hexdigest()
        name = f"{name[:_LONGEST_NAME]}-{digest}"
    return name
