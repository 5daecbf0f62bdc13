"""The columns of a table that a query knows, and the check that its rows have no others.

Spark fixes the columns of a query when the query begins. A row of a table that was altered later has columns for which
the query has no place, and lacks columns that the query has.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from dumpfilter.binlog.format import Family
from dumpfilter.errors import ColumnsChanged
from dumpfilter.rows import Table
from dumpfilter.rows.typed import column_type

_AGAIN = (
    "start the query again, which reads the columns anew, or set the option newColumns to map (new columns in a map) "
    "or ignore (left out)"
)


def version_of(table: Table, family: Family) -> str:
    """Return a text that is equal for two versions of a table whose values belong into the same fields.

    Only a change of their types tells apart columns without names.
    """
    return json.dumps(
        sorted(
            column.name.lower() if table.has_names else f"{column.name} {column_type(column, family)}"
            for column in table.columns
        )
    )


@dataclass(frozen=True)
class KnownColumns:
    """The columns of one table that a query knows.

    Parameters:
        table: the table's name, for errors.
        fields: the names of the fields of the query's structs.
        versions: the versions of the table from which the structs were made; None for structs of the user's own, which
            may leave out columns.
    """

    table: str
    fields: Collection[str]
    versions: frozenset[str] | None

    def check(self, table: Table, family: Family) -> None:
        """Raise ColumnsChanged if the structs do not have what a version of the table has."""
        names = {column.name.lower(): column.name for column in table.columns}
        fields = {name.lower(): name for name in self.fields}
        if self.versions is None:
            lacking = _listed(fields[name] for name in fields.keys() - names.keys())
            if lacking:
                raise ColumnsChanged(
                    f"{self.table} has no column {lacking} here, which the schema of the query names; start the query "
                    "again with another schema, or set the option newColumns to ignore (the column is null)"
                )
        elif version_of(table, family) not in self.versions:
            new = _listed(names[name] for name in names.keys() - fields.keys())
            gone = _listed(fields[name] for name in fields.keys() - names.keys())
            changes = [f"new: {new}"] * bool(new) + [f"gone: {gone}"] * bool(gone)
            raise ColumnsChanged(
                f"the columns of {self.table} have changed since the query began "
                f"({'; '.join(changes) or 'other types'}); {_AGAIN}"
            )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))
