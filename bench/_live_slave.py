"""``python -m bench._live_slave ADDRESS DIRECTORY SERVER_ID RULE…``: a slave's I/O thread that times its beats.

For each beat in the relay log the process prints the time at which it was there (``time.monotonic``), seconds.
"""

from __future__ import annotations

import sys
import time
import uuid
from pathlib import Path

from bench._live_reader import BEAT
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
    def append(self, data: bytes | memoryview, *, events: int) -> None:
        super().append(data, events=events)
        for _ in range(bytes(data).count(BEAT)):
            print(time.monotonic(), flush=True)


def main() -> None:
    address, directory, server_id, *rules = sys.argv[1:]
    host, _, port = address.rpartition(":")
    path = Path(directory)
    receiver = Receiver(_TimedRelayLog(path), RelayEnd())
    rule_filter = filter_to_proto(Filter.from_options([f"--{rule}" for rule in rules]))
    options = SlaveOptions(relay_dir=path, server_id=int(server_id))
    info = SourceInfo(host=host, port=int(port))
    source = Source(info, options, str(uuid.uuid4()), filter=rule_filter)
    IoThread(source, receiver, ChannelCounters(path)).run()


if __name__ == "__main__":
    main()
