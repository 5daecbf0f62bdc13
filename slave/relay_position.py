"""Positions in a relay log, and the distance between the applier's position and the end.

Programs that show the state of a slave import this module. Modules that read events are not imported here, since they
take longer to import than the state takes to read.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from dumpfilter.base.options.values import FIRST_EVENT
from dumpfilter.index.lag import BinlogEnd

BASENAME = "relay-bin"
"""The name of relay log files before the period and the number. In a server, ``--relay-log`` sets this name."""

AFRESH = "to start afresh, remove the relay directory"
"""The end of error texts about unusable state files, which tells the user what to do.

The remedy is safe, because the slave can fetch everything in its relay directory from the master again.
"""


class RelayPosition(NamedTuple):
    """A position in the relay log: the name of a relay log file without its directory, and a byte offset in it."""

    file: str
    offset: int


def place_order(position: tuple[str, int] | None) -> tuple[int, int]:
    """Return a key by which positions in the relay log can be compared: the number of the file, and the byte offset in
    it. None stands for the beginning of the relay log, before all positions.
    """
    return (file_number(position[0]), position[1]) if position else (0, 0)


def file_number(file: str) -> int:
    """Return the number at the end of the name of a binlog or relay log file, by which such files are ordered. 0 for a
    name without a number.

    >>> file_number("relay-bin.000012"), file_number("relay-bin.index")
    (12, 0)
    """
    number = file.rpartition(".")[2]
    # Python refuses to convert 4,301 digits, and a server reads the first 511 characters of a name.
    return int(number[:511]) if number.isdecimal() else 0


class RelayLag(NamedTuple):
    """The number and total size of a relay log's files, and how far the applier is behind the received events: in
    bytes, and in seconds.
    """

    files: int
    bytes: int
    lag_bytes: int
    lag_seconds: float | None
    """The time since the server wrote the first event that is not applied, seconds. 0 if everything is applied, and
    None if the relay log cannot be read.
    """


def relay_lag(
    directory: Path, applied: RelayPosition | None, received: RelayPosition | None, now: float
) -> RelayLag:
    """Return the number and size of the relay log files in ``directory``, and how far the applier is behind the I/O
    thread. The distance is the size and the age of the received events that are not applied.

    ``applied`` and ``received`` are the positions of the applier and of the I/O thread in the relay log; None before
    the first file. ``now`` is the present time as a Unix time, seconds.
    """
    paths = {
        path.name: path
        for path in sorted(directory.glob(f"{BASENAME}.[0-9]*"), key=lambda path: file_number(path.name))
    }
    end = BinlogEnd(paths, now, received)
    if received is None or applied == received:
        return RelayLag(end.files, end.bytes, 0, 0.0)
    first = 0 if applied is None else file_number(applied.file)
    oldest = next((name for name in paths if file_number(name) >= first), received.file)
    place = applied if applied is not None and oldest == applied.file else (oldest, FIRST_EVENT)
    return RelayLag(end.files, end.bytes, end.lag_bytes(place) or 0, end.lag_seconds(place))
