"""The data files of LOAD DATA statements, written from a binlog to disk so that a client can load them again."""

from __future__ import annotations

import tempfile
from pathlib import Path

from dumpfilter.base.errors import BinlogCorrupt, OutputError
from dumpfilter.base.files import writing
from dumpfilter.binlog.context_events import LoadBlock


class LoadFiles:
    """Writes the data files of LOAD DATA statements, one new file ``SQL_LOAD-<file id>-<n>`` for each statement.

    ``directory`` is created with the first file. With None a temporary directory is created, which is never removed,
    because the printed statements name its files.
    """

    def __init__(self, directory: Path | None = None) -> None:
        self.directory = directory
        self.written = 0
        self._paths: dict[int, Path] = {}

    def begin(self, block: LoadBlock) -> Path:
        """Write the first block of a data file (Begin_load_query event) to a new file, and return the file's path.

        Raises OutputError when the file cannot be written, or when a statement cannot name its path.
        """
        if self.directory is None:
            self.directory = Path(tempfile.mkdtemp(prefix="dumpfilter-load-"))
        with writing(self.directory):
            self.directory.mkdir(parents=True, exist_ok=True)
        while (path := self.directory.resolve() / f"SQL_LOAD-{block.file_id}-{self.written}").exists():
            self.written += 1
        if "\\" in str(path) or not str(path).isprintable():
            raise OutputError(
                f"{path}: a LOAD DATA statement cannot name this file; give another --local-load"
            )
        with writing(path):
            path.write_bytes(block.data)
        self.written += 1
        self._paths[block.file_id] = path
        return path

    def append(self, block: LoadBlock) -> Path:
        """Append a later block of a data file (Append_block event), and return the file's path.

        Raises BinlogCorrupt if the file has no first block, and OutputError if it cannot be written.
        """
        path = self._path(block.file_id)
        with writing(path), open(path, "ab") as file:
            file.write(block.data)
        return path

    def take(self, file_id: int) -> Path:
        """Return the path of a complete data file for its LOAD DATA statement. Afterwards its ``file_id`` may be
        used for another file.

        Raises BinlogCorrupt if the file has no first block.
        """
        path = self._path(file_id)
        del self._paths[file_id]
        return path

    def _path(self, file_id: int) -> Path:
        try:
            return self._paths[file_id]
        except KeyError:
            raise BinlogCorrupt(f"LOAD DATA: the file with number {file_id} was never begun") from None
