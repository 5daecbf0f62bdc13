"""A dump from a master into a relay log, compared with mysqlbinlog that fetches the same files from a real server."""

from __future__ import annotations

from functools import partial

from bench._common import MYSQL_ROOT, Cases, Options, Report, binlogs, keeping
from bench._live import receive
from bench._processes import Child, master
from bench._servers import copied, run_silently
from bench.grpc_end_to_end import connected, dump
from dumpfilter.base.helper import serve
from dumpfilter.binlog.format import Family


def run(report: Report, options: Options) -> None:
    style: Family = "mysql" if (MYSQL_ROOT / "usr/sbin/mysqld").exists() else "mariadb"
    made = binlogs(options.size, style=style)
    tenth = [f"replicate-do-db={name}" for name in keeping(made, 0.1)]
    received: dict[str, int] = {}
    report.nbytes = made.bytes
    with copied(made, style) as peer, Child(serve, receive) as slave:

        def ours(kept: str, rules: list[str], sync: int = 0) -> float:
            """Return the seconds of the first dump of a new master, which has loaded its code and indexed nothing."""
            with master(made.index) as server:
                with connected(server.address) as stub:
                    dump(stub, [], most=1)
                seconds, received[kept] = slave.ask(server.address, rules, sync)
            return float(seconds)

        cases: Cases = {
            peer.name: partial(run_silently, peer.command),
            "ours, everything": partial(ours, "everything", []),
            "ours, a tenth": partial(ours, "a tenth", tenth),
            "ours, everything, --sync-relay-log=10000": partial(ours, "synced", [], 10_000),
        }
        theirs, *own = report.measure(cases).values()
    report.row("kept", received["a tenth"] / received["everything"], "{:.3f} of the bytes")
    report.target(f"{peer.name} / ours, everything", theirs / own[0], 3.5)
    report.target(f"{peer.name} / ours, a tenth", theirs / own[1], 10)
    report.note(
        "ours is timed from the connection to the end of the dump, in a slave that has started; the peer as a whole "
        "process, which starts in some ten milliseconds. Neither waits for the disk but in the last row"
    )
    if style == "mariadb":
        report.note("MySQL is not installed: measured against MariaDB's server and program")
