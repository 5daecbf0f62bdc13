"""The output files of the bandwidth job: JSON, Parquet tables, and the report. They appear together or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel

from dumpfilter.report.output import REPORT, RESULTS, written_together
from dumpfilter.spark_jobs.bandwidth.kept import MEASUREMENTS, write_measurements
from dumpfilter.spark_jobs.bandwidth.measured_set import MeasuredSet
from dumpfilter.spark_jobs.bandwidth.report import render_report
from dumpfilter.spark_jobs.bandwidth.results import Peak, RealReplica, Results

_OPTIONAL: Mapping[str, type[BaseModel]] = {"peak_no_filter": Peak, "peak": Peak, "real_replica": RealReplica}
"""The members of a slave's figures that can be missing, with their classes."""


def write_results(results: Results, directory: Path, measured: MeasuredSet | None = None) -> None:
    """Write the JSON file, the Parquet tables and the report of a bandwidth job into ``directory``.

    With ``measured``, the measurements are kept there for later jobs. Raises OutputError if a file cannot be written.
    The directory is then unchanged.
    """
    with written_together(directory) as beside:
        (beside / RESULTS).write_text(results.model_dump_json(indent=1) + "\n", "utf-8")
        (beside / REPORT).write_text(render_report(results), "utf-8")
        for name, table in tables(results).items():
            pq.write_table(table, beside / f"{name}.parquet", compression="zstd")
        if measured is not None:
            write_measurements(measured, beside / MEASUREMENTS)


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
