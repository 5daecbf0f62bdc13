"""Purging one binlog of a split: its oldest files go, those of the others stay (WL#2387, "Binlog extensions").

What is to go is recorded in the manifest, then taken out of the index file, then deleted. A crash at any moment leaves
a valid set, and at worst files that it no longer names, which the next purge deletes.
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
    """What a purge took away, or would."""

    binlog: str
    files: tuple[str, ...]
    """Oldest first."""
    nbytes: int
    left: tuple[str, ...]
    finished: tuple[str, ...] = field(default=())
    """Files that an earlier purge, which was killed, had recorded and not deleted."""

    def as_dict(self) -> dict[str, object]:
        """As JSON has it."""
        return {
            "binlog": self.binlog,
            "files": list(self.files),
            "bytes": self.nbytes,
            "left": list(self.left),
            "finished": list(self.finished),
        }


def purge_split(directory: Path, name: str, before: str, *, dry_run: bool = False) -> Purged:
    """Purge the files of a split's binlog before a file of it, a time, or a place in the source.

    ``name`` is the binlog's, or its schema's. Before a file (``shop-bin.000003``): those that precede it. Before a time
    (ISO 8601, UTC when it has no offset): those whose last transaction was written earlier. Before a place in the
    source (``binlog.000012:4711``): those that hold nothing of what follows it. Never the newest file, nor one that
    comes after one that stays.

    Raises OptionError for a ``before`` that is none of these; OutputError where there is no split, no such binlog, or
    the disk says no.
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
        return []  # it has been purged, and those before it
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
    """The place in the source that is meant; None when none is. Raises OptionError for a file that the source lacks."""
    found = _PLACE.fullmatch(before)
    names = [one.name for one in manifest.source]
    if found is not None and found["file"] in names:
        return Place(file=found["file"], position=int(found["position"]))
    if before in names:
        raise OptionError(f"--before: {before!r} is a file of the source: say where in it, as {before}:4")
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
    """Do what the manifest says: out of the index, then deleted. The files that were there."""
    for left in [*directory.glob(f".{MANIFEST}.*"), directory / f"{binlog.index}.purge"]:
        with writing(left):
            left.unlink(missing_ok=True)  # of a purge that was killed
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
    """Replace the index by one without these files, in one step; what is in it already is left as it is."""
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
    """One purge at a time. Raises OutputError."""
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
