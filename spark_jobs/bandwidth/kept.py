"""The file that keeps the measurements of a binlog set for later runs.

The file is a Parquet table with one row per unit. A unit has the bytes and events under one condition (such as "this
table is sent"), from one origin (server and domain), in one time bucket. The table's metadata has all other data as
JSON, and a digest of both. The file contains only numbers and texts, so reading a stranger's file runs no code.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import PositiveInt, TypeAdapter

from dumpfilter import __version__
from dumpfilter.analyse.traffic.facts import COLUMNS, Conditions, Facts, Origin, merge
from dumpfilter.dump.packets.stand_ins import Stretches
from dumpfilter.index.subjects import Subject
from dumpfilter.spark_jobs.bandwidth.measured_set import Measured, MeasuredSet
from dumpfilter.spark_jobs.bandwidth.samples import Samples
from dumpfilter.spark_jobs.ranges import FileIndex, FileVersion, IndexedSet

MEASUREMENTS = "measurements.parquet"
"""The name of the file with the measurements in the output directory."""

FORMAT = 8
"""The format version of the measurements' file. The number grows when a release changes what is measured, or the file's
layout.
"""

_CONDITIONS = {"required": np.int32, "start": np.int64, "member": np.int32}
"""The names and types of the arrays by which the metadata of the measurements' file encodes conditions (such as "this
table is sent").
"""


@dataclass
class _Head:
    """The metadata of the measurements' file: all measurements of a binlog set except the counts of traffic, which are
    the rows of the Parquet table.
    """

    format: int
    dumpfilter: str
    subjects: tuple[Subject, ...]
    origins: tuple[Origin | None, ...]
    conditions: dict[str, list[int]]
    bucket_seconds: PositiveInt
    given_only: bool
    stretches: Stretches
    schema_bytes: dict[str, int]
    samples: Samples
    versions: tuple[FileVersion | None, ...]
    files: tuple[FileIndex, ...]
    unknown_xa: int
    options: tuple[Any, ...]
    filters: str
    measured_at: int


_HEAD = TypeAdapter(_Head)


def write_measurements(measured: MeasuredSet, path: Path) -> None:
    """Write measurements (the counted traffic of a binlog set) to the Parquet file ``path``. A later job can read this
    file instead of the binlogs. Raises OSError if this fails.
    """
    facts = measured.measured.tallied.unified()
    units = {name: getattr(facts, name) for name in COLUMNS}
    head = _Head(
        FORMAT,
        __version__,
        facts.subjects,
        facts.origins,
        {name: getattr(facts.conditions, name).tolist() for name in _CONDITIONS},
        facts.bucket_seconds,
        facts.given_only,
        facts.stretches,
        measured.measured.schema_bytes,
        measured.measured.samples,
        measured.versions,
        measured.indexed.files,
        measured.indexed.unknown_xa,
        measured.options,
        measured.filters,
        measured.measured_at,
    )
    # ASCII, because names can have bytes that are not UTF-8, which Python keeps as lone surrogates.
    text = json.dumps(_HEAD.dump_python(head), default=_to_json).encode("ascii")
    table = pa.table(units)
    with pq.ParquetWriter(path, table.schema, compression="zstd", store_schema=False) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({"head": text, "digest": _digest(text, units)})


def read_measurements(path: Path) -> MeasuredSet | None:
    """Return the measurements (the counted traffic of a binlog set) that :func:`write_measurements` wrote to the file
    ``path``.

    Return None if the file is missing, damaged or inconsistent, or if another release wrote it.
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
        conditions = Conditions(
            *(np.array(head.conditions[name], kind) for name, kind in _CONDITIONS.items())
        )
        facts = Facts(
            head.subjects,
            conditions,
            head.origins,
            head.bucket_seconds,
            head.given_only,
            head.stretches,
            *units.values(),
        )
        # These sums use all indexes in the file, of which a wrong one is an error here.
        merge([facts]).sent(None)
        measured = Measured(facts, head.schema_bytes, head.samples)
        return MeasuredSet(
            head.versions,
            IndexedSet(head.files, (), head.unknown_xa),
            measured,
            head.options,
            head.filters,
            head.measured_at,
        )
    except (OSError, pa.ArrowException, ArithmeticError, LookupError, ValueError, TypeError):
        return None


def _digest(text: bytes, units: dict[str, Any]) -> bytes:
    digest = hashlib.blake2b(text, digest_size=16)
    for column in units.values():
        digest.update(column)
    return digest.hexdigest().encode("ascii")


def _to_json(value: object) -> object:
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    assert isinstance(value, Enum)
    return value.value


def _from_json(found: dict[str, Any]) -> object:
    return bytes.fromhex(found["bytes"]) if found.keys() == {"bytes"} else found
