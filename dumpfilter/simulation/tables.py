"""The results of simulations and experiments as Arrow tables, one for each Parquet file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from dumpfilter.report.parquet import BOOL, FLOAT, INT, TEXT, Column, ParquetTable
from dumpfilter.simulation.results import Results, Run, Setting

_SETTING = (
    Column("run", INT, "the number of the run in `results.json`, from 1"),
    Column("method", TEXT, "`simulated` or `measured`"),
    Column("variant", TEXT, "the way to bring the binlog to the slaves"),
    Column("load", FLOAT, "the factor of the binlog's load"),
    Column("sweep_rate", INT, "the rate of a sweep, bits per second; null without a sweep of rates"),
    Column("sweep_delay", INT, "the delay of a sweep, microseconds; null without a sweep of delays"),
    Column("sweep_link", TEXT, "the link of a sweep; null for all links"),
    Column("repetition", INT, "the number of the repetition, from 1"),
)
"""The columns that say which run a row belongs to. They begin each table but `found`."""

_SINCE = "microseconds since the run's first commit"

FORMS: Mapping[str, ParquetTable] = {
    "links": ParquetTable(
        "each link of each run",
        (
            *_SETTING,
            Column("link", TEXT, "`SOURCE:TARGET`"),
            Column("source", TEXT, "the node that sends"),
            Column("target", TEXT, "the node that reads"),
            Column("count", INT, "the number of links with equal figures, of which the row names the first"),
            Column("rate", INT, "bits per second; null: no limit"),
            Column("delay", INT, "microseconds"),
            Column("jitter", INT, "microseconds"),
            Column("bytes", INT, "bytes of events that the reader got"),
            Column("estimated", BOOL, "whether `bytes` is an estimate"),
            Column("transactions", INT, "transactions that the reader got"),
            Column("messages", INT, "messages of the protocol; null: not known"),
            Column("overhead", INT, "bytes of the protocols around the events; null: not known"),
            Column("resent", INT, "bytes that an outage lost"),
        ),
    ),
    "nodes": ParquetTable(
        "each node of each run, and each channel of a node with several sources",
        (
            *_SETTING,
            Column("basis", TEXT, "`received` or `applied`: the moment at which a node has a transaction"),
            Column("node", TEXT, "the node's name"),
            Column("channel", TEXT, "the source of the channel; null for the whole node"),
            Column("count", INT, "the number of nodes with equal figures, of which the row names the first"),
            Column("transactions", INT, "transactions that the node was sent"),
            Column("missing", INT, "transactions that never arrived"),
            Column("bytes", INT, "bytes over the node's own links"),
            Column("p50", INT, "the median lag of a transaction, microseconds"),
            Column("p95", INT, "95 of 100 transactions lag this long or less, microseconds"),
            Column("p99", INT, "99 of 100 transactions lag this long or less, microseconds"),
            Column("worst", INT, "the greatest lag, microseconds"),
            Column("above", INT, "the time with a lag above the limit, microseconds"),
        ),
    ),
    "outages": ParquetTable(
        "each outage of a link",
        (
            *_SETTING,
            Column("link", TEXT, "`SOURCE:TARGET`"),
            Column("start", INT, _SINCE),
            Column("end", INT, f"{_SINCE}; null: nobody healed the link"),
            Column("catch_up", INT, "microseconds until the reader had caught up; null: never"),
        ),
    ),
    "link_series": ParquetTable(
        "each span of time of a link",
        (
            *_SETTING,
            Column("link", TEXT, "`SOURCE:TARGET`"),
            Column("start", INT, _SINCE),
            Column("width", INT, "the length of the span, microseconds"),
            Column("offered", INT, "bytes that the source had for the link in the span"),
            Column("carried", INT, "bytes that left the source over the link in the span"),
        ),
        order=("run", "link", "start"),
    ),
    "node_series": ParquetTable(
        "each span of time of one of the nodes with the greatest lag",
        (
            *_SETTING,
            Column("node", TEXT, "the node's name"),
            Column("start", INT, _SINCE),
            Column("width", INT, "the length of the span, microseconds"),
            Column("lag", INT, "the greatest lag in the span, microseconds"),
        ),
        order=("run", "node", "start"),
    ),
    "found": ParquetTable(
        "each answer of `--find`",
        (
            Column("node", TEXT, "the node's name"),
            Column(
                "count", INT, "the number of nodes with the same answer, of which the row names the first"
            ),
            Column("variant", TEXT, "the way to bring the binlog to the slaves"),
            Column("load", FLOAT, "the factor of the binlog's load"),
            Column("what", TEXT, "`rate` or `delay`"),
            Column("link", TEXT, "the link that was changed; null for all links"),
            Column("value", INT, "bits per second, or microseconds; null: no value keeps the limit"),
            Column("worst", INT, "the greatest lag at this value, microseconds"),
        ),
    ),
    "members": ParquetTable(
        "each node that shares its figures with others",
        (
            *_SETTING,
            Column("node", TEXT, "the first of the nodes with equal figures"),
            Column("member", TEXT, "a node with these figures"),
        ),
    ),
}
"""The forms of all tables. The documentation has them, too (``python tools/parquet_tables.py``)."""


def tables(results: Results) -> dict[str, pa.Table]:
    """Return the results as tables by name."""
    runs = [(_setting(number, run), run) for number, run in enumerate(results.runs, 1)]
    rows: dict[str, Iterable[dict[str, Any]]] = {
        "links": (
            {**setting, "link": link.name, **link.model_dump(exclude={"name", "outages"})}
            for setting, run in runs
            for link in run.links
        ),
        "nodes": (
            {
                **setting,
                "basis": run.basis.value,
                "node": node.name,
                **node.model_dump(exclude={"name", "members", "lag"}),
                **node.lag.model_dump(),
            }
            for setting, run in runs
            for node in run.nodes
        ),
        "outages": (
            {**setting, "link": link.name, **outage.model_dump()}
            for setting, run in runs
            for link in run.links
            for outage in link.outages
        ),
        "link_series": (row for setting, run in runs for row in _link_series(setting, run)),
        "node_series": (row for setting, run in runs for row in _node_series(setting, run)),
        "found": (one.model_dump(mode="json") for one in results.found),
        "members": (
            {**setting, "node": node.name, "member": member}
            for setting, run in runs
            for node in run.nodes
            for member in node.members
        ),
    }
    return {name: form.of_rows(rows[name]) for name, form in FORMS.items()}


def _setting(number: int, run: Run) -> dict[str, Any]:
    setting: Setting = run.setting
    return {
        "run": number,
        "method": run.method.value,
        "variant": setting.variant.value,
        "load": setting.load,
        "sweep_rate": setting.rate,
        "sweep_delay": setting.delay,
        "sweep_link": setting.link,
        "repetition": run.repetition,
    }


def _link_series(setting: dict[str, Any], run: Run) -> Iterator[dict[str, Any]]:
    series = run.series
    if series is None:
        return
    for name, offered in series.offered.items():
        carried = series.carried.get(name, (None,) * len(offered))
        for k, (came, went) in enumerate(zip(offered, carried, strict=True)):
            start = series.start + k * series.width
            yield {
                **setting,
                "link": name,
                "start": start,
                "width": series.width,
                "offered": came,
                "carried": went,
            }


def _node_series(setting: dict[str, Any], run: Run) -> Iterator[dict[str, Any]]:
    series = run.series
    if series is None:
        return
    for name, lags in series.lag.items():
        for k, lag in enumerate(lags):
            start = series.start + k * series.width
            yield {**setting, "node": name, "start": start, "width": series.width, "lag": lag}
