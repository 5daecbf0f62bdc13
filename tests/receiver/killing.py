"""Killing of ``dumpfilter fetch`` (SIGKILL) at random moments, while somebody else writes to the source."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path


def kill_receivers(url: str, directory: Path, *, kills: int, longest: float) -> list[int]:
    """Kill so many receivers, one after the other, and return the bytes that the directory had after each kill.

    Each receiver gets up to ``longest`` seconds from the moment at which the directory grows. Every third one is killed
    before it has begun to receive.
    """
    chance = random.Random(1)
    command = [sys.executable, "-m", "dumpfilter", "fetch", url, "--output", str(directory), "--stop-never"]
    sizes = []
    for number in range(kills):
        before = _size(directory)
        process = subprocess.Popen(command, stderr=subprocess.PIPE)
        if number % 3 != 2:
            while process.poll() is None and _size(directory) == before:
                time.sleep(0.002)
        time.sleep(chance.uniform(0, longest))
        if process.poll() is not None:
            _, said = process.communicate()
            raise SystemExit(f"the receiver ended by itself: {said.decode()}")
        process.kill()
        process.communicate()
        sizes.append(_size(directory))
    return sizes


def different(directory: Path, server: Path) -> list[str]:
    """Return the binlog files that differ from those of the server, each with the place of the first difference."""
    wrong = []
    for line in next(iter(directory.glob("*.index"))).read_text().splitlines():
        name = Path(line).name
        ours, theirs = (directory / name).read_bytes(), (server / name).read_bytes()
        if ours != theirs:
            at = next((at for at, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), -1)
            wrong.append(f"{name} at {at}, {len(ours)} and {len(theirs)} bytes")
    return wrong


def _size(directory: Path) -> int:
    if not directory.is_dir():
        return 0
    return sum(path.stat().st_size for path in directory.glob("*.[0-9]*"))
