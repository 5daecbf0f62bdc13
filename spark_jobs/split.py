"""The split: one binlog set in, several out (WL#2387, "Binlog extensions").

Every schema has one, or a specification says which filter's events go to which named binlog. Files are indexed
(:mod:`spark_jobs.cutting`) and cut into ranges of whole transactions; tasks plan who gets what of a range
(:mod:`~spark_jobs.splitting.sharing`); the driver decides where it goes (:mod:`~spark_jobs.splitting.placing`); tasks
write it there (:mod:`~spark_jobs.splitting.writing`); the driver finishes and publishes the sets.

For spark-submit this file is the program: ``spark-submit … spark_jobs/split.py SOURCE --output DIRECTORY``, with the
options of ``dumpfilter split``.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal

from dumpfilter.binlog.format import FormatDescription
from dumpfilter.binlog.writer import writing
from dumpfilter.errors import BinlogError, BinlogMissing
from spark_jobs.cutting import RANGE_SIZE, FileIndex, follow_xa, index_file, look_for_xa, ranges_of
from spark_jobs.files import find_set
from spark_jobs.jobs import Runner, slices_for
from spark_jobs.ranges import BLOCK_SIZE, Range
from spark_jobs.splitting.finishing import finish_set, printable, sync_ranges
from spark_jobs.splitting.manifest import Manifest, SourceFile, now
from spark_jobs.splitting.output import OutputDirectory
from spark_jobs.splitting.ownership import encoded_schemas
from spark_jobs.splitting.placing import Placing
from spark_jobs.splitting.plans import RangePlan
from spark_jobs.splitting.specification import BY_SCHEMA, Specification
from spark_jobs.splitting.writing import PlanRange, Staging, WriteRange

MAX_BINLOG_SIZE = 1 << 30
"""Bytes, the servers' default of max_binlog_size."""


Spanning = Literal["part", "refuse"]
"""What is done with a transaction of which a binlog has a part only, while another has something of it, too: each gets
the part that belongs to it, or the split fails."""

OnCorrupt = Literal["stop", "skip"]
"""What is done with a damaged file: the job fails, or the file is taken as far as it is whole and that is told."""


class TransactionSpans(BinlogError):
    """A transaction belongs to several binlogs in part, which was to be refused."""


@dataclass(frozen=True)
class SplitOptions:
    """What to make and how. Sizes in bytes; ``verify``: the events' checksums on reading."""

    specification: Specification = BY_SCHEMA
    max_binlog_size: int = MAX_BINLOG_SIZE
    spanning: Spanning = "part"
    on_corrupt: OnCorrupt = "stop"
    overwrite: bool = False
    verify: bool = True
    range_size: int = RANGE_SIZE
    block_size: int = BLOCK_SIZE


@dataclass
class SplitResult:
    """What the split wrote, or found written."""

    manifest: Manifest
    already: bool = False
    """Whether the same job had been done before."""
    warnings: list[str] = field(default_factory=list)


def split(
    source: str | Path | Sequence[str | Path], output: Path, run: Runner, options: SplitOptions | None = None
) -> SplitResult:
    """Split a binlog set into ``output``. ``run`` runs the tasks: a :class:`~spark_jobs.jobs.SparkRunner`.

    Raises BinlogError with file and position, TransactionSpans, or OutputError; then nothing has appeared.
    """
    options = options or SplitOptions()
    indexes, ranges, everywhere, warnings = index_set(source, run, options)
    job = _digest(indexes, options)
    paths = [Path(one.path) for one in indexes if "://" not in one.path]
    with OutputDirectory(output, job, overwrite=options.overwrite, sources=paths) as out:
        if out.finished is not None:
            return SplitResult(out.finished, already=True)
        staging, files = out.staging, tuple(indexes)
        slices = slices_for(sum(r.end - r.start for r in ranges), options.range_size, len(ranges))
        verify = options.verify and options.on_corrupt == "stop"  # else the index pass has
        plan = PlanRange(files, options.specification, staging, everywhere, verify, options.block_size)
        run(plan, ranges, "deciding", slices=slices)
        placing, cut, unassigned = _place(indexes, ranges, staging, options)
        run(WriteRange(files, staging, _boot()), ranges, "writing", slices=slices)
        sets = [
            finish_set(name, found, staging, indexes, options.specification)
            for name, found in sorted(placing.outputs.items())
        ]
        sync_ranges(staging, [one.number for one in ranges])
        warnings += _told(cut, unassigned)
        manifest = Manifest(
            job=job,
            made=now(),
            family=_family(indexes),
            lower_case_table_names=options.specification.lower_case_table_names,
            max_binlog_size=options.max_binlog_size,
            source=[_source_file(one) for one in indexes],
            binlogs=sets,
            cut_transactions=cut,
            unassigned_transactions=unassigned,
            warnings=warnings,
        )
        manifest.save(Path(staging.path, "out"))
        out.publish()
        return SplitResult(manifest)


