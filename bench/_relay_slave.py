"""A child process with a slave's I/O thread alone, which receives dumps into new relay logs."""

from __future__ import annotations

import shutil
import time
import uuid
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Thread

from bench._child import serve
from bench._live import BEAT
from dumpfilter.filter import Filter
from dumpfilter.filter.convert import filter_to_proto
from dumpfilter.slave.options import SlaveOptions
from dumpfilter.slave.state.counters import ChannelCounters
from dumpfilter.slave.state.infos import SourceInfo
from dumpfilter.slave.state.relay_log import RelayLog
from dumpfilter.slave.threads.connection import Source
from dumpfilter.slave.threads.io_thread import IoThread
from dumpfilter.slave.threads.receiver import Receiver
from dumpfilter.slave.threads.relay_end import RelayEnd


class _TimedRelayLog(RelayLog):
    """A relay log that notes the time of each beat."""

    beats: list[float]

    def append(self, data: bytes | memoryview) -> None:
        super().append(data)
        self.beats += [time.monotonic()] * bytes(data).count(BEAT)


def receiving(pipe: Connection) -> None:
    """Receive a dump for each request, which has the arguments of :func:`_receive`."""
    serve(pipe, _receive)


def following(pipe: Connection, address: str, path: str, rules: Sequence[str], server_id: int) -> None:
    """Follow a master. Answer each request with the times (``time.monotonic``) of the beats until now, seconds.

    The times are a list in a list, as :func:`bench._live.reading` answers for several replicas.
    """
    directory = _new(path)
    log = _TimedRelayLog(directory, synced=False)
    log.beats = []
    thread = _io_thread(log, address, rules, server_id=server_id, once=False)
    Thread(target=thread.run, daemon=True).start()
    serve(pipe, lambda: [log.beats])


def _receive(address: str, path: str, rules: Sequence[str], sync: int) -> tuple[float, int]:
    """Receive a dump, and return the seconds and the bytes received."""
    thread = _io_thread(RelayLog(_new(path), synced=bool(sync)), address, rules, sync=sync)
    start = time.perf_counter()
    thread.run()
    seconds = time.perf_counter() - start
    return seconds, thread.counters.received.bytes_received


def _new(path: str) -> Path:
    shutil.rmtree(path, ignore_errors=True)
    Path(path).mkdir(parents=True)
    return Path(path)


def _io_thread(
    log: RelayLog,
    address: str,
    rules: Sequence[str],
    *,
    sync: int = 0,
    server_id: int = 901,
    once: bool = True,
) -> IoThread:
    host, _, port = address.rpartition(":")
    source = Source(
        SourceInfo(host=host, port=int(port)),
        SlaveOptions(relay_dir=log.directory, server_id=server_id, once=once),
        str(uuid.uuid4()),
        filter=filter_to_proto(Filter.from_options([f"--{rule}" for rule in rules])),
    )
    return IoThread(source, Receiver(log, RelayEnd(), sync_every=sync), ChannelCounters(log.directory))
