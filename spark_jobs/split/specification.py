"""The outputs of a split: a binlog for each schema, or the named binlogs of a specification file.

WL#2387, "Binlog extensions", with Lars' suggestion: a binlog's name need not be the schema's, and any filter may
choose its events.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field

from dumpfilter.binlog.format import NameRules
from dumpfilter.errors import OptionError
from dumpfilter.filter import FilterSemantics, make_filter, parse_option
from dumpfilter.filter.base import ReplicationFilter
from dumpfilter.index.subjects import Subjects
from dumpfilter.options.toml_file import Model, load_toml
from dumpfilter.spark_jobs.split.ownership import FilterOwners, Owners, SchemaOwners

_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,199}")


class NamedBinlog(Model):
    """A named binlog, with the filter that chooses its events."""

    name: str
    rules: tuple[str, ...] = ()
    """The filter's rules, as options. Without rules all events go into the binlog."""
    semantics: FilterSemantics = FilterSemantics.CLASSIC


class _Rest(Model):
    name: str


class _File(Model):
    binlog: Annotated[tuple[NamedBinlog, ...], Field(min_length=1)]
    rest: _Rest | None = None
    lower_case_table_names: Annotated[int, Field(ge=0, le=2)] = 0


@dataclass(frozen=True)
class Specification:
    """The outputs of a split. Without ``binlogs`` there is one for each schema."""

    binlogs: tuple[NamedBinlog, ...] = ()
    rest: str | None = None
    """The name of the binlog for events that go into no other binlog. None: such events are dropped."""
    lower_case_table_names: int = 0

    @property
    def by_schema(self) -> bool:
        """True if there is one binlog for each schema."""
        return not self.binlogs

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the outputs that exist even if they are empty."""
        return tuple(one.name for one in self.binlogs) + ((self.rest,) if self.rest is not None else ())

    @property
    def digest(self) -> str:
        """A digest of the specification. Equal specifications have the same digest."""
        return hashlib.sha256(json.dumps(self.as_dict(), sort_keys=True).encode()).hexdigest()

    def as_dict(self) -> dict[str, object]:
        """Return the specification as a JSON object."""
        return {
            "binlog": [one.model_dump(mode="json") for one in self.binlogs],
            "rest": self.rest,
            "lower_case_table_names": self.lower_case_table_names,
        }

    def filters(self, names: NameRules) -> list[tuple[str, ReplicationFilter]]:
        """Return the named binlogs' filters.

        ``names`` are the rules by which the server compares names. Raises OptionError that names
        the binlog.
        """
        return [(one.name, self._filter(one, names)) for one in self.binlogs]

    def _filter(self, one: NamedBinlog, names: NameRules) -> ReplicationFilter:
        try:
            return make_filter(
                one.semantics,
                [parse_option(rule, one.semantics) for rule in one.rules],
                names=names._replace(lower_case_table_names=self.lower_case_table_names),
            )
        except OptionError as error:
            raise OptionError(f"binlog {one.name!r}: rules: {error}") from None

    def owners(
        self,
        subjects: Subjects,
        names: NameRules,
        unknown_xa_schemas: tuple[str, ...] = (),
    ) -> Owners:
        """Return the owners of a scan's subjects. :class:`SchemaOwners` explains ``unknown_xa_schemas``."""
        if self.by_schema:
            return SchemaOwners(subjects, unknown_xa_schemas)
        return FilterOwners(subjects, self.filters(names), self.rest)


BY_SCHEMA = Specification()


def load_specification(path: Path) -> Specification:
    """Read a specification file (TOML; see docs/split.md). Raises OptionError with the file and the key."""
    parsed = load_toml(path, _File)
    made = Specification(
        parsed.binlog, None if parsed.rest is None else parsed.rest.name, parsed.lower_case_table_names
    )
    seen: set[str] = set()
    for name in made.names:
        if not _FILE_NAME.fullmatch(name):
            raise OptionError(
                f"{path}: {name!r}: a binlog's name becomes a file's name: letters, digits, _ . @ + and -, "
                "at most 200, not a dot first"
            )
        if name.casefold() in seen:
            raise OptionError(f"{path}: {name!r}: two binlogs have this name")
        seen.add(name.casefold())
    try:
        made.filters(NameRules())
    except OptionError as error:
        raise OptionError(f"{path}: {error}") from None
    return made
