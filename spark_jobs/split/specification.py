"""The specification of a split, which says into which binlogs the events of a binlog set go.

A split writes one binlog for each schema, or the binlogs that a specification file names. A named binlog has any
replication filter, and receives the events that a slave with this filter would receive. The idea comes from WL#2387,
"Binlog extensions".
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
    """An entry of a specification file: the name of a binlog to write, and the replication filter that chooses its
    events."""

    name: str
    rules: tuple[str, ...] = ()
    """The filter's rules as server options, such as ``--replicate-do-db=shop``. Without rules all events go into the
    binlog."""
    semantics: FilterSemantics = FilterSemantics.CLASSIC


class _Rest(Model):
    name: str


class _File(Model):
    binlog: Annotated[tuple[NamedBinlog, ...], Field(min_length=1)]
    rest: _Rest | None = None
    lower_case_table_names: Annotated[int, Field(ge=0, le=2)] = 0


@dataclass(frozen=True)
class Specification:
    """The binlogs that a split writes. Without ``binlogs`` the split writes one binlog for each schema."""

    binlogs: tuple[NamedBinlog, ...] = ()
    rest: str | None = None
    """The name of the binlog for events that go into no other binlog. None: such events are dropped."""
    lower_case_table_names: int = 0

    @property
    def by_schema(self) -> bool:
        """True if the split writes one binlog for each schema, instead of the binlogs that a file names."""
        return not self.binlogs

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the binlogs that the split writes even if no event belongs to them."""
        return tuple(one.name for one in self.binlogs) + ((self.rest,) if self.rest is not None else ())

    @property
    def digest(self) -> str:
        """The SHA-256 digest of the specification, hexadecimal. A job that was killed continues its earlier work only
        if the specification still has the same digest."""
        return hashlib.sha256(json.dumps(self.as_dict(), sort_keys=True).encode()).hexdigest()

    def as_dict(self) -> dict[str, object]:
        """Return the specification as a dictionary that ``json.dumps`` accepts."""
        return {
            "binlog": [one.model_dump(mode="json") for one in self.binlogs],
            "rest": self.rest,
            "lower_case_table_names": self.lower_case_table_names,
        }

    def filters(self, names: NameRules) -> list[tuple[str, ReplicationFilter]]:
        """Return the name of each named binlog with its replication filter.

        ``names`` says how the server compares names, such as by upper and lower case. The specification's own
        ``lower_case_table_names`` replaces the setting in ``names``. Raises OptionError, which names the binlog, for
        a wrong rule.
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
        """Return an object that finds for each subject (a table or a statement) the binlogs that receive its events.

        ``unknown_xa_schemas`` are used in a split by schema. They name the schemas that receive XA COMMIT and
        XA ROLLBACK of transactions that were prepared before the binlog set begins.
        """
        if self.by_schema:
            return SchemaOwners(subjects, unknown_xa_schemas)
        return FilterOwners(subjects, self.filters(names), self.rest)


BY_SCHEMA = Specification()
"""The specification of a split that writes one binlog for each schema."""


def load_specification(path: Path) -> Specification:
    """Read a specification file (TOML; docs/split.md describes the keys) and check its names and filter rules.

    Raises OptionError with the file and the wrong key, name or rule.
    """
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
