"""The results of a simulation or an experiment as tables for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dumpfilter.analyse.report.terminal import table
from dumpfilter.analyse.report.text import NOTHING, human_bytes, human_rate_of_bits, human_seconds
from dumpfilter.simulation.results import Found, Method, Results, Run, Setting

MOST_ROWS = 40
"""The number of rows that the tables of all runs share. It is also the maximum for the table of searches."""

LEAST_ROWS = 3
"""The minimum number of nodes in the table of each run, even if all tables then exceed their shared number of rows."""


def print_results(results: Results, console: Console) -> None:
    """Print the results of a simulation: a table of nodes and links for each run, and the rates or delays that searches
    found.
    """
    most = max(MOST_ROWS // max(len(results.runs), 1), LEAST_ROWS)
    hidden = 0
    for run in results.runs:
        hidden += _print_run(run, results.limit, most, console)
    if hidden:
        console.print(f"{hidden:,} rows with a smaller lag are not shown. results.json has all of them.")
    if results.found:
        console.print(_found_table(results.found, results.limit))


def microseconds(value: int | None) -> str:
    """Format a time in microseconds with a fitting unit. None gives a dash.

    >>> microseconds(0), microseconds(1500), microseconds(2_345_678), microseconds(None)
    ('0 s', '1.5 ms', '2.35 s', '–')
    """
    return NOTHING if value is None else human_seconds(value / 1e6)


def title_of(setting: Setting, method: Method = Method.SIMULATED) -> str:
    """Return the title of a run's table: its variant (such as filter-on-master), load, and changed rate or delay.

    >>> from dumpfilter.simulation.results import Variant
    >>> title_of(Setting(variant=Variant.MASTER, load=2, rate=512_000))
    'filter-on-master, load × 2, all links 512 kbit/s'
    """
    parts = [setting.variant.value]
    if method is Method.MEASURED:
        parts.append("measured")
    if setting.load != 1:
        parts.append(f"load × {setting.load:g}")
    changed = []
    if setting.rate is not None:
        changed.append(human_rate_of_bits(setting.rate))
    if setting.delay is not None:
        changed.append(f"delay {microseconds(setting.delay)}")
    if changed:
        parts.append(f"{setting.link or 'all links'} {', '.join(changed)}")
    return ", ".join(parts)


def _print_run(run: Run, limit: int, most: int, console: Console) -> int:
    """Print the ``most`` nodes of a run that have the greatest lag. Return the number of nodes left out.

    ``limit`` is the lag limit in microseconds, for the column's heading.
    """
    repetition = f", run {run.repetition}" if run.repetition > 1 else ""
    has_outages = any(link.outages for link in run.links)
    figures = ["bytes", "p50", "p95", "p99", "worst", f"> {microseconds(limit)}"]
    figures += ["catch-up"] * has_outages
    catch_ups: dict[str, list[str]] = {}
    for link in run.links:
        for outage in link.outages:
            text = "never" if outage.catch_up is None else microseconds(outage.catch_up)
            catch_ups.setdefault(link.target, []).append(text)
    nodes = [node for node in run.nodes if node.channel is None]
    nodes.sort(key=lambda node: (-node.lag.p99, -node.lag.worst, node.name))
    rows = []
    for node in nodes[:most]:
        alike = f" and {node.count - 1:,} alike" if node.count > 1 else ""
        missing = f" ({node.missing:,} missing)" if node.missing else ""
        rows.append(
            (
                node.name + alike + missing,
                human_bytes(node.bytes),
                *(microseconds(each) for each in (node.lag.p50, node.lag.p95, node.lag.p99, node.lag.worst)),
                microseconds(node.lag.above),
                *([", ".join(catch_ups.get(node.name, []))] if has_outages else []),
            )
        )
    console.print(Text(title_of(run.setting, run.method) + repetition, "bold"))
    console.print(table(("node", *figures), rows, numbers=figures, framed=False))
    console.print()
    return max(len(nodes) - most, 0)


def _found_table(found: Sequence[Found], limit: int) -> Table:
    rows = [
        (
            one.node + (f" and {one.count - 1:,} alike" if one.count > 1 else ""),
            one.variant.value,
            f"× {one.load:g}",
            one.link or "all",
            value_of(one),
            microseconds(one.worst),
        )
        for one in found[:MOST_ROWS]
    ]
    heads = (f"lag at most {microseconds(limit)}", "variant", "load", "link", "found", "worst lag")
    return table(heads, rows, framed=False)


def value_of(found: Found) -> str:
    """Format the rate or delay that a search found. If there is none, say that no value keeps the lag within the
    limit.
    """
    if found.value is None:
        return f"no {found.what} is enough"
    return human_rate_of_bits(found.value) if found.what == "rate" else microseconds(found.value)
