"""The output files of the bandwidth job: JSON, Parquet tables, and the report. They appear together or not at all."""

from __future__ import annotations

from pathlib import Path

from dumpfilter.report.output import REPORT, RESULTS, written_together
from dumpfilter.report.parquet import write_tables
from dumpfilter.spark_jobs.bandwidth.kept import MEASUREMENTS, write_measurements
from dumpfilter.spark_jobs.bandwidth.measured_set import MeasuredSet
from dumpfilter.spark_jobs.bandwidth.report import render_report
from dumpfilter.spark_jobs.bandwidth.results import Results
from dumpfilter.spark_jobs.bandwidth.tables import FORMS, tables

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
