"""The output of the bandwidth job: tables on the terminal, and files with JSON, Parquet tables and the report.

All files are published together or not at all.

The models of the results define the tables' columns and their meanings.

One more file keeps the measurements of the binlog set for later runs
(:func:`~dumpfilter.spark_jobs.bandwidth.kept.write_measurements`).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from rich.console import Console
from rich.text import Text

from dumpfilter.analyse.report.measures import Audience
from dumpfilter.analyse.report.output import REPORT, RESULTS, check_output, written_together
from dumpfilter.analyse.report.parquet import (
    INT,
    TEXT,
    TIME,
    Column,
    ParquetTable,
    columns_of,
    flat,
    write_tables,
)
from dumpfilter.analyse.report.terminal import table, warn
from dumpfilter.analyse.report.text import (
    MONTH_HOURS,
    human_bytes,
    human_files,
    human_gigabytes,
    human_percent,
    human_price,
    share,
)
from dumpfilter.index.fileset import BinlogSet
from dumpfilter.spark_jobs.bandwidth.job import measure_and_evaluate
from dumpfilter.spark_jobs.bandwidth.kept import MEASUREMENTS, read_measurements, write_measurements
from dumpfilter.spark_jobs.bandwidth.measured_set import MeasuredSet
from dumpfilter.spark_jobs.bandwidth.report import Group, by_saving, render_report
from dumpfilter.spark_jobs.bandwidth.results import (
    Month,
    Results,
    RuleSaving,
    SlaveFigures,
    TableFigures,
    TableShare,
    Totals,
    Ways,
    compression_name,
)
from dumpfilter.spark_jobs.engines import Runner
from dumpfilter.spark_jobs.options import BandwidthOptions
from dumpfilter.topology.slaves_file import SlaveDefinition

SLAVE, NO_FILTER = "slave", "no filter"
"""The two values of the column ``kind`` in the Parquet table ``traffic``: a row about a slave with its filter, and a
row about a slave without a filter.
"""

_SLAVE = Column("slave", TEXT, "The slave's name.")


_OF_SLAVES = {"rule_savings", "tables"}
"""The fields of a slave's results that have their own tables."""

FORMS: Mapping[str, ParquetTable] = {
    "slaves": ParquetTable("each slave", tuple(columns_of(SlaveFigures, without=_OF_SLAVES))),
    "rules": ParquetTable("each rule of each slave", (_SLAVE, *columns_of(RuleSaving))),
    "tables": ParquetTable("each table of the source", tuple(columns_of(TableFigures))),
    "slave_tables": ParquetTable("each table that a slave is sent", (_SLAVE, *columns_of(TableShare))),
    "traffic": ParquetTable(
        "each time bucket of each slave, and of a slave without a filter. Rows ascend by `kind`, `slave`, `start`",
        (
            Column(
                "kind",
                TEXT,
                "`slave` with the filter on the master, or `no filter` for one slave without it. Add up one kind only.",
            ),
            Column("slave", TEXT, "The slave's name; null for the kind `no filter`."),
            Column("start", TIME, "The beginning of the bucket."),
            Column("seconds", INT, "The length of the bucket, seconds."),
            Column("bytes", INT, "Bytes in the bucket, for the readers of `--for`."),
        ),
    ),
}
"""The columns of all Parquet tables, by the table's name. The documentation is made from them, too (``python
tools/doc_tables.py``).
"""


def tables(results: Results) -> dict[str, pa.Table]:
    """Return a job's results as Arrow tables, by the table's name: ``slaves``, ``rules``, ``tables``, ``slave_tables``
    and ``traffic``. :data:`FORMS` defines their columns.
    """
    rows: dict[str, Iterable[dict[str, Any]]] = {
        "slaves": (flat(one.model_dump(exclude=_OF_SLAVES)) for one in results.slaves),
        "rules": _of_slaves(results, "rule_savings"),
        "tables": (one.model_dump() for one in results.tables),
        "slave_tables": _of_slaves(results, "tables"),
        "traffic": (
            {
                "kind": NO_FILTER if name is None else SLAVE,
                "slave": name,
                "start": start,
                "seconds": results.bucket_seconds,
                "bytes": nbytes,
            }
            for name, column in [(None, results.series.no_filter), *sorted(results.series.slaves.items())]
            for start, nbytes in zip(results.bucket_starts, column, strict=True)
        ),
    }
    return {name: form.of_rows(rows[name]) for name, form in FORMS.items()}


def _of_slaves(results: Results, field: str) -> Iterable[dict[str, Any]]:
    return ({"slave": one.name, **row.model_dump()} for one in results.slaves for row in getattr(one, field))


FILES = frozenset({RESULTS, REPORT, MEASUREMENTS, *(f"{name}.parquet" for name in FORMS)})
"""The names of all files that a bandwidth job writes to its output directory."""


def results_for(
    directory: Path,
    source: str | Sequence[str],
    slaves: Sequence[SlaveDefinition],
    run: Runner,
    options: BandwidthOptions,
    progress: Console,
    *,
    overwrite: bool,
) -> tuple[Results, MeasuredSet]:
    """Return the results for these slaves, and the measurements (the counted traffic of the binlogs) from which they
    were computed.

    If ``directory`` has measurements of an earlier run that fit, no binlog is read.

    Parameters:
        directory: the output directory of the job, which this function only checks and reads.
        source: the binlog set's index file, a directory with an index file, or a list of binlog files.
        run: executes the tasks. It is called only if binlogs must be read.
        progress: receives a line about reused measurements.
        overwrite: whether ``directory`` may contain results of other binlogs, and other files beside them.

    Raises OutputError if ``directory`` has files that the job may not replace. Raises BinlogError for a damaged binlog,
    unless ``options.on_corrupt`` is ``skip``. Raises OptionError for a bad rule or option.
    """
    kept = read_measurements(directory / MEASUREMENTS)
    if kept is not None and not kept.is_of(BinlogSet.open(source).addresses):
        kept = None
    # New results of the same binlogs take the place of the old ones. The option is for everything else.
    check_output(directory, overwrite=overwrite, replaced=() if kept is None else FILES)
    results, measured = measure_and_evaluate(source, slaves, run, options, kept)
    if kept is not None:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(kept.measured_at))
        told = (
            f"from the measurements of {when}: the binlogs have not changed"
            if measured is kept
            else f"the binlogs were read again: they have changed since {when}, or other options or filters need it"
        )
        progress.print(told, soft_wrap=True, highlight=False)
    return results, measured


