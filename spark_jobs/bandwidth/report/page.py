"""The HTML page of the bandwidth report: one self-contained file, which needs no network."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from dumpfilter.analyse.report.audience import Audience
from dumpfilter.analyse.report.html import environment, page_parts
from dumpfilter.analyse.report.month import GIGABYTE
from dumpfilter.analyse.report.text import human_bytes, human_price
from dumpfilter.spark_jobs.bandwidth.report import figures
from dumpfilter.spark_jobs.bandwidth.report.figures import (
    MOST_CHOICES,
    Group,
    by_saving,
    groups_of,
    time_chart,
)
from dumpfilter.spark_jobs.bandwidth.results import (
    Month,
    Results,
    RuleSaving,
    TableFigures,
    Totals,
    about_nothing,
    compression_name,
    counted,
    ways_of,
)

MOST_LINES = 2000
"""The maximum number of rows of a table on the page. The job's JSON and Parquet files have all rows."""

_MOST_NAMES = 6
"""The maximum number of schemas or tables with a column in the tables of bytes over time."""

_USUAL_PRICE = 0.09
"""The price of a gigabyte that the page initially shows if the user gave none."""


@dataclass(frozen=True)
class _Way:
    """One row of a comparison of ways to send the binlog."""

    name: str
    note: str
    bytes: int
    colour: str
    whole: int
    """The bytes without filter and compression, for the same readers."""
    mark: str = ""
    """The sign before the bytes: ≈ for an estimate, ≤ for an upper bound."""
    gigabytes_a_month: float | None = None


@dataclass(frozen=True)
class _Table:
    """One row of the report's list of tables."""

    figures: TableFigures
    slaves: int
    """The number of slaves that receive any event of the table, with filters on the master."""
    sent: int
    """The sum of the bytes of the table's events over all slaves, with filters on the master."""


@dataclass(frozen=True)
class _Rule:
    """One row of the report's list of rules, with its bar. The bar's start and end are fractions of the width."""

    group: Group
    saving: RuleSaving
    start: float
    end: float


def render_report(results: Results) -> str:
    """Return the bandwidth report as the text of an HTML page, which the caller must write as UTF-8.

    A browser can open the page from ``file://`` without a network. The page supports light and dark colour schemes,
    paper, and screens from 400 pixels wide.
    """
    audience, totals = results.audience, results.totals
    slaves = [member for group in by_saving(groups_of(results), audience) for member in group.members]
    no_filter, master = totals.bytes.no_filter, totals.bytes.filter
    rules, zero = _rules(results)
    heat_map = figures.heat_map(results)
    price = results.price_per_gb
    nothing_passes = about_nothing(results.slaves)
    engine = environment(__package__)
    engine.filters["gigabytes"] = _gigabytes
    engine.filters["price"] = human_price
    return engine.get_template("report.html.j2").render(
        page_parts({"time": time_chart(results)}),
        results=results,
        source=results.source,
        seconds=results.source.active_seconds or None,
        no_filter=no_filter,
        master=master,
        saved=no_filter - master,
        undecided=sum(s.undecided_events for s in slaves),
        nothing_passes=nothing_passes,
        remarks=[remark for remark in results.remarks if remark not in nothing_passes],
        ways=_ways(results),
        other_ways=_other_ways(results),
        is_for_replicas=audience is Audience.REPLICAS,
        ways_of=partial(ways_of, audience=audience),
        compression=compression_name(results),
        price=_USUAL_PRICE if price is None else price,
        peaks=_peaks(results),
        slaves=slaves,
        summed=totals.slaves,
        who=_who(totals),
        groups=len(groups_of(results)),
        tables=_tables(results),
        all_tables=sum(table.bytes for table in results.tables),
        rules=rules,
        zero=zero,
        some_without_rules=sum(not slave.rules for slave in slaves),
        savings=figures.savings_bars(results, MOST_LINES),
        table_bars=figures.tables_bars(results),
        most_names=_MOST_NAMES,
        heat=heat_map,
        heat_limits=[f"≤ {human_bytes(round(limit))}" for limit in heat_map.limits] if heat_map else [],
        most_lines=MOST_LINES,
        most_choices=MOST_CHOICES,
        most_columns=figures.MOST_COLUMNS,
        most_rows=figures.MOST_ROWS,
    )


def _who(totals: Totals) -> str:
    """Return words for the slaves that the page's sums include. They complete a sentence after "of"."""
    if totals.slaves_left_out:
        several = totals.slaves != 1
        return f"the {totals.slaves:,} slave{'s' if several else ''} to which something passes"
    return "the slave" if totals.slaves == 1 else f"all {totals.slaves:,} slaves together"


