"""Printing of the statistics of a binlog set as tables, for terminals of 80 columns or more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.markup import escape
from rich.text import Text

from dumpfilter.analyse.inspection.by_heading import Rates
from dumpfilter.analyse.inspection.inspection import TOP, Inspection, Large
from dumpfilter.analyse.report.measures import OverTime, wider
from dumpfilter.analyse.report.terminal import Cell, table
from dumpfilter.analyse.report.text import human_bytes, human_duration, human_files, shorten, utc
from dumpfilter.base.printable import printable, visible

_BARS = " ▁▂▃▄▅▆▇█"
"""The characters that draw rates as a line of bars, by height."""

_WIDTH = 64
"""The maximum number of bars in a line of rates. With its heading the line fits into 80 columns."""

_TEXT_SHOWN = 38
"""The maximum length of a statement's text, characters. The MySQL GTID in the line above is at least as long."""

_NAME_SHOWN = 16
"""The maximum length of a column's head in the table of bytes over time, characters."""

_BYTES_SHOWN = 8
"""The width of a number of bytes, such as "1023 KiB", characters."""

_TABLES_SHOWN = 3
"""The maximum number of tables to name for one large transaction or statement."""


def render_inspection(found: Inspection, console: Console, *, top: int = TOP) -> None:
    """Print the statistics of a binlog set as tables. ``top`` limits the listed tables, transactions and statements."""
    total = sum(size for _, size in found.files)
    console.print(f"[bold]{_files(found)}, {total:,} bytes, written by {found.server_version}")
    if found.first_time is not None and found.last_time is not None:
        console.print(f"time: {_time(found.first_time)} to {_time(found.last_time)}")
    else:
        console.print("time: –")
    console.print(f"transactions: {found.transactions:,}")
    _print_compression(found, console, total)
    console.print(f"GTIDs: {_short(found.gtids) or 'none'}", soft_wrap=True)
    for title, gtids in (("before them", found.gtids_before), ("dropped by the master", found.gtids_dropped)):
        if gtids:
            console.print(f"{title}: {_short(gtids)}", soft_wrap=True)
    events, inside = (
        [((kind,), sums) for kind, sums in types.items()]
        for types in (found.events, found.events_inside_compressed_transactions)
    )
    _print_sums(console, "Events by type", ["type"], events, total)
    if inside:
        whole = sum(size for _, (_, size) in inside)
        _print_sums(console, "Events inside compressed transactions", ["type"], inside, whole)
    compressed = bool(found.compression.bytes)
    schemas = [((name,), volume[: 2 + compressed]) for name, volume in found.schemas().items()]
    _print_sums(console, "Bytes by schema", ["schema"], schemas, total)
    tables = [(key, volume[: 2 + compressed]) for key, volume in found.tables.items()]
    _print_sums(console, "Bytes by table", ["schema", "table"], tables[:top], total)
    if len(tables) > top:
        console.print(f"… and {len(tables) - top} more tables (--top {len(tables)} shows all)")
    if found.over_time is not None:
        _print_over_time(console, found.over_time, top)
    _print_large(console, "Largest transactions", found.largest_transactions[:top], compressed=compressed)
    _print_large(console, "Largest statements", found.largest_statements[:top], compressed=compressed)
    _print_rates(console, found.rates)


def _files(found: Inspection) -> str:
    names = [escape(visible(found.files[k][0])) for k in (0, -1)]
    return f"{human_files(len(found.files))}[/], {' to '.join(dict.fromkeys(names))}"


def _print_compression(found: Inspection, console: Console, total: int) -> None:
    one = found.compression
    if one.ratio is None:
        return
    what = []
    if one.transactions:
        what.append(f"{one.transactions:,} of {found.transactions:,} transactions")
    if one.events:
        what.append(f"{one.events:,} events")
    console.print(
        f"compression: {' and '.join(what)}, {one.bytes_uncompressed:,} bytes in {one.bytes:,} "
        f"({one.ratio:.1f} to 1, {100 * one.bytes / max(total, 1):.1f} % of the files)"
    )
    if one.transactions_not_opened:
        console.print(
            f"compressed transactions that are too large to open, or damaged: {one.transactions_not_opened:,}"
        )


def _print_sums(
    console: Console,
    title: str,
    names: Sequence[str],
    sums: Sequence[tuple[Sequence[str], Sequence[int]]],
    total: int,
) -> None:
    """Print a table with a row for each type, schema or table. ``names`` are the heads of the columns before the sums.

    The sums of a row are events, bytes, and perhaps the bytes without compression. ``total`` are the bytes of 100 %.
    """
    figures = [
        "events",
        "bytes",
        "share",
        *(["uncompressed"] if any(len(row) > 2 for _, row in sums) else []),
    ]
    rows = [
        (*keys, f"{n:,}", f"{size:,}", _percent(size, total), *(f"{each:,}" for each in uncompressed))
        for keys, (n, size, *uncompressed) in sums
    ]
    console.print(table((*names, *figures), rows, title=title, numbers=figures))