def write_results(results: Results, directory: Path, measured: MeasuredSet | None = None) -> None:
    """Write the JSON file, the Parquet tables and the HTML report of a bandwidth job into ``directory``. The new files
    replace everything that the directory has.

    ``measured`` are measurements to write into the directory, too, for later jobs (None: none). Raises OutputError if a
    file cannot be written; ``directory`` is then unchanged.
    """
    with written_together(directory) as beside:
        (beside / RESULTS).write_text(results.model_dump_json(indent=1) + "\n", "utf-8")
        (beside / REPORT).write_text(render_report(results), "utf-8")
        write_tables(tables(results), beside)
        if measured is not None:
            write_measurements(measured, beside / MEASUREMENTS)


TOP = 20
"""The default of ``--top``: the largest number of slaves in the printed table, which has a row for each."""

_MOST_WARNINGS = 4
"""The maximum number of warnings that the terminal shows. The page and the JSON file have all of them."""


def print_results(results: Results, console: Console, top: int = TOP) -> None:
    """Print a table of bytes with a row for each slave, or group of equal slaves, and a row of sums. Then print a table
    of a month's traffic, and the remarks.

    Rows are in descending order of savings. ``top`` is the maximum number of rows of slaves.
    """
    source, totals, audience = results.source, results.totals, results.audience
    files = human_files(len(source.files))
    groups = by_saving(results)
    rows = [(_name(group), *_cells(group.ways)) for group in groups[:top]]
    if totals.slaves > 1:
        rows.append((_all(totals), *_cells(totals.bytes)))
    readers = "real replicas" if audience is Audience.REPLICAS else "slaves of dumpfilter"
    bound = ", at most" if audience is Audience.REPLICAS and totals.is_upper_bound else ""
    _print_table(
        f"{files}, {source.bytes:,} bytes, {source.transactions:,} transactions; bytes for {readers}{bound}",
        ("no filter", "filter", "saved", "~ zstd", "~ both"),
        rows,
        console,
    )
    if any(slave.month is not None for slave in results.slaves):
        _print_month(results, groups[:top], console)
    if len(groups) > top:
        more = f"{len(groups) - top:,} more row{'s' if len(groups) > top + 1 else ''}"
        console.print(f"… and {more} (--top {len(groups)} shows all)")
    remarks = [*results.remarks, f"~ is an estimate with zstd {compression_name(results)}."]
    for remark in remarks:
        console.print(remark, markup=False)


def print_warnings(results: Results, console: Console) -> None:
    """Print the skipped damaged files and the first four warnings. A terminal shows long warnings on several lines, and
    in a pipe each warning is one line.
    """
    shown = list(dict.fromkeys(results.warnings))
    for warning in (*map(str, results.skipped), *shown[:_MOST_WARNINGS]):
        warn(console, warning)
    if len(shown) > _MOST_WARNINGS:
        more = Text(
            f"… and {len(shown) - _MOST_WARNINGS:,} more in the results (dumpfilter lint shows warnings about filters "
            "with their events)"
        )
        console.print(more, soft_wrap=not console.is_terminal, highlight=False)


def _all(totals: Totals) -> str:
    """Return the label of the row of sums in a printed table: "all 5" for five slaves. The label is "4 of 5" if the
    sums leave out a slave whose filter passes nothing.
    """
    if not totals.slaves_left_out:
        return f"all {totals.slaves:,}"
    return f"{totals.slaves:,} of {totals.slaves + totals.slaves_left_out:,}"


def _cells(ways: Ways) -> Iterable[str]:
    saved = human_percent(share(ways.no_filter - ways.filter, ways.no_filter))
    return (
        human_bytes(ways.no_filter),
        human_bytes(ways.filter),
        saved,
        human_bytes(ways.compression),
        human_bytes(ways.both),
    )


def _name(group: Group) -> str:
    return group.name + (f" ×{group.count:,}" if group.count > 1 else "")


def _print_month(results: Results, groups: Sequence[Group], console: Console) -> None:
    price = results.price_per_gb
    title = f"GB a month of {MONTH_HOURS} hours" + (
        "" if price is None else f" (and the price at {price:g} a GB)"
    )
    rows = [
        (_name(group), *_month_cells(group.figures.month))
        for group in groups
        if group.figures.month is not None
    ]
    total = results.totals.month
    if results.totals.slaves > 1 and total is not None:
        rows.append((_all(results.totals), *_month_cells(total)))
    _print_table(title, ("no filter", "filter", "~ zstd", "~ both"), rows, console)


def _month_cells(month: Month) -> Iterable[str]:
    for name in Ways.model_fields:
        amount = human_gigabytes(getattr(month.bytes, name))
        yield amount if month.price is None else f"{amount} ({human_price(getattr(month.price, name))})"


def _print_table(title: str, heads: Sequence[str], rows: Iterable[Sequence[str]], console: Console) -> None:
    console.print(Text(title, "bold"), soft_wrap=True)
    console.print(table(("slave", *heads), rows, numbers=heads, framed=False))
    console.print()
