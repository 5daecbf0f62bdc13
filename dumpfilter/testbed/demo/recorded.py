"""The first part of the demonstration: a master and four slaves on a recorded binlog set."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.text import Text

from dumpfilter.analyse.report.terminal import table
from dumpfilter.base.errors import DumpfilterError
from dumpfilter.testbed.bed import Testbed
from dumpfilter.testbed.law import differences
from dumpfilter.testbed.own_nodes import Slave
from dumpfilter.testbed.starting import up
from dumpfilter.topology import make_topology, master, recording, slave

SLAVES = {
    "shop": ("replicate-do-db=shop",),
    "quiet": ("replicate-ignore-table=hr.emp", "replicate-wild-ignore-table=logs.%"),
    "store": ("replicate-rewrite-db=shop->store", "replicate-wild-do-table=store.%"),
    "everything": (),
}
"""The rules of each slave. The master sends everything to the last one."""


class SlaveResult(NamedTuple):
    """The final state of one slave of the demonstration."""

    name: str
    sent: int
    """The bytes of events that the master sent to the slave."""
    dropped: int
    position: str
    gtids: str
    differences: tuple[str, ...]
    """The differences from a slave that received everything and filtered itself, as sentences."""


@contextlib.contextmanager
def replicated(source: Path) -> Iterator[Testbed]:
    """Yield a running master on a binlog set, with slaves that have applied everything. Raises DumpfilterError."""
    topology = make_topology(
        recording("binlogs", source, speed=None),
        master("master", "binlogs"),
        *(slave(name, "master", rules=rules) for name, rules in SLAVES.items()),
        name="demo",
    )
    with up(topology) as bed:
        bed.wait_caught_up()
        yield bed


def results(bed: Testbed) -> list[SlaveResult]:
    """Return the final state of each slave, with the bytes that the master sent and dropped for it."""
    found = []
    for name, status in bed.status().nodes.items():
        node = bed[name]
        if isinstance(node, Slave):
            ((feed,), (channel,)) = node.feeds, status.channels
            found.append(
                SlaveResult(
                    name,
                    channel.bytes_received or 0,
                    channel.bytes_dropped or 0,
                    str(channel.applied),
                    channel.gtids,
                    tuple(differences(node, feed)),
                )
            )
    return found


def print_results(console: Console, found: list[SlaveResult]) -> None:
    """Print how many bytes the master's filter saved each slave.

    Raises DumpfilterError if a slave's state differs from that of a slave that reads everything and filters for itself.
    """
    # The filters stand above the table, so that the table has room on a terminal of 80 columns.
    for name, rules in SLAVES.items():
        shown = " ".join(f"--{rule}" for rule in rules)
        console.print(f"  {name}: {shown or '(none: receives everything)'}", soft_wrap=True)
    heads, rows = ("slave", "read", "sent", "saved", "position", "law"), []
    for one in found:
        read = one.sent + one.dropped
        rows.append(
            (
                one.name,
                f"{read:,}",
                f"{one.sent:,}",
                f"{100 * one.dropped / max(read, 1):.1f} %",
                one.position,
                Text("broken", "red") if one.differences else Text("holds", "green"),
            )
        )
    console.print(table(heads, rows, title="What the master's filter saved", numbers=heads[1:4]))
    gtids = {one.gtids for one in found}
    console.print(f"GTID set of every slave: {' / '.join(sorted(gtids)) or 'none'}", soft_wrap=True)
    console.print(
        "law: the rows by table, the digests of their images, the statements by database, the position and the GTID "
        "set equal those of a slave that reads everything and filters for itself."
    )
    broken = [text for one in found for text in one.differences]
    if broken:
        raise DumpfilterError("the law does not hold: " + "\n".join(broken))
