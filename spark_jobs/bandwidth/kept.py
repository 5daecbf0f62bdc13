"""The file that keeps the measurements of a binlog set for later runs.

The file is a Parquet table with one row per unit. A unit has the bytes and events under one condition (such as "this
table is sent"), from one origin (server and domain), in one time bucket. The table's metadata has all other data as
JSON, and a digest of both. The file contains only numbers and texts, so reading a stranger's file runs no code.
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
from pydantic import PositiveInt, TypeAdapter

from dumpfilter import __version__
from dumpfilter.analyse.traffic.facts import (
    COLUMNS,
    COUNTS,
    Conditions,
    Facts,
    Origin,
    added_up,
    side_by_side,
)
from dumpfilter.dump.packets.stand_ins import Stretches
from dumpfilter.index.subjects import Subject
from dumpfilter.spark_jobs.bandwidth.measured_set import FileVersion, Measured, MeasuredFile, MeasuredSet
from dumpfilter.spark_jobs.bandwidth.samples import Samples
from dumpfilter.spark_jobs.ranges import FileIndex

MEASUREMENTS = "measurements.parquet"
"""The name of the file with the measurements in the output directory."""

FORMAT = 7
"""The format version of the measurements' file. The number grows when a release changes what is measured, or the file's
layout.
"""

_UNITS = ("file", *COLUMNS)
"""The columns of the table: the index of the binlog file, by which rows are sorted, and the columns of units."""

_CONDITIONS = {"required": np.int32, "start": np.int64, "member": np.int32}
"""The columns of the conditions, with their types."""


@dataclass
class _File:
    """The measurements of one binlog file as the metadata has them. The counts of traffic are not here but in the rows
    of the Parquet table.
    """

    version: FileVersion | None
    index: FileIndex
    given_only: bool
    stretches: Stretches
    schema_bytes: dict[str, int]
    samples: Samples


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
    options: tuple[Any, ...]
    unknown_xa: int
    filters: tuple[str, ...]
    measured_at: int
    files: tuple[_File, ...]


_HEAD = TypeAdapter(_Head)


def write_measurements(measured: MeasuredSet, path: Path) -> None:
    """Write measurements to the Parquet file ``path``, from which a later job reads them instead of the binlogs. Raises
    OSError if this fails.
    """
    parts = [one.measured.tallied for one in measured.files]
    whole = side_by_side(parts)
    conditions, numbers = whole.conditions.folded()
    file = np.repeat(np.arange(len(parts)), [len(one.condition) for one in parts])
    of_unit = [file, numbers[whole.condition], whole.origin, whole.bucket]
    rows = added_up(np.stack([*of_unit, *(getattr(whole, name) for name in COUNTS)], axis=1), keys=4)
    units = dict(zip(_UNITS, np.ascontiguousarray(rows.T), strict=True))
    head = _Head(
        FORMAT,
        __version__,
        whole.subjects,
        whole.origins,
        {name: getattr(conditions, name).tolist() for name in _CONDITIONS},
        whole.bucket_seconds,
        measured.options,
        measured.unknown_xa,
        measured.filters,
        measured.measured_at,
        tuple(
            _File(
                one.version,
                replace(one.index, bounds=()),
                facts.given_only,
                facts.stretches,
                one.measured.schema_bytes,
                one.measured.samples,
            )
            for one, facts in zip(measured.files, parts, strict=True)
        ),
    )
    # ASCII, because names can have bytes that are not UTF-8, which Python keeps as lone surrogates.
    text = json.dumps(_HEAD.dump_python(head), default=_to_json).encode("ascii")
    table = pa.table(units)
    with pq.ParquetWriter(path, table.schema, compression="zstd", store_schema=False) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({"head": text, "digest": _digest(text, units)})


def read_measurements(path: Path) -> MeasuredSet | None:
    """Return the measurements that :func:`write_measurements` wrote to the file ``path``.

    Return None if the file is missing, damaged or inconsistent, or if another release wrote it.
    """
    try:
        with pq.ParquetFile(path) as file:
            table, metadata = file.read(), file.metadata.metadata
        units = {name: np.ascontiguousarray(table[name].to_numpy()) for name in _UNITS}
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
        files = []
        first = np.searchsorted(units["file"], np.arange(len(head.files) + 1)).tolist()
        for one, begin, end in zip(head.files, first, first[1:], strict=False):
            facts = Facts(
                head.subjects,
                conditions,
                head.origins,
                head.bucket_seconds,
                one.given_only,
                one.stretches,
                *(units[name][begin:end] for name in COLUMNS),
            )
            measured = Measured(facts, one.schema_bytes, one.samples)
            files.append(MeasuredFile(one.version, one.index, measured))
        found = MeasuredSet(tuple(files), head.options, head.unknown_xa, head.filters, head.measured_at)
        # These sums use all indexes in the file, of which a wrong one is an error here.
        found.tallied.unified().sent(None)
    except (OSError, pa.ArrowException, ArithmeticError, LookupError, ValueError, TypeError):
        return None
    return found


def _digest(text: bytes, units: dict[str, Any]) -> bytes:
    digest = hashlib.blake2b(text, digest_size=16)
    for name in _UNITS:
        digest.update(units[name])
    return digest.hexdigest().encode("ascii")


def _to_json(value: object) -> object:
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    assert isinstance(value, Enum)
    return value.value


def _from_json(found: dict[str, Any]) -> object:
    return bytes.fromhex(found["bytes"]) if found.keys() == {"bytes"} else found
