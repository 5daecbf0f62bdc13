"""A thousand slaves for ten minutes: slow ones, lost connections, changed filters, rotations. Nothing may leak."""

from __future__ import annotations

import random
import shutil
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from bench._child import master
from bench._common import OUT, Options, Report
from bench._fleet import Fleet, Health, asking_for_health, fleet
from bench._follower import Start
from bench._growing import GrowingSet
from bench._process import Usage, usage
from bench._reference import check
from bench._slaves import Job, Life, Result

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


class _Life:
    """The life of a growing set: commits, bursts and rotations, and the samples of the master's use of resources."""

    def __init__(self, growing: GrowingSet, pid: int, seconds: float) -> None:
        self._growing = growing
        self._pid = pid
        self._seconds = seconds
        self._random = random.Random(14)
        self.samples: list[tuple[float, Usage]] = []
        """The use of resources at each time, and the seconds since the begin."""

    def run(self, followers: Fleet) -> None:
        """Commit for the given time. Raises SystemExit when a slave ends with an error."""
        begin = time.monotonic()
        rotate_at = sample_at = begin
        number = 0
        while (now := time.monotonic()) < begin + self._seconds:
            if now >= sample_at:
                self.samples.append((now - begin, usage(self._pid)))
                sample_at += self._seconds / _SAMPLES
                if errors := [error for told in followers.ask("errors") for error in told]:
                    raise SystemExit(f"{len(errors)} slaves ended, the first one with: {errors[0]}")
            if now >= rotate_at + self._seconds / _ROTATIONS:
                rotate_at = now
                self._growing.rotate()
            for _ in range(_BURST if self._random.random() < 1 / 20 else 1):
                self._commit()
            number += 1
            time.sleep(max(0.0, begin + number / _COMMITS_A_SECOND - time.monotonic()))

    def _commit(self) -> None:
        number = len(self._growing.marks)
        self._growing.commit(
            f"shop_{number % 20:02}", f"table_{number * 7 % 50:03}", others=self._random.randrange(5)
        )


def _wait_until_gone(pid: int, baseline: Usage) -> Usage:
    """Return the master's use of resources when its sockets are back at the baseline, or after a long time."""
    begin = time.monotonic()
    while (used := usage(pid)).sockets > baseline.sockets:
        if time.monotonic() - begin > _GONE_SECONDS:
            break
        time.sleep(0.2)
    return used


def _counted(results: list[Result]) -> Counter[str]:
    """Return the numbers of slaves by way of life, and of what happened to them."""
    counted = Counter(str(result.life) for result in results)
    for result in results:
        counted["vanished"] += result.vanished
        counted["changes"] += len(result.pieces)
        counted["chunks"] += result.messages
        counted["lost"] += len(result.lost) if result.life != Life.VANISHING else 0
    return counted


@dataclass(frozen=True)
class Outcome:
    """The outcome of a soak in which each slave had exactly its events, position and GTIDs."""

    growing: GrowingSet
    connected: float
    """The time until all slaves had a first message, seconds."""
    caught_up: float
    """The time that the last slaves needed at the end of the disturbances, seconds."""
    samples: list[tuple[float, Usage]]
    """The master's use of resources during the run, with the seconds since its begin."""
    baseline: Usage
    """The use of resources after a few slaves had come and gone, before the run."""
    gone: Usage
    """The use of resources when all slaves had gone."""
    checked: Counter[str]
    health: Health


def live(directory: Path, count: int, seconds: float) -> Outcome:
    """Let slaves live for a time. Raises SystemExit when one ended with an error, or has other events than it should
    have.
    """
    growing = GrowingSet(directory)
    scale = min(1.0, seconds / _USUAL_SECONDS)
    # Connections that went silent keep their places until the master's keepalive notices. A slave that comes back needs
    # another place. In a short run slaves vanish often.
    with (
        master(growing.index, "--max-dumps", str(2 * count)) as (address, pid),
        asking_for_health(address) as health,
    ):
        with fleet(Job(address, _WARM_UP, disturbed=1.0)) as few:
            few.wait_until_none("waiting")
            few.wait_until_none("behind", *growing.end)
            few.finish()
        time.sleep(1.0)
        baseline = usage(pid)
        with fleet(Job(address, count, disturbed=scale)) as followers:
            connected = followers.wait_until_none("waiting")
            life = _Life(growing, pid, seconds)
            life.run(followers)
            followers.ask("settle")
            caught_up = followers.wait_until_none("behind", *growing.end)
            results = followers.finish()
        gone = _wait_until_gone(pid, baseline)
    growing.close()
    check(results, growing, Start())
    counted = _counted(results)
    return Outcome(growing, connected, caught_up, life.samples, baseline, gone, counted, health)


def run(options: Options) -> bool:
    directory = OUT / "soak"
    shutil.rmtree(directory, ignore_errors=True)
    found = live(directory, options.followers, options.seconds)
    report = Report(
        "soak", f"{options.followers} slaves live through {options.seconds:.0f} s of disturbances"
    )
    growing, health, baseline, gone = found.growing, found.health, found.baseline, found.gone
    times, samples = zip(*found.samples, strict=True)
    first, last = samples[0], samples[-1]
    row = report.row
    row("the set", growing.transactions, f"{{}} transactions in {len(growing.files)} files")
    row(
        "slaves with exactly their events, position and GTIDs, and disturbances",
        found.checked["vanished"],
        ", ".join(f"{number} {what}" for what, number in found.checked.items()),
    )
    row("the master's processor", (last.cpu - first.cpu) / (times[-1] - times[0]), "{:.3f} cores")
    series = [f"{used.rss / _MB:.0f}" for used in samples[:: max(1, len(samples) // 30)]]
    row("memory, MB", last.rss / _MB, " ".join(series))
    sockets = max(used.sockets for used in samples)
    row("threads", max(used.threads for used in samples), f"at most {{}}, and at most {sockets} sockets")
    row("connected", found.connected, "in {:.1f} s")
    row("the last ones caught up", found.caught_up, "in {:.1f} s at the end")
    row("longest answer of the health check", health.longest, f"{{:.3f}} s of {health.asked}")
    for name, used in (("before", baseline), ("after", gone)):
        text = f"{{:.0f}} MB, {used.threads} threads, {used.sockets} sockets, {used.files} other files"
        row(f"the master {name}", used.rss / _MB, text)
    report.limit("connections that the master ended", found.checked["lost"], 0)
    report.limit("sockets left over", gone.sockets - baseline.sockets, 0)
    # The master keeps binlog files open that it has served.
    begun = len(growing.files) - 1
    report.limit("files left open beside binlogs", gone.files - baseline.files - begun, 0)
    report.limit("threads at the end", gone.threads, 40)
    early = samples[len(samples) // 2].rss
    report.limit("memory at the end / after half the time", last.rss / early, 1.05)
    report.limit("health checks without an answer", health.failed, 0)
    return report.print()
