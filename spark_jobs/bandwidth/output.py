"""The output files of the bandwidth job: JSON, Parquet tables, and the report. They appear together or not at all.

The models of the results say which columns the tables have, and what the columns mean.

One more file keeps the measurements of the binlog set for later runs. The file is a Parquet table with a row for each
unit of the facts. Its metadata is JSON with everything else, and a digest of both. The file holds numbers and texts
only, so that a file from somebody else runs no code.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel, TypeAdapter, ValidationError

from dumpfilter import __version__
from dumpfilter.analyse.report.output import REPORT, RESULTS, written_together
from dumpfilter.analyse.report.parquet import (
    TEXT,
    Column,
    ParquetTable,
    UnixTime,
    columns_of,
    flat,
    write_tables,
)
from dumpfilter.analyse.traffic.facts import COLUMNS, Conditions, Facts, Origin, with_shared_numbers
from dumpfilter.dump.stand_ins import Stretches
from dumpfilter.index.subjects import Subject
from dumpfilter.spark_jobs.bandwidth.measured_set import FileVersion, Measured, MeasuredFile, MeasuredSet
from dumpfilter.spark_jobs.bandwidth.report import render_report
from dumpfilter.spark_jobs.bandwidth.results import (
    Results,
    RuleSaving,
    SlaveFigures,
    TableFigures,
    TableShare,
)
from dumpfilter.spark_jobs.ranges.range_index import FileIndex
from dumpfilter.spark_jobs.samples import Samples

SLAVE, NO_FILTER = "slave", "no filter"
"""The kinds of rows of the table ``traffic``."""

_SLAVE = Column("slave", TEXT, "The slave's name.")


class _Traffic(BaseModel):
    """A row of the table ``traffic``."""

    kind: str
    """`slave` with the filter on the master, or `no filter` for one slave without it. Add up one kind only."""
    slave: str | None
    """The slave's name; null for the kind `no filter`."""
    start: UnixTime
    """The beginning of the bucket."""
    seconds: int
    """The length of the bucket, seconds."""
    bytes: int
    """Bytes in the bucket, for the readers of `--for`."""


_OF_SLAVES = {"rule_savings", "tables"}
"""The figures of a slave that have tables of their own."""

FORMS: Mapping[str, ParquetTable] = {
    "slaves": ParquetTable("each slave", tuple(columns_of(SlaveFigures, without=_OF_SLAVES))),
    "rules": ParquetTable("each rule of each slave", (_SLAVE, *columns_of(RuleSaving))),
    "tables": ParquetTable("each table of the source", tuple(columns_of(TableFigures))),
    "slave_tables": ParquetTable("each table that a slave is sent", (_SLAVE, *columns_of(TableShare))),
    "traffic": ParquetTable(
        "each time bucket of each slave, and of a slave without a filter",
        tuple(columns_of(_Traffic)),
        order=("kind", "slave", "start"),
    ),
}
"""The forms of all tables. The documentation has them, too (``python tools/doc_tables.py``)."""


def tables(results: Results) -> dict[str, pa.Table]:
    """Return a job's results as Arrow tables by name, in the forms of :data:`FORMS`."""
    rows: dict[str, Iterable[dict[str, Any]]] = {
        "slaves": (flat(one.model_dump(exclude=_OF_SLAVES)) for one in results.slaves),
        "rules": (
            {"slave": one.name, **saving.model_dump()}
            for one in results.slaves
            for saving in one.rule_savings
        ),
        "tables": (one.model_dump() for one in results.tables),
        "slave_tables": (
            {"slave": one.name, **share.model_dump()} for one in results.slaves for share in one.tables
        ),
        "traffic": (
            {
                "kind": NO_FILTER if name is None else SLAVE,
                "slave": name,
                "start": start,
                "seconds": results.bucket_seconds,
                "bytes": nbytes,
            }
            for name, column in [(None, results.series.no_filter), *results.series.slaves.items()]
            for start, nbytes in zip(results.bucket_starts, column, strict=True)
        ),
    }
    return {name: form.of_rows(rows[name]) for name, form in FORMS.items()}


MEASUREMENTS = "measurements.parquet"
"""The name of the file in the output directory."""

FORMAT = 4
"""The version of the file's format. It grows when a release changes what is measured or how it is written."""

_CONDITIONS = {"kind": np.uint8, "required": np.int32, "start": np.int64, "member": np.int32}
"""The columns of the conditions, with their types."""


@dataclass
class _File:
    """The measurements of one binlog file, but for its units."""

    version: FileVersion | None
    index: FileIndex
    units: int
    """The number of rows of the table that belong to the file, after those of the files before."""
    given_only: bool
    stretches: Stretches
    schema_bytes: dict[str, int]
    samples: Samples


