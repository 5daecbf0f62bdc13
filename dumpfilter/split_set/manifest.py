"""What a split has written: the manifest, which says what it was made of and which part of the source each output file
holds, and the tables beside it.

The manifest lies beside the binlogs as ``manifest.json``. In ``ranges/`` (Parquet, :data:`RANGES_SCHEMA`) every stretch
of bytes stands with its place in the source, in ``transactions/`` (:data:`TRANSACTIONS_SCHEMA`) every transaction of
the source. A directory with a manifest is whole: all appear together. WL#2387, "Binlog extensions": backup and purge of
different binlogs at different times.
"""

from __future__ import annotations

import hashlib
import os
import time
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, ValidationError

from dumpfilter.binlog.format import NameCollation
from dumpfilter.binlog.gtid_sources import SourceKey
from dumpfilter.binlog.writer import sync_path, writing
from dumpfilter.errors import OutputError

MANIFEST = "manifest.json"

RANGES = "ranges"
TRANSACTIONS = "transactions"
"""The directories of the tables, a file for each range of the source: ``000000.parquet`` …"""

RANGES_SCHEMA = pa.schema(
    [
        ("binlog", pa.dictionary(pa.int32(), pa.string())),
        ("file", pa.int32()),
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("source_file", pa.int32()),
        ("source_start", pa.int64()),
        ("source_end", pa.int64()),
    ]
)
"""A row a stretch of bytes that an output has as the source has them, but for end_log_pos, checksums, and STMT_END_F on
the last rows event that is kept of a statement: the output's name, the number of its file and the offsets there; the
number of the source's file (from 0) and the offsets there. They differ in length where a compressed transaction went
out in part."""

TRANSACTIONS_SCHEMA = pa.schema(
    [
        ("source_file", pa.int32()),
        ("end", pa.int64()),
        ("gtid_source", pa.dictionary(pa.int32(), pa.string())),
        ("gtid_number", pa.int64()),
        ("server_id", pa.int64()),
        ("events", pa.int64()),
        ("of_file", pa.bool_()),
        ("exact", pa.bool_()),
        ("undecided", pa.list_(pa.string())),
    ]
)
"""A row a transaction of the source, in its order; each begins where the one before ended. The number of the source's
file, the offset there where it ends; its GTID (:func:`gtid_source_text` and a number; null: it has none), the server id
in its first event's header, how many events it has. ``of_file``: it is no transaction but an event that belongs to the
file, which no output has. ``exact``: what an output has of it can be made again as a dump of the source has it: in it
every event says the end_log_pos that it has in the file, or 0. None belongs to the file, and none stands where no
server writes it (a table map without rows at a statement's end). ``undecided``: for each event that a named binlog has
because its filter could not decide it, the binlog's name (null: there is none)."""


def gtid_source_text(key: SourceKey) -> str:
    """A GTID source in a table.

    >>> gtid_source_text((0, 11)), gtid_source_text((bytes(16), "tag"))
    ('0-11', '00000000-0000-0000-0000-000000000000:tag')
    """
    first, second = key
    if isinstance(first, bytes):
        return f"{uuid.UUID(bytes=first)}:{second}" if second else str(uuid.UUID(bytes=first))
    return f"{first}-{second}"


def gtid_source_key(text: str) -> SourceKey:
    """The reverse of :func:`gtid_source_text`."""
    if text.count("-") == 1:
        domain, server = text.split("-")
        return int(domain), int(server)
    name, _, tag = text.partition(":")
    return uuid.UUID(name).bytes, tag


def beginning_digest(format_description: bytes, prolog: bytes) -> str:
    """Tells a binlog file from another one of the same name: of its format description event (``raw``, in which a file
    that is in use does not say so) and its Previous_gtids or Gtid_list event, SHA-256."""
    return hashlib.sha256(format_description + prolog).hexdigest()


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Place(_Model):
    """A place in the source."""

    file: str
    position: int


