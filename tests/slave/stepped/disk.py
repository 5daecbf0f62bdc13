"""A disk that forgets what was not synced: the files that a power failure leaves behind.

The process writes its files as always. :class:`Disk` notes which contents and directory entries were forced to the
disk, and :meth:`Disk.after_power_failure` writes the files that a machine may find afterwards.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any


class Disk:
    """One directory of files, which are changed through the functions of ``dumpfilter.base.files``."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._synced: dict[str, bytes] = {}
        """The content that each present file had when it was last synced."""
        self._kept: dict[str, bytes] = {}
        """The files that surely survive, with the content that surely survives."""
        for path in directory.glob("*") if directory.exists() else ():
            self._synced[path.name] = self._kept[path.name] = path.read_bytes()

    def note(self, call: str, paths: tuple[Path, ...]) -> None:
        """Note a call of ``dumpfilter.base.files`` that has returned."""
        name = paths[0].name
        if call in ("create", "remove"):
            self._synced.pop(name, None)
        elif call == "sync":
            self._synced[name] = paths[0].read_bytes()
            if name in self._kept:
                self._kept[name] = self._synced[name]
        elif call == "rename":
            content = self._synced.pop(name, None)
            # A file system such as ext4 writes a file's content before a rename that replaces another file.
            self._synced[paths[1].name] = paths[1].read_bytes() if content is None else content
        elif call == "sync_path":
            self._kept = dict(self._synced)

    def after_power_failure(self, directory: Path, rng: random.Random) -> None:
        """Write into a new directory what a power failure at this moment may leave."""
        directory.mkdir()
        now = {path.name: path.read_bytes() for path in self.directory.glob("*") if path.is_file()}
        for name in sorted(now.keys() | self._kept.keys()):
            kept, written = self._kept.get(name), now.get(name)
            left = self._left(name, kept, written, rng.random)
            if left is not None:
                (directory / name).write_bytes(left)

    @staticmethod
    def _left(name: str, kept: bytes | None, written: bytes | None, draw: Callable[[], float]) -> Any:
        is_log = name.startswith("relay-bin.0") and not name.endswith(".new")
        if is_log and written is not None and written.startswith(kept or b""):
            if kept is None and draw() < 0.5:
                return None
            least = len(kept or b"")
            return written[: least + round(draw() * (len(written) - least))]
        return kept if draw() < 0.5 else written
