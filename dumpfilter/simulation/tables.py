"""The results of simulations and experiments as Arrow tables, one for each Parquet file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pydantic import BaseModel

from dumpfilter.analyse.report.parquet import INT, TEXT, Column, ParquetTable, columns_of
from dumpfilter.simulation.results import (
    Found,
    LagFigures,
    LinkFigures,
    NodeFigures,
    OutageFigures,
    Results,
    Run,
    Series,
)


class _Setting(BaseModel):
    """The columns that say which run a row belongs to. They begin each table but ``found``."""

    run: int
    """The run's number in `results.json`, from 1."""
    method: str
    """`simulated` or `measured`."""
    variant: str
    """The way to bring the binlog to the slaves."""
    load: float
    """The factor of `--scale-load`."""
    sweep_rate: int | None
    """The rate of a sweep; null without one."""
    sweep_delay: int | None
    """The delay of a sweep; null without one."""
    sweep_link: str | None
    """The link of a sweep; null for all links."""
    repetition: int
    """The repetition's number, from 1."""


class _Span(BaseModel):
    """A span of time of a series."""

    start: int
    """Microseconds since the run's first commit."""
    width: int
    """The length of the span."""


class _LinkSpan(BaseModel):
    """The traffic of a link in a span of time."""

    offered: int
    """Bytes that the source had for the link in the span."""
    carried: int | None
    """Bytes that left the source over the link in the span."""


_SETTING = tuple(columns_of(_Setting))
_SPAN = tuple(columns_of(_Span))
_LINK = Column("link", TEXT, "`SOURCE:TARGET`.")
_NODE = Column("node", TEXT, "The node's name.")

FORMS: Mapping[str, ParquetTable] = {
    "links": ParquetTable(
        "each link of each run", (*_SETTING, _LINK, *columns_of(LinkFigures, without={"name", "outages"}))
    ),
    "nodes": ParquetTable(
        "each node of each run, and each channel of a node with several sources",
        (
            *_SETTING,
            Column("basis", TEXT, "When a node has a transaction: `received` or `applied`."),
            _NODE,
            *columns_of(NodeFigures, without={"name", "members", "lag"}),
            *columns_of(LagFigures),
        ),
    ),
    "outages": ParquetTable("each outage of a link", (*_SETTING, _LINK, *columns_of(OutageFigures))),
    "link_series": ParquetTable(
        "each span of time of a link",
        (*_SETTING, _LINK, *_SPAN, *columns_of(_LinkSpan)),
        order=("run", "link", "start"),
    ),
    "node_series": ParquetTable(
        "each span of time of one of the nodes with the greatest lag",
        (*_SETTING, _NODE, *_SPAN, Column("lag", INT, "The greatest lag in the span.")),
        order=("run", "node", "start"),
    ),
    "found": ParquetTable("each answer of `--find`", tuple(columns_of(Found))),
    "members": ParquetTable(
        "each node that shares its figures with others",
        (*_SETTING, _NODE, Column("member", TEXT, "A node with these figures. `node` is the first of them.")),
    ),
}
"""The columns of all tables. The documentation is made from them, too (``python tools/doc_tables.py``)."""


def tables(results: Results) -> dict[str, pa.Table]:
    """Return the results of a simulation or experiment as Arrow tables, by the name of the Parquet file."""
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in FORMS}
    for number, run in enumerate(results.runs, 1):
        setting = _setting(number, run)
        for link in run.links:
            of_link = {**setting, "link": link.name}
            rows["links"].append({**of_link, **link.model_dump()})
            rows["outages"] += ({**of_link, **outage.model_dump()} for outage in link.outages)
        for node in run.nodes:
            of_node = {**setting, "node": node.name}
            figures = {**node.model_dump(), **node.lag.model_dump()}
            rows["nodes"].append({**of_node, "basis": run.basis.value, **figures})
            rows["members"] += ({**of_node, "member": member} for member in node.members)
        rows["link_series"] += _series(setting, run.series, "link", ("offered", "carried"))
        rows["node_series"] += _series(setting, run.series, "node", ("lag",))
    rows["found"] += (one.model_dump(mode="json") for one in results.found)
    return {name: form.of_rows(rows[name]) for name, form in FORMS.items()}


def _setting(number: int, run: Run) -> dict[str, Any]:
    """Return the values that identify a run, as columns of :class:`_Setting`."""
    setting = run.setting
    sweep = (setting.rate, setting.delay, setting.link)
    values = (number, run.method.value, setting.variant.value, setting.load, *sweep, run.repetition)
    return dict(zip(_Setting.model_fields, values, strict=True))


def _series(
    setting: dict[str, Any], series: Series, key: str, columns: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """Yield one row for each interval of each link or node of a run. ``key`` is the name of the column for the
    link's or node's name.
    """
    found: list[dict[str, tuple[int, ...]]] = [getattr(series, column) for column in columns]
    for name, values in found[0].items():
        lists = [of.get(name, (None,) * len(values)) for of in found]
        for k, row in enumerate(zip(*lists, strict=True)):
            own = dict(zip(columns, row, strict=True))
            yield {
                **setting,
                key: name,
                "start": series.start + k * series.width,
                "width": series.width,
                **own,
            }
