"""The I/O thread of a real replica, at a real source and behind dumpfilter: bytes, processor time, time to catch up."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any, NamedTuple

from bench._common import Options, Report, binlogs, keeping
from bench._processes import PASSWORD, bytes_received_from, master, processor_seconds, thread_seconds
from bench._servers import REPLICA_OPTIONS, running
from dumpfilter.base.waiting import until
from dumpfilter.binlog.format import Family
from dumpfilter.binlog.workload import SERVER_ID, UUID, GeneratedSet
from dumpfilter.testbed.servers.server import Server
from dumpfilter.testbed.servers.sql import SourceAddress, channel_states, status_rows

SHARES = {"everything": 1.0, "a quarter": 0.25, "a twentieth": 0.05}
"""The part of the binlog that each filter keeps, by the user whose replicas have the filter."""

_POLL_SECONDS = 0.05
_LONGEST = 600
"""The time after which a replica that has not caught up ends the benchmark, seconds."""
_TOUCHED = 100_000
"""The bytes of relay log after which dumpfilter has loaded its compiled code."""


class Cost(NamedTuple):
    """The cost of one catch-up."""

    wire: float
    """The bytes that the replica received over TCP."""
    receiver: float
    """The processor time of the replica's I/O thread, seconds."""
    source: float
    """The processor time of the process that serves the replica, seconds."""
    seconds: float
    """The time from START REPLICA to the last GTID in the relay log, seconds."""


class Receiver:
    """A real replica of which the I/O thread alone runs."""

    def __init__(self, server: Server, made: GeneratedSet) -> None:
        self._server = server
        self._mysql = server.family == "mysql"
        last = made.transactions
        self._last_gtid = f"{UUID}:1-{last}" if self._mysql else f"0-{SERVER_ID}-{last}"

    def catch_up(self, source: SourceAddress, pid: int) -> Cost:
        """Receive the whole binlog from a source, which the process ``pid`` is, and return the cost."""
        assert self._server.process is not None
        self._server.set_source(source)
        others = thread_seconds(self._server.process.pid)
        served, start = processor_seconds(pid), time.monotonic()
        self._receive(self._has_received, _POLL_SECONDS)
        threads = thread_seconds(self._server.process.pid)
        cost = Cost(
            bytes_received_from(source.port),
            max((used for thread, used in threads.items() if thread not in others), default=0.0),
            processor_seconds(pid) - served,
            time.monotonic() - start,
        )
        self._detach()
        return cost

    def touch(self, source: SourceAddress) -> None:
        """Receive the beginning of the binlog alone."""
        self._server.set_source(source)
        self._receive(lambda row: row["Relay_Log_Space"] >= _TOUCHED, _POLL_SECONDS / 10)
        self._detach()

    def _receive(self, is_reached: Callable[[dict[str, Any]], bool], poll: float) -> None:
        """Run the I/O thread until its status is reached. Raises SystemExit when the thread ends with an error."""

        def is_done() -> bool:
            (row,) = status_rows(self._server)
            if int(row["Last_IO_Errno"]):
                raise SystemExit(f"the replica's I/O thread ended: {row['Last_IO_Error']}")
            return is_reached(row)

        self._server.control("START", thread="IO_THREAD")
        until(
            is_done,
            time.monotonic() + _LONGEST,
            lambda: SystemExit(
                f"the replica did not catch up within {_LONGEST} s: {channel_states(self._server)}"
            ),
            poll=poll,
        )

    def _has_received(self, row: dict[str, Any]) -> bool:
        found = row["Retrieved_Gtid_Set" if self._mysql else "Gtid_IO_Pos"]
        return str(found).replace("\n", "") == self._last_gtid

    def filter_by_itself(self, schemas: list[str]) -> None:
        """Give the replica a filter of its own, which its I/O thread does not know."""
        if self._mysql:
            self._server.sql(f"CHANGE REPLICATION FILTER REPLICATE_DO_DB = ({', '.join(schemas)})")
        else:
            self._server.sql(f"SET GLOBAL replicate_do_db = '{','.join(schemas)}'")

    def _detach(self) -> None:
        self._server.control("STOP")
        forget = "RESET BINARY LOGS AND GTIDS" if self._mysql else "SET GLOBAL gtid_slave_pos=''"
        self._server.sql(f"{self._server.dialect.controlled('RESET', '')} ALL", forget)


def measure(family: Family, made: GeneratedSet, runs: int) -> dict[str, Cost]:
    """Return the median costs of each case. The cases take turns, so that a busy machine slows all alike."""
    costs: dict[str, list[Cost]] = {}
    kept = {user: keeping(made, share) for user, share in SHARES.items()}
    users = {user: [f"replicate-do-db={name}" for name in names] for user, names in kept.items()}
    with running(family, 1, made=made) as real, running(family, 101, *REPLICA_OPTIONS) as server:
        receiver = Receiver(server, made)
        assert real.process is not None

        def measured(case: str, source: SourceAddress, pid: int) -> None:
            costs.setdefault(case, []).append(receiver.catch_up(source, pid))

        receiver.filter_by_itself(kept["a quarter"])
        measured("real source, own filter", real.replication_address, real.process.pid)
        receiver.filter_by_itself([])
        for _ in range(runs):
            measured("real source", real.replication_address, real.process.pid)
            for user in SHARES:
                with master(made.index, users=users) as ours:
                    source = SourceAddress("127.0.0.1", ours.replica_port, user, PASSWORD)
                    receiver.touch(source)
                    for state in ("first", "indexed"):
                        measured(f"{user}, {state}", source, ours.pid)
    return {case: Cost(*map(median, zip(*found, strict=True))) for case, found in costs.items()}


def run(report: Report, options: Options) -> None:
    """Measure the servers of the family that the options name."""
    assert options.family is not None
    made = binlogs(options.size, style=options.family)
    report.nbytes = made.bytes
    medians = measure(options.family, made, options.runs)
    real = medians["real source"]
    for name, cost in medians.items():
        wire, receiver, source, seconds = (one / other for one, other in zip(cost, real, strict=True))
        text = (
            f"{cost.wire / 1e6:8.1f} MB ({wire:.2f})  receiver {cost.receiver:6.2f} s ({receiver:.2f})  "
            f"source {cost.source:6.2f} s ({source:.2f})  caught up in {cost.seconds:6.2f} s ({seconds:.2f})"
        )
        report.row(name, cost.receiver, text)
        for what in ("wire", "source", "seconds"):
            report.values[f"{name}, {what}"] = round(getattr(cost, what), 6)
    for state in ("first", "indexed"):
        everything, quarter = medians[f"everything, {state}"], medians[f"a quarter, {state}"]
        report.limit(f"a quarter, {state}: receiver", quarter.receiver / real.receiver, 0.5)
        report.limit(f"a quarter, {state}: bytes", quarter.wire / real.wire, 0.4)
        report.limit(f"everything, {state}: source", everything.source / real.source, 1.5)
        report.limit(f"a quarter, {state}: source", quarter.source / real.source, 1.0)
    report.note(
        "in brackets: the ratio to the real source, which sends everything, whatever the replica's filter is"
    )
    report.note(
        "processor time: of the replica's I/O thread, and of the whole process that serves the replica (mysqld, "
        "mariadbd, dumpfilter). First: dumpfilter has loaded its code and indexed nothing"
    )
