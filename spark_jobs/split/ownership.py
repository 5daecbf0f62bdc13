"""Which outputs an event belongs to."""

from __future__ import annotations

import abc
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from dumpfilter.filter.base import ReplicationFilter
from dumpfilter.filter.decision import Verdict
from dumpfilter.index.subjects import Subject, Subjects, TableSubject
from dumpfilter.spark_jobs.split.names import REST, encode_name

NOBODY = -1
"""The owner of an event that goes with others (GTIDs, BEGIN, context) or that no output wants."""


class Owners(abc.ABC):
    """Numbers the outputs and keeps each subject's owner: an output's number, :data:`NOBODY`, or -2 - k for the
    several outputs ``several[k]``."""

    def __init__(self, subjects: Subjects, names: Iterable[str], otherwise: Iterable[int]) -> None:
        self._subjects = subjects
        self._of: npt.NDArray[np.int32] = np.zeros(64, np.int32)
        self._known = 0
        self.names = list(names)
        self.otherwise = tuple(otherwise)
        """Where a transaction goes that has nothing of any output's."""
        self.several: list[tuple[int, ...]] = []
        self._codes: dict[tuple[int, ...], int] = {}

    @abc.abstractmethod
    def outputs_of(self, subject: Subject) -> Sequence[int]:
        """The outputs that a table's rows, or a statement, belong to."""

    @property
    @abc.abstractmethod
    def undecided(self) -> int:
        """The owner of what no filter can say anything about: incidents, events of unknown types."""

    @property
    def ends(self) -> int:
        """The owner of the end of an XA transaction whose beginning is not known."""
        return self.undecided

    def unsure(self, number: int) -> tuple[int, ...]:
        """The outputs that get the events of a subject, by its number, because their filter cannot decide it."""
        return ()

    def members(self, owner: int) -> tuple[int, ...]:
        """The outputs that an owner stands for."""
        if owner >= 0:
            return (owner,)
        return () if owner == NOBODY else self.several[-2 - owner]

    def code(self, outputs: Iterable[int]) -> int:
        """The owner that stands for these outputs."""
        key = tuple(sorted(set(outputs)))
        if len(key) < 2:
            return key[0] if key else NOBODY
        found = self._codes.get(key)
        if found is None:
            found = self._codes[key] = -2 - len(self.several)
            self.several.append(key)
        return found

    def array(self) -> npt.NDArray[np.int32]:
        """The owner of each subject, int32."""
        wanted = len(self._subjects)
        if wanted > self._of.size:
            larger = np.zeros(max(wanted, 2 * self._of.size), np.int32)
            larger[: self._known] = self._of[: self._known]
            self._of = larger
        for number in range(self._known, wanted):
            members = self._subjects.members(number)
            if members is None:
                self._of[number] = self.code(self.outputs_of(self._subjects[number]))
            else:
                # the end of an XA transaction: everywhere where something of it was
                self._of[number] = self.code(
                    k for member in members for k in self.members(int(self._of[member]))
                )
        self._known = wanted
        return self._of


class SchemaOwners(Owners):
    """An output for each schema that turns up, named after it, and :data:`~dumpfilter.spark_jobs.split.names.REST`.

    ``everywhere``: the schemas that the ends of unknown XA transactions go to.
    """

    def __init__(self, subjects: Subjects, everywhere: Iterable[str] = ()) -> None:
        super().__init__(subjects, [REST], [0])
        self._numbers = {REST: 0}
        self._everywhere = tuple(everywhere)

    def outputs_of(self, subject: Subject) -> Sequence[int]:
        return [self._number(name) for name in encoded_schemas(subject)] or [0]

    @property
    def undecided(self) -> int:
        return 0

    @property
    def ends(self) -> int:
        return self.code([self._number(name) for name in self._everywhere] or [0])

    def _number(self, name: str) -> int:
        found = self._numbers.get(name)
        if found is None:
            found = self._numbers[name] = len(self.names)
            self.names.append(name)
        return found


class FilterOwners(Owners):
    """An output for each filter, in their order, which gets what a slave with that filter is sent; and, with ``rest``,
    one more for what none of them gets."""

    def __init__(
        self, subjects: Subjects, filters: Sequence[tuple[str, ReplicationFilter]], rest: str | None = None
    ) -> None:
        names = [name for name, _ in filters] + ([] if rest is None else [rest])
        self._rest = [] if rest is None else [len(filters)]
        # without a rule in force everything is sent, also transactions with nothing in them
        without_rules = [k for k, (_, one) in enumerate(filters) if not one.is_on]
        super().__init__(subjects, names, without_rules or self._rest)
        self._filters = [one for _, one in filters]
        self._unsure: dict[int, tuple[int, ...]] = {}

    def outputs_of(self, subject: Subject) -> Sequence[int]:
        return [k for k, one in enumerate(self._filters) if one.verdict(subject).passes] or self._rest

    def unsure(self, number: int) -> tuple[int, ...]:
        found = self._unsure.get(number)
        if found is None:
            members = self._subjects.members(number)
            subjects = [self._subjects[k] for k in ((number,) if members is None else members)]
            # as flags have it: where one is sure, so is the whole
            found = self._unsure[number] = tuple(
                k for k, one in enumerate(self._filters) if _unsure({one.verdict(what) for what in subjects})
            )
        return found

    @property
    def undecided(self) -> int:
        return self.code(range(len(self.names)))


def _unsure(verdicts: set[Verdict]) -> bool:
    return Verdict.UNDECIDED in verdicts and Verdict.EXECUTE not in verdicts


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


def encoded_schemas(subject: Subject) -> tuple[str, ...]:
    """The encoded names of a subject's schemas, sorted."""
    return tuple(sorted({encode_name(name) for name in schemas_of(subject)}))


def schemas_among(subjects: Iterable[Subject]) -> tuple[str, ...]:
    """The encoded names of all subjects' schemas, sorted."""
    return tuple(sorted({name for one in subjects for name in encoded_schemas(one)}))
