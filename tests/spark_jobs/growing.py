"""A binlog set that grows like a server's set."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path


class GrowingFiles:
    """Writes files piece by piece, with the index file that a server keeps.

    The file that is being written has LOG_EVENT_BINLOG_IN_USE_F set (byte 21).
    """

    def __init__(self, directory: Path, files: Sequence[Path]) -> None:
        self.index = directory / "bin.index"
        self._directory = directory
        self._files = list(files)

    def pieces(self, size: int) -> Iterator[int]:
        """Write; after each piece of ``size`` bytes gives how many bytes there are in all."""
        written = 0
        for source in self._files:
            data = source.read_bytes()
            path = self._directory / source.name
            head = bytearray(data[:300])
            head[21] |= 1
            path.write_bytes(head)
            with self.index.open("a", encoding="utf-8") as index:
                index.write(f"./{source.name}\n")
            written += len(head)
            yield written
            for at in range(len(head), len(data), size):
                with path.open("ab") as file:
                    file.write(data[at : at + size])
                written += len(data[at : at + size])
                yield written
            with path.open("r+b") as file:
                file.write(data[:22])
