"""The distance between a channel's SQL thread and the end of its relay log, in bytes and in seconds."""

from __future__ import annotations

from pathlib import Path

from dumpfilter.binlog.event_time import first_time
from dumpfilter.binlog.events import MAGIC
from dumpfilter.binlog.file_reads import open_regular, read_up_to
from dumpfilter.errors import DumpfilterError
from dumpfilter.slave.state.relay_log import BASENAME, RelayPosition, file_number

_FIRST = len(MAGIC)


def relay_lag(
    directory: Path, applied: RelayPosition | None, received: RelayPosition | None, now: float
) -> tuple[int, float | None]:
    """Return the bytes of a relay log that are not applied, and the time since the first of them was written, seconds.

    The time is None if the relay log cannot be read.
    """
    left = unapplied(relay_log_sizes(directory), applied, received)
    return sum(end - begin for _, begin, end in left), lag_seconds(directory, left, now)


def relay_log_sizes(directory: Path) -> dict[str, int]:
    """Return the sizes of the relay log files by name, in their order."""
    sizes = {}
    for path in sorted(directory.glob(f"{BASENAME}.[0-9]*"), key=lambda path: (len(path.name), path.name)):
        try:
            sizes[path.name] = path.stat().st_size
        except FileNotFoundError:
            # A change of filter has removed the file meanwhile.
            continue
    return sizes


def unapplied(
    sizes: dict[str, int], applied: RelayPosition | None, received: RelayPosition | None
) -> list[tuple[str, int, int]]:
    """Return the parts of relay log files that are not applied: the file, and the part's begin and end."""
    if received is None or applied == received:
        return []
    first = 0 if applied is None else file_number(applied.file)
    left = []
    for name, size in sizes.items():
        if first <= file_number(name) <= file_number(received.file):
            begin = applied.offset if applied is not None and name == applied.file else _FIRST
            end = received.offset if name == received.file else size
            left.append((name, begin, max(begin, end)))
    return left


def lag_seconds(directory: Path, left: list[tuple[str, int, int]], now: float) -> float | None:
    """Return the time since the first event of ``left`` was written, or None if the relay log cannot be read."""
    try:
        for name, begin, end in left:
            with open_regular(directory / name) as file:
                fileno = file.fileno()
                written = first_time(
                    lambda offset, length, fileno=fileno, name=name: read_up_to(  # type: ignore[misc]
                        fileno, offset, length, file=name
                    ),
                    begin,
                    end,
                )
            if written is not None:
                return max(0.0, now - written)
    except DumpfilterError:
        return None
    return 0.0
