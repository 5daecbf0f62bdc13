"""Compressed transactions above the size up to which the master opens them."""

from __future__ import annotations

from pathlib import Path

from dumpfilter.binlog.events import EventType
from dumpfilter.master.server import MasterServer
from dumpfilter.master.store import BinlogStore
from tests.master.client import Client
from tests.support import DATA

SET = DATA / "oracle" / "mysql-mixed"
RULES = ["--replicate-do-db=nothing_at_all"]


def sent_payloads(max_opened: int) -> tuple[int, int]:
    """Return how many compressed transactions a slave with RULES gets, and how many events are counted as undecided."""
    server = MasterServer(BinlogStore(SET, max_opened=max_opened))
    server.start()
    client = Client(server)
    chunks = list(client.dump(client.register(RULES).slave_id))
    client.channel.close()
    server.stop(0)
    sent = payloads(b"".join(chunk.events for chunk in chunks))
    return sent, sum(chunk.counts.events_undecided for chunk in chunks)


def payloads(data: bytes) -> int:
    """Return the number of compressed transactions among the events in ``data``."""
    found = at = 0
    while at < len(data):
        found += data[at + 4] == EventType.TRANSACTION_PAYLOAD
        at += int.from_bytes(data[at + 9 : at + 13], "little")
    return found


def test_larger_transactions_are_sent_whole_and_counted_as_undecided() -> None:
    files = sorted(Path(SET).glob("bin.0*"))
    all_payloads = sum(payloads(path.read_bytes()[4:]) for path in files)
    assert all_payloads
    opened, undecided = sent_payloads(1 << 20)
    whole, more_undecided = sent_payloads(10)
    assert (opened, whole) == (0, all_payloads)
    # The end of an XA transaction that a large transaction prepares is undecided, too.
    assert more_undecided >= undecided + all_payloads
