"""The bandwidth job: it computes the traffic of slaves with their filters on the master, and without filters.

One pass over the binlogs serves any number of slaves (:mod:`dumpfilter.analyse.traffic.tally`).

1. The driver indexes the files and divides them into ranges of complete transactions.
2. Each task measures a group of ranges (:mod:`~dumpfilter.spark_jobs.bandwidth.measured_set`).
3. The driver merges the measurements, and computes each slave's traffic
(:mod:`~dumpfilter.spark_jobs.bandwidth.evaluate`).

The measurements can be used for other filters, too, so a later job can start with step 3.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from operator import itemgetter
from pathlib import Path

from dumpfilter.analyse.lint.findings import Code, FilterWarning, Level, warning_line
from dumpfilter.analyse.lint.knowledge import knowledge_of
from dumpfilter.analyse.lint.linting import lint
from dumpfilter.analyse.traffic.facts import flags_of
from dumpfilter.base.errors import OptionError
from dumpfilter.base.printable import replace_invalid_utf8, visible
from dumpfilter.filter import ReplicationFilter
from dumpfilter.index.subjects import Subject
from dumpfilter.index.time_spans import active_seconds
from dumpfilter.spark_jobs.bandwidth.evaluate import Evaluate
from dumpfilter.spark_jobs.bandwidth.measured_set import (
    BandwidthOptions,
    MeasuredSet,
    ask,
    measure_set,
)
from dumpfilter.spark_jobs.bandwidth.results import (
    Results,
    Series,
    SourceFigures,
    some_of,
    totals_of,
    with_totals,
)
from dumpfilter.spark_jobs.engines import Amount, Runner, run_here
from dumpfilter.topology.slaves_file import SlaveDefinition

_MOST_DECISIONS = 1_000_000
"""The maximum number of decisions (filters times subjects) for the check of filters. Further filters are not
checked, to bound the time.
"""

_SLICES = 16
"""The maximum number of Spark tasks that evaluate filters. Starting a task takes time."""

_WRONG_NAMES = frozenset(
    {
        Code.COMMA,
        Code.QUOTES,
        Code.CASE,
        Code.WILDCARD,
        Code.ESCAPE,
        Code.WRONG_KIND,
        Code.RENAMED,
        Code.MISSPELLED,
    }
)
"""The codes of warnings about rules that match nothing because of their spelling."""


def filter_warnings(
    slaves: Iterable[tuple[str, ReplicationFilter]], subjects: Sequence[Subject], *, is_whole: bool
) -> dict[str, list[str]]:
    """Return the warnings of ``dumpfilter lint`` about slaves' filters. Each warning's text is mapped to the names of
    the slaves whose filters have it.

    Parameters:
        slaves: pairs of a slave's name and filter.
        subjects: the tables and statements of the binlogs.
        is_whole: whether ``subjects`` is complete. If damaged files were skipped, a rule's table may be in them.

    The terminal shows only a few warnings. The first warning about each filter therefore precedes the second one about
    any filter. Filters that pass nothing come first, and a misspelled name comes before the fault that the name causes.

    The warnings have no binlog positions, because measurements do not contain any.
    """
    # The order of the subjects depends on how the engine divides the binlogs. Warnings name the first ones.
    known = knowledge_of(sorted(subjects, key=repr), is_whole=is_whole)
    alike: dict[tuple[object, ...], tuple[ReplicationFilter, list[str]]] = {}
    for name, one in slaves:
        alike.setdefault((type(one), one.rules, one.names), (one, []))[1].append(name)
    most = max(1, _MOST_DECISIONS // (len(subjects) + 1))
    ranked: list[tuple[tuple[int, bool, int], str, list[str]]] = []
    for one, names in list(alike.values())[:most]:
        warnings = [warning for warning in lint(one, known) if warning.level is Level.WARNING]
        something_passes = all(warning.code is not Code.NOTHING_PASSES for warning in warnings)
        for place, warning in enumerate(sorted(warnings, key=_rank)):
            text = replace_invalid_utf8(visible(warning_line(warning)))
            ranked.append(((place, something_passes, _rank(warning)), text, names))
    found: dict[str, list[str]] = {}
    for _, text, names in sorted(ranked, key=itemgetter(0)):
        found.setdefault(text, []).extend(names)
    return found


def _rank(warning: FilterWarning) -> int:
    """Return a sort key for a warning: 0 for a misspelled name, 1 for a filter that passes nothing, 2 for others."""
    if warning.code in _WRONG_NAMES:
        return 0
    return 1 if warning.code is Code.NOTHING_PASSES else 2


def bandwidth(
    source: str | Path | Sequence[str | Path],
    slaves: Sequence[SlaveDefinition],
    run: Runner,
    options: BandwidthOptions | None = None,
) -> Results:
    """Compute the traffic that each slave would receive from these binlogs, with and without its filter.

    ``source`` is a binlog set's index file, a directory with an index file, or a list of binlog files. ``run`` executes
    the tasks, in threads or on Spark.

    Raises BinlogError with file and position for a damaged binlog. Raises OptionError without a slave, for a bad rule,
    or for real replicas of MySQL if the binlogs have no GTIDs.
    """
    return measure_and_evaluate(source, slaves, run, options)[0]


def measure_and_evaluate(
    source: str | Path | Sequence[str | Path],
    slaves: Sequence[SlaveDefinition],
    run: Runner,
    options: BandwidthOptions | None = None,
    kept: MeasuredSet | None = None,
) -> tuple[Results, MeasuredSet]:
    """Compute the traffic of each slave from a binlog set. Return the results with the measurements from which they
    were computed.

    A caller can pass these measurements to a later call as ``kept``. Only new and changed files are then read. None:
    all files are read. ``run`` executes the tasks, in threads or on Spark. Raises BinlogError for a damaged binlog, and
    OptionError.
    """
    options = options or BandwidthOptions()
    if not slaves:
        raise OptionError("no slave is given: name at least one with --slaves or --slave")
    measured = measure_set(source, slaves, run, options, kept)
    # If no file has changed, nothing is worth the start of Spark.
    is_read = measured.reused < len(measured.files)
    return evaluate_slaves(measured, slaves, run if is_read else run_here, options), measured


def evaluate_slaves(
    measured: MeasuredSet,
    slaves: Sequence[SlaveDefinition],
    run: Runner = run_here,
    options: BandwidthOptions | None = None,
) -> Results:
    """Compute the traffic of each slave from measurements, without reading the binlogs.

    The measurements must be valid for the slaves' filters, as those of :func:`measure_set` for the same slaves are.
    ``run`` executes the tasks that evaluate filters. Raises OptionError if the options ask for real replicas and the
    binlogs lack the GTIDs that these need.
    """
    options = options or BandwidthOptions()
    indexed, subjects = measured.indexed, measured.tallied.subjects
    asked, filters = ask(slaves, indexed.newest.names)
    numbers = measured.numbers_of(filters)
    if numbers is None:
        raise ValueError("these measurements are valid for other filters alone")
    distinct = list(filters.values())
    amount = Amount("filters", slices=min(len(distinct), _SLICES))
    flags = run(partial(flags_of, subjects=subjects), distinct, "asking filters", amount=amount)
    evaluate = Evaluate(
        measured.measured, list(zip(flags, numbers, strict=True)), indexed.newest.family, options.audience
    )
    found = [evaluate(one) for one in asked]
    warnings = filter_warnings(
        ((one.definition.name, distinct[one.number]) for one in asked),
        subjects,
        is_whole=all(one.damage is None for one in indexed.files),
    )
    of_slave: dict[str, list[str]] = {}
    for text, names in warnings.items():
        for name in names:
            of_slave.setdefault(name, []).append(text)
    figures = tuple(
        one.model_copy(update={"warnings": tuple(of_slave.get(one.name, ()))}) for one, _ in found
    )
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
        tables=evaluate.tables(),
        series=Series(
            no_filter=tuple(evaluate.series(evaluate.received()).tolist()),
            slaves={one.name: series for one, series in found},
        ),
        over_time=evaluate.over_time(),
        skipped=tuple(
            replace(one.damage, file=replace_invalid_utf8(one.damage.file))
            for one in indexed.files
            if one.damage is not None
        ),
        warnings=(
            *indexed.told_of_xa("sent to every slave"),
            *(
                replace_invalid_utf8(f"slave{'s' if len(names) > 1 else ''} {some_of(names)}: {text}")
                for text, names in warnings.items()
            ),
        ),
    )
    return with_totals(results, options.price_per_gb)


def _source(measured: MeasuredSet) -> SourceFigures:
    indexed, tallied = measured.indexed, measured.tallied
    everything = tallied.sent(None)
    times = indexed.times
    return SourceFigures(
        files=tuple(replace_invalid_utf8(one.name) for one in indexed.files),
        bytes=sum(one.size for one in indexed.files),
        events=int(tallied.events[everything].sum()),
        transactions=int(tallied.transactions[everything].sum()),
        family=indexed.newest.family,
        server_version=replace_invalid_utf8(indexed.newest.server_version),
        first_time=times[0][0] if times else None,
        last_time=times[-1][1] if times else None,
        active_seconds=active_seconds(times),
    )
