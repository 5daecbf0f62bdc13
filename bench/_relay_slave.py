"""A process with a slave's I/O thread alone.

For each line ``ADDRESS DIRECTORY SYNC SCHEMA,…`` on standard input it receives one dump into a new relay log. It
answers with a line of JSON: the seconds, the bytes received and the peak memory.
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
from dumpfilter.slave.state.master_info import MasterInfoFile
from dumpfilter.slave.state.relay_log import RelayLog
from dumpfilter.slave.threads.io_thread import IoThread
from dumpfilter.slave.threads.master_options import MasterOptions
from dumpfilter.slave.threads.receiver import Receiver
from dumpfilter.slave.threads.relay_end import RelayEnd


def receive(address: str, directory: Path, sync: int, names: list[str]) -> dict[str, float]:
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    receiver = Receiver(
        RelayLog(directory, sync_every=sync), MasterInfoFile(directory, sync_every=sync), RelayEnd()
    )
    options = MasterOptions(address, 901, str(uuid.uuid4()), filter=filter_to_proto(do_db(names)), once=True)
    thread = IoThread(options, receiver)
    start = time.perf_counter()
    thread.run()
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "bytes": thread.received.bytes_received, "rss": peak_rss(os.getpid())}


def main() -> None:
    print("ready", flush=True)
    for line in sys.stdin:
        address, directory, sync, names = line.rstrip("\n").split(" ")
        found = receive(address, Path(directory), int(sync), [n for n in names.split(",") if n])
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
