"""The compiler's memory goes back to the system, and compiled code runs as before."""

from __future__ import annotations

import re
from pathlib import Path

from dumpfilter.compiler.kernels import njit
from dumpfilter.compiler.memory import CompilerMemory, code_ranges


def resident() -> int:
    """Return how much of the compiler's code is in memory, KiB."""
    begins = {f"{begin:x}-" for begin, _ in code_ranges()}
    assert begins
    parts = re.split(r"^(?=[0-9a-f]+-[0-9a-f]+ )", Path("/proc/self/smaps").read_text(), flags=re.MULTILINE)
    mapped = [part for part in parts if part.startswith(tuple(begins))]
    return sum(int(size) for part in mapped for size in re.findall(r"^Rss: *(\d+)", part, re.MULTILINE))


def test_the_memory_is_released_once_a_minute() -> None:
    compiled = njit(lambda number: number + 1)
    assert compiled(1) == 2
    before = resident()
    memory = CompilerMemory()
    memory.release()
    assert resident() < before / 2
    # Another type needs the compiler again.
    assert compiled(1.5) == 2.5
    after = resident()
    memory.release()
    assert resident() >= after