class SourceFile(_Model):
    """A file of the source, as it was when it was split."""

    name: str
    size: int
    end: int
    """Up to where it was taken: what is incomplete or damaged was left out."""
    transactions: int
    damage: str | None = None
    """Why it was not taken to its end."""
    beginning: str = ""
    """:func:`beginning_digest`."""
    ranges: int = 0
    """How many ranges it was cut into: so many files in :data:`RANGES` and in :data:`TRANSACTIONS` are about it, after
    those of the files before."""


class BinlogPart(_Model):
    """A file of a named binlog. Sizes in bytes, times in Unix seconds."""

    name: str
    size: int
    events: int
    """Of the source; format description, Previous_gtids or Gtid_list and Rotate are not counted."""
    transactions: int
    previous_gtids: str | None
    """What came before it in this binlog."""
    first_time: int | None
    last_time: int | None
    """When its first and last transaction were written."""
    source_start: Place
    source_end: Place
    """It holds everything of this binlog in the source from ``source_start`` up to ``source_end``."""
    purged: int | None = None
    """When it was purged; None: it is there."""


class NamedBinlog(_Model):
    """A named binlog: a set with an index file."""

    name: str
    """Of the files: ``<name>-bin.000001`` … and ``<name>-bin.index``."""
    schema_name: str | None = None
    """The schema it is of, in a split by schema."""
    rules: tuple[str, ...] = ()
    """The filter that says what is in it, as options."""
    semantics: str | None = None
    rest: bool = False
    """Whether it has what no other has."""
    parts: list[BinlogPart]

    @property
    def index(self) -> str:
        """The index file's name."""
        return f"{self.name}-bin.index"

    @property
    def present(self) -> list[BinlogPart]:
        """The files that have not been purged."""
        return [part for part in self.parts if part.purged is None]


class Manifest(_Model):
    """See the module."""

    format: int = 1
    job: str
    """A digest of the source, the specification and the options: equal jobs make equal sets."""
    made: int
    """Unix seconds."""
    family: str
    names: NameCollation = NameCollation.GENERAL_CI
    """The collation by which the rules compared names."""
    lower_case_table_names: int = 0
    max_binlog_size: int
    source: list[SourceFile]
    binlogs: list[NamedBinlog]
    cut_transactions: int
    """Of which a binlog has a part only, while another has something of them, too."""
    unassigned_transactions: int
    """That are in no binlog."""
    warnings: list[str]
    verified: bool = False
    """Whether the events' checksums were verified when the source was read."""

    def binlog(self, name: str) -> NamedBinlog:
        """A binlog by its name or its schema's. Raises OutputError."""
        for one in self.binlogs:
            if name in (one.name, one.schema_name):
                return one
        raise OutputError(
            f"there is no binlog {name!r}; there are {', '.join(one.name for one in self.binlogs)}"
        )

    def save(self, directory: Path) -> None:
        """Write it into a directory: beside, synchronized, renamed. Raises OutputError."""
        target = directory / MANIFEST
        beside = directory / f".{MANIFEST}.tmp"  # always the same: what a killed process left is replaced
        with writing(target):
            try:
                with open(beside, "w", encoding="utf-8", errors="surrogateescape") as file:
                    file.write(self.model_dump_json(indent=1) + "\n")
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(beside, target)
                sync_path(directory)
            except BaseException:
                beside.unlink(missing_ok=True)
                raise

    @classmethod
    def load(cls, directory: Path) -> Manifest:
        """Read it from a split's directory. Raises OutputError when there is none, or it cannot be read."""
        path = directory / MANIFEST
        try:
            found = cls.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            raise OutputError(f"{directory}: no split was written here (there is no {MANIFEST})") from None
        except OSError as error:
            raise OutputError(f"{path}: cannot be read: {error.strerror}") from None
        except ValidationError as error:
            first: Any = error.errors(include_url=False)[0]
            raise OutputError(f"{path}: is not a split's manifest: {first['msg']}") from None
        if found.format != 1:
            raise OutputError(f"{path}: is of format {found.format}; this dumpfilter reads format 1")
        return found


def now() -> int:
    """Unix seconds."""
    return int(time.time())
