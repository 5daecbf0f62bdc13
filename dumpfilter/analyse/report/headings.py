"""The headings of reports. A heading is the name under which bytes are counted: a table, the statements of a schema,
several tables, or no table.

All reports of a binlog set use the same headings, so that their sums agree.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dumpfilter.analyse.traffic.facts import Facts, Ints, Mask, sums
from dumpfilter.base.printable import replace_invalid_utf8
from dumpfilter.index.subjects import Subject, TableSubject

STATEMENTS = "(statements)"
"""The text that replaces a table's name for the statements of a schema."""
SEVERAL = "(several tables)"
"""The heading of events that belong to more than one table or schema."""
NO_TABLE = "(no table)"
"""The heading of events that belong to no table and no schema."""


class Heading(NamedTuple):
    """A name under which a report counts bytes: a table, the statements of a schema, several tables, or no table."""

    database: str | None
    table: str | None
    """The table's name. None for a schema's statements, and for events of several tables or of none."""
    name: str
    """The displayed name: ``schema.table``, ``schema (statements)``, :data:`SEVERAL` or :data:`NO_TABLE`."""

    @property
    def labels(self) -> tuple[str, str]:
        """The texts for the two columns "schema" and "table" of a report's table."""
        if self.database is None:
            return self.name, ""
        return self.database, STATEMENTS if self.table is None else self.table


def heading_of(subject: Subject) -> Heading:
    """Return the name under which reports count the events of a subject (a table, or a statement with its tables).

    A statement counts for its schema, not for the tables that it changes. A statement that changes several schemas
    counts for :data:`SEVERAL`.
    """
    schemas = [replace_invalid_utf8(schema) for schema in subject.schemas()]
    if isinstance(subject, TableSubject):
        database, table = replace_invalid_utf8(subject.database), replace_invalid_utf8(subject.table)
        return Heading(database, table, f"{database}.{table}")
    if len(schemas) == 1:
        return Heading(schemas[0], None, f"{schemas[0]} {STATEMENTS}")
    return Heading(None, None, SEVERAL if schemas else NO_TABLE)


class Headings:
    """Assigns each row of traffic counts (``tallied``) to the table or schema for which a report counts the row's
    bytes.

    One row counts events that the same filters send, in one period of time. All events of a transaction that changes
    a single table count for this table. In other transactions, rows and table maps count for their table, and
    statements for their schema. All other events count for several tables or no table.
    """

    def __init__(self, tallied: Facts) -> None:
        conditions = tallied.conditions
        subject = tallied.subject_of_condition
        numbers = {Heading(None, None, SEVERAL): 0, Heading(None, None, NO_TABLE): 1}
        of_subject = np.array(
            [numbers.setdefault(heading_of(one), len(numbers)) for one in tallied.subjects], np.int64
        )
        of_condition: Ints = np.where(conditions.has_subjects, 0, 1)
        of_condition[subject >= 0] = of_subject[subject[subject >= 0]]
        self.all = list(numbers)
        self.of_unit: Ints = of_condition[tallied.condition]
        """For each unit (row of the tally), the index of its heading in ``all``."""

    @property
    def names(self) -> list[str]:
        """The names under which bytes are counted, such as ``shop.orders``, in the order of the sums that :meth:`sums`
        returns.
        """
        return [heading.name for heading in self.all]

    def sums(self, column: Ints, mask: Mask) -> Ints:
        """Return one sum of ``column`` for each table or other heading (such as a schema's statements).

        ``column`` (such as bytes) and ``mask``, which selects the rows to sum, have one entry for each row of counts.
        """
        return sums(self.of_unit[mask], column[mask], len(self.all))

    def by_name(self, column: Ints, mask: Mask) -> dict[str, int]:
        """Return one sum of ``column`` for each table or other heading (such as a schema's statements), by its name.
        Zeros are left out.

        ``column`` (such as bytes) and ``mask``, which selects the rows to sum, have one entry for each row of counts.
        """
        found = self.sums(column, mask).tolist()
        return {name: total for name, total in zip(self.names, found, strict=True) if total}
