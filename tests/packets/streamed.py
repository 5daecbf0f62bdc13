"""One dump of a file as a real replica gets it, with the stand-ins of dropped transactions."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dumpfilter.dump import ChunkPlan, DumpThread, plan_many, render
from dumpfilter.dump.chunk import Window
from dumpfilter.packets.empties import Empties, find_empties, with_empties
from tests.dump.plans import ScannedFile


class Streamed:
    """The chunks of one dump, without the stand-ins (``chunks``) and with them (``streams``)."""

    def __init__(self, file: ScannedFile, thread: DumpThread, *, together: bool = False) -> None:
        self.fd = file.file.format_description
        self.plans: list[ChunkPlan] = []
        self.chunks: list[bytes] = []
        self.streams: list[bytes] = []
        self.empties: list[Empties] = []
        for segment in file.segments:
            position, resume = thread.position, thread.resume
            assert position is not None
            if segment.end <= position:
                continue
            planned = plan_many([thread], segment)[0] if together else thread.plan(segment)
            assert isinstance(planned, list)
            found = find_empties(
                planned,
                segment,
                resume,
                file.file.read,
                lambda number: file.sources.key(number, self.fd.family),
            )
            self.plans += planned
            self.empties += found
        for plan, empties in zip(self.plans, self.empties, strict=True):
            chunk = render(plan, b"", 0, file.file.read, self.fd)
            stream = with_empties(chunk, empties, file.file.read, self.fd)
            assert len(stream) == len(chunk) + empties.size(self.fd.checksum)
            for window in _windows(file, empties):
                assert with_empties(chunk, empties, file.file.read, self.fd, window) == stream
            self.chunks.append(chunk)
            self.streams.append(bytes(stream))


def _windows(file: ScannedFile, empties: Empties) -> Iterator[Window]:
    """Yield bytes of the file that contain all Gtid events of the stand-ins, and bytes that lack the last one."""
    if empties.reads_gtids:
        low, high = empties.gtid_span
        for end in (high, high - 1):
            yield Window(np.frombuffer(file.file.read(low, end - low), np.uint8), low)
