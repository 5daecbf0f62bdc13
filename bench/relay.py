"""A dump from a master into a relay log, compared with mysqlbinlog that fetches the same files from a real server."""

from __future__ import annotations

import shutil
import subprocess

from bench._common import (
    OUT,
    Options,
    Report,
    binlogs,
    child,
    has_mysql,
    interleaved,
    keeping,
    master,
    timed,
    warm,
)
from bench._servers import copied
from dumpfilter.binlog.workload.generate import Style


def run(options: Options) -> bool:
    style: Style = "mysql" if has_mysql() else "mariadb"
    made = binlogs(options.size, style=style)
    warm(made)
    tenth = [f"replicate-do-db={name}" for name in keeping(made, 0.1)]
    directory = OUT / "relay"
    received: dict[str, int] = {}
    with copied(made, style) as peer, child(["-m", "bench._relay_slave"]) as slave:

        def ours(kept: str, rules: list[str], sync: int = 0) -> float:
            """Return the seconds of the first dump of a new master, which has loaded its code and indexed nothing."""
            with master(made.index) as (address, _):
                _touch(address)
                found = slave.ask({"address": address, "path": str(directory), "rules": rules, "sync": sync})
            received[kept] = found["bytes"]
            return float(found["seconds"])

        def theirs() -> float:
            return timed(
                lambda: subprocess.run(
                    [*peer.command, *peer.files],
                    check=True,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
            )

        found = interleaved(
            {
                peer.name: theirs,
                "ours, everything": lambda: ours("everything", []),
                "ours, a tenth": lambda: ours("a tenth", tenth),
                "ours, everything, --sync-relay-log=10000": lambda: ours("synced", [], 10_000),
            },
            options.runs,
        )
    shutil.rmtree(directory, ignore_errors=True)
    report = Report(
        "relay", "a dump into a relay log, from a master that has indexed nothing yet", made.bytes
    )
    m = report.times(found)
    share = received["a tenth"] / received["everything"]
    report.row("kept", share, f"{share:.3f} of the bytes")
    report.target(f"{peer.name} / ours, everything", m[peer.name] / m["ours, everything"], 3.5)
    report.target(f"{peer.name} / ours, a tenth", m[peer.name] / m["ours, a tenth"], 10)
    report.note(
        "ours is timed from the connection to the end of the dump, in a slave that has started; the peer as a whole "
        "process, which starts in some ten milliseconds. Neither waits for the disk but in the last row"
    )
    if style == "mariadb":
        report.note("MySQL is not installed: measured against MariaDB's server and program")
    return report.print()


def _touch(address: str) -> None:
    """Make the master load its compiled code by a dump that is cancelled after one chunk."""
    import grpc

    from bench.grpc_end_to_end import dump
    from dumpfilter.dump.stream.message import client

    with grpc.insecure_channel(address, options=[("grpc.max_receive_message_length", -1)]) as channel:
        dump(client(channel), [], most=1)