@dataclass
class _Head:
    """The measurements of a binlog set, but for the units."""

    format: int
    dumpfilter: str
    subjects: tuple[Subject, ...]
    origins: tuple[Origin | None, ...]
    conditions: dict[str, list[int]]
    bucket_seconds: int
    options: tuple[Any, ...]
    unknown_xa: int
    verdicts: tuple[str | None, ...]
    measured_at: int
    files: tuple[_File, ...]


_HEAD = TypeAdapter(_Head)


def write_measurements(measured: MeasuredSet, path: Path) -> None:
    """Write measurements to a file. Raises OSError."""
    found = [one.summed() for one in with_shared_numbers([one.measured.tallied for one in measured.files])]
    shared = found[0]
    head = _Head(
        FORMAT,
        __version__,
        shared.subjects,
        shared.origins,
        {name: getattr(shared.conditions, name).tolist() for name in _CONDITIONS},
        shared.bucket_seconds,
        measured.options,
        measured.unknown_xa,
        measured.verdicts,
        measured.measured_at,
        tuple(
            _File(
                one.version,
                replace(one.index, bounds=()),
                len(facts.condition),
                facts.given_only,
                facts.stretches,
                one.measured.schema_bytes,
                one.measured.samples,
            )
            for one, facts in zip(measured.files, found, strict=True)
        ),
    )
    # ASCII, because names can have bytes that are not UTF-8, which Python keeps as lone surrogates.
    text = json.dumps(_HEAD.dump_python(head), default=_to_json).encode("ascii")
    units = {name: np.concatenate([getattr(one, name) for one in found]) for name in COLUMNS}
    table = pa.table(units)
    with pq.ParquetWriter(path, table.schema, compression="zstd", store_schema=False) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({"head": text, "digest": _digest(text, units)})


def read_measurements(path: Path) -> MeasuredSet | None:
    """Return the measurements in a file.

    Return None if there is no such file, if the file is damaged, or if another release wrote it.
    """
    try:
        with pq.ParquetFile(path) as file:
            table, metadata = file.read(), file.metadata.metadata
        units = {name: np.ascontiguousarray(table[name].to_numpy()) for name in COLUMNS}
        text = metadata[b"head"]
        if metadata[b"digest"] != _digest(text, units):
            return None
        raw = json.loads(text, object_hook=_from_json)
        if (raw["format"], raw["dumpfilter"]) != (FORMAT, __version__):
            return None
        head = _HEAD.validate_python(raw)
    except (OSError, pa.ArrowException, ValidationError, ValueError, KeyError, TypeError):
        return None
    conditions = Conditions(*(np.array(head.conditions[name], kind) for name, kind in _CONDITIONS.items()))
    files, first = [], 0
    for one in head.files:
        facts = Facts(
            head.subjects,
            conditions,
            head.origins,
            head.bucket_seconds,
            one.given_only,
            one.stretches,
            **{name: column[first : first + one.units] for name, column in units.items()},
        )
        first += one.units
        measured = Measured(facts, one.schema_bytes, one.samples)
        files.append(MeasuredFile(one.version, one.index, measured))
    return MeasuredSet(tuple(files), head.options, head.unknown_xa, head.verdicts, head.measured_at)


def _digest(text: bytes, units: dict[str, Any]) -> bytes:
    digest = hashlib.blake2b(text, digest_size=16)
    for name in COLUMNS:
        digest.update(units[name])
    return digest.hexdigest().encode("ascii")


def _to_json(value: object) -> object:
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    assert isinstance(value, Enum)
    return value.value


def _from_json(found: dict[str, Any]) -> object:
    return bytes.fromhex(found["bytes"]) if found.keys() == {"bytes"} else found


FILES = frozenset({RESULTS, REPORT, MEASUREMENTS, *(f"{name}.parquet" for name in FORMS)})
"""The names of all output files."""


def write_results(results: Results, directory: Path, measured: MeasuredSet | None = None) -> None:
    """Write the JSON file, the Parquet tables and the report of a bandwidth job into ``directory``.

    With ``measured``, the measurements are kept there for later jobs. Raises OutputError if a file cannot be written.
    The directory is then unchanged.
    """
    with written_together(directory) as beside:
        (beside / RESULTS).write_text(results.model_dump_json(indent=1) + "\n", "utf-8")
        (beside / REPORT).write_text(render_report(results), "utf-8")
        write_tables(FORMS, tables(results), beside)
        if measured is not None:
            write_measurements(measured, beside / MEASUREMENTS)
