"""Binlog files in memory, and the paths of the recordings."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.binlog.reader import read_format_description
from dumpfilter.index.fileset import BinlogFile, SegmentReader
from dumpfilter.index.segment import Segment
from dumpfilter.index.subjects import Subjects

DATA = Path(__file__).parent / "oracle" / "data"


STATUS_COLUMNS = (
    "Replicate_Do_DB",
    "Replicate_Ignore_DB",
    "Replicate_Do_Table",
    "Replicate_Ignore_Table",
    "Replicate_Wild_Do_Table",
    "Replicate_Wild_Ignore_Table",
    "Replicate_Rewrite_DB",
)
"""The columns of SHOW REPLICA STATUS with the rules of a filter, in the order of the kinds of rules."""


def binlogs_in(directory: Path, pattern: str = "*") -> list[Path]:
    """Return the binlogs in a directory in order, without MariaDB's GTID indexes."""
    return sorted(path for path in directory.glob(f"{pattern}.[0-9]*") if path.suffix[1:].isdigit())


RECORDED = binlogs_in(DATA, "*/*/*")
RECORDED_SETS = sorted({path.parent for path in RECORDED})


def recording_id(path: Path) -> str:
    return str(path.relative_to(DATA))


class MemoryFile(BinlogFile):
    """A binlog file in memory. A test lets it grow by a longer ``data``."""

    def __init__(self, data: bytes, name: str = "made.000001") -> None:
        self.data = data
        self.name = name
        self.path = Path(name)
        self.format_description = read_format_description(BytesIO(data), file=name)

    @property
    def size(self) -> int:
        return len(self.data)

    def read_up_to(self, offset: int, length: int) -> bytes:
        return self.data[offset : offset + length]

    def read_into(self, buffer: npt.NDArray[np.uint8], offset: int) -> int:
        got = self.data[offset : offset + buffer.size]
        buffer[: len(got)] = np.frombuffer(got, np.uint8)
        return len(got)

    def close(self) -> None:
        pass


def segments(
    data: bytes, segment_size: int, *, subjects: Subjects | None = None, sources: SourceNumbers | None = None
) -> Iterator[tuple[SegmentReader, Segment]]:
    """Yield the segments of a file, each with its reader, then check the end of the file as that of a set's last one.

    Raises BinlogTruncated when the file ends where no server ends one.
    """
    reader = SegmentReader(
        MemoryFile(data),
        Subjects() if subjects is None else subjects,
        SourceNumbers() if sources is None else sources,
        segment_size=segment_size,
    )
    while (segment := reader.next()) is not None:
        yield reader, segment
    reader.check_end(last=True)
