"""The file in the output directory that keeps the measurements of a binlog set for later runs.

The file is an archive of numpy arrays (``.npz``) with a digest after it. The array ``facts`` is JSON. The other arrays
are the columns of the tally's units, and the verdicts of the filters. Arrays are numbers only, so that a file from
somebody else runs no code.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dumpfilter import __version__
from dumpfilter.binlog.query import TableName
from dumpfilter.dump.stand_ins import Stretches
from dumpfilter.index.subjects import Subject, TableSubject
from dumpfilter.spark_jobs.bandwidth.measure import Measured
from dumpfilter.spark_jobs.bandwidth.measured_set import MeasuredFile, MeasuredSet
from dumpfilter.spark_jobs.ranges.file_versions import FileVersion
from dumpfilter.spark_jobs.ranges.range_index import Damage, FileIndex
from dumpfilter.statement.statement import Statement, StatementKind
from dumpfilter.traffic.facts import EXACTLY, Conditions, Facts, Origin, with_shared_numbers

MEASUREMENTS = "measurements.npz"
"""The name of the file in the output directory."""

FORMAT = 2
"""The version of the file's format. It grows when a release changes what is measured or how it is written."""

_DIGEST = 16
"""The bytes of the digest at the end of the file, after the archive. Damage is found before the archive is opened."""

_UNITS = (
    "condition",
    "origin",
    "bucket",
    "bytes",
    "events",
    "transactions",
    "undecided",
    "stand_ins",
    "stand_in_bytes",
)
"""The columns of a tally with an entry for each unit."""

_CONDITIONS = {"kind": np.uint8, "required": np.int32, "start": np.int64, "member": np.int32}
"""The columns of the conditions, with their types."""


def write_measurements(measured: MeasuredSet, path: Path) -> None:
    """Write measurements to a file. Raises OSError."""
    tallies = [one.summed() for one in with_shared_numbers([one.measured.tallied for one in measured.files])]
    shared = tallies[0]
    arrays: dict[str, npt.NDArray[Any]] = {
        f"unit_{name}": np.concatenate([getattr(one, name) for one in tallies]) for name in _UNITS
    }
    arrays |= {f"condition_{name}": getattr(shared.conditions, name) for name in _CONDITIONS}
    verdicts = measured.verdicts
    with_rules = [one for one in verdicts if one is not None]
    arrays["verdicts"] = np.array(with_rules, np.uint32).reshape(len(with_rules), len(shared.subjects))
    facts = {
        "subjects": [_subject_to_json(subject) for subject in shared.subjects],
        "origins": shared.origins,
        "bucket_seconds": shared.bucket_seconds,
        "options": measured.options,
        "unknown_xa": measured.unknown_xa,
        "measured_at": measured.measured_at,
        "has_rules": [one is not None for one in verdicts],
        "files": [
            {
                "version": one.version and asdict(one.version),
                "index": _index_to_json(one.index),
                "units": len(tally.condition),
                "given_only": tally.given_only,
                "stretches": tally.stretches,
                "schema_bytes": one.measured.schema_bytes,
                "samples": one.measured.samples,
                "transactions": one.measured.transactions,
            }
            for one, tally in zip(measured.files, tallies, strict=True)
        ],
    }
    head = {"format": FORMAT, "dumpfilter": __version__}
    arrays |= {"head": _json_array(head), "facts": _json_array(facts)}
    archive = io.BytesIO()
    np.savez_compressed(archive, **arrays)  # type: ignore[arg-type]  # no array has the name of a parameter
    path.write_bytes(archive.getvalue() + _digest(archive.getvalue()))


def read_measurements(path: Path) -> MeasuredSet | None:
    """Return the measurements in a file.

    Return None if there is no such file, if the file is damaged, or if another release wrote it.
    """
    try:
        data = path.read_bytes()
    except OSError:
        return None
    archive, digest = data[:-_DIGEST], data[-_DIGEST:]
    if digest != _digest(archive):
        return None
    with np.load(io.BytesIO(archive), allow_pickle=False) as arrays:
        if _from_json_array(arrays["head"]) != {"format": FORMAT, "dumpfilter": __version__}:
            return None
        try:
            return _measured_set(arrays, _from_json_array(arrays["facts"]))
        except (ValueError, KeyError, TypeError, IndexError):
            return None


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=_DIGEST).digest()


