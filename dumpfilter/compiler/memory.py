"""The release of memory that holds the code of numba's compiler.

The compiler's library has 150 MB of code and constants. Loading a kernel from the cache brings half of them into
memory. Afterwards a process may never use them again.
"""

from __future__ import annotations

import ctypes
import mmap
import re
import time
from pathlib import Path

_LIBRARY = "/libllvmlite.so"
_MAPS = Path("/proc/self/smaps")
_PART = re.compile(r"^(?=[0-9a-f]+-[0-9a-f]+ )", re.MULTILINE)
"""The beginning of a mapped part in the file, which describes each part by several lines."""
_RELEASE_SECONDS = 60.0


class CompilerMemory:
    """The memory of the compiler's code, which :meth:`release` returns to the system.

    The system reads the code again from the library's file when a kernel needs the compiler.
    """

    def __init__(self) -> None:
        self._released_at = 0.0

    def release(self) -> None:
        """Return the memory to the system, at most once a minute. Without Linux's madvise do nothing."""
        now = time.monotonic()
        if now - self._released_at < _RELEASE_SECONDS or not _MAPS.exists():
            return
        self._released_at = now
        madvise = ctypes.CDLL(None).madvise
        for begin, end in code_ranges():
            madvise(ctypes.c_void_p(begin), ctypes.c_size_t(end - begin), mmap.MADV_DONTNEED)


def code_ranges() -> list[tuple[int, int]]:
    """Return the addresses of the library's code and constants: mapped parts that nobody can or did write."""
    found = []
    for part in _PART.split(_MAPS.read_text()):
        description, _, figures = part.partition("\n")
        if description.endswith(_LIBRARY) and "\nAnonymous:             0 kB" in figures:
            begin, _, end = description.partition(" ")[0].partition("-")
            found.append((int(begin, 16), int(end, 16)))
    return found