def index_set(
    source: str | Path | Sequence[str | Path], run: Runner, options: SplitOptions
) -> tuple[list[FileIndex], list[Range], tuple[str, ...], list[str]]:
    """The index of every file, the ranges, the schemas that the ends of unknown XA transactions go to, and what is to
    be told. Raises BinlogError with file and position."""
    paths = find_set(str(source) if isinstance(source, str | Path) else [str(one) for one in source])
    skip = options.on_corrupt == "skip"
    index = partial(
        _index,
        files=len(paths),
        range_size=options.range_size,
        block_size=options.block_size,
        verify=options.verify and skip,
        skip=skip,
    )
    indexes = run(index, list(enumerate(paths)), "indexing")
    if not any(one.format_description for one in indexes):
        damage = indexes[0].damage
        assert damage is not None
        raise BinlogMissing(f"no file of the set can be read; the first: {damage.reason}", file=damage.file)
    warnings = [
        f"{one.damage.file}: {_from(one.damage.position)} passed over: {one.damage.reason}"
        for one in indexes
        if one.damage is not None
    ]
    ranges = ranges_of(indexes)
    everywhere: tuple[str, ...] = ()
    if any(one.has_xa for one in indexes):
        look = partial(_look, paths=tuple(paths), block_size=options.block_size)
        looks = run(look, ranges, "following XA transactions")
        ranges, unknown = follow_xa(ranges, looks)
        if unknown:
            warnings.append(
                f"{len(unknown)} XA transaction{'s end' if len(unknown) > 1 else ' ends'} here without having begun "
                "here: the XA COMMIT or XA ROLLBACK is in every binlog"
            )
            subjects = frozenset().union(*(found.subjects for found in looks))
            everywhere = tuple(sorted({name for one in subjects for name in encoded_schemas(one)}))
    return indexes, ranges, everywhere, warnings


def _index(
    numbered: tuple[int, str], *, files: int, range_size: int, block_size: int, verify: bool, skip: bool
) -> FileIndex:
    number, path = numbered
    return index_file(
        number,
        path,
        last=number == files - 1,
        range_size=range_size,
        block_size=block_size,
        verify=verify,
        skip=skip,
    )


def _look(wanted: Range, *, paths: tuple[str, ...], block_size: int):  # type: ignore[no-untyped-def]
    return look_for_xa(paths[wanted.file], wanted, block_size=block_size)


def _place(
    indexes: list[FileIndex], ranges: list[Range], staging: Staging, options: SplitOptions
) -> tuple[Placing, int, int]:
    """Place everything; how many transactions are cut up, and how many are nobody's."""
    placing = Placing(indexes, options.specification.names, options.max_binlog_size)
    cut = unassigned = 0
    for wanted in ranges:
        plan = RangePlan.load(staging.plan(wanted.number))
        if plan.first_cut is not None and options.spanning == "refuse":
            position, outputs = plan.first_cut
            raise TransactionSpans(
                f"the transaction that begins here belongs in part to {', '.join(outputs)}, which --spanning refuse "
                "does not allow",
                file=indexes[wanted.file].name,
                position=position,
            )
        cut, unassigned = cut + plan.cut, unassigned + plan.unassigned
        path = staging.placement(wanted.number)
        placement = json.dumps(placing.add(wanted, plan))
        with writing(path):
            path.write_text(placement, "ascii")
    return placing, cut, unassigned


def _digest(indexes: list[FileIndex], options: SplitOptions) -> str:
    """Equal of equal jobs."""
    about = [
        [
            (one.name, one.size, one.modified, one.end, one.transactions, one.format_description.hex())
            for one in indexes
        ],
        options.specification.digest,
        (options.max_binlog_size, options.spanning, options.on_corrupt, options.verify),
        (options.range_size, options.block_size),
    ]
    return hashlib.sha256(json.dumps(about).encode("utf-8", "surrogateescape")).hexdigest()


def _boot() -> str:
    """What tells one boot of this machine from another."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""


def _family(indexes: list[FileIndex]) -> str:
    newest = next(one for one in reversed(indexes) if one.format_description)
    return FormatDescription.parse(newest.format_description, file=newest.name).family


def _source_file(index: FileIndex) -> SourceFile:
    damage = None
    if index.damage is not None:
        damage = f"{_from(index.damage.position)}: {index.damage.reason}"
    return SourceFile(
        name=printable(index.name),
        size=index.size,
        end=index.end,
        transactions=index.transactions,
        damage=damage,
    )


def _from(position: int | None) -> str:
    return "all of it" if position is None else f"from {position} on"


def _told(cut: int, unassigned: int) -> list[str]:
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


def main(arguments: Sequence[str] | None = None) -> None:
    """``dumpfilter split``, for spark-submit."""
    from dumpfilter.cli import main as cli

    sys.argv = ["dumpfilter", "split", *(sys.argv[1:] if arguments is None else arguments)]
    cli()


if __name__ == "__main__":
    main()
