"""The HTML page of the bandwidth report, one file that needs no other file and no network."""

from __future__ import annotations

from dataclasses import dataclass

from dumpfilter.report.html import environment, page_parts
from dumpfilter.report.text import human_bytes
from dumpfilter.spark_jobs.bandwidth.report import plots
from dumpfilter.spark_jobs.bandwidth.results import Results, TableFigures

MOST_LINES = 2000
"""The largest number of lines that the page shows of a table. The job's JSON and Parquet files have all lines."""


@dataclass(frozen=True)
class _Way:
    """One line of the report's summary, which compares ways to send the binlog (no filter, filters, compression)."""

    name: str
    note: str
    bytes: int
    colour: str
    estimated: bool = False
    at_most: bool = False


@dataclass(frozen=True)
class _Table:
    """One line of the report's list of database tables."""

    figures: TableFigures
    slaves: int
    """The number of slaves that receive any event of the table, with filters on the master."""
    sent: int
    """The bytes of the table's events that all slaves together receive, with filters on the master."""


def render_report(results: Results) -> str:
    """Return the bandwidth report as the text of an HTML page, which the caller writes as UTF-8.

    A browser can open the page from ``file://`` without a network. The page fits light and dark colour schemes, paper,
    and screens from 400 pixels wide.
    """
    time = plots.time_plot(results)
    heat = plots.heat_map(results)
    drawn = {
        "savings": plots.savings_plot(results),
        "time": time and time.plot,
        "tables": plots.tables_plot(results),
        "heat": heat,
        "cost": plots.cost_plot(results) if _any_cost(results) else None,
    }
    data = {
        "figures": {name: plot.figure for name, plot in drawn.items() if plot},
        "choices": {"time": time.choices} if time else {},
    }
    slaves = sorted(results.slaves, key=lambda s: (s.master_side.bytes - s.no_filter.bytes, s.name))
    no_filter = sum(s.no_filter.bytes for s in slaves)
    master = sum(s.master_side.bytes for s in slaves)
    rules = [(slave, rule) for slave in slaves for rule in slave.rule_savings]
    rules.sort(key=lambda pair: (-pair[1].saving, pair[0].name, pair[1].rule))
    return (
        environment(__package__)
        .get_template("report.html.j2")
        .render(
            page_parts(data),
            results=results,
            source=results.source,
            seconds=results.source.active_seconds or None,
            no_filter=no_filter,
            master=master,
            saved=no_filter - master,
            undecided=sum(s.undecided_events for s in slaves),
            ways=_ways(results, no_filter, master),
            peaks=_peaks(results),
            slaves=slaves,
            tables=_tables(results),
            all_tables=sum(table.bytes for table in results.tables),
            rules=rules,
            rule_scale=max((abs(rule.saving) for _, rule in rules), default=0),
            some_without_rules=sum(not slave.rules for slave in slaves),
            plots=drawn,
            heat_limits=plots.heat_limits(heat) if heat else None,
            time_plot=time,
            most_lines=MOST_LINES,
            most=plots,
        )
    )


def _any_cost(results: Results) -> bool:
    cost = results.cost
    return cost.scan_seconds + cost.decide_seconds + cost.unfiltered_seconds > 0


def _ways(results: Results, no_filter: int, master: int) -> list[_Way]:
    slaves = results.slaves
    replicas = [slave.real_replica for slave in slaves if slave.real_replica is not None]
    ways = [
        _Way("No filter", "the master sends the whole binlog", no_filter, "whole-line"),
        _Way(
            "No filter, compressed",
            "the whole binlog as zstd",
            sum(s.compressed_no_filter for s in slaves),
            "whole-line",
            estimated=True,
        ),
        _Way(
            "Filter on the slave",
            f"the whole binlog; the slaves apply {human_bytes(sum(s.applied.bytes for s in slaves))}",
            no_filter,
            "whole-line",
        ),
        _Way(
            "Split binlogs",
            "whole binlogs of the schemas that the slave needs",
            sum(s.split for s in slaves),
            "split",
        ),
        _Way("Filter on the master", "only the events that the filter passes", master, "master"),
        _Way(
            "Filter on the master, compressed",
            "the filtered stream as zstd",
            sum(s.compressed for s in slaves),
            "compressed",
            estimated=True,
        ),
    ]
    if len(replicas) == len(slaves):
        is_mariadb = results.source.family == "mariadb"
        most = "at most " if is_mariadb else ""
        gtids = human_bytes(sum(one.bytes_gtid for one in replicas))
        at_source = human_bytes(sum(one.bytes_from_source for one in replicas))
        ways.append(
            _Way(
                "Filter on the master, real replicas",
                f"in MySQL's protocol, {most}{gtids} for GTIDs of dropped transactions; at the source {at_source}",
                sum(one.bytes for one in replicas),
                "replica",
                at_most=is_mariadb,
            )
        )
    return ways


def _peaks(results: Results) -> tuple[float, float] | None:
    """Return the traffic of all slaves in the busiest time bucket, bytes a second, without filters and with filters."""
    if not results.bucket_starts or not results.slaves:
        return None
    unfiltered = max(results.series.no_filter) * len(results.slaves)
    filtered = max(map(sum, zip(*results.series.slaves.values(), strict=True)), default=0)
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
