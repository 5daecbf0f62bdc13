"""A split's directory as a master reads it: the tables beside the binlogs, and the binlogs' bytes.

The directory may be replaced by another split, or purged, while it is read. Then this raises SplitGone.
"""

from __future__ import annotations

import copy
import os
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dumpfilter.binlog.gtid_sources import SourceKey
from dumpfilter.errors import BinlogError, DumpfilterError
from dumpfilter.index.fileset import BinlogFile
from dumpfilter.split_set.manifest import (
    RANGES,
    RANGES_SCHEMA,
    TRANSACTIONS,
    TRANSACTIONS_SCHEMA,
    Manifest,
    NamedBinlog,
    SourceFile,
    gtid_source_key,
)
from dumpfilter.split_set.restore import restore

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


class SplitGone(DumpfilterError):
    """The split is not, or no longer, what its manifest says."""


@dataclass(frozen=True)
class Transactions:
    """The transactions of a range, and what stands between them, in order; one entry each. See TRANSACTIONS_SCHEMA."""

    end: Ints
    source: npt.NDArray[np.int32]
    """A number in :attr:`SplitDirectory.sources`; -1: it has no GTID."""
    number: Ints
    server_id: Ints
    events: Ints
    of_file: Flags
    exact: Flags
    undecided: Ints
    """How many of its events a named binlog has because they could not be decided."""


@dataclass(frozen=True)
class Stretches:
    """What a named binlog has of a range, in order; one entry a stretch. See RANGES_SCHEMA."""

    file: Ints
    start: Ints
    end: Ints
    source_start: Ints
    source_end: Ints

    @property
    def size(self) -> Ints:
        """Bytes in the named binlog."""
        return self.end - self.start

    def cut_at(self, places: Ints) -> Stretches:
        """The same in stretches of which none goes on beyond one of these places in the source, which ascend."""
        if not len(self.start):
            return self
        row = np.searchsorted(self.source_start, places, "right") - 1
        inside = (row >= 0) & (places > self.source_start[row]) & (places < self.source_end[row])
        begins = np.sort(np.concatenate([self.source_start, places[inside]]))
        row = np.searchsorted(self.source_start, begins, "right") - 1
        stops = np.minimum(self.source_end[row], np.append(begins[1:], np.iinfo(np.int64).max))
        # what is cut is as long as it was in the source
        shift = self.start[row] - self.source_start[row]
        whole = stops == self.source_end[row]
        return Stretches(
            self.file[row], begins + shift, np.where(whole, self.end[row], stops + shift), begins, stops
        )

    def __getitem__(self, some: slice) -> Stretches:
        return Stretches(
            self.file[some],
            self.start[some],
            self.end[some],
            self.source_start[some],
            self.source_end[some],
        )


