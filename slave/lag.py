"""The part of a channel's relay log that the applier (SQL thread) has not applied yet."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from dumpfilter.binlog.events import MAGIC
from dumpfilter.index.lag import BinlogEnd
from dumpfilter.slave.state.relay_log import BASENAME, RelayPosition, file_number


class RelayLag(NamedTuple):
    """The number and total size of a relay log's files, and how far the applier is behind, in bytes and seconds."""

    files: int
    bytes: int
    lag_bytes: int
    lag_seconds: float | None
    """The time since the server wrote the first event that is not applied, seconds. None if the relay log cannot be
    read.
    """


def relay_lag(
    directory: Path, applied: RelayPosition | None, received: RelayPosition | None, now: float
) -> RelayLag:
    """Return the size of the relay log in ``directory``, and of its part after the applier's position.

    ``applied`` and ``received`` are the positions of the applier and of the I/O thread in the relay log; None before
    the first file. ``now`` is a Unix time, seconds.
    """
    paths = {path.name: path for path in sorted(directory.glob(f"{BASENAME}.[0-9]*"), key=_order)}
    end = BinlogEnd(paths, now, received)
    if received is None or applied == received:
        return RelayLag(end.files, end.bytes, 0, 0.0)
    first = 0 if applied is None else file_number(applied.file)
    oldest = next((name for name in paths if file_number(name) >= first), received.file)
    place = applied if applied is not None and oldest == applied.file else (oldest, len(MAGIC))
    return RelayLag(end.files, end.bytes, end.lag_bytes(place) or 0, end.lag_seconds(place))


def _order(path: Path) -> int:
    return file_number(path.name)
