"""A master's access to a split's directory, which holds binlog sets that a job made from one unfiltered set.

The unfiltered set is the source. Tables beside the binlogs tell which bytes of the source each binlog has. While a
master reads, another split may replace the directory, or a purge may delete files. The functions of this module then
raise SplitGone.
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
    """The error for a split's directory that was replaced, purged or damaged after its manifest was read."""


@dataclass(frozen=True)
class Transactions:
    """The transactions of a range, in the order of the source, the unfiltered binlog set that was split.

    A range is a number of consecutive transactions of one file that one task of the split worked on. Each array has one
    entry for each transaction, and for each event between two transactions. TRANSACTIONS_SCHEMA explains the columns.
    """

    end: Ints
    source: npt.NDArray[np.int32]
    """For each transaction its GTID source, an index into :attr:`SplitDirectory.sources`; -1 for a transaction without
    a GTID.

    A GTID source is a server UUID of MySQL, or a domain and server id of MariaDB.
    """
    number: Ints
    server_id: Ints
    events: Ints
    of_file: Flags
    exact: Flags
    undecided: Ints
    """For each transaction the number of its events that the binlog's filter could neither send nor drop for certain.

    The binlog has these events, because a slave's own filter may need them.
    """


@dataclass(frozen=True)
class Stretches:
    """The pieces (stretches) of a split's source that one of its binlogs has, in the source's order.

    The source is the unfiltered binlog set. A stretch is a number of bytes that are consecutive in the binlog and also
    in the source. Each array has one entry for each stretch. RANGES_SCHEMA explains the columns.
    """

    file: Ints
    start: Ints
    end: Ints
    source_start: Ints
    source_end: Ints

    @property
    def size(self) -> Ints:
        """The size of each stretch (piece of the source) in the split's binlog, bytes."""
        return self.end - self.start

    def cut_at(self, places: Ints) -> Stretches:
        """Divide stretches (pieces of the source) so that each lies between two of the given offsets.

        The offsets ``places`` are in the source's file, for example ends of transactions, and must ascend. Return all
        stretches, whole and divided ones.
        """
        if not len(self.start):
            return self
        row = np.searchsorted(self.source_start, places, "right") - 1
        inside = (row >= 0) & (places > self.source_start[row]) & (places < self.source_end[row])
        begins = np.sort(np.concatenate([self.source_start, places[inside]]))
        row = np.searchsorted(self.source_start, begins, "right") - 1
        stops = np.minimum(self.source_end[row], np.append(begins[1:], np.iinfo(np.int64).max))
        # A stretch is shorter in the binlog than in the source only as a part of one compressed transaction. No cut
        # lies inside a transaction. Therefore the part of a stretch before a cut has the same size in the binlog and
        # in the source.
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
    """A reader of a split's directory: its manifest, its tables and its binlog files.

    The constructor raises OutputError when the directory has no manifest. Threads must not share an object of this
    class. Each thread calls :meth:`again` to get another object.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._identity = _identity(path)
        self.manifest = Manifest.load(path)
        self.sources: list[SourceKey] = []
        """The GTID sources (server UUID, or domain and server id) in the tables of transactions that were read so far.
        :attr:`Transactions.source` has indexes into this list."""
        self._numbers: dict[str, int] = {}

    def again(self) -> SplitDirectory:
        """Return another reader of the same directory, for use in another thread."""
        other = copy.copy(self)
        other.sources, other._numbers = [], {}
        return other

    @property
    def is_current(self) -> bool:
        """Whether the directory and its manifest are still those that were opened, and no other split replaced them."""
        return _identity(self.path) == self._identity

    @cached_property
    def _of_source(self) -> dict[str, tuple[SourceFile, range]]:
        bounds = [0, *accumulate(one.ranges for one in self.manifest.source)]
        return {
            one.name: (one, range(bounds[k], bounds[k + 1])) for k, one in enumerate(self.manifest.source)
        }

    def source(self, name: str) -> tuple[SourceFile, range] | None:
        """Return the manifest's entry about a file of the source, and the numbers of the file's ranges.

        The source is the unfiltered binlog set. A range is a part of the file that one task worked on. Return None for
        a file that was not split.
        """
        return self._of_source.get(name)

    def transactions(self, number: int, binlog: str) -> Transactions:
        """Read the table of the transactions in the range with this number.

        A range is a part of a file of the source that one task worked on. ``undecided`` of the result is about the
        named binlog of the split. Raises SplitGone.
        """
        table = self._table(TRANSACTIONS, number, TRANSACTIONS_SCHEMA)
        if not len(table):
            raise SplitGone(f"{self.path}: the table of range {number} lists no transactions")
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
        """Return the pieces (stretches) of a range that one binlog of the split has.

        A range is a part of a file of the source that one task worked on. Raises SplitGone.
        """
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
            raise SplitGone(f"{path}: the table cannot be read: {error}") from None
        self._check()
        return table

    def open(self, binlog: NamedBinlog, number: int) -> BinlogFile:
        """Open one file of a split's binlog. The number of the first file is 1.

        Raises SplitGone if the file was purged, cannot be opened, or is shorter than the manifest says.
        """
        part = binlog.parts[number - 1]
        if part.purged is not None:
            raise SplitGone(f"{part.name}: the file was purged")
        try:
            file = BinlogFile(self.path / part.name)
        except BinlogError as error:
            raise SplitGone(str(error)) from None
        if file.size < part.size:
            file.close()
            raise SplitGone(f"{part.name}: the file has {file.size} bytes; the manifest says {part.size}")
        self._check()
        return file

    def _check(self) -> None:
        # The directory is checked after the file was opened. If the path still leads to the directory from which the
        # manifest was read, the opened file belongs to the same split as the manifest.
        if _directory(self.path) != self._identity[:2]:
            raise SplitGone(f"{self.path}: another split has replaced the directory")


def read_stretches(
    out: npt.NDArray[np.uint8], wanted: Stretches, files: dict[int, BinlogFile], *, checksum: bool
) -> int:
    """Read events from a split's binlog, and give them the positions and checksums that they have in the source.

    The source is the unfiltered binlog set that was split. Return the number of events that were read.

    Args:
        out: the buffer to fill, uint8. Its size is the sum of the stretches' sizes.
        wanted: the stretches to read. A stretch is bytes that are consecutive in the binlog and also in the source.
        files: the open files of the split's binlog, by number.
        checksum: whether the events of the source end with a checksum.

    Raises SplitGone.
    """
    at = 0
    sizes = wanted.size
    cuts = np.flatnonzero((wanted.file[1:] != wanted.file[:-1]) | (wanted.start[1:] != wanted.end[:-1])) + 1
    for first, last in zip([0, *cuts.tolist()], [*cuts.tolist(), len(sizes)], strict=True):
        length = int(sizes[first:last].sum())
        file = files[int(wanted.file[first])]
        try:
            file.read_whole(out[at : at + length], int(wanted.start[first]))
        except BinlogError as error:
            raise SplitGone(str(error)) from None
        at += length
    # A binlog may have only a part of a compressed transaction. Such an event is shorter than in the source but keeps
    # the source's end_log_pos, so a stretch's position is computed from its end in the source and its size in the
    # binlog.
    found = int(restore(out, sizes, wanted.source_end - sizes, checksum))
    if found < 0:
        raise SplitGone("a stretch of a named binlog does not consist of whole events")
    return found


def _ints(column: pa.ChunkedArray) -> Ints:
    # numba would compile kernels again for Arrow's arrays, which are read-only.
    return np.array(column.fill_null(0).to_numpy(), np.int64)


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
