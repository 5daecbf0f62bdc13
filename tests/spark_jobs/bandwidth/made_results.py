"""Generated results of a bandwidth job, for tests of the report."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import numpy as np

from dumpfilter.analyse.report.measures import Audience, Division, OverTime, Period
from dumpfilter.spark_jobs.bandwidth.results import (
    Figures,
    Peak,
    RealReplica,
    Results,
    RuleSaving,
    Series,
    SlaveFigures,
    SourceFigures,
    TableFigures,
    TableShare,
    totals_of,
    with_totals,
)
from dumpfilter.spark_jobs.ranges import Damage

_SCHEMAS = ["shop", "billing", "analytics", "crm", "warehouse", "sessions", "audit", "cms"]
_NOUNS = [
    "orders",
    "order_items",
    "customers",
    "events",
    "page_views",
    "invoices",
    "stock",
    "log",
    "tokens",
    "prices",
]
_PLACES = ["fra", "iad", "sin", "gru", "syd", "nrt", "lhr"]
_USES = ["report", "search", "shop-read", "backup", "billing", "etl", "crm"]
START = 1_772_409_600  # 2026-03-02 00:00 UTC


def _amount(size: int) -> Figures:
    return Figures(bytes=size, events=size // 210, transactions=size // 900)


def _real_replica(whole: int, sent: int) -> RealReplica:
    dropped = whole - sent
    return RealReplica(
        bytes=sent + sent // 42 + dropped // 8,
        bytes_gtid=dropped // 9,
        stand_ins=dropped // 900,
        bytes_from_source=whole + whole // 42,
        compressed=int(sent * 0.42) + dropped // 8,
        compressed_from_source=int(whole * 0.42),
    )


def _peak(starts: tuple[int, ...], values: list[int], bucket: int) -> Peak | None:
    if not sum(values):
        return None
    at = max(range(len(values)), key=values.__getitem__)
    return Peak(start=starts[at], bytes=values[at], bytes_per_second=values[at] / bucket)


def _spread(size: int, curve: np.ndarray) -> list[int]:
    return [int(part) for part in curve / curve.sum() * size]


_SKIPPED = (
    Damage(
        file="db1-bin.000815", position=73_220_114, reason="event checksum mismatch", damaged_at=73_220_993
    ),
)
_SLAVE_WARNINGS = ("comma: --replicate-do-db=shop,hr: a comma does not separate names.",)
_WARNINGS = ("3 statements have no default database that can be known: sent to every slave",)


def _saving(rule: str, rules: list[str], by_schema: dict[str, int], whole: int, sent: int) -> int:
    """Return the saving of a rule ``--replicate-do-db``. One of several such rules saves nothing, since it admits its
    schema."""
    schema = rule.partition("=")[2]
    if schema not in by_schema:
        return by_schema.get("analytics", 0) // 3
    return -by_schema[schema] if sum("do-db" in other for other in rules) > 1 else whole - sent


def _tables(names: list[tuple[str, str]], sizes: np.ndarray) -> list[TableFigures]:
    """Return the tables with these sizes, and the traffic of no table, the largest first."""
    weighed = sorted(
        (
            TableFigures(
                name=f"{schema}.{table}",
                database=schema,
                table=table,
                bytes=int(size),
                events=int(size) // 210,
                transactions=int(size) // 900,
            )
            for (schema, table), size in zip(dict.fromkeys(names), sizes, strict=False)
        ),
        key=lambda t: -t.bytes,
    )
    rest = TableFigures(
        name="(no table)",
        database=None,
        table=None,
        bytes=int(sizes.sum()) // 40 + 1,
        events=900,
        transactions=0,
    )
    return sorted([*weighed, rest], key=lambda t: -t.bytes)


def _over_time(
    tables: list[TableFigures], starts: tuple[int, ...], series: list[int]
) -> tuple[OverTime, ...]:
    """Return the bytes of schemas and tables in four periods."""
    sizes: dict[Division, Counter[str]] = {Division.SCHEMA: Counter(), Division.TABLE: Counter()}
    for one in tables:
        sizes[Division.SCHEMA][one.database or one.name] += one.bytes
        sizes[Division.TABLE][one.name] += one.bytes
    quarter = -(-len(starts) // 4)
    parts = {starts[at]: sum(series[at : at + quarter]) for at in range(0, len(starts), quarter)}
    whole = sum(series) or 1
    return tuple(
        OverTime(
            by=by,
            period_seconds=6 * 3600,
            names=tuple(name for name, _ in of_names.most_common()),
            periods=tuple(
                Period(start=start, bytes={name: size * part // whole for name, size in of_names.items()})
                for start, part in parts.items()
            ),
        )
        for by, of_names in sizes.items()
    )


def _source(whole: int, seconds: int) -> SourceFigures:
    return SourceFigures(
        files=tuple(f"db1-bin.{i:06}" for i in range(812, 812 + max(1, whole >> 28))),
        bytes=whole + 600,
        events=whole // 210,
        transactions=whole // 900,
        family="mysql",
        server_version="8.4.3",
        first_time=START + 3,
        last_time=START + seconds - 5,
        active_seconds=max(seconds - 8, 0),
    )


def made_results(
    *,
    slaves: int = 12,
    tables: int = 60,
    hours: float = 30,
    bucket: int = 60,
    rules: bool = True,
    troubles: bool = True,
    price: float | None = None,
    audience: Audience = Audience.REPLICAS,
    seed: int = 1,
) -> Results:
    """Return results with a few busy tables and a long tail, days and nights, a burst, and slaves of one to a few
    schemas."""
    rng = np.random.default_rng(seed)
    weights = np.sort(rng.lognormal(0, 1.7, tables))[::-1]
    sizes = (weights / weights.sum() * hours * 70 * 2**20).astype(np.int64) + 300
    names = [
        (
            _SCHEMAS[int(rng.integers(len(_SCHEMAS)))],
            f"{_NOUNS[i % len(_NOUNS)]}{f'_{i // 10:02}' if i >= 10 else ''}",
        )
        for i in range(tables)
    ]
    weighed = _tables(names, sizes)
    whole = sum(t.bytes for t in weighed)

    buckets = max(1, round(hours * 3600 / bucket))
    starts = tuple(START + i * bucket for i in range(buckets))
    clock = np.arange(buckets) * bucket / 3600
    shape = 1.2 + np.sin((clock - 9) / 24 * 2 * np.pi) + rng.gamma(2, 0.12, buckets)
    shape[buckets // 9 : buckets // 9 + max(1, buckets // 60)] *= 2.7

    unfiltered = _spread(whole, shape)
    found, series = [], {}
    for number in range(slaves):
        wanted = set(rng.choice(_SCHEMAS, int(rng.integers(1, 5)), replace=False).tolist())
        name = f"{_PLACES[number % len(_PLACES)]}-{_USES[number * 3 % len(_USES)]}-{number + 1:02}"
        options = [f"--replicate-do-db={schema}" for schema in sorted(wanted)]
        if number % 3 == 0:
            options.append("--replicate-wild-ignore-table=analytics.page\\_views%")
        if not rules or number == slaves - 1 > 0:
            options, wanted = [], set(_SCHEMAS)
        kept = [t for t in weighed if t.database in wanted or t.database is None]
        sent = sum(t.bytes for t in kept) if options else whole
        dip = shape * (1 + 0.4 * np.sin(clock / 5 + number))
        series[name] = tuple(_spread(sent, dip)) if options else tuple(unfiltered)
        by_schema = {s: sum(t.bytes for t in kept if t.database == s) for s in wanted}
        found.append(
            SlaveFigures(
                name=name,
                server_id=100 + number,
                semantics="classic" if number % 4 else "effective",
                rules=tuple(options),
                no_filter=_amount(whole),
                master_side=_amount(sent),
                real_replica=_real_replica(whole, sent),
                undecided_events=int(rng.integers(0, 50)),
                compressed_no_filter=int(whole * 0.31),
                compressed=int(sent * 0.31),
                split=min(whole, int(sent * 1.12)),
                split_sets=tuple(sorted(wanted)),
                peak_no_filter=_peak(starts, unfiltered, bucket),
                peak=_peak(starts, list(series[name]), bucket),
                rule_savings=tuple(
                    RuleSaving(rule=rule, bytes_without=sent + saving, saving=saving)
                    for rule in options
                    for saving in [_saving(rule, options, by_schema, whole, sent)]
                ),
                tables=tuple(TableShare(table=t.name, bytes=t.bytes) for t in kept),
                warnings=_SLAVE_WARNINGS if troubles else (),
            )
        )
    results = Results(
        audience=audience,
        source=_source(whole, buckets * bucket),
        bucket_seconds=bucket,
        bucket_starts=starts,
        slaves=tuple(found),
        totals=totals_of(found, 0, audience),
        measured_at=START + buckets * bucket,
        tables=tuple(weighed),
        series=Series(no_filter=tuple(unfiltered), slaves=series, of_origins={}),
        over_time=_over_time(weighed, starts, unfiltered),
        skipped=_SKIPPED if troubles else (),
        warnings=_WARNINGS if troubles else (),
    )
    return with_totals(results, price)


def with_equal_slaves(results: Results, count: int) -> Results:
    """Return the results with ``count`` equal slaves in place of each slave."""
    slaves = []
    series = {}
    for slave in results.slaves:
        for number in range(1, count + 1):
            name = f"{slave.name}-{number}"
            slaves.append(slave.model_copy(update={"name": name, "server_id": 1000 + len(slaves)}))
            series[name] = results.series.slaves[slave.name]
    made = results.model_copy(
        update={
            "slaves": tuple(slaves),
            "series": results.series.model_copy(update={"slaves": series}),
        }
    )
    return with_totals(made, results.price_per_gb)


def empty_results(slaves: int = 1) -> Results:
    """Return results of a binlog that has only file events."""
    nothing = Figures(bytes=0, events=0, transactions=0)
    names = [f"slave{i}" for i in range(slaves)]
    return Results(
        source=SourceFigures(
            files=("bin.000001",),
            bytes=126,
            events=2,
            transactions=0,
            family="mariadb",
            server_version="11.4.5-MariaDB-log",
            first_time=None,
            last_time=None,
            active_seconds=0,
        ),
        bucket_seconds=60,
        bucket_starts=(),
        slaves=tuple(
            SlaveFigures(
                name=name,
                server_id=None,
                semantics="classic",
                rules=(),
                no_filter=nothing,
                master_side=nothing,
                real_replica=RealReplica(bytes=0, bytes_gtid=0, stand_ins=0, bytes_from_source=0),
                undecided_events=0,
                compressed_no_filter=0,
                compressed=0,
                split=0,
                split_sets=(),
                peak_no_filter=None,
                peak=None,
                rule_savings=(),
                tables=(),
            )
            for name in names
        ),
        totals=totals_of((), 0, Audience.SLAVES),
        tables=(),
        series=Series(no_filter=(), slaves=dict.fromkeys(names, ()), of_origins={}),
    )


HOSTILE = [
    "<img src=x onerror=window.pwned=1>",
    "</script><script>window.pwned=1</script>",
    "<b>bold</b><br><sub>x</sub>",
    '<a href="javascript:window.pwned=1">go</a>',
    "&lt;i&gt;&amp;",
    "\u2028\u2029\n\r\t\0",
    "\u202egnp.exe",
    "\udc80 not UTF-8",
    "var(--page)",
    "2024-01-01",
    "1e5",
    "%{y} $x^2$ {{ 7 * 7 }} {% raw %}",
    "__proto__",
    "\"'`;--",
    "x" * 300,
    "",
]


def with_names(results: Results, names: list[str]) -> Results:
    """Return the results with ``names`` for tables, slaves and all other names, as far as the names go."""
    table = dict(zip([t.name for t in results.tables], names, strict=False))
    slave = dict(zip([s.name for s in results.slaves], names, strict=False))
    plain: dict[str, Any] = json.loads(results.model_dump_json())
    for one in plain["tables"]:
        one["name"] = table.get(one["name"], one["name"])
    for one in plain["slaves"]:
        one["name"] = slave.get(one["name"], one["name"])
        one["split_sets"] = names[: len(one["split_sets"])]
        one["rules"] = (names * 9)[: len(one["rules"])]
        one["warnings"] = [f"{name}." for name in names[: len(one["warnings"])]]
        for rule, name in zip(one["rule_savings"], names * 9, strict=False):
            rule["rule"] = name
        for part in one["tables"]:
            part["table"] = table.get(part["table"], part["table"])
    for over in plain["over_time"]:
        if over["by"] == "table":
            over["names"] = [table.get(name, name) for name in over["names"]]
            for period in over["periods"]:
                period["bytes"] = {table.get(name, name): n for name, n in period["bytes"].items()}
    plain["series"]["slaves"] = {slave.get(k, k): v for k, v in plain["series"]["slaves"].items()}
    for one in plain["skipped"]:
        one["file"] = one["reason"] = names[0]
    plain["warnings"] = [names[0]] * len(plain["warnings"])
    plain["source"]["files"] = (names * 9)[: len(plain["source"]["files"])]
    plain["source"]["server_version"] = names[0]
    plain["remarks"] = [names[0]] * len(plain["remarks"])
    return Results.model_validate(plain)


CASES = {
    "usual": made_results(),
    "many": made_results(slaves=100, tables=200, hours=40, bucket=600),
    "one": made_results(slaves=1, tables=1, hours=1 / 3600, bucket=1, rules=False, troubles=False),
    "empty": empty_results(),
    "no slaves": empty_results(0),
    "hostile": with_names(made_results(slaves=17, tables=20, hours=0.5), HOSTILE),
}
