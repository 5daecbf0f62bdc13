"""A thousand slaves that follow a growing binlog, five thousand that connect, and a hundred that catch up."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from bench._check import Life, Result, check
from bench._child import Child, master
from bench._common import OUT, Options, Report, binlogs, percentiles, steadily
from bench._growing import Served, growing_master
from bench._process import Usage, usage
from bench._raw import grpc_server
from bench._slaves import Fleet, Job, fleet

TABLE = ("marker", "t")
"""The table that each commit changes. Three filters in five send it."""
COMMITS_A_SECOND = 4.0
_COMMITS = 80
_WARM_UP = 8
"""The commits before the timed ones. They load code and open files."""
_IDLE_SECONDS = 10.0
_SETTLE_SECONDS = 3.0
"""The time after which followers of dropped transactions have received their new position, seconds."""
_HISTORY = 4 << 20
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

    usage: Usage
    idle: float
    """The processor's cores that the server uses without commits."""
    commit: float
    """The processor time of one commit, seconds."""
    latency: dict[int, float]
    """The 50th, 95th, 99th and 100th percentile of the time from commit to arrival, milliseconds."""
    message: float
    """The average size of a message, bytes."""

    @property
    def text(self) -> str:
        p50, p95, p99, longest = self.latency.values()
        return (
            f"{self.usage.threads:5} threads, {self.usage.rss / _MB:5.0f} MB, idle {self.idle:.4f} cores, "
            f"{self.commit:.3f} CPU s a commit, p50 {p50:.0f} p95 {p95:.0f} p99 {p99:.0f} max {longest:.0f} ms"
        )


def _measure(
    commit: Callable[[], float], slaves: Fleet, pid: int, *lives: Life
) -> tuple[_Figures, list[Result]]:
    """Return the figures of a server, and the results of the slaves with these ways of life (all).

    ``commit`` makes the next commit, and returns its time.
    """
    slaves.wait_until_none("waits")
    at: list[float] = []

    def arrive() -> None:
        slaves.wait_until_none("misses", len(at) - 1, *TABLE)

    for _ in range(_WARM_UP):
        at.append(commit())
        arrive()
    time.sleep(_SETTLE_SECONDS)
    before = usage(pid).cpu
    time.sleep(_IDLE_SECONDS)
    begin = usage(pid).cpu
    for number in steadily(COMMITS_A_SECOND):
        if number == _COMMITS:
            break
        at.append(commit())
    arrive()
    time.sleep(1.0)
    after = usage(pid)
    time.sleep(_SETTLE_SECONDS)
    results = slaves.finish(*lives)
    took = [
        (arrived - at[mark]) * 1e3
        for result in results
        for mark, arrived in result.arrivals
        if mark >= _WARM_UP
    ]
    sizes = [each.bytes / each.messages for each in results if each.arrivals]
    figures = _Figures(
        after,
        (begin - before) / _IDLE_SECONDS,
        (after.cpu - begin) / _COMMITS,
        percentiles(took),
        sum(sizes) / len(sizes),
    )
    return figures, results


def _commit(served: Served) -> float:
    return served.growing.commit(*TABLE).committed


def _follow(options: Options, *, bad: int = 0) -> _Figures:
    """Return the figures of a master. ``bad`` slaves are stuck, and as many are slow."""
    slaves = range(options.followers)
    history = _BAD_HISTORY if bad else _HISTORY
    with growing_master(OUT / "followers", len(slaves), history=history) as served:
        start = served.growing.start
        with fleet(Job(served.address, slaves, start, bad=bad)) as followers:
            figures, results = _measure(lambda: _commit(served), followers, served.pid, Life.STEADY)
    check(results, served.growing, start, digests=not bad)
    return figures


def _follow_bare(options: Options, size: int) -> _Figures:
    """Return the figures of the bare server, which sends messages of ``size`` bytes."""
    commits = 0
    with Child(grpc_server) as server:

        def commit() -> float:
            nonlocal commits
            now = time.monotonic()
            server.tell(f"MARK{commits:08}".encode().ljust(size, b"x"))
            commits += 1
            return now

        with fleet(Job(f"127.0.0.1:{server.answer()}", range(options.followers), raw=True)) as followers:
            return _measure(commit, followers, server.pid)[0]


