"""The file in the output directory that keeps the measurements of a binlog set for later runs.

The file is a Parquet table with a row for each unit of the facts. Its metadata is JSON with everything else, and a
digest of both. The file holds numbers and texts only, so that a file from somebody else runs no code.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import TypeAdapter, ValidationError

from dumpfilter import __version__
from dumpfilter.dump.stand_ins import Stretches
from dumpfilter.index.subjects import Subject
from dumpfilter.spark_jobs.bandwidth.measure import Measured
from dumpfilter.spark_jobs.bandwidth.measured_set import MeasuredFile, MeasuredSet
from dumpfilter.spark_jobs.ranges.file_versions import FileVersion
from dumpfilter.spark_jobs.ranges.range_index import FileIndex
from dumpfilter.spark_jobs.samples import Samples
from dumpfilter.traffic.facts import COLUMNS, Conditions, Facts, Origin, with_shared_numbers

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
