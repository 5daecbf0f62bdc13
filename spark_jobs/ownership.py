"""Which schemas an event belongs to."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import numpy.typing as npt

from dumpfilter.binlog.subjects import Subject, Subjects, TableSubject
from spark_jobs.names import REST, encode_name

NOBODY = -1
"""The owner of an event that goes with others (GTIDs, BEGIN, context)."""

REST_OWNER = 0
"""The number of :data:`~spark_jobs.names.REST`."""


def schemas_of(subject: Subject) -> tuple[str, ...]:
    """The schemas a subject belongs to, by name; empty when it belongs to none.

    Rows belong to their table's schema. A statement belongs to the databases of what it changes; where that is
    not known, to its current database.
    """
    if isinstance(subject, TableSubject):
        return (subject.database,) if subject.database else ()
    if subject.kind.is_database:
        named = subject.database or subject.current_database
        return (named,) if named else ()
    if subject.updated_databases is not None:
        return tuple(db for db in subject.updated_databases if db)
    return (subject.current_database,) if subject.current_database else ()


class Owners:
    """Numbers the schemas (their encoded names) and keeps each subject's."""

    def __init__(self, subjects: Subjects) -> None:
        self._subjects = subjects
        self._of: npt.NDArray[np.int32] = np.zeros(64, np.int32)
        self._known = 0
        self.names: list[str] = [REST]
        self._numbers = {REST: REST_OWNER}
        self.several: list[tuple[int, ...]] = []
        """Owners of subjects that have more than one; number -2 - k in :meth:`array` stands for ``several[k]``."""

    def number(self, name: str) -> int:
        """The number of an encoded name."""
        found = self._numbers.get(name)
        if found is None:
            found = self._numbers[name] = len(self.names)
            self.names.append(name)
        return found

    def array(self) -> npt.NDArray[np.int32]:
        """The owner of each subject: a number, or -2 - k for ``several[k]``."""
        wanted = len(self._subjects)
        if wanted > self._of.size:
            larger = np.zeros(max(wanted, 2 * self._of.size), np.int32)
            larger[: self._known] = self._of[: self._known]
            self._of = larger
        for number in range(self._known, wanted):
            self._of[number] = self._owner(self.names_of(self._subjects[number]))
        self._known = wanted
        return self._of

    @staticmethod
    def names_of(subject: Subject) -> tuple[str, ...]:
        """The encoded names of a subject's schemas; (REST,) when it has none."""
        return tuple(sorted({encode_name(name) for name in schemas_of(subject)})) or (REST,)

    def _owner(self, names: Collection[str]) -> int:
        numbers = tuple(self.number(name) for name in names)
        if len(numbers) == 1:
            return numbers[0]
        if numbers not in self.several:
            self.several.append(numbers)
        return -2 - self.several.index(numbers)
