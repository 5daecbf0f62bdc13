"""The results of simulations and experiments as Arrow tables, one for each Parquet file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from dumpfilter.simulation.results import Results, Run, Setting

_TEXT, _INT, _FLOAT, _BOOL = pa.string(), pa.int64(), pa.float64(), pa.bool_()

_SETTING = {
    "run": _INT,
    "method": _TEXT,
    "variant": _TEXT,
    "load": _FLOAT,
    "sweep_rate": _INT,
    "sweep_delay": _INT,
    "sweep_link": _TEXT,
    "repetition": _INT,
}
"""The columns that say which run a row belongs to. They begin each table."""

SCHEMAS = {
    "links": {
        **_SETTING,
        "link": _TEXT,
        "source": _TEXT,
        "target": _TEXT,
        "count": _INT,
        "rate": _INT,
        "delay": _INT,
        "jitter": _INT,
        "bytes": _INT,
        "estimated": _BOOL,
        "transactions": _INT,
        "messages": _INT,
        "overhead": _INT,
        "resent": _INT,
    },
    "nodes": {
        **_SETTING,
        "basis": _TEXT,
        "node": _TEXT,
        "channel": _TEXT,
        "count": _INT,
        "transactions": _INT,
        "missing": _INT,
        "bytes": _INT,
        "p50": _INT,
        "p95": _INT,
        "p99": _INT,
        "worst": _INT,
        "above": _INT,
    },
    "outages": {**_SETTING, "link": _TEXT, "start": _INT, "end": _INT, "catch_up": _INT},
    "link_series": {
        **_SETTING,
        "link": _TEXT,
        "start": _INT,
        "width": _INT,
        "offered": _INT,
        "carried": _INT,
    },
    "node_series": {**_SETTING, "node": _TEXT, "start": _INT, "width": _INT, "lag": _INT},
    "found": {
        "node": _TEXT,
        "count": _INT,
        "variant": _TEXT,
        "load": _FLOAT,
        "what": _TEXT,
        "link": _TEXT,
        "value": _INT,
        "worst": _INT,
    },
    "members": {**_SETTING, "node": _TEXT, "member": _TEXT},
}
"""The columns of each table. Times are microseconds, rates are bits per second."""


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
    return {
        name: pa.Table.from_pylist(list(rows[name]), pa.schema(list(columns.items())))
        for name, columns in SCHEMAS.items()
    }


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
