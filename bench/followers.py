"""A thousand slaves that follow a growing binlog, five thousand that connect, and a hundred that catch up."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from itertools import count
from statistics import fmean
from typing import NamedTuple

from bench._common import OUT, Options, Report, binlogs, percentiles, steadily
from bench._growing import Result, check, growing_master
from bench._processes import Child, Usage, master, usage
from bench._raw import grpc_server
from bench._slaves import Fleet, Job

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
_MANY = 5000
_MB = 1e6


class _Figures(NamedTuple):
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


def _measure(commit: Callable[[], float], slaves: Fleet, pid: int) -> tuple[_Figures, list[Result]]:
    """Return the figures of a server, and the results of the steady slaves.

    ``commit`` makes the next commit, and returns its time.
    """
    slaves.wait_until_none("waits")
    at: list[float] = []
    for _ in range(_WARM_UP):
        at.append(commit())
        slaves.wait_until_none("misses", len(at) - 1, *TABLE)
    time.sleep(_SETTLE_SECONDS)
    before = usage(pid)
    time.sleep(_IDLE_SECONDS)
    begin = usage(pid)
    for _ in zip(range(_COMMITS), steadily(COMMITS_A_SECOND), strict=False):
        at.append(commit())
    slaves.wait_until_none("misses", len(at) - 1, *TABLE)
    time.sleep(1.0)
    after = usage(pid)
    time.sleep(_SETTLE_SECONDS)
    results = slaves.finish("steady")
    timed = [(mark, arrived) for result in results for mark, arrived in result.arrivals if mark >= _WARM_UP]
    sizes = [fmean(each.sizes) for each in results if each.arrivals]
    figures = _Figures(
        after,
        begin.cores_since(before),
        (after.cpu - begin.cpu) / _COMMITS,
        percentiles([(arrived - at[mark]) * 1e3 for mark, arrived in timed]),
        fmean(sizes),
    )
    return figures, results


def _follow(options: Options, *, bad: int = 0) -> _Figures:
    """Return the figures of a master. ``bad`` slaves are stuck, and as many are slow."""
    slaves = range(options.followers)
    history = _BAD_HISTORY if bad else _HISTORY
    with (
        growing_master(OUT / "followers", len(slaves), history=history) as (growing, served),
        Fleet(Job(served.address, slaves, growing.start, bad=bad)) as followers,
    ):
        figures, results = _measure(partial(growing.commit, *TABLE), followers, served.pid)
    check(results, growing.made, growing.start, growing.marks)
    return figures


def _follow_bare(options: Options, size: int) -> _Figures:
    """Return the figures of the bare server, which sends messages of ``size`` bytes."""
    numbers = count()
    with Child(grpc_server) as server:

        def commit() -> float:
            now = time.monotonic()
            server.tell(f"MARK{next(numbers):08}".encode().ljust(size, b"x"))
            return now

        with Fleet(Job(f"127.0.0.1:{server.answer()}", range(options.followers), raw=True)) as followers:
            return _measure(commit, followers, server.pid)[0]


def _many(report: Report) -> None:
    """Report the time in which many slaves connect and receive a commit, and what they cost."""
    with (
        growing_master(OUT / "followers", _MANY) as (growing, served),
        Fleet(Job(served.address, range(_MANY), growing.start)) as followers,
    ):
        connected = followers.wait_until_none("waits", seconds=600)
        begin = growing.commit(*TABLE)
        followers.wait_until_none("misses", 0, *TABLE)
        took = time.monotonic() - begin
        time.sleep(_SETTLE_SECONDS)
        used = usage(served.pid)
        results = followers.finish()
    check(results, growing.made, growing.start, growing.marks)
    cost = f"{used.threads} threads, {used.rss / _MB:.0f} MB"
    text = f"in {{:.1f}} s, a commit arrives everywhere in {took:.2f} s; {cost}"
    report.row(f"{_MANY} connect", connected, text)
    # A registration that cost more among many others would take minutes.
    report.limit(f"{_MANY} connect, seconds", connected, 60)


def _catch_up(report: Report, name: str, job: Job, pid: int) -> tuple[list[Result], float, float]:
    """Let slaves receive a whole set from the process ``pid``, and report what the process does and uses.

    Return the results, the MB that the process sends in a second, and its processor time for a GB, seconds.
    """
    with Fleet(job) as followers:
        before = usage(pid).cpu
        followers.wait_until_none("runs", seconds=900)
        used = usage(pid)
        results = followers.finish()
    seconds = max(each.ended for each in results) - min(each.begun for each in results)
    sent = sum(sum(each.sizes) for each in results)
    speed, cost = sent / seconds / _MB, (used.cpu - before) / sent * 1e9
    text = f"{{:7.1f}} s, {speed:6.0f} MB/s, {cost:5.2f} CPU s a GB, {used.rss / _MB:5.0f} MB, {used.threads} threads"
    report.row(f"{_CATCH_UP_SLAVES} catch up on {_CATCH_UP_SIZE >> 20} MiB, {name}", seconds, text)
    return results, speed, cost


def _catch_up_all(report: Report) -> None:
    """Report slaves that receive a whole set from a master, and the same bytes from the bare server."""
    made, slaves = binlogs(_CATCH_UP_SIZE), range(_CATCH_UP_SLAVES)
    with master(made.index) as served:
        job = Job(served.address, slaves, once=True)
        results, speed, cost = _catch_up(report, "this release", job, served.pid)
    check(results, made)
    sizes = {result.filter: result.sizes for result in results}
    with Child(grpc_server) as server:
        job = Job(f"127.0.0.1:{server.answer()}", slaves, once=True, raw=True, sizes=sizes)
        _catch_up(report, "a bare copy", job, server.pid)
    report.target("catch-up, MB/s", speed, 400)
    report.limit("catch-up, CPU seconds a GB", cost, 1.6)


def run(report: Report, options: Options) -> None:
    now = _follow(options)
    found = {"this release": now, "a bare grpc.aio server": _follow_bare(options, round(now.message))}
    found["with 20 slow and 20 stuck"] = bad = _follow(options, bad=20)
    for name, each in found.items():
        p50, p95, p99, longest = each.latency.values()
        text = (
            f"{each.usage.threads:5} threads, {each.usage.rss / _MB:5.0f} MB, idle {each.idle:.4f} cores, "
            f"{each.commit:.3f} CPU s a commit, p50 {p50:.0f} p95 {p95:.0f} p99 {p99:.0f} max {longest:.0f} ms"
        )
        report.row(f"{options.followers} follow, {name}", each.commit, text)
    report.limit("threads", now.usage.threads, 40)
    report.limit("memory, MB", now.usage.rss / _MB, 250)
    report.limit("idle, cores", now.idle, 0.02)
    report.limit("CPU seconds a commit", now.commit, 0.15)
    report.limit("p99 latency, ms", now.latency[99], 150)
    report.limit("p99 latency beside slow and stuck slaves, ms", bad.latency[99], 150)
    _many(report)
    _catch_up_all(report)
