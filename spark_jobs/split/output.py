"""The output directory of a split, which is published completely or not at all.

A job writes into a working directory beside the output directory. Its name contains the digest of the job's inputs,
and the id of the machine's current boot. A failed job removes its working directory. A killed job leaves it, and the
next run of the same job continues there. After a reboot the job starts again, because a crash may have lost data
that was not synced. When all files are written and synced, a rename turns the working directory's subdirectory
``out`` into the output directory.
"""

from __future__ import annotations

import errno
import glob
import os
import shutil
import uuid
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Literal, get_args

from dumpfilter.analyse.split_set import MANIFEST, Manifest
from dumpfilter.base.errors import OutputError
from dumpfilter.base.files import lock, replace_directory
from dumpfilter.spark_jobs.split.placement import binlog_name

_FORMAT = 7
"""The layout version of a job's working directory. It is part of the directory's name, so no job continues in a
directory with another layout.
"""

RangeFile = Literal["plan", "placement", "written"]
"""The kinds of files about a range (part of the source).

- ``plan`` says which bytes of the range each output binlog receives.
- ``placement`` says at which files and offsets these bytes are written.
- ``written`` exists when all bytes of the range have been written to the output files.
"""


@dataclass(frozen=True)
class Staging:
    """The paths of the files in the working directory of a split, which the driver and all workers must share. Tasks
    pass their results to each other in these files.

    Ranges, the parts of the source that tasks read, are numbered from 0. An output is a binlog set that the split
    writes.
    """

    path: str

    def of_range(self, kind: RangeFile, number: int) -> Path:
        """Return the path of a working file about a range (part of the source that one task reads).

        ``kind`` is the kind of file, such as the plan of the range, and ``number`` the index of the range.
        """
        return Path(self.path, kind, f"{number:06}")

    def binlog(self, output: str, number: int) -> Path:
        """Return the path of file ``number`` (from 1) of the binlog set ``output`` that the split writes."""
        return Path(self.path, "out", binlog_name(output, number))


class OutputDirectory:
    """The output directory of one split, locked against other splits.

    The object is a context manager. It creates and locks a working directory beside the output directory, and removes
    it at the end. If the process is killed, the next run of the same job continues there.

    Parameters:
        directory: the output directory. The job creates it, and missing parent directories.
        job: a digest of the source files and options, by which an earlier run of the same job is recognized.
        overwrite: whether the job may replace the output of a different split.
        sources: the local paths of the binlogs to split. They must not be in the output directory.

    Raises OutputError if the directory has other files or another split, is locked, or cannot be written.
    """

    def __init__(self, directory: Path, job: str, *, overwrite: bool, sources: Iterable[Path] = ()) -> None:
        self.directory = Path(os.path.abspath(directory))
        self._overwrite = overwrite
        self._job = job
        self._base = f".{self.directory.name}.split-"
        self._work = self.directory.parent / f"{self._base}{_FORMAT}-{_boot_id()[:8]}-{job[:16]}"
        self._lock = -1
        self.finished: Manifest | None = None
        """The manifest that an earlier run of the same job published, so that the job need not run. None if there is
        none.
        """
        for source in sources:
            if source.resolve().parent == self.directory.resolve():
                raise OutputError(f"{directory}: holds the binlogs that are split; name another directory")

    @property
    def staging(self) -> Staging:
        """The paths in the split's working directory, in which all files are written before the output is published."""
        return Staging(str(self._work))

    def __enter__(self) -> OutputDirectory:
        try:
            # A job may have been killed after it had renamed the old output directory, and before it published the new
            # one.
            if not self.directory.exists():
                for left in self._beside("old-*"):
                    os.rename(left, self.directory)
            self._check_existing()
            if self.finished is None:
                self.directory.parent.mkdir(parents=True, exist_ok=True)
                self._begin()
            else:
                with suppress(OutputError):  # Another job may hold the lock of a working directory.
                    self._remove_abandoned(self._beside())
        except OSError as error:
            self._unlock()
            raise OutputError(
                f"{error.filename or self.directory}: cannot be written: {error.strerror}"
            ) from None
        return self

    def _beside(self, pattern: str = "*") -> list[Path]:
        """Return the working directories of all jobs for the output directory, and the old output directories."""
        return sorted(self.directory.parent.glob(f"{glob.escape(self._base)}{pattern}"))

    def _check_existing(self) -> None:
        if not self.directory.exists():
            return
        if not self.directory.is_dir():
            raise OutputError(f"{self.directory}: is not a directory")
        if not any(self.directory.iterdir()):
            return
        if not (self.directory / MANIFEST).exists():
            raise OutputError(f"{self.directory}: holds files that no split wrote; name another directory")
        there = Manifest.load(self.directory)
        if self._overwrite:
            return
        if there.job != self._job:
            raise OutputError(
                f"{self.directory}: holds the split of other binlogs, or with other options; name another directory "
                "or use --overwrite"
            )
        self.finished = there

    def _begin(self) -> None:
        # A working directory without its part ``out`` is a remainder, since the job has already published ``out`` as
        # the output directory.
        self._remove_abandoned(
            left for left in self._beside() if left != self._work or not (left / "out").is_dir()
        )
        is_new = not self._work.exists()
        try:
            self._work.mkdir(exist_ok=True)
            self._lock = self._locked(self._work)
            for name in (*get_args(RangeFile), "out"):
                (self._work / name).mkdir(exist_ok=True)
        except OSError:
            if is_new:
                # On a full disk an incomplete working directory must not stay. No job could continue in it.
                shutil.rmtree(self._work, ignore_errors=True)
            raise

    def _locked(self, path: Path) -> int:
        busy = f"{self.directory}: another split is writing to it"
        handle = lock(path, busy)
        # Another process may have removed the directory, and perhaps made it anew.
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(handle), os.stat(path)):
                return handle
        os.close(handle)
        raise OutputError(busy)

    def _discard(self, path: Path) -> None:
        # The directory is renamed before its files are removed, so that no job continues in half a directory.
        gone = path.with_name(f"{self._base}gone-{uuid.uuid4().hex[:8]}")
        with suppress(OSError):
            os.rename(path, gone)
            shutil.rmtree(gone, ignore_errors=True)

    def _remove_abandoned(self, some: Iterable[Path]) -> None:
        for left in some:
            handle = self._locked(left)
            try:
                self._discard(left)
            finally:
                os.close(handle)

    def publish(self) -> None:
        """Rename the directory of finished files to the output directory, at the end of a successful split. An older
        output directory is then removed.

        Raises OutputError if the rename fails; the output directory is then unchanged.
        """
        old = self.directory.parent / f"{self._base}old-{uuid.uuid4().hex[:8]}"
        try:
            replace_directory(self._work / "out", self.directory, old)
        except OSError as error:
            if error.errno in (errno.EBUSY, errno.EXDEV):
                raise OutputError(
                    f"{self.directory}: is a mount point, which cannot appear by a rename; name a directory in it"
                ) from None
            raise OutputError(f"{self.directory}: cannot be replaced: {error.strerror}") from None
        if old.exists():
            self._discard(old)

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._lock >= 0:
            self._discard(self._work)
        self._unlock()

    def _unlock(self) -> None:
        if self._lock >= 0:
            with suppress(OSError):
                os.close(self._lock)
            self._lock = -1


def _boot_id() -> str:
    """Return Linux's id of the machine's current boot, or an empty text if there is none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""
