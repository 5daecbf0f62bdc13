"""The bandwidth job: the traffic that slaves would receive, with their filters on the master and without filters.

One pass over the binlogs serves any number of slaves (:mod:`dumpfilter.traffic.tally`).

1. The driver indexes the files and divides them into ranges of whole transactions.
2. Each task measures a group of ranges (:mod:`~dumpfilter.spark_jobs.bandwidth.measured_set`).
3. The driver merges the measurements (:mod:`~dumpfilter.spark_jobs.bandwidth.measured_set`) and computes each slave's
   figures (:mod:`~dumpfilter.spark_jobs.bandwidth.evaluate`).

The measurements hold for other filters, too. A later job can start with step 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dumpfilter.errors import OptionError
from dumpfilter.index.time_spans import active_seconds
from dumpfilter.printable import replace_invalid_utf8
from dumpfilter.report.audience import Audience
from dumpfilter.spark_jobs.bandwidth.evaluate import Evaluate
from dumpfilter.spark_jobs.bandwidth.filter_warnings import by_slave, filter_warnings, lines_of
from dumpfilter.spark_jobs.bandwidth.measured_set import (
    BandwidthOptions,
    MeasuredSet,
    ask,
    ask_filters,
    measure_changes,
    measure_set,
)
from dumpfilter.spark_jobs.bandwidth.results import (
    Results,
    Series,
    SkippedFile,
    SourceFigures,
    totals_of,
    with_totals,
)
from dumpfilter.spark_jobs.engines.runner import Runner, run_here
from dumpfilter.topology.slaves_file import SlaveDefinition
from dumpfilter.traffic.facts import SubjectFlags


def bandwidth(
    source: str | Path | Sequence[str | Path],
    slaves: Sequence[SlaveDefinition],
    run: Runner,
    options: BandwidthOptions | None = None,
) -> Results:
    """Compute the traffic that each slave would receive from these binlogs, with and without its filter.

    ``source`` names a binlog set or several files, and ``run`` runs the tasks. Raises BinlogError with file and
    position for a damaged binlog, and OptionError for an unusable option.
    """
    return measure_and_evaluate(source, slaves, run, options)[0]


def measure_and_evaluate(
    source: str | Path | Sequence[str | Path],
    slaves: Sequence[SlaveDefinition],
    run: Runner,
    options: BandwidthOptions | None = None,
    kept: MeasuredSet | None = None,
) -> tuple[Results, MeasuredSet]:
    """Do the work of :func:`bandwidth`, and return the results with the measurements from which they are made.

    ``kept`` has the measurements of an earlier job. Only what these do not tell is read.
    """
    options = options or BandwidthOptions()
    _check_any(slaves)
    changed = None if kept is None else measure_changes(kept, source, slaves, run, options)
    if changed is not None:
        # If no file has changed, nothing is worth the start of Spark.
        is_read = changed.reused < len(changed.files)
        results = evaluate_slaves(changed, slaves, run if is_read else run_here, options)
        if results is not None:
            return results, changed
    measured = measure_set(source, slaves, run, options)
    results = evaluate_slaves(measured, slaves, run, options)
    assert results is not None
    return results, measured


def evaluate_slaves(
    measured: MeasuredSet,
    slaves: Sequence[SlaveDefinition],
    run: Runner = run_here,
    options: BandwidthOptions | None = None,
) -> Results | None:
    """Compute the traffic of each slave from measurements, without reading the binlogs.

    ``run`` runs the tasks that ask the filters. Return None if the measurements do not hold for these slaves' filters.
    """
    options = options or BandwidthOptions()
    indexed = measured.indexed
    asked, filters = ask(slaves, indexed.names)
    flags = ask_filters(filters, measured.tallied.subjects, run)
    numbers = measured.numbers_of(flags)
    if numbers is None:
        return None
    evaluate = Evaluate(measured.measured, flags, indexed.family, numbers)
    everything = evaluate.everything
    evaluate.audience = _audience(options.audience, evaluate, flags[: len(asked)])
    found = [evaluate(one) for one in asked]
    warnings = filter_warnings(
        ((one.name, given[0]) for one, given in zip(slaves, filters, strict=False)),
        measured.tallied.subjects,
        is_whole=all(one.damage is None for one in indexed.files),
    )
    of_slave = by_slave(warnings)
    figures = tuple(one.model_copy(update={"warnings": of_slave.get(one.name, ())}) for one, _ in found)
    seconds = evaluate.tallied.bucket_seconds
    source = _source(measured)
    results = Results(
        source=source,
        bucket_seconds=seconds,
        bucket_starts=tuple((evaluate.buckets * seconds).tolist()),
        slaves=figures,
        audience=evaluate.audience,
        totals=totals_of(figures, source.active_seconds, evaluate.audience),
        measured_at=measured.measured_at,
        tables=evaluate.tables(everything),
        series=Series(
            no_filter=tuple(evaluate.series(evaluate.received(None, None, 0)).tolist()),
            slaves={one.name: series for one, series in found},
        ),
        over_time=evaluate.over_time(),
        skipped=tuple(
            SkippedFile(
                file=replace_invalid_utf8(one.damage.file),
                position=one.damage.position,
                reason=one.damage.reason,
                damaged_at=one.damage.damaged_at,
            )
            for one in indexed.files
            if one.damage is not None
        ),
        warnings=(
            *indexed.told_of_xa("sent to every slave"),
            *lines_of(warnings),
        ),
    )
    return with_totals(results, options.price_per_gb)


def _audience(wanted: Audience | None, evaluate: Evaluate, flags: Sequence[SubjectFlags | None]) -> Audience:
    """Return the readers for whom the report is: real replicas, unless the binlogs cannot be filtered for them."""
    if evaluate.has_gtids or all(one is None for one in flags):
        return wanted or Audience.REPLICAS
    if wanted is Audience.REPLICAS:
        raise OptionError(
            "--for replicas: the binlogs have no GTIDs, which a real replica of MySQL behind a filter needs; "
            "use --for slaves"
        )
    return Audience.SLAVES


def _check_any(slaves: Sequence[SlaveDefinition]) -> None:
    if not slaves:
        raise OptionError("no slave is given: name at least one with --slaves or --slave")


def _source(measured: MeasuredSet) -> SourceFigures:
    indexed, tallied = measured.indexed, measured.tallied
    everything = tallied.sent(None)
    times = indexed.times
    return SourceFigures(
        files=tuple(replace_invalid_utf8(one.name) for one in indexed.files),
        bytes=sum(one.size for one in indexed.files),
        events=int(tallied.events[everything].sum()),
        transactions=int(tallied.transactions[everything].sum()),
        family=indexed.family,
        server_version=replace_invalid_utf8(indexed.newest.server_version),
        first_time=times[0][0] if times else None,
        last_time=times[-1][1] if times else None,
        active_seconds=active_seconds(times),
    )