def _measured_set(arrays: Mapping[str, npt.NDArray[Any]], facts: Any) -> MeasuredSet:
    """Return the measurements in these arrays. Raises ValueError, KeyError, TypeError or IndexError for a damaged
    file."""
    subjects = tuple(map(_subject_from_json, facts["subjects"]))
    origins = tuple(None if one is None else Origin(*one) for one in facts["origins"])
    conditions = Conditions(**{name: arrays[f"condition_{name}"] for name in _CONDITIONS})
    rows = iter(arrays["verdicts"])
    verdicts = tuple(next(rows) if has_rules else None for has_rules in facts["has_rules"])
    units = {name: arrays[f"unit_{name}"] for name in _UNITS}
    _check(units, conditions, len(subjects), len(origins), len(verdicts))
    files, first = [], 0
    for one in facts["files"]:
        places = slice(first, first + one["units"])
        first += one["units"]
        tallied = Facts(
            subjects,
            conditions,
            origins,
            facts["bucket_seconds"],
            one["given_only"],
            Stretches(*one["stretches"]),
            **{name: column[places] for name, column in units.items()},
        )
        measured = Measured(
            tallied,
            one["schema_bytes"],
            {name: (raw, compressed) for name, (raw, compressed) in one["samples"].items()},
            (one["transactions"][0], one["transactions"][1]),
        )
        version = one["version"] and FileVersion(**one["version"])
        files.append(MeasuredFile(version, _index_from_json(one["index"]), measured))
    return MeasuredSet(
        tuple(files), tuple(facts["options"]), facts["unknown_xa"], verdicts, facts["measured_at"]
    )


def _check(
    units: Mapping[str, npt.NDArray[Any]],
    conditions: Conditions,
    subjects: int,
    origins: int,
    filters: int,
) -> None:
    """Raise ValueError for numbers that name nothing, because compiled code reads arrays without a check of bounds."""
    n, start, member = len(conditions.kind), conditions.start, conditions.member
    exactly = np.repeat(conditions.kind == EXACTLY, np.diff(start)) if len(start) == n + 1 else None
    is_whole = (
        len({len(column) for column in units.values()}) == 1
        and all(column.dtype == np.int64 for column in units.values())
        and all(getattr(conditions, name).dtype == dtype for name, dtype in _CONDITIONS.items())
        and exactly is not None
        and start[0] == 0
        and start[-1] == len(member)
        and (np.diff(start) >= 0).all()
        and len(conditions.required) == n
        and _within(conditions.required, -1, subjects)
        and _within(member[~exactly], 0, subjects)
        and _within(member[exactly], -1, filters)
        and _within(units["condition"], 0, n)
        and _within(units["origin"], 0, origins)
    )
    if not is_whole:
        raise ValueError("the arrays contradict one another")


def _within(numbers: npt.NDArray[Any], first: int, end: int) -> bool:
    return not len(numbers) or bool(numbers.min() >= first and numbers.max() < end)


def _subject_to_json(subject: Subject) -> list[Any]:
    if isinstance(subject, TableSubject):
        return [subject.database, subject.table]
    return [
        subject.kind.value,
        subject.current_database,
        subject.database,
        subject.updated_databases,
        subject.updated,
        subject.involved,
    ]


def _subject_from_json(fields: list[Any]) -> Subject:
    if len(fields) == 2:
        return TableSubject(*fields)
    kind, current, database, databases, updated, involved = fields
    return Statement(
        StatementKind(kind),
        current,
        database,
        None if databases is None else tuple(databases),
        None if updated is None else tuple(tuple(TableName(*table) for table in some) for some in updated),
        tuple(TableName(*table) for table in involved),
    )


def _index_to_json(index: FileIndex) -> dict[str, Any]:
    fields = vars(replace(index, bounds=())) | {"damage": index.damage and asdict(index.damage)}
    for name in ("format_description", "prolog"):
        fields[name] = base64.b64encode(fields[name]).decode()
    return fields


def _index_from_json(fields: dict[str, Any]) -> FileIndex:
    for name in ("format_description", "prolog"):
        fields[name] = base64.b64decode(fields[name])
    fields["bounds"] = ()
    fields["times"] = tuple((first, last) for first, last in fields["times"])
    fields["damage"] = fields["damage"] and Damage(**fields["damage"])
    return FileIndex(**fields)


def _json_array(value: object) -> npt.NDArray[np.uint8]:
    # ASCII, because names can have bytes that are not UTF-8, which Python keeps as lone surrogates.
    return np.frombuffer(json.dumps(value, ensure_ascii=True).encode("ascii"), np.uint8)


def _from_json_array(array: npt.NDArray[np.uint8]) -> Any:
    return json.loads(array.tobytes())
