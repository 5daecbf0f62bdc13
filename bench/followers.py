"""A thousand slaves that follow a growing binlog, five thousand that connect, and a hundred that catch up."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import grpc

from bench import _filters
from bench._child import Child, master
from bench._common import OUT, REPOSITORY, Options, Report, binlogs
from bench._fleet import Fleet, Health, asking_for_health, fleet, percentiles
from bench._follower import Start, dump, registration
from bench._growing import GrowingSet
from bench._process import Usage, usage
from bench._raw import grpc_server
from bench._reference import check
from bench._slaves import Job, Life, Result
from dumpfilter.v1 import dumpfilter_pb2 as pb
from dumpfilter.v1 import dumpfilter_pb2_grpc as rpc

SCHEMA, TABLE = "marker", "t"
"""The table that each commit changes. Three filters in five send it."""
COMMITS_A_SECOND = 4.0
_COMMITS = 80
_WARM_UP = 8
"""The commits before the timed ones. They compile kernels and open files."""
_IDLE_SECONDS = 10.0
_SETTLE_SECONDS = 3.0
"""The time after which followers of dropped transactions have received their new position, seconds."""
_BAD_HISTORY = 48 << 20
"""The bytes that a slow or stuck slave still has before it when it begins, more than all buffers hold."""
_CATCH_UP_SIZE = 256 << 20
_CATCH_UP_SLAVES = 100
_EXACT_EVERY = 7
"""The slaves that keep digests while they catch up: every so many. Thus digests are taken of all kinds of filters."""
_MANY = 5000
_MB = 1e6


@dataclass(frozen=True)
class _Figures:
    """The figures of one server that followers listen to."""

    connected: float
    """The time until all slaves had a first message, seconds."""
    usage: Usage
    idle: float
    """The processor's cores that the server uses without commits."""
    commit: float
    """The processor time of one commit, seconds."""
    latency: dict[int, float]
    """The 50th, 95th, 99th and 100th percentile of the time from commit to arrival, seconds."""
    message: int
    """The size of a message with a commit, bytes."""
    health: Health


class _Growth:
    """A growing set, and the times of its commits."""

    def __init__(self, *, history: int) -> None:
        self._directory = OUT / "followers"
        shutil.rmtree(self._directory, ignore_errors=True)
        self.set = GrowingSet(self._directory, history=history)
        self.start = Start(*self.set.end, self.set.transactions)
        self.at: dict[int, float] = {}

    def commit(self) -> int:
        """Append a marked transaction and return its number."""
        number = len(self.set.marks)
        self.at[number] = time.monotonic()
        self.set.commit(SCHEMA, TABLE)
        return number


def _measure(
    commit: Callable[[], int], followers: Fleet, pid: int, health: Health
) -> tuple[float, float, Usage]:
    """Return the idle cores, the processor time of a commit, and the use of resources."""
    for _ in range(_WARM_UP):
        followers.wait_until_none("missing", commit(), SCHEMA, TABLE)
    # The floor has no such client.
    health.paused = True
    time.sleep(_SETTLE_SECONDS)
    before = usage(pid)
    time.sleep(_IDLE_SECONDS)
    idle = (usage(pid).cpu - before.cpu) / _IDLE_SECONDS
    before, begin, mark = usage(pid), time.monotonic(), 0
    for number in range(_COMMITS):
        time.sleep(max(0.0, begin + number / COMMITS_A_SECOND - time.monotonic()))
        mark = commit()
    followers.wait_until_none("missing", mark, SCHEMA, TABLE)
    time.sleep(1.0)
    after = usage(pid)
    health.paused = False
    return idle, (after.cpu - before.cpu) / _COMMITS, after


def _latencies(results: list[Result], at: dict[int, float]) -> dict[int, float]:
    return percentiles(
        [
            arrived - at[mark]
            for result in results
            for mark, arrived in result.arrivals
            if _WARM_UP <= mark < _WARM_UP + _COMMITS
        ]
    )


