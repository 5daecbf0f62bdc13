"""The output directory of a report: JSON, Parquet tables and the HTML page, published all together or not at all."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from dumpfilter.base.errors import OutputError
from dumpfilter.base.files import replace_directory, sync_path, writing
from dumpfilter.base.printable import printable

RESULTS = "results.json"
REPORT = "report.html"


def check_output(directory: Path, *, overwrite: bool, replaced: Collection[str] = ()) -> None:
    """Check before a long job that its output directory can be written, and create missing parent directories.

    Raises OutputError if the directory cannot be written, or if it holds files but no ``results.json``. Results of an
    earlier job are an error unless ``overwrite`` is True, or ``replaced`` has the names of all files in the directory.
    """
    if directory.exists() and not directory.is_dir():
        raise OutputError(f"{directory}: is not a directory")
    if directory.exists() and (names := sorted(path.name for path in directory.iterdir())):
        others = [name for name in names if name not in replaced]
        if RESULTS not in names:
            raise OutputError(f"{directory}: holds other files; name another directory")
        if not overwrite and not replaced:
            raise OutputError(f"{directory}: holds other results; name another directory or use --overwrite")
        if not overwrite and others:
            raise OutputError(
                f"{directory}: new results would remove {printable(others[0])}, which is no result; move it, name "
                "another directory, or remove it by --overwrite"
            )
    with writing(directory):
        directory.absolute().parent.mkdir(parents=True, exist_ok=True)
        trial = _beside(directory)
        trial.mkdir()
        trial.rmdir()


@contextmanager
def written_together(directory: Path) -> Iterator[Path]:
    """Yield a new temporary directory for the files of a report. This directory replaces ``directory``, with everything
    in it, when the ``with`` block ends.

    If the block raises, the temporary directory is removed and ``directory`` is unchanged. Raises OutputError if a file
    cannot be written.
    """
    directory = directory.absolute()
    beside, old = _beside(directory), _beside(directory)
    with writing(directory):
        try:
            beside.mkdir(parents=True)
            yield beside
            for path in (*beside.iterdir(), beside):
                sync_path(path)
            replace_directory(beside, directory, old)
        finally:
            for path in (beside, old):
                shutil.rmtree(path, ignore_errors=True)


def _beside(directory: Path) -> Path:
    """Return a new name for a temporary directory in the parent directory of ``directory``."""
    directory = directory.absolute()
    return directory.parent / f".{directory.name}.{uuid.uuid4().hex[:12]}"
