"""The last step of a split, after Spark tasks have copied all events to the output files.

The driver writes the beginning of each file and its Rotate event. It also writes the index file of each output, and
makes the output's entry in the manifest.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from pathlib import Path

from dumpfilter.binlog.context_events import Rotate, encode_rotate
from dumpfilter.binlog.events import EventType
from dumpfilter.binlog.format import FormatDescription
from dumpfilter.binlog.writer import make_event, rebase
from dumpfilter.errors import OutputError
from dumpfilter.files import committed, sync_path, writing
from dumpfilter.printable import replace_invalid_utf8
from dumpfilter.spark_jobs.ranges.range_index import FileIndex
from dumpfilter.spark_jobs.split.names import REST, decode_name
from dumpfilter.spark_jobs.split.placement import OutputFile
from dumpfilter.spark_jobs.split.specification import Specification
from dumpfilter.spark_jobs.split.tasks import Staging, binlog_name, write_all
from dumpfilter.split_set.manifest import RANGES, BinlogPart, NamedBinlog, Place

_SYNCS = 8
"""The number of threads that synchronize files to disk at the same time."""


def finish_set(
    name: str,
    files: Sequence[OutputFile],
    staging: Staging,
    indexes: Sequence[FileIndex],
    specification: Specification,
) -> NamedBinlog:
    """Complete the files of one output, write its index file, and return its entry for the manifest.

    An output is a binlog that the split writes, here ``name``. ``files`` are the output's files in order. ``indexes``
    describe the source's files. Raises OutputError, also when a file does not have the expected size.
    """
    names = {one.number: one.name for one in indexes}
    last = next(one for one in reversed(indexes) if one.format_description)
    starts = [_place(file.start, names) for file in files] + [Place(file=last.name, position=last.end)]
    following = [binlog_name(name, file.number + 1) for file in files[:-1]]
    with ThreadPoolExecutor(_SYNCS, "sync") as pool:
        finish = partial(_finish_file, name, staging)
        sizes = list(pool.map(finish, files, [*following, None]))
    _write_index(Path(staging.path, "out", f"{name}-bin.index"), [binlog_name(name, f.number) for f in files])
    parts = [
        BinlogPart(
            name=binlog_name(name, file.number),
            size=size,
            events=file.events,
            transactions=file.transactions,
            previous_gtids=file.previous_gtids,
            first_time=file.first_time,
            last_time=file.last_time,
            source_start=start,
            source_end=end,
        )
        for file, size, (start, end) in zip(files, sizes, pairwise(starts), strict=True)
    ]
    return _described(name, specification, parts)


def _described(name: str, specification: Specification, parts: list[BinlogPart]) -> NamedBinlog:
    if specification.by_schema:
        schema = None if name == REST else replace_invalid_utf8(decode_name(name))
        return NamedBinlog(name=name, schema_name=schema, rest=name == REST, parts=parts)
    for one in specification.binlogs:
        if one.name == name:
            return NamedBinlog(name=name, rules=one.rules, semantics=one.semantics.value, parts=parts)
    return NamedBinlog(name=name, rest=True, parts=parts)


def _finish_file(name: str, staging: Staging, file: OutputFile, following: str | None) -> int:
    """Write the beginning of an output file, and at its end a Rotate event to the file ``following`` (None: no file
    follows). Return the file's size, bytes."""
    path = staging.binlog(name, file.number)
    size = file.size
    rotate = b"" if following is None else _rotate(file, following)
    with writing(path):
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            write_all(handle, file.head, 0)
            # An earlier run of the job may have been killed after it had written the Rotate event of this file.
            if (found := os.fstat(handle).st_size) not in (size, size + len(rotate)):
                raise OutputError(
                    f"{path}: has {found} bytes, but {size} were written: is the directory one that all workers share?"
                )
            write_all(handle, rotate, size)
            os.fsync(handle)
        finally:
            os.close(handle)
    return size + len(rotate)


def _rotate(file: OutputFile, following: str) -> bytes:
    fd = FormatDescription.parse(file.fd)
    event = make_event(
        EventType.ROTATE,
        encode_rotate(Rotate(following, 4)),
        timestamp=file.last_time or file.timestamp,
        server_id=fd.header.server_id,
        checksum=fd.checksum,
    )
    return bytes(rebase(event, file.size, checksum=fd.checksum))


def _write_index(path: Path, names: Sequence[str]) -> None:
    with committed(path) as file:
        file.write("".join(f"./{name}\n" for name in names).encode("ascii"))


def sync_ranges(staging: Staging, numbers: Sequence[int]) -> None:
    """Synchronize the Parquet table of each of these ranges, which maps the binlogs' bytes to the source's."""

    def sync(number: int) -> None:
        path = staging.ranges(number)
        with writing(path):
            sync_path(path)

    with ThreadPoolExecutor(_SYNCS, "sync") as pool:
        list(pool.map(sync, numbers))
    sync_path(Path(staging.path, "out", RANGES))


def _place(place: tuple[int, int], names: dict[int, str]) -> Place:
    return Place(file=names[place[0]], position=place[1])
