"""A process with a slave's I/O thread alone.

For each line ``[ADDRESS, DIRECTORY, SYNC, [SCHEMA, …]]`` on standard input it receives one dump into a new relay log.
It answers with the seconds, the bytes received and the peak memory. Both are JSON.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
import uuid
from pathlib import Path

from bench._common import do_db, peak_rss
from dumpfilter.filter.convert import filter_to_proto
from dumpfilter.slave.options import SlaveOptions
from dumpfilter.slave.state.counters import ChannelCounters
from dumpfilter.slave.state.infos import SourceInfo
from dumpfilter.slave.state.relay_log import RelayLog
from dumpfilter.slave.threads.io_thread import IoThread
from dumpfilter.slave.threads.receiver import Receiver
from dumpfilter.slave.threads.relay_end import RelayEnd
from dumpfilter.slave.threads.source import Source


def receive(address: str, directory: Path, sync: int, names: list[str]) -> dict[str, float]:
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    receiver = Receiver(RelayLog(directory, sync_every=sync), RelayEnd(), sync_every=sync)
    host, _, port = address.rpartition(":")
    options = SlaveOptions(relay_dir=directory, server_id=901, once=True)
    counters = ChannelCounters(directory)
    info = SourceInfo(host=host, port=int(port))
    thread = IoThread(
        Source(info, options, str(uuid.uuid4()), filter=filter_to_proto(do_db(names))), receiver, counters
    )
    start = time.perf_counter()
    thread.run()
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "bytes": counters.received.bytes_received, "rss": peak_rss(os.getpid())}


def main() -> None:
    for line in sys.stdin:
        address, directory, sync, names = json.loads(line)
        print(json.dumps(receive(address, Path(directory), sync, names)), flush=True)


if __name__ == "__main__":
    main()
