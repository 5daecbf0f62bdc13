"""The HTML page of a simulation or an experiment."""

from __future__ import annotations

from dumpfilter.analyse.report.html import environment, page_parts
from dumpfilter.analyse.report.text import MONTH_HOURS, human_rate_of_bits, remark_on_month
from dumpfilter.simulation.page import plots
from dumpfilter.simulation.page.view import (
    active_seconds_of,
    comparisons,
    duration_of,
    look_of,
    total_bytes,
    ways,
    whole_nodes,
)
from dumpfilter.simulation.results import Method, Results
from dumpfilter.simulation.terminal import microseconds, title_of, value_of
from dumpfilter.simulation.traffic import Clock

MOST_LINES = 2000
"""The maximum number of rows of a table on the page. The JSON and Parquet files have all rows."""


def render_page(results: Results) -> str:
    """Return the HTML page that shows the results of a simulation or an experiment. The caller must write the text as
    UTF-8.
    """
    lag, rate, frontier = plots.lag_plot(results), plots.rate_plot(results), plots.frontier_plot(results)
    chosen = {"lag": lag, "rate": rate, "frontier": frontier}
    compared = ways(results)
    engine = environment(__package__)
    engine.filters |= {"time_of": microseconds, "bits": human_rate_of_bits}
    return engine.get_template("simulation.html.j2").render(
        page_parts({name: None if one is None else one.chart for name, one in chosen.items()}),
        results=results,
        ways=compared,
        whole=max((way.bytes for way in compared), default=0),
        seconds=duration_of(results),
        month_hours=MONTH_HOURS,
        month_remark=remark_on_month(active_seconds_of(results)),
        is_measured=any(run.method is Method.MEASURED for run in results.runs),
        chosen=chosen,
        node_rows=[(run, node) for run in results.runs for node in whole_nodes(run)],
        channel_rows=[(run, node) for run in results.runs for node in run.nodes if node.channel is not None],
        link_rows=[(run, link) for run in results.runs for link in run.links],
        outage_rows=[
            (run, link, outage) for run in results.runs for link in run.links for outage in link.outages
        ],
        comparisons=comparisons(results),
        title_of=lambda run: title_of(run.setting, run.method),
        value_of=value_of,
        look_of=look_of,
        total_bytes=total_bytes,
        whole_seconds=any(source.clock == Clock.SECONDS for source in results.sources),
        most_lines=MOST_LINES,
    )
