"""Writing one part: what one schema has from one source file, as a binlog file of its own."""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import BinaryIO

from dumpfilter.binlog.context_events import Rotate, encode_rotate
from dumpfilter.binlog.events import HEADER_LENGTH, MAGIC, EventType
from dumpfilter.binlog.format import FormatDescription
from dumpfilter.binlog.writer import make_event, rebase
from dumpfilter.errors import BinlogCorrupt
from spark_jobs.cutting import SourceFile


class PartWriter:
    """Writes events to a file of a name no other attempt has, in a staging directory.

    Bytes may come cut anywhere; no more than one incomplete event is held.
    """

    def __init__(self, staging: Path, schema: str, source: SourceFile) -> None:
        self.schema = schema
        self.source = source
        self.events = self.transactions = 0
        self.path = staging / f"{schema}.{source.number:06}.{uuid.uuid4().hex}"
        self._fd = FormatDescription.parse(source.format_description, file=source.name)
        self._rest = bytearray()
        self._file: BinaryIO = open(self.path, "xb")  # noqa: SIM115 (closed by close() or abandon())
        head = MAGIC + source.format_description
        self._file.write(head)
        self.size = len(head)
        self.append(source.prolog)

    def append(self, data: bytes) -> None:
        """Add bytes of events."""
        self._rest += data
        end = self._whole()
        if end:
            self._write(bytes(memoryview(self._rest)[:end]))
            del self._rest[:end]

    def close(self) -> None:
        """End the file. Raises BinlogCorrupt when an event is not complete."""
        if self._rest:
            raise BinlogCorrupt("the last event is not complete", file=self.source.name)
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()

    def abandon(self) -> None:
        """Give up: remove what was written."""
        self._file.close()
        self.path.unlink(missing_ok=True)

    def _whole(self) -> int:
        """Up to where ``_rest`` holds whole events."""
        at = 0
        while at + HEADER_LENGTH <= len(self._rest):
            size = int.from_bytes(self._rest[at + 9 : at + 13], "little")
            if at + size > len(self._rest):
                break
            at += size
        return at

    def _write(self, events: bytes) -> None:
        self._file.write(rebase(events, self.size, checksum=self._fd.checksum))
        self.size += len(events)


def append_rotate(path: Path, source: SourceFile, following: str) -> int:
    """End a part with a Rotate event that names the next one; its size in bytes. The caller synchronizes."""
    fd = FormatDescription.parse(source.format_description, file=source.name)
    event = make_event(
        EventType.ROTATE,
        encode_rotate(Rotate(following, 4)),
        timestamp=source.rotated or 0,
        server_id=fd.header.server_id,
        checksum=fd.checksum,
    )
    with open(path, "ab") as file:
        file.write(rebase(event, file.tell(), checksum=fd.checksum))
    return len(event)
