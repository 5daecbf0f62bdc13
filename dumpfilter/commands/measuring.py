"""The measurements of a binlog set for a command, taken from an earlier run's output directory where they hold."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from dumpfilter.spark_jobs.bandwidth.measured_set import BandwidthOptions, MeasuredSet
    from dumpfilter.spark_jobs.bandwidth.results import Results
    from dumpfilter.spark_jobs.engines.runner import Runner
    from dumpfilter.topology.slaves_file import SlaveDefinition


def measured_results(
    source: str | list[str],
    slaves: Sequence[SlaveDefinition],
    options: BandwidthOptions,
    output: Path,
    run: Runner,
    progress: Console,
    *,
    overwrite: bool,
) -> tuple[Results, MeasuredSet]:
    """Return the results for these slaves, and the measurements from which they are made.

    Parameters:
        source: the binlog set.
        output: the output directory, which may hold the measurements of an earlier run.
        run: runs the tasks. It is called only if the binlogs must be read.
        progress: gets a line that says what is taken from an earlier run.
        overwrite: whether the directory may hold the results of other binlogs, and other files beside them.

    Raises OutputError for a directory that holds something else, BinlogError and OptionError.
    """
    from dumpfilter.analyse.report.output import check_only, check_output
    from dumpfilter.index.fileset import BinlogSet
    from dumpfilter.spark_jobs.bandwidth.job import measure_and_evaluate
    from dumpfilter.spark_jobs.bandwidth.measured_set import unchanged, versions_of
    from dumpfilter.spark_jobs.bandwidth.output import FILES, MEASUREMENTS, read_measurements

    kept = read_measurements(output / MEASUREMENTS)
    if kept is not None and not kept.is_of(versions_of(BinlogSet.open(source).addresses)):
        kept = None
    # New results of the same binlogs take the place of the old ones. The option is for everything else.
    check_output(output, overwrite=overwrite or kept is not None)
    if not overwrite:
        check_only(output, FILES)

    def tell(text: str) -> None:
        progress.print(text, soft_wrap=True, highlight=False)

    results, measured = measure_and_evaluate(source, slaves, run, options, kept)
    if kept is not None:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(kept.measured_at))
        if measured.reused == len(measured.files):
            tell(f"from the measurements of {when}: the binlogs have not changed")
        elif measured.reused:
            files = f"{measured.reused:,} of {len(measured.files):,} files"
            tell(f"{files} from the measurements of {when}, the others read now")
        elif unchanged(kept, source, options) is not None:
            tell("compressed transactions have other sizes for these filters: the binlogs were read again")
    return results, measured