def _ways(results: Results) -> list[_Way]:
    """Return one row each for the whole binlog, with a filter, with compression, and with both."""
    totals, zstd = results.totals, f"zstd {compression_name(results)}"
    ways = {
        "no_filter": ("Neither", "the master sends the whole binlog", "whole-line", ""),
        "filter": ("Filter on the master", "only the events that the filter passes", "master", ""),
        "compression": ("Compression alone", f"the whole binlog, {zstd}", "whole-line", "≈ "),
        "both": ("Filter and compression", f"the filtered stream, {zstd}", "compressed", "≈ "),
    }
    is_bound = results.audience is Audience.REPLICAS and totals.is_upper_bound
    return [
        _Way(
            name,
            note,
            getattr(totals.bytes, key),
            colour,
            totals.bytes.no_filter,
            "≤ " if is_bound and key == "filter" else mark,
            _of_month(totals.month, key),
        )
        for key, (name, note, colour, mark) in ways.items()
    ]


def _of_month(month: Month | None, key: str) -> float | None:
    return None if month is None else getattr(month.bytes, key) / GIGABYTE


def _gigabytes(number: float) -> str:
    return f"{number:,.4g}" if number < 1000 else f"{number:,.0f}"


def _other_ways(results: Results) -> list[_Way]:
    """Return rows for the audience that the report is not for, and for two ways without a filter on the master."""
    totals, slaves = results.totals, counted(results.slaves)
    whole = totals.of_slaves.no_filter
    applied = human_bytes(sum(one.master_side.bytes for one in slaves))
    ways = []
    if results.audience is Audience.REPLICAS:
        ways.append(
            _Way(
                "Filter on the master, dumpfilter's slaves",
                "over gRPC, without stand-ins",
                totals.of_slaves.filter,
                "master",
                whole,
            )
        )
    elif totals.of_replicas is not None:
        gtids = f"{'at most ' if totals.is_upper_bound else ''}{human_bytes(totals.stand_in_bytes)}"
        ways.append(
            _Way(
                "Filter on the master, real replicas",
                f"in MySQL's protocol, {gtids} of stand-ins for GTIDs",
                totals.of_replicas.filter,
                "replica",
                totals.of_replicas.no_filter,
                "≤ " if totals.is_upper_bound else "",
            )
        )
    return [
        *ways,
        _Way(
            "Filter on the slave", f"the whole binlog; the slaves apply {applied}", whole, "whole-line", whole
        ),
        _Way(
            "Split binlogs", "whole binlogs of the schemas that the slave needs", totals.split, "split", whole
        ),
    ]


def _peaks(results: Results) -> tuple[float, float] | None:
    """Return the bytes per second in the busiest time bucket, without and with filters, summed over the counted
    slaves.

    Return None without time buckets or counted slaves.
    """
    slaves = counted(results.slaves)
    if not results.bucket_starts or not slaves:
        return None
    unfiltered = max(results.series.no_filter) * len(slaves)
    series = (results.series.slaves[slave.name] for slave in slaves)
    filtered = max(map(sum, zip(*series, strict=True)), default=0)
    return unfiltered / results.bucket_seconds, filtered / results.bucket_seconds


def _tables(results: Results) -> list[_Table]:
    sent: dict[str, list[int]] = {}
    for slave in results.slaves:
        for part in slave.tables:
            sent.setdefault(part.table, []).append(part.bytes)
    return [
        _Table(table, len(sent.get(table.name, [])), sum(sent.get(table.name, [])))
        for table in results.tables
    ]


def _rules(results: Results) -> tuple[list[_Rule], float]:
    """Return two values: all rules in descending order of savings, and the position of 0 in their bars as a fraction
    of the width.
    """
    found = [(group, rule) for group in groups_of(results) for rule in group.figures.rule_savings]
    # The savings of a misspelled rule that drops everything are no gain, and come last.
    found.sort(key=lambda pair: (pair[0].figures.nothing_passes, -pair[1].saving, pair[0].name, pair[1].rule))
    low = min((rule.saving for _, rule in found), default=0)
    high = max((rule.saving for _, rule in found), default=0)
    low, high = min(low, 0), max(high, 0)
    width = high - low or 1

    def place(value: int) -> float:
        return (value - low) / width

    rules = [
        _Rule(group, rule, place(min(rule.saving, 0)), place(max(rule.saving, 0))) for group, rule in found
    ]
    return rules, place(0)
