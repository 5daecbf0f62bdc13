"""The tables that ``dumpfilter split`` and ``dumpfilter manifest`` print."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from rich.console import Console
from rich.text import Text

from dumpfilter.analyse.report.terminal import table, text
from dumpfilter.analyse.report.text import human_files, utc
from dumpfilter.analyse.split_set.manifest import BinlogPart, Manifest, NamedBinlog, Place
from dumpfilter.base.printable import visible


def render_manifest(manifest: Manifest, binlogs: Iterable[NamedBinlog], console: Console) -> None:
    """Print the source of a split (the binlog set that was split), and a table of files for each of ``binlogs``.
    Times are in UTC.
    """
    source = manifest.source
    console.print(
        text(
            f"split {_time(manifest.made)} from {source[0].name} to {source[-1].name} "
            f"({human_files(len(source))}, {sum(one.size for one in source):,} bytes)"
        )
    )
    for one in binlogs:
        present = one.present
        purged = len(present) < len(one.parts)
        heads = ["file", "bytes", "transactions", "written", "of the source", *(["purged"] if purged else [])]
        rows = []
        for part in one.parts:
            row = [*_row(part), *([_time(part.purged)] if purged else [])]
            rows.append([Text(visible(cell), "" if part.purged is None else "dim") for cell in row])
        title = (
            f"{one.name}: {len(present):,} of {len(one.parts):,} files there, "
            f"{sum(part.size for part in present):,} bytes{_about(one)}"
        )
        console.print(table(heads, rows, title=title, numbers=("bytes", "transactions"), whole=("file",)))


def render_split(manifest: Manifest, output: Path, console: Console, *, already: bool = False) -> None:
    """Print a table of the binlogs that a split wrote into ``output``. ``already`` tells that an earlier command
    made this split.
    """
    nbytes = sum(each.size for each in manifest.source)
    done = "had been split" if already else "split"
    is_by_schema = all(each.schema_name is not None or each.rest for each in manifest.binlogs)
    figures = ("files", "bytes", "events", "transactions")
    rows = [
        (
            *([each.schema_name or "(none)"] if is_by_schema else []),
            each.index,
            f"{len(each.parts):,}",
            *(f"{sum(getattr(part, name) for part in each.parts):,}" for name in ("size", *figures[2:])),
        )
        for each in manifest.binlogs
    ]
    heads = (*(["schema"] if is_by_schema else []), "binlog set", *figures)
    title = f"{human_files(len(manifest.source))}, {nbytes:,} bytes, {done} into {output}"
    console.print(table(heads, rows, title=title, numbers=figures))


def _about(one: NamedBinlog) -> str:
    if one.rest:
        return "; the rest"
    if one.rules:
        return "; " + " ".join(one.rules)
    return "" if one.schema_name in (None, one.name) else f"; schema {one.schema_name}"


def _row(part: BinlogPart) -> tuple[str, ...]:
    return (
        part.name,
        f"{part.size:,}",
        f"{part.transactions:,}",
        "" if part.first_time is None else f"{_time(part.first_time)} to {_time(part.last_time)}",
        f"{_place(part.source_start)} to {_place(part.source_end)}",
    )


def _place(place: Place) -> str:
    return f"{place.file}:{place.position}"


def _time(seconds: int | None) -> str:
    return "" if seconds is None else utc(seconds)
