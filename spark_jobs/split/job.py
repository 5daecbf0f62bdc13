"""The split of one binlog set into several binlog sets (MySQL's worklog 2387, "Binlog extensions").

Each schema gets a binlog set of its events. Alternatively, a specification names the sets, with a filter for each
that chooses its events. An output is one of the sets that the split writes.

1. The driver indexes the files and divides them into ranges of complete transactions
(:mod:`~dumpfilter.spark_jobs.ranges`).
2. A task for each range plans which output receives which events (:mod:`~dumpfilter.spark_jobs.split.assign`).
3. The driver chooses file and offset of each planned event (:mod:`~dumpfilter.spark_jobs.split.placement`).
4. Tasks copy the events to these files and offsets (:mod:`~dumpfilter.spark_jobs.split.tasks`).
5. The driver completes the files, writes the manifest, and publishes the directory.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from dumpfilter.analyse.split_set import (
    Manifest,
    NamedBinlog,
    SourceFile,
    now,
)
from dumpfilter.base.errors import BinlogError, OutputError
from dumpfilter.base.files import committed, writing
from dumpfilter.base.printable import replace_invalid_utf8
from dumpfilter.binlog.context_events import Rotate, encode_rotate
from dumpfilter.binlog.events import EventType
from dumpfilter.binlog.writer import make_event, rebase
from dumpfilter.spark_jobs.engines import Runner
from dumpfilter.spark_jobs.ranges import FileIndex, IndexedSet, ReadOptions, amount_of, index_set
from dumpfilter.spark_jobs.split.assign import RangePlan
from dumpfilter.spark_jobs.split.output import OutputDirectory, Staging
from dumpfilter.spark_jobs.split.ownership import BY_SCHEMA, REST, Specification, decode_name, schemas_among
from dumpfilter.spark_jobs.split.placement import OutputFile, Placing
from dumpfilter.spark_jobs.split.tasks import PlanRange, WriteRange, opened

_SYNCS = 8
"""The number of threads that sync files to disk in parallel."""


def _finish_set(
    name: str, files: Sequence[OutputFile], directory: Path, specification: Specification
) -> NamedBinlog:
    """Complete the files of one output (a binlog set that the split writes), write its index file, and return its entry
    for the manifest.

    Each file gets its first events, and a Rotate event to the next file. ``files`` are in order, in ``directory``.
    Raises OutputError if a file cannot be written or does not have the expected size.
    """
    parts = [file.part for file in files]
    names = [part.name for part in parts]
    with ThreadPoolExecutor(_SYNCS, "sync") as pool:
        list(pool.map(partial(_finish_file, directory), files, [*names[1:], None]))
    with committed(directory / f"{name}-bin.index") as index:
        index.write("".join(f"./{each}\n" for each in names).encode("ascii"))
    if specification.by_schema:
        schema = None if name == REST else replace_invalid_utf8(decode_name(name))
        return NamedBinlog(name=name, schema_name=schema, rest=name == REST, parts=parts)
    for one in specification.binlogs:
        if one.name == name:
            return NamedBinlog(name=name, rules=one.rules, semantics=one.semantics.value, parts=parts)
    return NamedBinlog(name=name, rest=True, parts=parts)


def _finish_file(directory: Path, file: OutputFile, following: str | None) -> None:
    """Write the first events of an output file, and at its end a Rotate event to the file ``following`` (None: no
    Rotate event).
    """
    path, size, fd = directory / file.part.name, file.part.size, file.fd
    rotate = b""
    if following is not None:
        event = make_event(
            EventType.ROTATE,
            encode_rotate(Rotate(following, 4)),
            timestamp=file.part.last_time or fd.header.timestamp,
            server_id=fd.header.server_id,
            checksum=fd.checksum,
        )
        rotate = bytes(rebase(event, size, checksum=fd.checksum))
    with opened(path) as target:
        target.write(file.head)
        # An earlier run of the job may have been killed after it had written the Rotate event of this file.
        if (found := target.seek(0, os.SEEK_END)) not in (size, size + len(rotate)):
            raise OutputError(
                f"{path}: has {found} bytes, but {size} were written: is the directory one that all workers share?"
            )
        target.seek(size)
        target.write(rotate)
        target.flush()
        os.fsync(target.fileno())
    file.part.size += len(rotate)


MAX_BINLOG_SIZE = 1 << 30
"""The default size at which the split ends an output file and begins the next one, bytes. Servers have this default
of ``max_binlog_size``.
"""


Spanning = Literal["part", "refuse"]
"""The treatment of a transaction with events for several outputs. ``part``: each output receives the transaction
with only its own events. ``refuse``: the split fails.
"""


class TransactionSpans(BinlogError):
    """The error for a transaction that has events for several outputs, when the option ``spanning="refuse"`` forbids
    it. An output is a binlog set that the split writes.
    """


@dataclass(frozen=True)
class SplitOptions(ReadOptions):
    """All options of a split, including those for reading the binlog set: the binlogs to write, their maximum file
    size, and the treatment of transactions with events for several binlogs. Sizes are in bytes.
    """

    specification: Specification = BY_SCHEMA
    max_binlog_size: int = MAX_BINLOG_SIZE
    spanning: Spanning = "part"
    overwrite: bool = False
    """Whether the split may replace the output of a different split."""


@dataclass
class SplitResult:
    """The result of a split: the manifest, which lists the written binlogs and their files, and whether this run wrote
    anything.
    """

    manifest: Manifest
    already: bool = False
    """Whether an earlier run of the same job wrote the output, so that this run wrote nothing."""


def split(
    source: str | Path | Sequence[str | Path], output: Path, run: Runner, options: SplitOptions | None = None
) -> SplitResult:
    """Split a binlog set into several binlog sets in the directory ``output``: one for each schema, or those that
    ``options.specification`` defines by filters.

    ``source`` is the set's index file, a directory with an index file, or a list of binlog files. ``run`` executes the
    tasks, for example a :class:`~dumpfilter.spark_jobs.engines.ThreadRunner`. If an earlier run with equal
    files and options wrote the directory, nothing is written.

    Raises BinlogError with file and position for a damaged binlog. Raises TransactionSpans for a transaction with
    events for several outputs if the options refuse it, and OutputError if a file cannot be written. After an error the
    directory is unchanged.
    """
    options = options or SplitOptions()
    indexed = index_set(source, run, options)
    files, ranges = indexed.files, indexed.ranges
    warnings = indexed.warnings() + indexed.told_of_xa("in every binlog")
    job = _digest(files, options)
    paths = [Path(one.path) for one in files if "://" not in one.path]
    with OutputDirectory(output, job, overwrite=options.overwrite, sources=paths) as out:
        if out.finished is not None:
            return SplitResult(out.finished, already=True)
        staging = out.staging
        amount = amount_of(ranges, options.range_size)
        plan = PlanRange(
            options=options,
            specification=options.specification,
            staging=staging,
            names=indexed.newest.names,
            unknown_xa_schemas=schemas_among(indexed.subjects),
        )
        run(plan, ranges, "deciding", amount=amount)
        placing, cut, unassigned = _place(indexed, staging, options)
        run(WriteRange(staging), ranges, "writing", amount=amount)
        written = Path(staging.path, "out")
        sets = [
            _finish_set(name, found, written, options.specification)
            for name, found in sorted(placing.outputs.items())
        ]
        warnings += _warnings(cut, unassigned)
        manifest = Manifest(
            job=job,
            made=now(),
            family=indexed.newest.family,
            names=indexed.newest.names.collation,
            lower_case_table_names=options.specification.lower_case_table_names,
            max_binlog_size=options.max_binlog_size,
            source=[_source_file(one) for one in files],
            binlogs=sets,
            cut_transactions=cut,
            unassigned_transactions=unassigned,
            warnings=warnings,
            verified=options.verify,
        )
        manifest.save(written)
        out.publish()
        return SplitResult(manifest)


def _place(indexed: IndexedSet, staging: Staging, options: SplitOptions) -> tuple[Placing, int, int]:
    """Choose file and offset of all events, and save the choices for the tasks that write.

    Return the placement, the number of transactions divided among outputs, and the number of transactions that no
    output receives. Raises TransactionSpans for a divided transaction if the options refuse it.
    """
    placing = Placing(indexed.files, options.specification.names, options.max_binlog_size)
    cut = unassigned = 0
    for wanted in indexed.ranges:
        plan = RangePlan.load(staging.of_range("plan", wanted.number), with_pieces=False)
        if plan.first_cut is not None and options.spanning == "refuse":
            position, outputs = plan.first_cut
            raise TransactionSpans(
                f"the transaction that begins here belongs in part to {', '.join(outputs)}, which --spanning refuse "
                "does not allow",
                file=indexed.files[wanted.file].name,
                position=position,
            )
        cut, unassigned = cut + plan.cut, unassigned + plan.unassigned
        path = staging.of_range("placement", wanted.number)
        placement = json.dumps(placing.add(wanted, plan))
        with writing(path):
            path.write_text(placement, "ascii")
    return placing, cut, unassigned


def _digest(files: Sequence[FileIndex], options: SplitOptions) -> str:
    """Return a digest of the job's inputs: source files and options. Two runs of the same job have equal digests, so
    the second can use the first one's files.
    """
    about = [
        [(one.name, one.size, one.modified, one.end, one.transactions, one.beginning) for one in files],
        repr(options.specification),
        (options.max_binlog_size, options.spanning, options.on_corrupt, options.verify),
        (options.range_size, options.block_size),
    ]
    return hashlib.sha256(json.dumps(about).encode("utf-8", "surrogateescape")).hexdigest()


def _source_file(index: FileIndex) -> SourceFile:
    return SourceFile(
        name=replace_invalid_utf8(index.name),
        size=index.size,
        end=index.end,
        transactions=index.transactions,
        damage=None if index.damage is None else index.damage.told,
        beginning=index.beginning,
    )


def _warnings(cut: int, unassigned: int) -> list[str]:
    told = []
    if cut:
        told.append(
            f"{cut} transaction{'s are' if cut > 1 else ' is'} in several binlogs, in each with the part that "
            "belongs to it"
        )
    if unassigned:
        told.append(
            f"{unassigned} transaction{'s belong' if unassigned > 1 else ' belongs'} to no binlog of the "
            "specification and "
            f"{'are' if unassigned > 1 else 'is'} in none; a [rest] would have {'them' if unassigned > 1 else 'it'}"
        )
    return told
