"""One dump of a file as a real replica gets it, with the stand-ins of dropped transactions."""

from __future__ import annotations

from dumpfilter.dump.chunk import ChunkPlan, render
from dumpfilter.dump.packets.stand_ins import Dropped, find_dropped, with_stand_ins
from dumpfilter.dump.thread import DumpThread, plan_many
from dumpfilter.index.segment import Segment
from tests.dump.plans import ScannedFile


class Streamed:
    """The chunks of one dump, without the stand-ins (``chunks``) and with them (``streams``)."""

    def __init__(self, file: ScannedFile, thread: DumpThread, *, together: bool = False) -> None:
        self.fd = file.file.format_description
        self.plans: list[ChunkPlan] = []
        self.chunks: list[bytes] = []
        self.streams: list[bytes] = []
        self.dropped: list[Dropped] = []
        for segment in file.segments:
            position, resume = thread.position, thread.resume
            assert position is not None
            if segment.end <= position:
                continue
            planned = plan_many([thread], segment)[0] if together else thread.plan(segment)
            assert isinstance(planned, list)
            self.plans += planned
            self.dropped += dropped_of(planned, segment, resume, file)
        for plan, dropped in zip(self.plans, self.dropped, strict=True):
            chunk = render(plan, b"", 0, file.file.read, self.fd)
            stream = _with_stand_ins(chunk, dropped, file)
            gtids = _gtids(file, dropped)
            if gtids is not None:
                assert _with_stand_ins(chunk, dropped, file, gtids) == stream
            self.chunks.append(chunk)
            self.streams.append(bytes(stream))


def dropped_of(plans: list[ChunkPlan], segment: Segment, resume: int, file: ScannedFile) -> list[Dropped]:
    """Return the dropped transactions of each plan of one segment."""
    return [
        find_dropped(plan, segment, resume, file.file.read, lambda number: file.sources.key(number))
        for plan in plans
    ]


def _with_stand_ins(
    chunk: bytes, dropped: Dropped, file: ScannedFile, gtids: bytes | None = None
) -> bytes | memoryview:
    fd = file.file.format_description
    return with_stand_ins(chunk, dropped, fd, lambda number: file.sources.key(number), file.file.read, gtids)


def _gtids(file: ScannedFile, dropped: Dropped) -> bytes | None:
    """Return the Gtid events of all stand-ins, unless Gap events name some of them."""
    if dropped.sequence.any():
        return None
    places = zip(dropped.offset.tolist(), dropped.size.tolist(), strict=True)
    return b"".join(file.file.read(offset, size) for offset, size in places)
