"""The manifest of a split: what it was made of, and which part of the source each output file holds.

It lies beside the binlogs as ``manifest.json``; ``ranges/`` (Parquet, see
:data:`~spark_jobs.splitting.writing.RANGES_SCHEMA`) maps every stretch of bytes. A directory with a manifest is whole:
both appear together. WL#2387, "Binlog extensions": backup and purge of different binlogs at different times.
"""

from __future__ import annotations

import os
import time
import uuid
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from dumpfilter.binlog.writer import sync_path, writing
from dumpfilter.errors import OutputError

MANIFEST = "manifest.json"


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
    lower_case_table_names: int = 0
    max_binlog_size: int
    source: list[SourceFile]
    binlogs: list[NamedBinlog]
    cut_transactions: int
    """Of which a binlog has a part only, while another has something of them, too."""
    unassigned_transactions: int
    """That are in no binlog."""
    warnings: list[str]

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
        beside = directory / f".{MANIFEST}.{uuid.uuid4().hex}"
        with writing(target):
            try:
                with open(beside, "x", encoding="utf-8", errors="surrogateescape") as file:
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
