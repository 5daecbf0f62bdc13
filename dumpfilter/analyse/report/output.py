"""The output directory of a report: JSON, Parquet tables and the HTML page, published all together or not at all."""

from __future__ import annotations

import glob
import shutil
import uuid
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from dumpfilter.base.errors import OutputError
from dumpfilter.base.files import locked, replace_directory, sync_path, writing
from dumpfilter.base.printable import printable

RESULTS = "results.json"
REPORT = "report.html"


def check_output(directory: Path, *, overwrite: bool) -> None:
    """Check before a long job that its output directory can be written.

    Raises OutputError if the directory cannot be written, or if it holds files other than results. Results of an
    earlier job are an error unless ``overwrite`` is set.
    """
    if directory.exists() and not directory.is_dir():
        raise OutputError(f"{directory}: is not a directory")
    if directory.exists() and any(directory.iterdir()):
        if not (directory / RESULTS).exists():
            raise OutputError(f"{directory}: holds other files; name another directory")
        if not overwrite:
            raise OutputError(f"{directory}: holds other results; name another directory or use --overwrite")
    with writing(directory):
        directory.absolute().parent.mkdir(parents=True, exist_ok=True)
        unlocked = _unlocked(_beside(directory))
        unlocked.mkdir()
        unlocked.rmdir()


def check_only(directory: Path, names: Collection[str]) -> None:
    """Check that ``directory`` contains only files whose names are in ``names``, so that new results may replace it.

    Raises OutputError with the name of another file. A missing directory is accepted.
    """
    if not directory.is_dir():
        return
    others = sorted(path.name for path in directory.iterdir() if path.name not in names)
    if others:
        raise OutputError(
            f"{directory}: new results would remove {printable(others[0])}, which is no result; move it, name another "
            "directory, or remove it by --overwrite"
        )


@contextmanager
def written_together(directory: Path) -> Iterator[Path]:
    """Yield a new temporary directory for the files of a report. It replaces ``directory`` when the ``with`` block
    ends.

    If the block raises, the temporary directory is removed and ``directory`` is unchanged. Otherwise temporary
    directories that killed processes have left are removed, too. Raises OutputError if a file cannot be written.
    """
    directory = directory.absolute()
    beside, old = _beside(directory), _beside(directory)
    unlocked = _unlocked(beside)
    with writing(directory), ExitStack() as held:
        try:
            unlocked.mkdir(parents=True)
            for used in (unlocked, directory):
                # Some network file systems cannot lock a directory. Then no other process removes it, either.
                with suppress(OutputError):
                    held.enter_context(locked(used, ""))
            unlocked.rename(beside)
            yield beside
            for path in beside.iterdir():
                sync_path(path)
            sync_path(beside)
            replace_directory(beside, directory, old)
        except BaseException:
            shutil.rmtree(unlocked, ignore_errors=True)
            shutil.rmtree(beside, ignore_errors=True)
            raise
        shutil.rmtree(old, ignore_errors=True)
    for left in directory.parent.glob(f".{glob.escape(directory.name)}.{'[0-9a-f]' * _DIGITS}"):
        with suppress(OutputError), locked(left, ""):
            shutil.rmtree(left, ignore_errors=True)


_DIGITS = 12


def _beside(directory: Path) -> Path:
    """Return a new name for a temporary directory, which is locked as long as its process runs."""
    directory = directory.absolute()
    return directory.parent / f".{directory.name}.{uuid.uuid4().hex[:_DIGITS]}"


def _unlocked(beside: Path) -> Path:
    """Return the name that a temporary directory has until it is locked."""
    return beside.with_name(f"{beside.name}.new")
