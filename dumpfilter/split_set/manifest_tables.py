"""The tables that ``dumpfilter manifest`` prints about a split: its source and the files of its binlogs."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from dumpfilter.printable import visible
from dumpfilter.split_set.manifest import BinlogPart, Manifest, NamedBinlog, Place


def render_manifest(manifest: Manifest, binlogs: Iterable[NamedBinlog], console: Console) -> None:
    """Print the binlog set that was split, and for each of ``binlogs`` a table of its files. Times are UTC."""
    source = manifest.source
    console.print(
        f"split {_time(manifest.made)} from {shown(source[0].name)} to {shown(source[-1].name)} "
        f"({len(source):,} files, {sum(one.size for one in source):,} bytes)",
        highlight=False,
    )
    for one in binlogs:
        present = one.present
        table = Table(
            title=f"{shown(one.name)}: {len(present):,} of {len(one.parts):,} files there, "
            f"{sum(part.size for part in present):,} bytes{_about(one)}",
            title_justify="left",
            title_style="bold",
        )
        table.add_column("file", no_wrap=True, overflow="ignore")
        table.add_column("bytes", justify="right", no_wrap=True)
        table.add_column("transactions", justify="right", no_wrap=True)
        purged = len(present) < len(one.parts)
        for name in ("written", "of the source", *(["purged"] if purged else [])):
            table.add_column(name, overflow="fold")
        for part in one.parts:
            row = [*_row(part), *([_time(part.purged)] if purged else [])]
            table.add_row(*row, style="dim" if part.purged is not None else None)
        console.print(table)


def render_split(manifest: Manifest, output: Path, console: Console, *, already: bool = False) -> None:
    """Print a table of the binlogs of a new split, or of a split that was there ``already``."""
    nbytes = sum(each.size for each in manifest.source)
    done = "had been split" if already else "split"
    table = Table(
        title=f"{len(manifest.source):,} files, {nbytes:,} bytes, {done} into {output}",
        title_justify="left",
        title_style="bold",
    )
    is_by_schema = not any(each.rules for each in manifest.binlogs)
    if is_by_schema:
        table.add_column("schema", overflow="fold")
    table.add_column("binlog set", overflow="fold")
    for name in ("files", "bytes", "events", "transactions"):
        table.add_column(name, justify="right", no_wrap=True)
    for each in manifest.binlogs:
        table.add_row(
            *([shown(each.schema_name or "(none)")] if is_by_schema else []),
            shown(each.index),
            f"{len(each.parts):,}",
            f"{sum(part.size for part in each.parts):,}",
            f"{sum(part.events for part in each.parts):,}",
            f"{sum(part.transactions for part in each.parts):,}",
        )
    console.print(table)


def _about(one: NamedBinlog) -> str:
    if one.rest:
        return "; the rest"
    if one.rules:
        return shown("; " + " ".join(one.rules))
    return "" if one.schema_name in (None, one.name) else shown(f"; schema {one.schema_name}")


def _row(part: BinlogPart) -> tuple[str, ...]:
    return (
        shown(part.name),
        f"{part.size:,}",
        f"{part.transactions:,}",
        "" if part.first_time is None else f"{_time(part.first_time)} to {_time(part.last_time)}",
        f"{_place(part.source_start)} to {_place(part.source_end)}",
    )


def _place(place: Place) -> str:
    return shown(f"{place.file}:{place.position}")


def shown(text: str) -> str:
    """Return a text for a table. Schemas can have control characters in their names, which could command a terminal."""
    return escape(visible(text))


def _time(seconds: int | None) -> str:
    return "" if seconds is None else f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}"
