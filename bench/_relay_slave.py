"""A process with a slave's I/O thread alone.

Each line on standard input is a job, the arguments of :func:`receive` as JSON. The process receives one dump into a new
relay log, and answers with a line of JSON. A job with ``follow`` never ends. It prints a line with the time
(``time.monotonic``) for each beat that the relay log has got, seconds.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
import uuid
from collections.abc import Sequence
from pathlib import Path

from bench._live_reader import BEAT
from bench._process import peak_rss
from dumpfilter.filter import Filter
from dumpfilter.filter.convert import filter_to_proto
from dumpfilter.slave.options import SlaveOptions
from dumpfilter.slave.state.counters import ChannelCounters
from dumpfilter.slave.state.infos import SourceInfo
from dumpfilter.slave.state.relay_log import RelayLog
from dumpfilter.slave.threads.io_thread import IoThread
from dumpfilter.slave.threads.receiver import Receiver
from dumpfilter.slave.threads.relay_end import RelayEnd
from dumpfilter.slave.threads.source import Source


class _TimedRelayLog(RelayLog):
    """A relay log that prints the time of each beat."""

    def append(self, data: bytes | memoryview, *, events: int) -> None:
        super().append(data, events=events)
        for _ in range(bytes(data).count(BEAT)):
            print(time.monotonic(), flush=True)


def receive(
    address: str,
    path: str,
    rules: Sequence[str] = (),
    *,
    sync: int = 0,
    server_id: int = 901,
    follow: bool = False,
) -> dict[str, float]:
    """Receive a dump, and return the seconds, the bytes received and the peak memory."""
    directory = Path(path)
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    log = _TimedRelayLog if follow else RelayLog
    receiver = Receiver(log(directory, sync_every=sync), RelayEnd(), sync_every=sync)
    host, _, port = address.rpartition(":")
    source = Source(
        SourceInfo(host=host, port=int(port)),
        SlaveOptions(relay_dir=directory, server_id=server_id, once=not follow),
        str(uuid.uuid4()),
        filter=filter_to_proto(Filter.from_options([f"--{rule}" for rule in rules])),
    )
    counters = ChannelCounters(directory)
    thread = IoThread(source, receiver, counters)
    start = time.perf_counter()
    thread.run()
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "bytes": counters.received.bytes_received, "rss": peak_rss(os.getpid())}


def main() -> None:
    for line in sys.stdin:
        print(json.dumps(receive(**json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
