"""Purge of one output's oldest files. The files of other outputs stay (WL#2387, "Binlog extensions").

The purge records the files in the manifest, then removes them from the index file, then deletes them. A crash at any
moment leaves a valid set. It may leave files that the index file no longer names; the next purge deletes those files.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from dumpfilter.binlog.writer import sync_path, writing
from dumpfilter.errors import OptionError, OutputError
from dumpfilter.split_set.manifest import MANIFEST, BinlogPart, Manifest, NamedBinlog, Place, now

_PLACE = re.compile(r"(?P<file>.+):(?P<position>\d+)")


@dataclass(frozen=True)
class Purged:
    """The result of a purge, or of its dry run."""

    binlog: str
    files: tuple[str, ...]
    """The purged files, oldest first."""
    nbytes: int
    left: tuple[str, ...]
    finished: tuple[str, ...] = field(default=())
    """Files that an earlier, killed purge had recorded and not deleted."""

    def as_dict(self) -> dict[str, object]:
        """Return the result as a JSON object."""
        return {
            "binlog": self.binlog,
            "files": list(self.files),
            "bytes": self.nbytes,
            "left": list(self.left),
            "finished": list(self.finished),
        }


def purge_split(directory: Path, name: str, before: str, *, dry_run: bool = False) -> Purged:
    """Purge the files of a binlog before ``before``, which is a file, a time, or a place in the source.

    ``name`` is the binlog's name or its schema's. ``before`` is one of:

    - a file (``shop-bin.000003``): purge the files that precede it;
    - a time (ISO 8601, UTC without an offset): purge files whose last transaction was written earlier;
    - a place in the source (``binlog.000012:4711``): purge files that hold only events before the place.

    The newest file stays, and every file after a file that stays. Raises OptionError for another ``before``. Raises
    OutputError if there is no split or no such binlog, or a file operation fails.
    """
    with _locked(directory, dry_run=dry_run):
        manifest = Manifest.load(directory)
        binlog = manifest.binlog(name)
        going = _going(manifest, binlog, before)
        left = tuple(part.name for part in binlog.present if part not in going)
        purged = Purged(binlog.name, tuple(part.name for part in going), sum(p.size for p in going), left)
        if dry_run:
            return purged
        if going:
            when = now()
            for part in going:
                part.purged = when
            manifest.save(directory)
        finished = _carry_out(directory, binlog)
        return Purged(
            purged.binlog,
            purged.files,
            purged.nbytes,
            left,
            tuple(n for n in finished if n not in purged.files),
        )


def _going(manifest: Manifest, binlog: NamedBinlog, before: str) -> list[BinlogPart]:
    present = binlog.present
    names = [part.name for part in present]
    if before in names:
        return present[: names.index(before)]
    if before in [part.name for part in binlog.parts]:
        return []  # The file has been purged, and all files before it.
    place = _place(manifest, before)
    if place is not None:
        order = [one.name for one in manifest.source]

        def older(part: BinlogPart) -> bool:
            end = part.source_end
            return (order.index(end.file), end.position) <= (order.index(place.file), place.position)

    else:
        time = _time(binlog, before)

        def older(part: BinlogPart) -> bool:
            return part.last_time is None or part.last_time < time

    going: list[BinlogPart] = []
    for part in present[:-1]:
        if not older(part):
            break
        going.append(part)
    return going


def _place(manifest: Manifest, before: str) -> Place | None:
    """Return the place in the source, or None if ``before`` is no place. Raises OptionError for a file of the source
    without a position."""
    found = _PLACE.fullmatch(before)
    names = [one.name for one in manifest.source]
    if found is not None and found["file"] in names:
        return Place(file=found["file"], position=int(found["position"]))
    if before in names:
        raise OptionError(f"--before: {before!r} is a file of the source: add a position, as in {before}:4")
    return None


def _time(binlog: NamedBinlog, before: str) -> float:
    try:
        time = datetime.fromisoformat(before)
    except ValueError:
        raise OptionError(
            f"--before: {before!r} is no file of {binlog.name} ({binlog.parts[0].name} to {binlog.parts[-1].name}), "
            "no place in a file of the source (FILE:POSITION), and no date and time (2026-01-31T12:00:00+01:00)"
        ) from None
    return (time if time.tzinfo is not None else time.replace(tzinfo=UTC)).timestamp()


def _carry_out(directory: Path, binlog: NamedBinlog) -> list[str]:
    """Remove the files that the manifest records as purged, first from the index file. Return the
    files that existed."""
    for left in [*directory.glob(f".{MANIFEST}.*"), directory / f"{binlog.index}.purge"]:
        with writing(left):
            left.unlink(missing_ok=True)  # A purge that was killed left it.
    gone = [part.name for part in binlog.parts if part.purged is not None]
    _take_out(directory / binlog.index, gone)
    deleted = []
    for name in gone:
        path = directory / name
        with writing(path):
            if path.exists():
                path.unlink()
                deleted.append(name)
    if deleted:
        sync_path(directory)
    return deleted


def _take_out(index: Path, gone: Sequence[str]) -> None:
    """Replace the index file in one step by an index file without these names. Other lines stay as they are."""
    names = {os.fsencode(name) for name in gone}
    with writing(index):
        lines = index.read_bytes().splitlines(keepends=True)
        left = [line for line in lines if line.strip().rpartition(b"/")[2] not in names]
        if left == lines:
            return
        beside = index.with_name(f"{index.name}.purge")
        with open(beside, "wb") as file:
            file.write(b"".join(left))
            file.flush()
            shutil.copymode(index, beside)
            os.fsync(file.fileno())
        os.replace(beside, index)
        sync_path(index.parent)


@contextmanager
def _locked(directory: Path, *, dry_run: bool) -> Iterator[None]:
    """Allow one purge at a time. Raises OutputError."""
    if dry_run or not directory.is_dir():
        yield
        return
    with writing(directory):
        handle = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise OutputError(f"{directory}: another purge is at work in it") from None
        yield
    finally:
        os.close(handle)