class SplitDirectory:
    """A split, opened. Raises OutputError when there is none."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._identity = _identity(path)
        self.manifest = Manifest.load(path)
        self.sources: list[SourceKey] = []
        """The GTID sources met so far, by number."""
        self._numbers: dict[str, int] = {}

    def again(self) -> SplitDirectory:
        """The same, for another reader: one is not for several threads."""
        other = copy.copy(self)
        other.sources, other._numbers = [], {}
        return other

    @property
    def is_current(self) -> bool:
        """Whether it is the same directory still, with the same manifest."""
        return _identity(self.path) == self._identity

    @cached_property
    def _of_source(self) -> dict[str, tuple[SourceFile, range]]:
        bounds = [0, *accumulate(one.ranges for one in self.manifest.source)]
        return {
            one.name: (one, range(bounds[k], bounds[k + 1])) for k, one in enumerate(self.manifest.source)
        }

    def source(self, name: str) -> tuple[SourceFile, range] | None:
        """A file of the source, and the numbers of its ranges; None when it was not split."""
        return self._of_source.get(name)

    def transactions(self, number: int, binlog: str) -> Transactions:
        """Of a range. Raises SplitGone."""
        table = self._table(TRANSACTIONS, number, TRANSACTIONS_SCHEMA)
        if not len(table):
            raise SplitGone(f"range {number} has no transactions")
        source = table["gtid_source"].combine_chunks()
        keys = np.array([self._number(text) for text in source.dictionary.to_pylist()] or [-1], np.int32)
        known = source.indices.fill_null(0).to_numpy(zero_copy_only=False)
        undecided = table["undecided"].combine_chunks()
        of = pc.list_parent_indices(undecided).filter(pc.equal(pc.list_flatten(undecided), binlog))
        has = ~source.is_null().to_numpy(zero_copy_only=False)
        return Transactions(
            _ints(table["end"]),
            np.where(has, keys[known], np.int32(-1)),
            _ints(table["gtid_number"]),
            _ints(table["server_id"]),
            _ints(table["events"]),
            table["of_file"].to_numpy(),
            table["exact"].to_numpy(),
            np.bincount(of.to_numpy(), minlength=len(table)),
        )

    def stretches(self, number: int, binlog: str) -> Stretches:
        """Of a range. Raises SplitGone."""
        table = self._table(RANGES, number, RANGES_SCHEMA)
        table = table.filter(pc.equal(table["binlog"], binlog))
        order = np.argsort(_ints(table["source_start"]), kind="stable")
        columns = ("file", "start", "end", "source_start", "source_end")
        return Stretches(*(_ints(table[name])[order] for name in columns))

    def _number(self, text: str) -> int:
        found = self._numbers.get(text)
        if found is None:
            found = self._numbers[text] = len(self.sources)
            self.sources.append(gtid_source_key(text))
        return found

    def _table(self, name: str, number: int, schema: pa.Schema) -> pa.Table:
        path = self.path / name / f"{number:06}.parquet"
        try:
            table = pq.read_table(path, schema=schema, memory_map=False)
        except (OSError, pa.ArrowException) as error:
            raise SplitGone(f"{path}: cannot be read: {error}") from None
        self._check()
        return table

    def open(self, binlog: NamedBinlog, number: int) -> BinlogFile:
        """A file of a named binlog, from 1. Raises SplitGone when it was purged or is not as it was written."""
        part = binlog.parts[number - 1]
        if part.purged is not None:
            raise SplitGone(f"{part.name}: was purged")
        try:
            file = BinlogFile(self.path / part.name)
        except BinlogError as error:
            raise SplitGone(str(error)) from None
        if file.size < part.size:
            file.close()
            raise SplitGone(f"{part.name}: has {file.size} bytes, not {part.size}")
        self._check()
        return file

    def _check(self) -> None:
        # what was opened before this is of the directory that was looked at in the beginning
        if _directory(self.path) != self._identity[:2]:
            raise SplitGone(f"{self.path}: holds another split now")


def read_stretches(
    out: npt.NDArray[np.uint8], wanted: Stretches, files: dict[int, BinlogFile], *, checksum: bool
) -> int:
    """Fill ``out`` (uint8, of their size) with stretches' events as the source has them; how many events they are.
    ``files``: of the named binlog, by number. Raises SplitGone."""
    at = 0
    sizes = wanted.size
    cuts = np.flatnonzero((wanted.file[1:] != wanted.file[:-1]) | (wanted.start[1:] != wanted.end[:-1])) + 1
    for first, last in zip([0, *cuts.tolist()], [*cuts.tolist(), len(sizes)], strict=True):
        length = int(sizes[first:last].sum())
        file = files[int(wanted.file[first])]
        if file.read_into(out[at : at + length], int(wanted.start[first])) < length:
            raise SplitGone(f"{file.name}: is shorter than it was")
        at += length
    # an event that went out in part ends where the whole one did
    found = int(restore(out, sizes, wanted.source_end - sizes, checksum))
    if found < 0:
        raise SplitGone("a stretch of a named binlog is not whole events")
    return found


def _ints(column: pa.ChunkedArray) -> Ints:
    return np.asarray(column.fill_null(0).to_numpy(), np.int64)


def _directory(path: Path) -> tuple[int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return (0, 0)
    return (found.st_dev, found.st_ino)


def _identity(path: Path) -> tuple[int, int, int, int]:
    try:
        manifest = os.stat(path / "manifest.json")
    except OSError:
        return (*_directory(path), 0, 0)
    return (*_directory(path), manifest.st_ino, manifest.st_mtime_ns)