def _print_large(console: Console, title: str, objects: list[Large], *, compressed: bool) -> None:
    if not objects:
        return
    rows: list[tuple[Cell, ...]] = []
    for one in objects:
        names = list(map(visible, one.tables[:_TABLES_SHOWN]))
        if len(one.tables) > _TABLES_SHOWN:
            names.append(f"and {len(one.tables) - _TABLES_SHOWN:,} more")
        where = Text("\n".join(filter(None, (f"{one.file}:{one.position}", one.gtid))))
        if one.text:
            where.append("\n" + printable(" ".join(one.text.split()), _TEXT_SHOWN), "dim")
        changes = "\n".join([", ".join(one.kinds), *names]).strip()
        rows.append(
            (where, changes, f"{one.bytes_uncompressed:,}", *([f"{one.bytes:,}"] if compressed else []))
        )
    # A GTID of MySQL takes 40 columns, so that the headings of the other columns are short.
    figures = ("size", "in file") if compressed else ("bytes",)
    title += ", by size without compression" if compressed else ""
    console.print(table(("place", "changes", *figures), rows, title=title, numbers=figures))


def _print_over_time(console: Console, found: OverTime, top: int) -> None:
    """Print a table of bytes with one row for each period. The largest schemas or tables have a column each, as many
    as fit. The last column sums up the others.
    """
    room = console.width - sum(
        2 + width for width in (len("2026-11-22 10:00:00"), _BYTES_SHOWN, _BYTES_SHOWN)
    )
    shown = []
    for name in found.names[:top]:
        room -= 2 + max(_BYTES_SHOWN, min(len(name), _NAME_SHOWN))
        if room < 0:
            break
        shown.append(name)
    others = len(found.names) - len(shown)
    heads = ["all", *(shorten(visible(name), _NAME_SHOWN) for name in shown)]
    heads += [f"{others:,} more"] if others else []
    rows = []
    for period in found.periods:
        own = [period.bytes.get(name, 0) for name in shown]
        total = sum(period.bytes.values())
        cells = [total, *own, *([total - sum(own)] if others else [])]
        time = utc(period.start) if period.start else "no timestamp"
        rows.append((time, *(human_bytes(cell) if cell else "–" for cell in cells)))
    title = f"Bytes by {found.by.value} over time, {human_duration(found.period_seconds)} a row"
    console.print(table(("from, UTC", *heads), rows, title=title, numbers=heads, framed=False))


def _print_rates(console: Console, rates: Rates) -> None:
    """Print bytes and transactions over time as two lines of bars. Periods without traffic have no bar, so that a
    single wrong timestamp takes one bar only.
    """
    timed = [(one.start, one) for one in rates.buckets if one.start is not None]
    if not timed:
        return
    width = each = rates.bucket_seconds
    while len({start // each for start, _ in timed}) > _WIDTH:
        each = wider(each)
    _, place = np.unique([start // each for start, _ in timed], return_inverse=True)
    console.print(
        f"[bold]Rates over time[/], {utc(timed[0][0])} to {_time(timed[-1][0] + width)}, "
        f"{human_duration(each)} a bar"
    )
    for name in ("bytes", "transactions"):
        sums = np.bincount(place, weights=[getattr(one, name) for _, one in timed])
        console.print(f"{name:>12} {_line(sums)}", highlight=False, no_wrap=True, overflow="crop")
    start, busiest = max(timed, key=lambda pair: pair[1].bytes)
    console.print(
        f"highest: {busiest.bytes / width:,.0f} bytes a second from {_time(start)} "
        f"on, for {human_duration(width)}"
    )
    untimed = sum(one.transactions for one in rates.buckets if one.start is None)
    if untimed:
        console.print(f"{untimed:,} transactions without a timestamp are left out of the lines")


def _line(sums: npt.NDArray[Any]) -> str:
    highest = float(sums.max()) or 1.0
    heights = np.ceil(sums / highest * (len(_BARS) - 1)).astype(int)
    return "".join(_BARS[height] for height in heights)


def _percent(size: int, total: int) -> str:
    return f"{100 * size / max(total, 1):.1f} %"


def _time(seconds: int) -> str:
    return f"{utc(seconds)} UTC"


def _short(gtids: str) -> str:
    return gtids if len(gtids) <= 2000 else f"{gtids[:2000]}… ({len(gtids):,} characters; --json has all)"
