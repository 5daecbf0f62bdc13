"""A thousand slaves for ten minutes: slow ones, lost connections, changed filters, rotations. Nothing may leak."""

from __future__ import annotations

import random
import time
from collections import Counter
from pathlib import Path

from bench._common import OUT, Options, Report, steadily
from bench._growing import GrowingSet, Result, check, growing_master
from bench._processes import Usage, usage
from bench._slaves import Fleet, Job

_COMMITS_A_SECOND = 4.0
_BURST = 12
"""The commits of a burst, which come one right after the other. One commit in 20 begins a burst."""
_ROTATIONS = 10
_SAMPLES = 60
_GONE_SECONDS = 90.0
"""The time that the master has to notice that connections have gone silent, seconds."""
_MB = 1e6
_USUAL_SECONDS = 600.0
_WARM_UP = 20
"""The slaves that come and go before the baseline is taken. They compile kernels and start pools of threads."""


def _grow(growing: GrowingSet, pid: int, slaves: Fleet, seconds: float) -> list[Usage]:
    """Commit for a time, with bursts and rotations. Raises SystemExit when a slave ends with an error.

    Return the master's use of resources during the time.
    """
    chance, samples = random.Random(14), []
    commits = int(seconds * _COMMITS_A_SECOND)
    for commit, _ in zip(range(commits), steadily(_COMMITS_A_SECOND), strict=False):
        if commit % max(1, commits // _SAMPLES) == 0:
            samples.append(usage(pid))
            if errors := list(filter(None, slaves.ask("error"))):
                raise SystemExit(f"{len(errors)} slaves ended, the first one with: {errors[0]}")
        if commit and commit % max(1, commits // _ROTATIONS) == 0:
            growing.rotate()
        for _ in range(_BURST if chance.random() < 1 / 20 else 1):
            number = len(growing.marks)
            schema, table = f"shop_{number % 20:02}", f"table_{number * 7 % 50:03}"
            growing.commit(schema, table, others=chance.randrange(5))
    return samples


def _wait_until_gone(pid: int, baseline: Usage) -> Usage:
    """Return the master's use of resources when its sockets are back at the baseline, or after a long time."""
    deadline = time.monotonic() + _GONE_SECONDS
    while (used := usage(pid)).sockets > baseline.sockets and time.monotonic() < deadline:
        time.sleep(0.2)
    return used


def _counted(results: list[Result]) -> Counter[str]:
    """Return the numbers of slaves by way of life, and of what happened to them."""
    counted = Counter[str](result.life for result in results)
    for result in results:
        counted["vanished"] += result.vanished
        counted["changes"] += len(result.pieces)
        counted["chunks"] += len(result.sizes)
        counted["lost"] += result.lost if result.life != "vanishing" else 0
    return counted


def live(report: Report, directory: Path, count: int, seconds: float) -> tuple[GrowingSet, Counter[str]]:
    """Let slaves live for a time, and report their lives. Return the set, and the numbers of what happened.

    Raises SystemExit when a slave ended with an error, or has other events, position or GTIDs than it should have.
    """
    scale = min(1.0, seconds / _USUAL_SECONDS)
    # Connections that went silent keep their places until the master's keepalive notices. A slave that comes back needs
    # another place. In a short run slaves vanish often.
    with growing_master(directory, 2 * count) as (growing, master):
        with Fleet(Job(master.address, range(_WARM_UP), disturbed=1.0)) as few:
            few.wait_until_none("waits")
            few.wait_until_none("is_behind", *growing.end)
            few.finish()
        time.sleep(1.0)
        baseline = usage(master.pid)
        with Fleet(Job(master.address, range(count), disturbed=scale)) as slaves:
            connected = slaves.wait_until_none("waits")
            samples = _grow(growing, master.pid, slaves, seconds)
            slaves.ask("settle")
            caught_up = slaves.wait_until_none("is_behind", *growing.end)
            results = slaves.finish()
        gone = _wait_until_gone(master.pid, baseline)
    check(results, growing.made, marks=growing.marks)
    made, counted = growing.made, _counted(results)
    last, row = samples[-1], report.row
    row("the set", made.transactions, f"{{}} transactions in {len(made.files)} files")
    row(
        "slaves with exactly their events, position and GTIDs, and disturbances",
        counted["vanished"],
        ", ".join(f"{number} {what}" for what, number in counted.items()),
    )
    row("the master's processor", last.cores_since(samples[0]), "{:.3f} cores")
    series = [f"{used.rss / _MB:.0f}" for used in samples[:: max(1, len(samples) // 30)]]
    row("memory, MB", last.rss / _MB, " ".join(series))
    sockets = max(used.sockets for used in samples)
    row("threads", max(used.threads for used in samples), f"at most {{}}, and at most {sockets} sockets")
    row("connected", connected, "in {:.1f} s")
    row("the last ones caught up", caught_up, "in {:.1f} s at the end")
    for name, used in (("before", baseline), ("after", gone)):
        text = f"{{:.0f}} MB, {used.threads} threads, {used.sockets} sockets, {used.files} other files"
        row(f"the master {name}", used.rss / _MB, text)
    report.limit("connections that the master ended", counted["lost"], 0)
    report.limit("sockets left over", gone.sockets - baseline.sockets, 0)
    # The master keeps binlog files open that it has served. Two were there before.
    report.limit("files left open beside binlogs", gone.files - baseline.files - len(made.files) + 2, 0)
    report.limit("threads at the end", gone.threads, 40)
    half = samples[len(samples) // 2]
    report.limit("memory at the end / after half the time", last.rss / half.rss, 1.05)
    return growing, counted


def run(report: Report, options: Options) -> None:
    live(report, OUT / "soak", options.followers, options.seconds)
