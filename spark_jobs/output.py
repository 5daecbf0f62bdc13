"""Publishing: from parts in a staging directory to finished binlog sets."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import uuid
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from dumpfilter.binlog.writer import sync_path
from dumpfilter.errors import OutputError
from spark_jobs.cutting import SourceFile
from spark_jobs.parts import append_rotate

_STAGING = ".split-"


@dataclass(frozen=True)
class Part:
    """A written part: one schema's events from one source file. Sizes in bytes."""

    schema: str
    file: int
    path: Path
    bytes: int
    events: int
    transactions: int


@dataclass
class PartSet:
    """A finished binlog set. ``name`` is the schema's encoded name."""

    name: str
    index: Path
    files: list[Path] = field(default_factory=list)
    bytes: int = 0
    events: int = 0
    """Events of the source in it; format descriptions, Previous_gtids and Rotate are not counted."""
    transactions: int = 0


def base_name(schema: str) -> str:
    """The base name of a schema's binlogs, as WL#2387 has it: ``<name>-bin``."""
    return f"{schema}-bin"


class Output:
    """The output directory of one job, locked while the job runs; use as a context manager.

    Parts are written into :attr:`staging`, whose name begins with a dot; what is left there when the job ends,
    however it ends, is removed. Sets appear by rename: all files first, then the indexes, so a set whose
    index is there is whole.

    Parameters:
        directory: made when it does not exist.
        overwrite: whether sets of the same name may be there already.
        sources: paths of the files read, which must not lie in the directory.
    """

    def __init__(self, directory: Path, *, overwrite: bool, sources: Iterable[Path]) -> None:
        self.directory = directory
        self._overwrite = overwrite
        self.staging = directory / f"{_STAGING}{uuid.uuid4().hex}"
        resolved = directory.resolve()
        for source in sources:
            if source.resolve().parent == resolved:
                raise OutputError(
                    f"{directory}: holds the binlogs that are split; name another output directory"
                )
        if not overwrite:
            self._refuse(directory.glob("*-bin.index"))

    def __enter__(self) -> Output:
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(self.directory, os.O_RDONLY)
        except OSError as error:
            raise OutputError(f"{self.directory}: {error.strerror}") from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise OutputError(f"{self.directory}: another split is writing here") from None
        try:
            # a job that was killed could not remove its own
            for left in self.directory.glob(f"{_STAGING}*"):
                shutil.rmtree(left, ignore_errors=True)
            self.staging.mkdir()
        except OSError as error:
            os.close(self._lock)
            raise OutputError(f"{self.directory}: {error.strerror}") from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        shutil.rmtree(self.staging, ignore_errors=True)
        os.close(self._lock)

    def publish(self, parts: Iterable[Part], sources: tuple[SourceFile, ...]) -> list[PartSet]:
        """Make sets of the parts. Raises OutputError; then no index has appeared."""
        by_schema: dict[str, list[Part]] = {}
        for part in sorted(parts, key=lambda p: (p.schema, p.file)):
            by_schema.setdefault(part.schema, []).append(part)
        made = [PartSet(name, self.directory / f"{base_name(name)}.index") for name in by_schema]
        if not self._overwrite:
            self._refuse(found.index for found in made if found.index.exists())
        placed: list[Path] = []
        try:
            for found in made:
                self._place(found, by_schema[found.name], sources, placed)
            for found in made:
                beside = self.staging / found.index.name
                with open(beside, "w", encoding="ascii") as file:
                    file.write("".join(f"./{path.name}\n" for path in found.files))
                    file.flush()
                    os.fsync(file.fileno())
            sync_path(self.directory)
            for found in made:
                os.replace(self.staging / found.index.name, found.index)
                placed.append(found.index)
            sync_path(self.directory)
        except BaseException as error:
            for path in reversed(placed):
                with suppress(OSError):
                    path.unlink()
            if isinstance(error, OSError):
                raise OutputError(f"{error.filename or self.directory}: {error.strerror}") from None
            raise
        return made

    def _place(
        self, found: PartSet, parts: list[Part], sources: tuple[SourceFile, ...], placed: list[Path]
    ) -> None:
        base = base_name(found.name)
        self._remove_old(found)
        for number, part in enumerate(parts, 1):
            extra = 0
            source = sources[part.file]
            if number < len(parts) and source.rotated is not None:
                extra = append_rotate(part.path, source, f"{base}.{number + 1:06}")
                sync_path(part.path)
            final = self.directory / f"{base}.{number:06}"
            os.replace(part.path, final)
            placed.append(final)
            found.files.append(final)
            found.bytes += part.bytes + extra
            found.events += part.events
            found.transactions += part.transactions

    def _remove_old(self, found: PartSet) -> None:
        """The set of an earlier split: its index first, so that it never looks whole."""
        found.index.unlink(missing_ok=True)
        numbered = re.compile(re.escape(base_name(found.name)) + r"\.\d{6,}")
        for path in list(self.directory.iterdir()):
            if numbered.fullmatch(path.name):
                path.unlink()

    @staticmethod
    def _refuse(indexes: Iterable[Path]) -> None:
        for index in sorted(indexes):
            raise OutputError(f"{index}: there already; name another output directory or use --overwrite")
