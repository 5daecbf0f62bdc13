"""The options of the Spark data source ``binlog``: parsing, defaults and checks.

The module also has the filters that a query names, and the columns of a table that a query knows. Spark fixes a
query's columns when the query begins. After a later ALTER TABLE, the table may have additional columns, or lack some.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import pyarrow as pa
from pydantic import ConfigDict, TypeAdapter

from dumpfilter.base.errors import ColumnsChanged, OptionError
from dumpfilter.base.options.values import parse_size
from dumpfilter.binlog.format import Family
from dumpfilter.binlog.rows.arrow import column_type
from dumpfilter.binlog.rows.table import Table
from dumpfilter.spark_jobs.options import RANGE_SIZE, ReadOptions
from dumpfilter.spark_jobs.source.columns import IMAGES, ROW_TYPES, TEXT_TYPES, TYPES
from dumpfilter.topology import slaves_file
from dumpfilter.topology.slaves_file import SlaveDefinition

SENT = "sent_"
"""The prefix of the names of columns that tell whether an event is sent to a slave."""

ONE_SLAVE = "slave."
"""The prefix of the names of options that define the filter of one slave."""


def filter_of(given: Mapping[str, str]) -> SlaveDefinition | None:
    """Return the filter to which the option ``filter`` limits a query's rows, or None without this option.

    ``given`` has the data source's options by their names in lower case. Raises OptionError for a bad rule, or for
    rules of several replication channels.
    """
    if "filter" not in given:
        return None
    found = _described("filter", given["filter"], "option filter")
    if len(found) > 1:
        raise OptionError(
            "option filter: the rules name several channels; a filter has the rules of one channel"
        )
    return found[0]


def slaves_of(
    given: Mapping[str, str], others: Sequence[SlaveDefinition] = ()
) -> tuple[SlaveDefinition, ...]:
    """Return the slaves for each of which the query has a column ``sent_NAME``. The slaves in ``others`` come first.
    Those that the query's options ``slaves`` (paths of slaves files) and ``slave.NAME`` (rules) define come after them.

    ``given`` has the data source's options by their names in lower case. Raises OptionError for a bad definition, or if
    two slaves would have columns of equal name.
    """
    found = [*others, *slaves_file.slaves_of(map(Path, _lines(given.get("slaves", ""))), ())]
    for name, text in given.items():
        if name.startswith(ONE_SLAVE):
            found += _described(name.removeprefix(ONE_SLAVE), text, f"option {name}")
    columns: dict[str, str] = {}
    for one in found:
        column = sent_column(one.name)
        other = columns.setdefault(column.lower(), one.name)
        if other is not one.name:
            raise OptionError(
                f"the slaves {other!r} and {one.name!r} have the same column {column}; rename one"
            )
    return tuple(found)


def _described(name: str, text: str, option: str) -> list[SlaveDefinition]:
    if not name:
        raise OptionError(f"{option}: a slave needs a name, for example slave.web")
    try:
        return slaves_file.slaves_of_text(f"{name}:{text}")
    except OptionError as error:
        raise OptionError(f"{option}: {str(error).removeprefix(f'slave {name!r}: ')}") from None


def sent_column(slave: str) -> str:
    """Return the name of the column that tells whether an event is sent to ``slave``.

    Characters that SQL does not allow in an unquoted name become underscores.

    >>> sent_column("web"), sent_column("web-1")
    ('sent_web', 'sent_web_1')
    """
    return SENT + re.sub(r"\W", "_", slave)


def version_of(table: Table, family: Family) -> str:
    """Return a text that identifies the columns of a table as one Table_map event describes them, to detect an ALTER
    TABLE.

    Two texts are equal if the same typed columns can hold the values of both tables. The text has the columns' names,
    or their types if the binlog does not record names. ``family`` is the kind of server, MySQL or MariaDB.
    """
    return json.dumps(
        sorted(
            column.name.lower() if table.has_names else f"{column.name} {column_type(column, family)}"
            for column in table.columns
        )
    )


@dataclass(frozen=True)
class KnownColumns:
    """The columns of one table as they were when a query began. With them a task detects a later ALTER TABLE.

    Parameters:
        table: the table's name, for errors.
        fields: the names of the columns in the structs ``before`` and ``after``.
        versions: the texts of :func:`version_of` for the tables from which the structs were made. None for structs of a
            user's schema, which may omit columns.
    """

    table: str
    fields: Collection[str]
    versions: frozenset[str] | None

    def check(self, table: Table, family: Family) -> None:
        """Raise ColumnsChanged if the structs ``before`` and ``after`` of the query cannot hold the rows of ``table``,
        the table as a table map describes it.

        If ``versions`` is None, the table must have all columns that the structs name. Otherwise the text of
        :func:`version_of` for the table must be among ``versions``. Names are compared without regard to case.
        ``family`` is the kind of server, MySQL or MariaDB.
        """
        names = {column.name.lower(): column.name for column in table.columns}
        fields = {name.lower(): name for name in self.fields}
        new = ", ".join(sorted(names[name] for name in names.keys() - fields.keys()))
        gone = ", ".join(sorted(fields[name] for name in fields.keys() - names.keys()))
        if self.versions is None:
            if gone:
                raise ColumnsChanged(
                    f"{self.table} has no column {gone} here, which the schema of the query names; start the query "
                    "again with another schema, or set the option newColumns to ignore (the column is null)"
                )
        elif version_of(table, family) not in self.versions:
            changes = [f"new: {new}"] * bool(new) + [f"gone: {gone}"] * bool(gone)
            raise ColumnsChanged(
                f"the columns of {self.table} have changed since the query began "
                f"({'; '.join(changes) or 'other types'}); start the query again, which reads the columns anew, or set "
                "the option newColumns to map (new columns in a map) or ignore (left out)"
            )


BYTES_PER_TRIGGER = 1 << 30
"""The default of the option ``maxBytesPerTrigger``: the maximum number of binlog bytes that a streaming query reads in
one micro-batch. One larger transaction exceeds this number.
"""


@dataclass(frozen=True)
class SourceOptions:
    """The parsed options of a query of the Spark data source ``binlog``, as docs/spark-source.md describes them. Sizes
    are in bytes.
    """

    sources: str | list[str]
    """The binlog set: the path or URI of its index file or of its directory, or a list of binlog files."""
    asked_columns: tuple[str, ...] | None = None
    """The columns named in the option ``columns``, in the user's order. None: the default columns."""
    opened: bool = True
    """Whether each event inside a compressed transaction gets a row, in addition to the row of the
    Transaction_payload event.
    """
    read: ReadOptions = field(default_factory=ReadOptions)
    """How the binlogs are read: the treatment of damage and checksums, and the size of a range."""
    starting_position: str = "earliest"
    """The position at which a new streaming query begins: ``earliest``, ``latest``, or ``file:position``."""
    bytes_per_trigger: int = BYTES_PER_TRIGGER
    filter: SlaveDefinition | None = None
    """The filter that every row must pass. None: all events become rows."""
    slaves: tuple[SlaveDefinition, ...] = ()
    """The slaves for each of which the query has a column ``sent_NAME``, which tells whether the master sends the event
    to the slave.
    """
    exploded: bool = False
    """Whether each changed row of a rows event becomes a row of the data source."""
    table: tuple[str, str] | None = None
    """The database and name of the only table whose changed rows become rows of the data source. None: all events
    become rows, or with ``exploded`` the changed rows of all tables.
    """
    names: tuple[str, ...] = ()
    """The names of the table's columns, for a binlog that does not record them."""
    new_columns: str = "stop"
    """The treatment of columns added to the table after the query began: ``stop`` with an error, put them into a
    ``map`` of texts, or ``ignore`` them.
    """
    known_columns: KnownColumns | None = None
    """The columns of the table that the query knows. None: any columns are accepted."""
    row_types: tuple[pa.StructType, pa.StructType] | None = None
    """The types of the columns ``before`` and ``after``. None: maps of texts.

    :func:`~dumpfilter.spark_jobs.source.reading.with_types` determines them from the table's columns.
    """

    @cached_property
    def types(self) -> dict[str, pa.DataType]:
        """The Arrow types of all columns that a query with these options can have, by the column's name."""
        sent = dict.fromkeys(self.slave_of_column, pa.bool_())
        rows = ROW_TYPES if self.exploded else {}
        typed = () if self.row_types is None else zip(IMAGES, self.row_types, strict=True)
        return {**TYPES, **TEXT_TYPES, **rows, **dict(typed), **sent}

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the query's columns, in order.

        They are the columns that the option ``columns`` names. Without this option they are all columns except the text
        of statements (``sql``). The values of changed rows (``before``, ``after``) and their numbers (``row``) are
        included only if ``rows=exploded`` or ``table`` is set. The columns ``sent_NAME``, which tell whether the slave
        NAME is sent the event, are always included.
        """
        named = self.asked_columns or tuple(name for name in self.types if name not in TEXT_TYPES)
        return (*named, *(name for name in self.slave_of_column if name not in named))

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the query's columns: their names and types, in order."""
        return pa.schema([(name, self.types[name]) for name in self.columns])

    @property
    def slave_of_column(self) -> dict[str, int]:
        """The index of a slave in ``slaves``, by the name of the slave's column ``sent_NAME``. The column shows whether
        the slave is sent an event.
        """
        return {sent_column(one.name): number for number, one in enumerate(self.slaves)}

    @property
    def definitions(self) -> tuple[SlaveDefinition, ...]:
        """The slaves whose filters are evaluated for each event. If the option ``filter`` limits the result to the
        events that one filter passes, a slave with this filter comes last.
        """
        return self.slaves if self.filter is None else (*self.slaves, self.filter)

    @classmethod
    def parse(cls, options: Mapping[str, str], slaves: Sequence[SlaveDefinition] = ()) -> SourceOptions:
        """Parse the options that the user of the data source gave as texts, and return them.

        The case of option names is ignored, as Spark does. ``slaves`` are further slaves, for each of which the query
        has a column ``sent_NAME``. Raises OptionError for an unknown option or a bad value.
        """
        given = {name.lower(): value for name, value in options.items()}
        unknown = {name for name in given if not name.startswith(ONE_SLAVE)}
        unknown -= set(_NAMES.lower().split(", "))
        if unknown:
            raise OptionError(
                f"the data source binlog has no option {', '.join(sorted(unknown))}; "
                f"its options are {_NAMES}, slave.NAME"
            )
        table = _table(given)
        made = cls(
            sources=_sources(given),
            asked_columns=_listed_names(given, "columns"),
            opened=_choice(given, "payloads", "opened", "closed") == "opened",
            read=ReadOptions(
                verify=_choice(given, "verify", "true", "false") == "true",
                range_size=_size(given, "rangeSize", RANGE_SIZE),
                on_corrupt=_choice(given, "onCorrupt", "stop", "skip"),  # type: ignore[arg-type]
            ),
            starting_position=given.get("startingposition", "earliest"),
            bytes_per_trigger=_size(given, "maxBytesPerTrigger", BYTES_PER_TRIGGER),
            filter=filter_of(given),
            slaves=slaves_of(given, slaves),
            exploded=table is not None or _choice(given, "rows", "events", "exploded") == "exploded",
            table=table,
            names=_listed_names(given, "columnNames") or (),
            new_columns=_choice(given, "newColumns", "stop", "map", "ignore"),
        )
        asked = made.asked_columns or ()
        if len(set(asked)) < len(asked) or not made.types.keys() >= set(asked):
            of_rows = [name for name in asked if name in ROW_TYPES and not made.exploded]
            hint = f"; the option rows=exploded makes {', '.join(of_rows)}" if of_rows else ""
            raise OptionError(
                f"option columns: {', '.join(asked)!r}; the columns are {', '.join(made.types)}, each once{hint}"
            )
        return made


