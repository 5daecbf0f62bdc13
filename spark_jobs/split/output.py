"""The output directory: nothing is in it before everything is.

A job works in a directory beside it, whose name tells the job. A job that was killed leaves that directory, and the
same job goes on from there; one that failed removes it. When all is written and synchronized, one rename makes it the
output directory.
"""

from __future__ import annotations

import errno
import fcntl
import glob
import os
import shutil
import uuid
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from dumpfilter.binlog.writer import sync_path
from dumpfilter.errors import OutputError
from dumpfilter.spark_jobs.split.tasks import Staging
from dumpfilter.split_set.manifest import MANIFEST, Manifest

_FORMAT = 1
"""Of what is kept in the working directory; to be raised when it changes, since a job only goes on with its own."""

_PARTS = ("plan", "placement", "written", "out", "out/ranges", "out/transactions")


class OutputDirectory:
    """One job's way to its output directory, locked against others; use as a context manager.

    Parameters:
        directory: made when it does not exist; its parent, too.
        job: the digest of what is to be done.
        overwrite: whether another split may be there already.
        sources: local paths of the files read, which must not lie in it.
    """

    def __init__(self, directory: Path, job: str, *, overwrite: bool, sources: Iterable[Path] = ()) -> None:
        self.directory = Path(os.path.abspath(directory))
        self._overwrite = overwrite
        self._job = job
        self._base = f".{self.directory.name}.split-"
        self._work = self.directory.parent / f"{self._base}{_FORMAT}-{job[:16]}"
        self._lock = -1
        self.finished: Manifest | None = None
        """What the same job wrote before; then there is nothing to do."""
        for source in sources:
            if source.resolve().parent == self.directory.resolve():
                raise OutputError(f"{directory}: holds the binlogs that are split; name another directory")

    @property
    def staging(self) -> Staging:
        """Where the job works."""
        return Staging(str(self._work))

    def __enter__(self) -> OutputDirectory:
        try:
            self._put_back()
            self._look()
            if self.finished is None:
                self.directory.parent.mkdir(parents=True, exist_ok=True)
                self._take()
            else:
                with suppress(OutputError):  # that is being written by another job
                    self._remove_left(self._left())
        except OSError as error:
            self._let_go()
            raise OutputError(f"{error.filename or self.directory}: {error.strerror}") from None
        return self

    def _left(self) -> list[Path]:
        """What jobs work in, or left when they were killed."""
        return sorted(self.directory.parent.glob(f"{glob.escape(self._base)}*"))

    def _put_back(self) -> None:
        """The output of a job that was killed just when it replaced it."""
        if not self.directory.exists():
            for left in self._left():
                if left.name.startswith(f"{self._base}old-"):
                    os.rename(left, self.directory)

    def _look(self) -> None:
        """Raises OutputError for what must not be replaced."""
        if not self.directory.exists():
            return
        if not self.directory.is_dir():
            raise OutputError(f"{self.directory}: is not a directory")
        if not any(self.directory.iterdir()):
            return
        if not (self.directory / MANIFEST).exists():
            raise OutputError(f"{self.directory}: holds files that no split wrote; name another directory")
        there = Manifest.load(self.directory)
        if there.job == self._job and not self._overwrite:
            self.finished = there
        elif not self._overwrite:
            raise OutputError(
                f"{self.directory}: holds the split of other binlogs, or with other options; name another directory "
                "or use --overwrite"
            )

    def _take(self) -> None:
        # without its "out" it has been published
        self._remove_left(left for left in self._left() if left != self._work or not (left / "out").is_dir())
        self._work.mkdir(exist_ok=True)
        self._lock = self._locked(self._work)
        for name in _PARTS:
            (self._work / name).mkdir(exist_ok=True)

    def _locked(self, path: Path) -> int:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not os.path.samestat(os.fstat(handle), os.stat(path)):
                raise OSError(errno.EAGAIN, "somebody removed it")
        except OSError:
            os.close(handle)
            raise OutputError(f"{self.directory}: another split is writing to it") from None
        return handle

    def _discard(self, path: Path) -> None:
        """Remove a directory, which is not to be found by its name when only a part of it is left."""
        gone = path.with_name(f"{self._base}gone-{uuid.uuid4().hex[:8]}")
        with suppress(OSError):
            os.rename(path, gone)
            shutil.rmtree(gone, ignore_errors=True)

    def _remove_left(self, some: Iterable[Path]) -> None:
        """Remove what jobs that were killed left, and nobody is going on with."""
        for left in some:
            handle = self._locked(left)
            try:
                self._discard(left)
            finally:
                os.close(handle)

    def publish(self) -> None:
        """Make what was written the output directory. Raises OutputError; then it is as it was."""
        old: Path | None = None
        try:
            if self.directory.exists() and any(self.directory.iterdir()):
                old = self.directory.parent / f"{self._base}old-{uuid.uuid4().hex[:8]}"
                os.rename(self.directory, old)
            try:
                os.rename(self._work / "out", self.directory)
            except OSError:
                if old is not None:
                    os.rename(old, self.directory)
                raise
            sync_path(self.directory.parent)
        except OSError as error:
            if error.errno in (errno.EBUSY, errno.EXDEV):
                raise OutputError(
                    f"{self.directory}: is a mount point, which cannot appear by a rename; name a directory in it"
                ) from None
            raise OutputError(f"{self.directory}: cannot be replaced: {error.strerror}") from None
        if old is not None:
            self._discard(old)

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._lock >= 0:
            self._discard(self._work)
        self._let_go()

    def _let_go(self) -> None:
        if self._lock >= 0:
            with suppress(OSError):
                os.close(self._lock)
            self._lock = -1
