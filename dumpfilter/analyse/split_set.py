"""The directory that ``dumpfilter split`` writes: several binlog sets made from one, with a manifest.

A split divides one binlog set, the source, into several binlog sets (the outputs), for example one for each schema.
The manifest is the file ``manifest.json`` beside the outputs. The manifest records the source, the split's options, and
the part of the source that each written file holds. One rename publishes all files of a split, so a directory with a
manifest is complete. With the manifest, each output can be purged and backed up separately.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from rich.console import Console
from rich.text import Text

from dumpfilter.analyse.report.terminal import table, text
from dumpfilter.analyse.report.text import human_files, utc
from dumpfilter.base.errors import OutputError
from dumpfilter.base.files import committed
from dumpfilter.base.printable import visible
from dumpfilter.binlog.format import NameCollation

MANIFEST = "manifest.json"


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid")


UnixTime = Annotated[int, Field(ge=0, lt=1 << 34)]
"""A time in Unix seconds. The limit lies some centuries after the last time that a binlog can have."""


class Place(_Model):
    """A byte position in a file of the source, the binlog set that was split."""

    file: str
    position: int


class SourceFile(_Model):
    """A file of the source (the binlog set that was split), as the split read it. ``size`` is in bytes."""

    name: str
    size: int
    end: int
    """The offset at which the part of the file that the split read ends. Any later bytes are incomplete or damaged
    events.
    """
    transactions: int
    damage: str | None = None
    """The error text of the damage at which the split stopped reading the file; None for an undamaged file."""
    beginning: str = ""
    """A SHA-256 digest of the file's first events, which distinguishes files of equal name."""
    ranges: int = Field(default=0, exclude=True)
    """A number in the manifests of earlier versions. A reader accepts the number, and nothing uses or writes it."""


class BinlogPart(_Model):
    """One binlog file that a split wrote. Sizes are in bytes, times in Unix seconds."""

    name: str
    size: int
    events: int
    """The number of events that come from the source, the binlog set that was split.

    Format description, Previous_gtids, Gtid_list and Rotate events do not count, because the split makes them anew.
    """
    transactions: int
    previous_gtids: str | None
    """The GTID set of all transactions in this binlog's earlier files, as text. None if the source has no GTIDs."""
    first_time: UnixTime | None
    """The smallest time of a transaction's last event in the file, Unix seconds. None without transactions."""
    last_time: UnixTime | None
    """The largest time of a transaction's last event in the file, Unix seconds. None without transactions."""
    source_start: Place
    """The start of the part of the source (the set that was split) from which the file's events come."""
    source_end: Place
    """The end of the part of the source (the set that was split) from which the file's events come.

    The file holds all events between ``source_start`` and this position that belong to its binlog.
    """
    purged: UnixTime | None = None
    """The time at which a purge deleted the file, Unix seconds; None while the file exists."""


class NamedBinlog(_Model):
    """One of the binlog sets that ``dumpfilter split`` wrote, for example the set of one schema. The object has the
    name, the filter rules and the files of the set.
    """

    name: str
    """The set's name, with which its file names begin: ``<name>-bin.000001`` and so on, and ``<name>-bin.index``."""
    schema_name: str | None = None
    """The schema (database) whose events the binlog has; None unless the set was split by schema."""
    rules: tuple[str, ...] = ()
    """The filter rules that chose the binlog's events, as options such as ``--replicate-do-db=shop``."""
    semantics: str | None = None
    rest: bool = False
    """Whether this binlog collects the events that no other binlog of the split takes."""
    parts: list[BinlogPart] = Field(min_length=1)

    @model_validator(mode="after")
    def _check_names(self) -> NamedBinlog:
        """Raise ValueError for a file name that ``dumpfilter split`` does not make. This check keeps paths inside the
        directory of the split.
        """
        for part in self.parts:
            base, _, number = part.name.rpartition(".")
            if "/" in part.name or "\0" in part.name or base != f"{self.name}-bin" or not number.isdigit():
                raise ValueError(f"{part.name!r} is no file name of the binlog {self.name!r}")
        return self

    @property
    def index(self) -> str:
        """The name of the index file, which lists the binlog files of this set."""
        return f"{self.name}-bin.index"

    @property
    def present(self) -> list[BinlogPart]:
        """The files of this binlog set that no purge has deleted."""
        return [part for part in self.parts if part.purged is None]


class Manifest(_Model):
    """The contents of ``manifest.json``, which describes a split: its source, its options and its binlogs."""

    format: int = 1
    job: str
    """A digest of all inputs of the split: the source's files, the specification and the options.

    Two splits with equal digests write identical binlog sets.
    """
    made: UnixTime
    """The time at which the split was written, Unix seconds."""
    family: str
    names: NameCollation = NameCollation.GENERAL_CI
    """The collation by which filter rules compared database and table names."""
    lower_case_table_names: int = 0
    max_binlog_size: int
    source: list[SourceFile] = Field(min_length=1)
    binlogs: list[NamedBinlog]
    cut_transactions: int
    """The number of transactions of which several binlog sets of the split received a part."""
    unassigned_transactions: int
    """The number of the source's transactions of which no binlog set of the split received an event."""
    warnings: list[str]
    verified: bool = False
    """Whether the split verified the checksums of all events that it read."""

    def binlog(self, name: str) -> NamedBinlog:
        """Return the binlog set whose name, or whose schema, is ``name``, among those that ``dumpfilter split`` wrote.
        Raises OutputError if there is none.
        """
        for one in self.binlogs:
            if name in (one.name, one.schema_name):
                return one
        raise OutputError(
            f"there is no binlog {name!r}; there are {', '.join(one.name for one in self.binlogs)}"
        )

    def save(self, directory: Path) -> None:
        """Write the manifest into ``directory``, atomically replacing an older one, and sync it to disk. Raises
        OutputError if this fails.
        """
        target = directory / MANIFEST
        # The temporary file has a fixed name, so that the next call replaces a file that a killed process left.
        beside = directory / f".{MANIFEST}.tmp"
        with committed(target, beside=beside) as file:
            file.write(f"{self.model_dump_json(indent=1)}\n".encode("utf-8", "surrogateescape"))

    @classmethod
    def load(cls, directory: Path) -> Manifest:
        """Read the manifest in a split's directory. Raises OutputError if the manifest is missing, unreadable, no
        manifest of a split, or of another format.
        """
        path = directory / MANIFEST
        try:
            found = cls.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            raise OutputError(f"{directory}: no split was written here (there is no {MANIFEST})") from None
        except OSError as error:
            raise OutputError(f"{path}: cannot be read: {error.strerror}") from None
        except ValidationError as error:
            first: Any = error.errors(include_url=False)[0]
            where = "".join(f"{part}: " for part in first["loc"])
            what = first["msg"].removeprefix("Value error, ")
            raise OutputError(f"{path}: is not a split's manifest: {where}{what}") from None
        if found.format != 1:
            raise OutputError(f"{path}: is of format {found.format}; this dumpfilter reads format 1")
        return found


def now() -> int:
    return int(time.time())


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
    """Print a table of the binlogs that a split wrote into ``output``. ``already`` tells whether an earlier command
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
