"""``python tools/kill_receiver.py URL DIRECTORY``: kill a receiver again and again, then compare its files.

The tool runs ``dumpfilter fetch --stop-never`` and kills it (SIGKILL) at random moments, while somebody else writes to
the source. At the end the tool fetches the rest. With ``--compare`` it compares the files with those of the server.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path


def fetch_command(url: str, directory: Path, *more: str) -> list[str]:
    """Return the command that fetches from a server into a directory."""
    return [sys.executable, "-m", "dumpfilter", "fetch", url, "--output", str(directory), *more]


def kill_receivers(
    url: str, directory: Path, *, kills: int, longest: float, seed: int = 1, options: Sequence[str] = ()
) -> list[int]:
    """Kill so many receivers, one after the other, and return the bytes that the directory had after each kill.

    Each receiver gets up to ``longest`` seconds from the moment at which the directory grows. Every third one is killed
    before it has begun to receive.
    """
    chance = random.Random(seed)
    sizes = []
    for number in range(kills):
        before = _size(directory)
        process = subprocess.Popen(
            fetch_command(url, directory, "--stop-never", *options), stderr=subprocess.PIPE
        )
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


def main() -> int:
    """Run the tool, and return its exit status."""
    parser = argparse.ArgumentParser(description="Kills a receiver again and again, then compares its files.")
    parser.add_argument("url")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--longest", type=float, default=1.0, help="seconds that a receiver gets at most (1)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sync", default="interval")
    parser.add_argument(
        "--compare", type=Path, help="the directory of the server's binlogs, which nobody writes then"
    )
    given = parser.parse_args()
    options = ["--sync", given.sync]
    sizes = kill_receivers(
        given.url, given.directory, kills=given.kills, longest=given.longest, seed=given.seed, options=options
    )
    print(f"{given.kills} kills, from {sizes[0]:,} to {sizes[-1]:,} bytes; {len(set(sizes))} different sizes")
    if given.compare is not None:
        input("stop writing to the source, then press Enter: ")
    subprocess.run(fetch_command(given.url, given.directory), check=True)
    if given.compare is None:
        return 0
    wrong = different(given.directory, given.compare)
    print(f"different: {', '.join(wrong)}" if wrong else "all files are equal")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