def _follow(options: Options, tree: Path, *, bad: int = 0) -> _Figures:
    """Return the figures of the master of a checkout. ``bad`` slaves are stuck, and as many are slow."""
    growth = _Growth(history=_BAD_HISTORY if bad else 4 << 20)
    with (
        master(growth.set.index, "--max-dumps", str(options.followers), tree=tree) as (address, pid),
        asking_for_health(address) as health,
        fleet(Job(address, options.followers, start=growth.start, slow=bad, stuck=bad)) as followers,
    ):
        connected = followers.wait_until_none("waiting")
        idle, commit, used = _measure(growth.commit, followers, pid, health)
        time.sleep(_SETTLE_SECONDS)
        results = followers.finish(Life.STEADY)
    growth.set.close()
    check(results, growth.set, growth.start, digests=not bad)
    sizes = [each.bytes / each.messages for each in results if each.arrivals]
    latency = _latencies(results, growth.at)
    return _Figures(connected, used, idle, commit, latency, round(sum(sizes) / len(sizes)), health)


def _compile(tree: Path) -> None:
    """Let a master of a checkout serve each filter once, so that it compiles its kernels. They stay in a cache."""
    growth = _Growth(history=1 << 20)
    with (
        master(growth.set.index, tree=tree) as (address, _),
        fleet(Job(address, _filters.NUMBER, start=growth.start)) as followers,
    ):
        followers.wait_until_none("waiting")
        for _ in range(_WARM_UP):
            followers.wait_until_none("missing", growth.commit(), SCHEMA, TABLE)
    growth.set.close()


def _follow_bare(options: Options, size: int) -> _Figures:
    """Return the figures of the bare server, which sends messages of ``size`` bytes."""
    at: dict[int, float] = {}
    with Child(grpc_server) as server:
        address = f"127.0.0.1:{server.answer()}"

        def commit() -> int:
            number = len(at)
            at[number] = time.monotonic()
            server.tell(f"MARK{number:08}".encode().ljust(size, b"x"))
            return number

        with fleet(Job(address, options.followers, raw=True)) as followers:
            connected = followers.wait_until_none("waiting")
            idle, cost, used = _measure(commit, followers, server.pid, Health())
            results = followers.finish()
    return _Figures(connected, used, idle, cost, _latencies(results, at), size, Health())


def _many(number: int) -> tuple[float, float, str, Usage, Health]:
    """Return the times in which so many slaves connect and receive a commit, the refusal of one more, and the costs."""
    growth = _Growth(history=1 << 20)
    with (
        master(growth.set.index, "--max-dumps", str(number)) as (address, pid),
        asking_for_health(address) as health,
        fleet(Job(address, number, start=growth.start)) as followers,
    ):
        connected = followers.wait_until_none("waiting", seconds=600)
        refusal = _refusal(address, number)
        begin = time.monotonic()
        followers.wait_until_none("missing", growth.commit(), SCHEMA, TABLE)
        served = time.monotonic() - begin
        time.sleep(_SETTLE_SECONDS)
        used = usage(pid)
        results = followers.finish()
    growth.set.close()
    check(results, growth.set, growth.start)
    return connected, served, refusal, used, health


def _refusal(address: str, number: int) -> str:
    """Return the master's answer to a dump beyond its limit."""
    with grpc.insecure_channel(address) as channel:
        answer = rpc.DumpFilterStub(channel).Register(registration(number, pb.FilterDefinition()))
        request = pb.DumpRequest(slave_id=answer.slave_id)
        getattr(request, "from").position = 4
        try:
            next(iter(dump(channel, request)))
        except grpc.RpcError as error:
            return f"{error.code().name}: {error.details()}"
    return f"slave {number + 1} was served"


@dataclass(frozen=True)
class _CatchUp:
    """The figures of slaves that receive a whole set at once."""

    seconds: float
    bytes: int
    used: Usage
    """The server's use of resources at the end. The processor time is that of the catch-up."""
    results: list[Result]

    @property
    def text(self) -> str:
        speed, cost = self.bytes / self.seconds / _MB, self.used.cpu / self.bytes * 1e9
        return (
            f"{self.seconds:7.1f} s, {speed:6.0f} MB/s, {cost:5.2f} CPU s a GB, {self.used.rss / _MB:5.0f} MB, "
            f"{self.used.threads} threads"
        )

    @property
    def digests(self) -> dict[int, str]:
        """The digest of each filter's events, among the slaves that keep digests."""
        found = {(r.filter, r.digest) for r in self.results if r.number % _EXACT_EVERY == 0}
        digests = dict(found)
        assert len(digests) == len(found)
        return digests


