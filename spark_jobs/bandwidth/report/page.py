"""The HTML page of the bandwidth report: one self-contained file, which needs no network."""

from __future__ import annotations

from functools import partial

from dumpfilter.analyse.report.html import Json, environment, page_parts
from dumpfilter.analyse.report.measures import Audience
from dumpfilter.analyse.report.text import GIGABYTE, human_bytes, human_price
from dumpfilter.spark_jobs.bandwidth.report import figures
from dumpfilter.spark_jobs.bandwidth.report.figures import (
    MOST_CHOICES,
    by_saving,
    groups_of,
    time_chart,
)
from dumpfilter.spark_jobs.bandwidth.results import (
    Results,
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


def render_report(results: Results) -> str:
    """Return the bandwidth report as the text of an HTML page, which the caller must write as UTF-8.

    A browser can open the page from ``file://`` without a network. The page supports light and dark colour schemes,
    paper, and screens from 400 pixels wide.
    """
    groups = by_saving(groups_of(results), results.audience)
    rules, zero = _rules(results)
    nothing_passes = about_nothing(results.slaves)
    engine = environment(__package__)
    engine.filters |= {"gigabytes": _gigabytes, "price": human_price}
    return engine.get_template("report.html.j2").render(
        page_parts({"time": time_chart(results)}),
        results=results,
        nothing_passes=nothing_passes,
        remarks=[remark for remark in results.remarks if remark not in nothing_passes],
        ways=_ways(results),
        other_ways=_other_ways(results),
        ways_of=partial(ways_of, audience=results.audience),
        compression=compression_name(results),
        usual_price=_USUAL_PRICE,
        peaks=_peaks(results),
        slaves=[member for group in groups for member in group.members],
        who=_who(results.totals),
        groups=len(groups),
        tables=_tables(results),
        rules=rules,
        zero=zero,
        savings=figures.savings_bars(results, MOST_LINES),
        table_bars=figures.tables_bars(results),
        most_names=_MOST_NAMES,
        heat=figures.heat_map(results),
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


def _way(
    name: str, note: str, nbytes: int, whole: int, colour: str, mark: str = "", month: float | None = None
) -> Json:
    """Return one row of a comparison of ways to send the binlog.

    ``whole`` has the bytes without filter and compression, for the same readers. ``mark`` is the sign before the bytes:
    ≈ for an estimate, ≤ for an upper bound. ``month`` has the gigabytes of a month.
    """
    row = {"name": name, "note": note, "bytes": nbytes, "whole": whole, "colour": colour, "mark": mark}
    return row | {"gigabytes_a_month": month}


def _ways(results: Results) -> list[Json]:
    """Return one row each for the whole binlog, with a filter, with compression, and with both."""
    totals, zstd = results.totals, f"zstd {compression_name(results)}"
    is_bound = results.audience is Audience.REPLICAS and totals.is_upper_bound
    ways = {
        "no_filter": ("Neither", "the master sends the whole binlog", "whole-line", ""),
        "filter": (
            "Filter on the master",
            "only the events that the filter passes",
            "master",
            "≤ " if is_bound else "",
        ),
        "compression": ("Compression alone", f"the whole binlog, {zstd}", "whole-line", "≈ "),
        "both": ("Filter and compression", f"the filtered stream, {zstd}", "compressed", "≈ "),
    }
    sizes = dict(totals.bytes)
    months = {} if totals.month is None else {key: n / GIGABYTE for key, n in totals.month.bytes}
    return [
        _way(name, note, sizes[key], sizes["no_filter"], colour, mark, months.get(key))
        for key, (name, note, colour, mark) in ways.items()
    ]


def _gigabytes(number: float) -> str:
    return f"{number:,.4g}" if number < 1000 else f"{number:,.0f}"


def _other_ways(results: Results) -> list[Json]:
    """Return rows for the audience that the report is not for, and for two ways without a filter on the master."""
    totals, slaves = results.totals, counted(results.slaves)
    whole = totals.of_slaves.no_filter
    applied = human_bytes(sum(one.master_side.bytes for one in slaves))
    ways = []
    if results.audience is Audience.REPLICAS:
        name, note = "Filter on the master, dumpfilter's slaves", "over gRPC, without stand-ins"
        ways.append(_way(name, note, totals.of_slaves.filter, whole, "master"))
    elif (replicas := totals.of_replicas) is not None:
        most, mark = ("at most ", "≤ ") if totals.is_upper_bound else ("", "")
        note = f"in MySQL's protocol, {most}{human_bytes(totals.stand_in_bytes)} of stand-ins for GTIDs"
        name = "Filter on the master, real replicas"
        ways.append(_way(name, note, replicas.filter, replicas.no_filter, "replica", mark))
    note = f"the whole binlog; the slaves apply {applied}"
    ways.append(_way("Filter on the slave", note, whole, whole, "whole-line"))
    note = "whole binlogs of the schemas that the slave needs"
    ways.append(_way("Split binlogs", note, totals.split, whole, "split"))
    return ways


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


def _tables(results: Results) -> list[Json]:
    """Return the rows of the list of tables: a table's figures, and the number of slaves that receive any event of the
    table, with the sum of their bytes.
    """
    sent: dict[str, list[int]] = {}
    for slave in results.slaves:
        for part in slave.tables:
            sent.setdefault(part.table, []).append(part.bytes)
    received = [(table, sent.get(table.name, [])) for table in results.tables]
    return [{"figures": table, "slaves": len(sizes), "sent": sum(sizes)} for table, sizes in received]


def _rules(results: Results) -> tuple[list[Json], float]:
    """Return two values: all rules in descending order of savings, and the position of 0 in their bars as a fraction
    of the width. The start and the end of a rule's bar are such fractions, too.
    """
    found = [(group, rule) for group in groups_of(results) for rule in group.figures.rule_savings]
    # The savings of a misspelled rule that drops everything are no gain, and come last.
    found.sort(key=lambda pair: (pair[0].figures.nothing_passes, -pair[1].saving, pair[0].name, pair[1].rule))
    savings = [0, *(rule.saving for _, rule in found)]
    low, width = min(savings), max(savings) - min(savings) or 1
    rules = []
    for group, rule in found:
        start, end = ((limit - low) / width for limit in sorted((0, rule.saving)))
        rules.append({"group": group, "saving": rule, "start": start, "end": end})
    return rules, -low / width
