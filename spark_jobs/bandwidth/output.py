"""The output files of the bandwidth job: JSON, Parquet tables, and the report. They appear together or not at all."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel

from dumpfilter.binlog.writer import sync_path, writing
from dumpfilter.errors import OutputError
from dumpfilter.spark_jobs.bandwidth.report import render_report
from dumpfilter.spark_jobs.bandwidth.results import Peak, RealReplica, Results

RESULTS = "results.json"
REPORT = "report.html"


_OPTIONAL: Mapping[str, type[BaseModel]] = {"peak_no_filter": Peak, "peak": Peak, "real_replica": RealReplica}
"""The members of a slave's figures that can be missing, with their classes."""


def check_output(directory: Path, *, overwrite: bool) -> None:
    """Check before a long job that its output directory can be written.

    Raises OutputError if the directory cannot be written or holds other files. Results of an earlier job are an error,
    too, unless ``overwrite`` is set.
    """
    if directory.exists() and not directory.is_dir():
        raise OutputError(f"{directory}: is not a directory")
    if directory.exists() and any(directory.iterdir()):
        if not (directory / RESULTS).exists():
            raise OutputError(f"{directory}: holds other files; name another directory")
        if not overwrite:
            raise OutputError(f"{directory}: holds other results; name another directory or use --overwrite")
    with writing(directory):
        directory.absolute().parent.mkdir(parents=True, exist_ok=True)
        beside = _beside(directory)
        beside.mkdir()
        beside.rmdir()


def write_results(results: Results, directory: Path) -> None:
    """Write the JSON file, the Parquet tables and the report of a bandwidth job into ``directory``.

    Raises OutputError if a file cannot be written. The directory is then unchanged.
    """
    directory = directory.absolute()
    beside, old = _beside(directory), _beside(directory)
    with writing(directory):
        try:
            beside.mkdir(parents=True)
            (beside / RESULTS).write_text(results.model_dump_json(indent=1) + "\n", "utf-8")
            (beside / REPORT).write_text(render_report(results), "utf-8")
            for name, table in tables(results).items():
                pq.write_table(table, beside / f"{name}.parquet", compression="zstd")
            for path in beside.iterdir():
                sync_path(path)
            sync_path(beside)
            if directory.exists():
                os.rename(directory, old)
            os.rename(beside, directory)
            sync_path(directory.parent)
        except BaseException:
            if old.exists() and not directory.exists():
                os.rename(old, directory)
            shutil.rmtree(beside, ignore_errors=True)
            raise
    shutil.rmtree(old, ignore_errors=True)


def tables(results: Results) -> dict[str, pa.Table]:
    """Return a job's results as Arrow tables by name, one for each Parquet file.

    The names are ``slaves``, ``rules``, ``tables``, ``slave_tables`` and ``traffic``.
    """
    starts = results.bucket_starts
    series = {"": results.series.no_filter, **results.series.slaves}
    return {
        "slaves": _table(_slave_row(one) for one in results.slaves),
        "rules": _table(
            {"slave": one.name, **saving.model_dump()}
            for one in results.slaves
            for saving in one.rule_savings
        ),
        "tables": _table(one.model_dump() for one in results.tables),
        "slave_tables": _table(
            {"slave": one.name, **share.model_dump()} for one in results.slaves for share in one.tables
        ),
        # A row whose slave is null holds the traffic that a slave without a filter would receive.
        "traffic": _table(
            {"slave": name or None, "start": start, "bytes": nbytes}
            for name, column in series.items()
            for start, nbytes in zip(starts, column, strict=True)
        ),
    }


def _slave_row(one: Any) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for name, value in one.model_dump(exclude={"tables", "rule_savings"}).items():
        if isinstance(value, Mapping):
            row |= {f"{name}_{key}": inner for key, inner in value.items()}
        elif name in _OPTIONAL:
            # The first row decides which columns the table has.
            row |= {f"{name}_{key}": None for key in _OPTIONAL[name].model_fields}
        else:
            row[name] = list(value) if isinstance(value, tuple) else value
    return row


def _table(rows: Any) -> pa.Table:
    return pa.Table.from_pylist(list(rows))


def _beside(directory: Path) -> Path:
    directory = directory.absolute()
    return directory.parent / f".{directory.name}.{uuid.uuid4().hex[:12]}"