@contextmanager
def _server(index: Path, tree: Path | None) -> Iterator[tuple[str, int]]:
    """Run the master of a checkout, or the bare server."""
    if tree is not None:
        with master(index, tree=tree) as found:
            yield found
        return
    with Child(grpc_server) as server:
        yield f"127.0.0.1:{server.answer()}", server.pid


def _catch_up(index: Path, tree: Path | None, sizes: dict[int, list[int]]) -> _CatchUp:
    """Return the figures of slaves that receive a whole set. Without a tree the bare server sends these ``sizes``."""
    job = Job("", _CATCH_UP_SLAVES, once=True, raw=tree is None, sizes=sizes, exact_every=_EXACT_EVERY)
    with _server(index, tree) as (address, pid), fleet(replace(job, address=address)) as followers:
        before = usage(pid)
        followers.wait_until_none("running", seconds=900)
        after = usage(pid)
        results = followers.finish()
    seconds = max(r.ended for r in results) - min(r.begun for r in results)
    used = after._replace(cpu=after.cpu - before.cpu)
    return _CatchUp(seconds, sum(r.bytes for r in results), used, results)


def _text(figures: _Figures) -> str:
    ms = {p: value * 1e3 for p, value in figures.latency.items()}
    return (
        f"{figures.usage.threads:5} threads, {figures.usage.rss / _MB:5.0f} MB, idle {figures.idle:.4f} cores, "
        f"{figures.commit:.3f} CPU s a commit, p50 {ms[50]:.0f} p95 {ms[95]:.0f} p99 {ms[99]:.0f} max {ms[100]:.0f} ms"
        + (f", health at most {figures.health.longest * 1e3:.0f} ms" if figures.health.asked else "")
    )


def run(options: Options) -> bool:
    report = Report("followers", "a thousand slaves cost little more than their messages")
    _compile(REPOSITORY)
    now = _follow(options, REPOSITORY)
    found = {"this release": now, "a bare grpc.aio server": _follow_bare(options, now.message)}
    if options.before is not None:
        _compile(options.before)
        found["before"] = _follow(options, options.before)
    found["with 20 slow and 20 stuck"] = bad = _follow(options, REPOSITORY, bad=20)
    for name, figures in found.items():
        report.row(f"{options.followers} follow, {name}", figures.commit, _text(figures))
    report.limit("threads", now.usage.threads, 40)
    report.limit("memory, MB", now.usage.rss / _MB, 300)
    report.limit("idle, cores", now.idle, 0.02)
    report.limit("CPU seconds a commit", now.commit, 0.15)
    report.limit("p99 latency, ms", now.latency[99] * 1e3, 250)
    report.limit("p99 latency beside slow and stuck slaves, ms", bad.latency[99] * 1e3, 250)
    connected, served, refusal, used, health = _many(_MANY)
    cost = f"{used.threads} threads, {used.rss / _MB:.0f} MB"
    text = f"in {{:.1f}} s, a commit arrives everywhere in {served:.2f} s; {cost}"
    report.row(f"{_MANY} connect", connected, text)
    report.row("one more", 0, refusal)
    report.target("refusals of one more", float(refusal.startswith("RESOURCE_EXHAUSTED")), 1)
    asked = [now.health, bad.health, health]
    errors = " ".join({each.error for each in asked if each.error})
    text = (
        f"{max(each.longest for each in asked) * 1e3:.0f} ms of {sum(each.asked for each in asked)} {errors}"
    )
    report.row("longest answer of the health check", max(each.longest for each in asked), text)
    report.limit("health checks without an answer", sum(each.failed for each in asked), 0)
    _report_catch_up(report, options)
    return report.print()


def _report_catch_up(report: Report, options: Options) -> None:
    made = binlogs(_CATCH_UP_SIZE)
    now = _catch_up(made.index, REPOSITORY, {})
    bare = _catch_up(made.index, None, {result.filter: result.sizes for result in now.results})
    found = {"this release": now, "a bare copy": bare}
    if options.before is not None:
        found["before"] = before = _catch_up(made.index, options.before, {})
        if before.digests != now.digests:
            raise SystemExit("the two releases send different events")
    for name, each in found.items():
        title = f"{_CATCH_UP_SLAVES} catch up on {_CATCH_UP_SIZE >> 20} MiB, {name}"
        report.row(title, each.seconds, each.text)
    report.target("catch-up, MB/s", now.bytes / now.seconds / _MB, 2 * 133)
