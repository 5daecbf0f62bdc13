"""The results of the bandwidth job as Arrow tables, one for each Parquet file."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from dumpfilter.report.parquet import BOOL, FLOAT, INT, TEXT, TEXTS, TIME, Column, ParquetTable
from dumpfilter.spark_jobs.bandwidth.results import Results, SlaveFigures

SLAVE, NO_FILTER = "slave", "no filter"
"""The kinds of rows of the table ``traffic``."""


def _amount(name: str, meaning: str) -> tuple[Column, ...]:
    return (
        Column(f"{name}_bytes", INT, f"bytes {meaning}"),
        Column(f"{name}_events", INT, "the events of these bytes"),
        Column(f"{name}_transactions", INT, "the transactions with at least one of these events"),
    )


def _peak(name: str, meaning: str) -> tuple[Column, ...]:
    return (
        Column(
            f"{name}_start", TIME, f"the begin of the busiest time bucket {meaning}; null without traffic"
        ),
        Column(f"{name}_bytes", INT, "the bytes in this bucket"),
        Column(f"{name}_bytes_per_second", FLOAT, "the bytes a second in this bucket"),
    )


_WAYS = {
    "no_filter": "without a filter",
    "filter": "with the filter on the master",
    "compression": "compressed, without a filter (estimate)",
    "both": "with the filter on the master and compressed (estimate)",
}


def _month() -> tuple[Column, ...]:
    short = "null if the binlogs span too little time"
    return tuple(
        Column(f"month_bytes_{name}", INT, f"bytes of a month {meaning}; {short}")
        for name, meaning in _WAYS.items()
    ) + tuple(
        Column(f"month_price_{name}", FLOAT, f"the price of a month {meaning}; null without `--price`")
        for name, meaning in _WAYS.items()
    )


FORMS: Mapping[str, ParquetTable] = {
    "slaves": ParquetTable(
        "each slave",
        (
            Column("name", TEXT, "the slave's name"),
            Column("server_id", INT, "the slave's server id, or null"),
            Column("semantics", TEXT, "`classic` (the servers' rules) or `effective` (WL#2516)"),
            Column("rules", TEXTS, "the rules as options"),
            *_amount("no_filter", "that the slave would receive without a filter"),
            *_amount("master_side", "that the master sends with the slave's filter"),
            Column(
                "real_replica_bytes", INT, "bytes for a real replica with the same rules; null without GTIDs"
            ),
            Column("real_replica_bytes_gtid", INT, "the bytes of stand-ins among them"),
            Column("real_replica_stand_ins", INT, "the number of stand-ins"),
            Column("real_replica_bytes_from_source", INT, "bytes that the source's own server sends"),
            Column(
                "real_replica_compressed",
                INT,
                "`real_replica_bytes` with each transaction compressed alone, an estimate",
            ),
            Column(
                "real_replica_compressed_from_source",
                INT,
                "`real_replica_bytes_from_source`, compressed in the same way",
            ),
            Column(
                "real_replica_is_upper_bound",
                BOOL,
                "whether a real replica receives at most `real_replica_bytes`, and perhaps less (MariaDB)",
            ),
            Column("undecided_events", INT, "events that the master sends because it cannot decide"),
            Column("compressed_no_filter", INT, "`no_filter_bytes` as zstd, an estimate"),
            Column("compressed", INT, "`master_side_bytes` as zstd, an estimate"),
            Column("split", INT, "bytes of the schemas' whole binlogs that the slave needs"),
            Column("split_sets", TEXTS, "these schemas"),
            *_peak("peak_no_filter", "without a filter"),
            *_peak("peak", "with the filter on the master"),
            Column(
                "nothing_passes", BOOL, "whether the filter drops every row and every statement on a table"
            ),
            Column("warnings", TEXTS, "the warnings about the slave's filter"),
            *_month(),
        ),
    ),
    "rules": ParquetTable(
        "each rule of each slave",
        (
            Column("slave", TEXT, "the slave's name"),
            Column("rule", TEXT, "the rule as an option"),
            Column("bytes_without", INT, "bytes that the master would send without this rule"),
            Column(
                "saving",
                INT,
                "`bytes_without` minus the bytes that are sent; negative if the rule lets events in",
            ),
        ),
    ),
    "tables": ParquetTable(
        "each table of the source",
        (
            Column("name", TEXT, "`schema.table`, `schema (statements)`, `(several tables)` or `(no table)`"),
            Column("database", TEXT, "the schema; null for traffic of no single schema"),
            Column("table", TEXT, "the table; null for traffic of no single table"),
            Column("bytes", INT, "bytes in the binlog, before any filter"),
            Column("events", INT, "events in the binlog"),
            Column("transactions", INT, "transactions in the binlog"),
        ),
    ),
    "slave_tables": ParquetTable(
        "each table that a slave is sent",
        (
            Column("slave", TEXT, "the slave's name"),
            Column("table", TEXT, "the `name` of the table in `tables`"),
            Column("bytes", INT, "bytes with the filter on the master"),
        ),
    ),
    "traffic": ParquetTable(
        "each time bucket of each slave, and of a slave without a filter",
        (
            Column(
                "kind",
                TEXT,
                f"`{SLAVE}` for a slave with its filter on the master, or `{NO_FILTER}` for one slave without a "
                "filter. Choose a kind before you add up bytes",
            ),
            Column("slave", TEXT, f"the slave's name; null for the kind `{NO_FILTER}`"),
            Column("start", TIME, "the begin of the time bucket, UTC"),
            Column("seconds", INT, "the length of the bucket, seconds"),
            Column("bytes", INT, "bytes in the bucket, for the readers of `--for`"),
        ),
        order=("kind", "slave", "start"),
    ),
}
"""The forms of all tables. The documentation has them, too (``python tools/parquet_tables.py``)."""


def tables(results: Results) -> dict[str, pa.Table]:
    """Return a job's results as Arrow tables by name, in the forms of :data:`FORMS`."""
    rows: dict[str, Iterable[dict[str, Any]]] = {
        "slaves": (_slave_row(one) for one in results.slaves),
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
                "start": _time(start),
                "seconds": results.bucket_seconds,
                "bytes": nbytes,
            }
            for name, column in [(None, results.series.no_filter), *results.series.slaves.items()]
            for start, nbytes in zip(results.bucket_starts, column, strict=True)
        ),
    }
    return {name: form.of_rows(rows[name]) for name, form in FORMS.items()}


def _slave_row(one: SlaveFigures) -> dict[str, Any]:
    row = _flat(one.model_dump(exclude={"tables", "rule_savings"}))
    for name in ("peak_no_filter_start", "peak_start"):
        row[name] = _time(row.get(name))
    return row


def _flat(members: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested members as one level, with names joined by underscores. Missing members have no entry."""
    row: dict[str, Any] = {}
    for name, value in members.items():
        if isinstance(value, Mapping):
            row |= {f"{name}_{key}": inner for key, inner in _flat(value).items()}
        else:
            row[name] = value
    return row


def _time(seconds: int | None) -> datetime.datetime | None:
    return None if seconds is None else datetime.datetime.fromtimestamp(seconds, datetime.UTC)
