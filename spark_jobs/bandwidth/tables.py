"""The results of the bandwidth job as Arrow tables, one for each Parquet file.

The models of the results say which columns the tables have, and what the columns mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
from pydantic import BaseModel

from dumpfilter.report.parquet import TEXT, Column, ParquetTable, UnixTime, columns_of, flat
from dumpfilter.spark_jobs.bandwidth.results import (
    Results,
    RuleSaving,
    SlaveFigures,
    TableFigures,
    TableShare,
)

SLAVE, NO_FILTER = "slave", "no filter"
"""The kinds of rows of the table ``traffic``."""

_SLAVE = Column("slave", TEXT, "The slave's name.")


class _Traffic(BaseModel):
    """A row of the table ``traffic``."""

    kind: str
    """`slave` for a slave with its filter on the master, or `no filter` for one slave without a filter. Choose a kind
    before you add up bytes."""
    slave: str | None
    """The slave's name; null for the kind `no filter`."""
    start: UnixTime
    """The begin of the time bucket, UTC."""
    seconds: int
    """The length of the bucket, seconds."""
    bytes: int
    """Bytes in the bucket, for the readers of `--for`."""


_OF_SLAVES = {"rule_savings", "tables"}
"""The figures of a slave that have tables of their own."""

FORMS: Mapping[str, ParquetTable] = {
    "slaves": ParquetTable("each slave", tuple(columns_of(SlaveFigures, without=_OF_SLAVES))),
    "rules": ParquetTable("each rule of each slave", (_SLAVE, *columns_of(RuleSaving))),
    "tables": ParquetTable("each table of the source", tuple(columns_of(TableFigures))),
    "slave_tables": ParquetTable("each table that a slave is sent", (_SLAVE, *columns_of(TableShare))),
    "traffic": ParquetTable(
        "each time bucket of each slave, and of a slave without a filter",
        tuple(columns_of(_Traffic)),
        order=("kind", "slave", "start"),
    ),
}
"""The forms of all tables. The documentation has them, too (``python tools/doc_tables.py``)."""


def tables(results: Results) -> dict[str, pa.Table]:
    """Return a job's results as Arrow tables by name, in the forms of :data:`FORMS`."""
    rows: dict[str, Iterable[dict[str, Any]]] = {
        "slaves": (flat(one.model_dump(exclude=_OF_SLAVES)) for one in results.slaves),
        "rules": (
            {"slave": one.name, **saving.model_dump()}
            for one in results.slaves
            for saving in one.rule_savings
        ),
        "tables": (one.model_dump() for one in results.tables),
        "slave_tables": (
            {"slave": one.name, **share.model_dump()} for one in results.slaves for share in one.tables
        ),
        "traffic": (
            {
                "kind": NO_FILTER if name is None else SLAVE,
                "slave": name,
                "start": start,
                "seconds": results.bucket_seconds,
                "bytes": nbytes,
            }
            for name, column in [(None, results.series.no_filter), *results.series.slaves.items()]
            for start, nbytes in zip(results.bucket_starts, column, strict=True)
        ),
    }
    return {name: form.of_rows(rows[name]) for name, form in FORMS.items()}
