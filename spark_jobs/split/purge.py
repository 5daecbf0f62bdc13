"""The purge of the oldest files of one binlog that a split wrote. The split's other binlogs are unchanged.

The purge records the files as purged in the manifest (the list of the split's files), removes their names from the
index file, and then deletes them. A crash at any time leaves a valid binlog set. Files that the index file no longer
lists may also be left. The next purge deletes these files.
"""

from __future__ import annotations

from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path

from pydantic import BaseModel

from dumpfilter.analyse.split_set import MANIFEST, BinlogPart, Manifest, NamedBinlog, Place, now
from dumpfilter.base.errors import OptionError
from dumpfilter.base.files import locked, remove, sync_path
from dumpfilter.base.options.values import whole_number
from dumpfilter.index.index_file import take_out


class Purged(BaseModel):
    """The purged files of one binlog, or the files that a purge would delete, as a dry run reports them."""

    binlog: str
    files: tuple[str, ...]
    """The names of the purged files, oldest first."""
    bytes: int
    """The total size of the purged files, bytes."""
    left: tuple[str, ...]
    """The names of the files that the binlog still has after the purge."""


def purge_split(directory: Path, name: str, before: str, *, dry_run: bool = False) -> Purged:
    """Purge the oldest files of one binlog in the directory of a split.

    ``name`` is the name of the binlog, or of the schema whose events it has. ``before`` has one of three forms:

    - a file of the binlog (``shop-bin.000003``): purge the files before this file.
    - a time (ISO 8601, UTC unless the time has an offset): purge files whose last transaction was written earlier, and
    files without transactions.
    - a position in the binlog set that was split (``binlog.000012:4711``): purge files that have only events before
    this position.

    The newest file always stays, and so do all files after the first one that stays. With ``dry_run`` nothing is
    changed. Raises OptionError for another form of ``before``. Raises OutputError if there is no split or no such
    binlog, or if a file operation fails.
    """
    unlocked = dry_run or not directory.is_dir()
    busy = f"{directory}: a purge or a split is at work in it"
    with nullcontext() if unlocked else locked(directory, busy):
        manifest = Manifest.load(directory)
        binlog = manifest.binlog(name)
        going = _going(manifest, binlog, before)
        purged = Purged(
            binlog=binlog.name,
            files=tuple(part.name for part in going),
            bytes=sum(part.size for part in going),
            left=tuple(part.name for part in binlog.present if part not in going),
        )
        if dry_run:
            return purged
        if going:
            when = now()
            for part in going:
                part.purged = when
            manifest.save(directory)
        _carry_out(directory, binlog)
        return purged


def _going(manifest: Manifest, binlog: NamedBinlog, before: str) -> list[BinlogPart]:
    present = binlog.present
    names = [part.name for part in present]
    if before in names:
        return present[: names.index(before)]
    if before in [part.name for part in binlog.parts]:
        return []  # An earlier purge deleted this file and all files before it.
    place = _place(manifest, before)
    if place is not None:
        order = [one.name for one in manifest.source]
        limit = order.index(place.file), place.position
        ends = [part.source_end for part in present]
        is_older = [(order.index(end.file), end.position) <= limit for end in ends]
    else:
        time = _time(binlog, before)
        is_older = [part.last_time is None or part.last_time < time for part in present]
    # The newest file always stays, and so do all files after the first one that stays.
    return present[: [*is_older[:-1], False].index(False)]


def _place(manifest: Manifest, before: str) -> Place | None:
    """Return ``before`` as a position (file name and byte offset) in the source, the binlog set that was split. None if
    ``before`` has another form, such as a time.

    Raises OptionError for a file of the source without an offset.
    """
    name, _, digits = before.rpartition(":")
    names, position = [one.name for one in manifest.source], whole_number(digits)
    if name in names and position is not None:
        return Place(file=name, position=position)
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


def _carry_out(directory: Path, binlog: NamedBinlog) -> None:
    """Finish a purge of ``binlog``, which the manifest (the list of a split's files) has recorded. Remove the purged
    files' names from the binlog's index file, and then delete these files. An interrupted purge may have deleted some
    files already.
    """
    for left in [*directory.glob(f".{MANIFEST}.*"), directory / f"{binlog.index}.purge"]:
        remove(left)  # A purge that was killed may have left this temporary file.
    gone = [part.name for part in binlog.parts if part.purged is not None]
    take_out(directory / binlog.index, gone)
    deleted = [name for name in gone if (directory / name).exists()]
    for name in deleted:
        remove(directory / name)
    if deleted:
        sync_path(directory)
