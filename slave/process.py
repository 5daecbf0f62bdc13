"""The slave as a process: its channels, and perhaps a console, until the end of the binlog or a signal."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

import structlog

from dumpfilter.console.endpoint import ConsoleEndpoint, serving
from dumpfilter.errors import OptionError
from dumpfilter.filter.channels import ChannelFilters
from dumpfilter.slave.certificate import kept_tls
from dumpfilter.slave.console import SlaveConsole
from dumpfilter.slave.slave import Configured, Slave, SlaveOptions, Watching
from dumpfilter.slave.state.source_info import SourceInfo

log = structlog.get_logger("slave")


@dataclass(frozen=True)
class RunOptions:
    """The options of a slave's process besides those of the slave."""

    filters: ChannelFilters
    sources: Sequence[SourceInfo]
    """The channels that the command line names. The channels of an earlier run are there, too."""
    console: ConsoleEndpoint | None = None
    start: bool = True
    """False leaves all threads stopped until START REPLICA."""


class _Terminated(KeyboardInterrupt):
    """SIGTERM, which ends a slave as Ctrl-C does."""


def run_slave(options: SlaveOptions, run: RunOptions, watching: Watching) -> Sequence[Configured]:
    """Run a slave until its end, Ctrl-C or SIGTERM, and return its channels as they ended.

    A slave with a console runs until a signal, unless ``options.once`` is set and the threads are started. Raises
    DumpfilterError.
    """
    signal.signal(signal.SIGTERM, _terminate)
    console = run.console
    if console is not None:
        console.users()
    elif not run.start:
        raise OptionError("--skip-replica-start: without --console-port nothing could ever start it")
    slave = Slave(options, run.filters, watching=watching)
    try:
        for source in run.sources:
            slave.prepare(source)
        for warning in slave.open():
            log.warning(warning)
        if console is None and not slave.channels:
            raise OptionError(
                "there is no channel: give --master, or --console-port and configure one by statements"
            )
        with _console(slave, console):
            try:
                if run.start:
                    slave.start()
                if console is None or (options.once and run.start):
                    slave.wait()
                else:
                    while True:  # until Ctrl-C or SIGTERM
                        time.sleep(1.0)
            except KeyboardInterrupt:
                slave.stop()
        channels = slave.channels
    finally:
        slave.close()
    if slave.error is not None and (console is None or options.once):
        raise slave.error
    return channels


def _terminate(number: int, frame: FrameType | None) -> None:
    raise _Terminated


@contextmanager
def _console(slave: Slave, endpoint: ConsoleEndpoint | None) -> Iterator[None]:
    """Serve the console, when there is one, as long as the block runs."""
    if endpoint is None:
        yield
        return
    executor = SlaveConsole(slave)
    tls = endpoint.load_tls(lambda: kept_tls(slave.options.relay_dir, endpoint.host, endpoint.tls.ca))
    with serving(endpoint, executor, endpoint.users(), tls) as port:
        executor.port = port
        yield