_NAMES = (
    "path, paths, files, columns, payloads, verify, rangeSize, onCorrupt, startingPosition, maxBytesPerTrigger, "
    "filter, slaves, rows, table, columnNames, newColumns"
)


def _sources(given: Mapping[str, str]) -> str | list[str]:
    if "files" in given:
        found = _lines(given["files"])
    elif "paths" in given:
        # Spark passes the list of paths in load([…]) as the option ``paths``, in JSON.
        try:
            found = _PATHS.validate_json(given["paths"])
        except ValueError:
            raise OptionError(
                f"option paths: {given['paths']!r} is no list of paths in JSON; use load(['FILE', 'FILE']), or the "
                "option files"
            ) from None
    elif "path" in given:
        return given["path"]
    else:
        found = []
    if not found:
        raise OptionError("the data source binlog needs a path: load('/var/lib/mysql/binlog.index')")
    return found


_PATHS = TypeAdapter(list[str], config=ConfigDict(strict=True))


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _table(given: Mapping[str, str]) -> tuple[str, str] | None:
    if "table" not in given:
        if "columnnames" in given:
            raise OptionError("option columnNames: it names the columns of one table; add the option table")
        return None
    database, _, table = given["table"].partition(".")
    if not (database and table):
        raise OptionError(
            f"option table: {given['table']!r} has not the form database.table, such as shop.orders"
        )
    if given.get("rows", "exploded").lower() == "events":
        raise OptionError("option table: it makes a row of each changed row; leave out rows=events")
    return database, table


def _listed_names(given: Mapping[str, str], name: str) -> tuple[str, ...] | None:
    text = given.get(name.lower())
    return None if text is None else tuple(one.strip() for one in text.split(","))


def _choice(given: Mapping[str, str], name: str, *choices: str) -> str:
    """Return the value of the option ``name`` in lower case. The value must be one of ``choices``, of which the first
    is the default. ``given`` has the user's options by their names in lower case. Raises OptionError for another value.
    """
    value = given.get(name.lower(), choices[0]).lower()
    if value not in choices:
        raise OptionError(f"option {name}: {value!r} is none of {', '.join(choices)}")
    return value


def _size(given: Mapping[str, str], name: str, default: int) -> int:
    text = given.get(name.lower())
    return default if text is None else parse_size(text, option=f"option {name}", least=1)