def _many(report: Report) -> None:
    """Report the time in which many slaves connect and receive a commit, and what they cost."""
    with growing_master(OUT / "followers", _MANY) as served:
        start = served.growing.start
        with fleet(Job(served.address, range(_MANY), start)) as followers:
            connected = followers.wait_until_none("waits", seconds=600)
            begin = _commit(served)
            followers.wait_until_none("misses", 0, *TABLE)
            took = time.monotonic() - begin
            time.sleep(_SETTLE_SECONDS)
            used = usage(served.pid)
            results = followers.finish()
    check(results, served.growing, start)
    cost = f"{used.threads} threads, {used.rss / _MB:.0f} MB"
    text = f"in {{:.1f}} s, a commit arrives everywhere in {took:.2f} s; {cost}"
    report.row(f"{_MANY} connect", connected, text)
    # A registration that cost more among many others would take minutes.
    report.limit(f"{_MANY} connect, seconds", connected, 60)


@dataclass(frozen=True)
class _CatchUp:
    """The figures of slaves that receive a whole set at once."""

    seconds: float
    used: Usage
    """The server's use of resources at the end. The processor time is that of the catch-up."""
    results: list[Result]

    @property
    def bytes(self) -> int:
        return sum(result.bytes for result in self.results)

    @property
    def speed(self) -> float:
        """The bytes that the server sent, MB/s."""
        return self.bytes / self.seconds / _MB

    @property
    def cost(self) -> float:
        """The server's processor time for a GB, seconds."""
        return self.used.cpu / self.bytes * 1e9


def _catch_up(index: Path, sizes: Mapping[int, list[int]] | None = None) -> _CatchUp:
    """Return the figures of slaves that receive a whole set. With ``sizes`` the bare server sends messages of these."""
    with ExitStack() as stack:
        if sizes is None:
            served = stack.enter_context(master(index))
            address, pid = served.address, served.pid
        else:
            server = stack.enter_context(Child(grpc_server))
            address, pid = f"127.0.0.1:{server.answer()}", server.pid
        slaves = range(_CATCH_UP_SLAVES)
        job = Job(
            address,
            slaves,
            once=True,
            raw=sizes is not None,
            sizes=dict(sizes or {}),
            exact_every=_EXACT_EVERY,
        )
        followers = stack.enter_context(fleet(job))
        before = usage(pid)
        followers.wait_until_none("runs", seconds=900)
        after = usage(pid)
        results = followers.finish()
    seconds = max(r.ended for r in results) - min(r.begun for r in results)
    return _CatchUp(seconds, after._replace(cpu=after.cpu - before.cpu), results)


def run(report: Report, options: Options) -> None:
    now = _follow(options)
    found = {"this release": now, "a bare grpc.aio server": _follow_bare(options, round(now.message))}
    found["with 20 slow and 20 stuck"] = bad = _follow(options, bad=20)
    for name, figures in found.items():
        report.row(f"{options.followers} follow, {name}", figures.commit, figures.text)
    report.limit("threads", now.usage.threads, 40)
    report.limit("memory, MB", now.usage.rss / _MB, 250)
    report.limit("idle, cores", now.idle, 0.02)
    report.limit("CPU seconds a commit", now.commit, 0.15)
    report.limit("p99 latency, ms", now.latency[99], 150)
    report.limit("p99 latency beside slow and stuck slaves, ms", bad.latency[99], 150)
    _many(report)
    _report_catch_up(report)


def _report_catch_up(report: Report) -> None:
    made = binlogs(_CATCH_UP_SIZE)
    now = _catch_up(made.index)
    bare = _catch_up(made.index, {result.filter: result.sizes for result in now.results})
    found = {"this release": now, "a bare copy": bare}
    for name, each in found.items():
        text = (
            f"{each.seconds:7.1f} s, {each.speed:6.0f} MB/s, {each.cost:5.2f} CPU s a GB, "
            f"{each.used.rss / _MB:5.0f} MB, {each.used.threads} threads"
        )
        report.row(f"{_CATCH_UP_SLAVES} catch up on {_CATCH_UP_SIZE >> 20} MiB, {name}", each.seconds, text)
    report.target("catch-up, MB/s", now.speed, 400)
    report.limit("catch-up, CPU seconds a GB", now.cost, 1.6)
