"""The I/O thread of a real replica, at a real source and behind dumpfilter: bytes, processor time, time to catch up."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import NamedTuple

from bench._common import Options, Report, binlogs, keeping
from bench._process import busiest_thread, bytes_received_from, processor_seconds, threads
from bench._servers import PASSWORD, REPLICA_OPTIONS, USER, RealServer, behind, in_families, running, source
from dumpfilter.base.waiting import until
from dumpfilter.binlog.workload.generate import SERVER_ID, UUID, GeneratedSet
from dumpfilter.testbed.servers import Family, ReplicaStatus, SourceAddress

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

    def __init__(self, server: RealServer, made: GeneratedSet) -> None:
        self._server = server
        self._channel = server.channel()
        self._mysql = server.family == "mysql"
        last = made.transactions
        self._last_gtid = f"{UUID}:1-{last}" if self._mysql else f"0-{SERVER_ID}-{last}"

    def catch_up(self, port: int, pid: int, user: str) -> Cost:
        """Receive the whole binlog from ``port``, which the process ``pid`` serves, and return the cost."""
        self._attach(port, user)
        assert self._server.pid is not None
        others = threads(self._server.pid)
        served, start = processor_seconds(pid), time.monotonic()
        self._channel.start("IO_THREAD")
        self._wait(self._has_all, _POLL_SECONDS)
        cost = Cost(
            bytes_received_from(port),
            busiest_thread(self._server.pid, but=others),
            processor_seconds(pid) - served,
            time.monotonic() - start,
        )
        self._detach()
        return cost

    def touch(self, port: int, user: str) -> None:
        """Receive the beginning of the binlog alone."""
        self._attach(port, user)
        self._channel.start("IO_THREAD")
        self._wait(lambda: self._status().raw["Relay_Log_Space"] >= _TOUCHED, _POLL_SECONDS / 10)
        self._detach()

    def _wait(self, is_reached: Callable[[], bool], poll: float) -> None:
        until(
            is_reached,
            time.monotonic() + _LONGEST,
            lambda: SystemExit(f"the replica did not catch up within {_LONGEST} s: {self._status()}"),
            poll=poll,
        )

    def filter_by_itself(self, schemas: list[str]) -> None:
        """Give the replica a filter of its own, which its I/O thread does not know."""
        if self._mysql:
            self._server.run(f"CHANGE REPLICATION FILTER REPLICATE_DO_DB = ({', '.join(schemas)})")
        else:
            self._server.run(f"SET GLOBAL replicate_do_db = '{','.join(schemas)}'")

    def _attach(self, port: int, user: str) -> None:
        self._channel.follow(SourceAddress("127.0.0.1", port, user, PASSWORD), start=False)

    def _detach(self) -> None:
        self._channel.stop()
        forget = "RESET BINARY LOGS AND GTIDS" if self._mysql else "SET GLOBAL gtid_slave_pos=''"
        self._server.run(f"{self._server.dialect.controlled('RESET', '')} ALL", forget)

    def _has_all(self) -> bool:
        status = self._status()
        if status.io_error is not None:
            raise SystemExit(f"the replica's I/O thread ended: {status.io_error}")
        return status.received_gtids == self._last_gtid

    def _status(self) -> ReplicaStatus:
        status = self._channel.status()
        assert status is not None
        return status


def measure(family: Family, made: GeneratedSet, runs: int) -> dict[str, list[Cost]]:
    """Return the costs of each case. The cases take turns, so that a busy machine slows all alike."""
    costs: dict[str, list[Cost]] = {}
    rules = {
        kept: [f"replicate-do-db={name}" for name in keeping(made, share)] for kept, share in SHARES.items()
    }
    with source(family, made) as real, running(family, 101, *REPLICA_OPTIONS) as server:
        receiver = Receiver(server, made)
        assert real.pid is not None
        receiver.filter_by_itself(keeping(made, SHARES["a quarter"]))
        costs["real source, own filter"] = [receiver.catch_up(real.port, real.pid, USER)]
        receiver.filter_by_itself([])
        for _ in range(runs):
            costs.setdefault("real source", []).append(receiver.catch_up(real.port, real.pid, USER))
            for kept in SHARES:
                with behind(made.index, rules) as (port, pid, _):
                    receiver.touch(port, kept)
                    for state in ("first", "indexed"):
                        found = receiver.catch_up(port, pid, kept)
                        costs.setdefault(f"{kept}, {state}", []).append(found)
    return costs


def report_of(family: Family, made: GeneratedSet, costs: dict[str, list[Cost]]) -> Report:
    """Return the medians of each case and their ratios to the real source's."""
    report = Report(
        f"real_replica, {family}",
        "a real replica's I/O thread, behind dumpfilter and at the real source",
        made.bytes,
    )
    medians = {name: _median(found) for name, found in costs.items()}
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
    for title, kept, what, wanted in (
        ("a quarter: receiver", "a quarter", "receiver", 0.5),
        ("a quarter: bytes", "a quarter", "wire", 0.4),
        ("everything: source", "everything", "source", 2.0),
        ("a quarter: source", "a quarter", "source", 1.0),
    ):
        found = getattr(medians[f"{kept}, first"], what)
        report.limit(title, found / getattr(real, what), wanted)
    report.note(
        "in brackets: the ratio to the real source, which sends everything, whatever the replica's filter is"
    )
    report.note(
        "processor time: of the replica's I/O thread, and of the whole process that serves the replica (mysqld, "
        "mariadbd, dumpfilter). First: dumpfilter has loaded its code and indexed nothing"
    )
    return report


def _median(costs: list[Cost]) -> Cost:
    return Cost(*map(median, zip(*costs, strict=True)))


def run(options: Options) -> bool:
    def measured(family: Family) -> Report:
        made = binlogs(options.size, style=family)
        return report_of(family, made, measure(family, made, options.runs))

    return in_families(options, "real_replica", measured)
