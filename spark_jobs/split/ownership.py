"""Owners: the outputs that the events of a subject belong to."""

from __future__ import annotations

import abc
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from dumpfilter.filter.base import ReplicationFilter
from dumpfilter.filter.decision import Verdict
from dumpfilter.index.subjects import Subject, Subjects, TableSubject
from dumpfilter.spark_jobs.split.names import REST, encode_name

NO_OUTPUT = -1
"""The owner of an event that follows other events (GTID, BEGIN, context), or that belongs to no output."""


class Owners(abc.ABC):
    """The owner of each subject, as a number.

    An owner is the number of an output, :data:`NO_OUTPUT`, or -2 - k for the outputs ``several[k]``.
    """

    def __init__(self, subjects: Subjects, names: Iterable[str], default_outputs: Iterable[int]) -> None:
        self._subjects = subjects
        self._of: npt.NDArray[np.int32] = np.zeros(64, np.int32)
        self._n_owned = 0
        self.names = list(names)
        self.default_outputs = tuple(default_outputs)
        """The outputs that receive a transaction without owned events."""
        self.several: list[tuple[int, ...]] = []
        self._codes: dict[tuple[int, ...], int] = {}

    @abc.abstractmethod
    def outputs_of(self, subject: Subject) -> Sequence[int]:
        """Return the outputs that a table's rows, or a statement, belong to."""

    @property
    @abc.abstractmethod
    def undecided(self) -> int:
        """The owner of events that no filter can decide: incidents and events of unknown types."""

    @property
    def unknown_xa_ends(self) -> int:
        """The owner of an XA COMMIT or XA ROLLBACK whose XA transaction was prepared before the set."""
        return self.undecided

    def undecided_outputs(self, number: int) -> tuple[int, ...]:
        """Return the outputs that receive a subject's events because the output's filter cannot decide the subject."""
        return ()

    def members(self, owner: int) -> tuple[int, ...]:
        """Return the outputs that an owner number stands for."""
        if owner >= 0:
            return (owner,)
        return () if owner == NO_OUTPUT else self.several[-2 - owner]

    def code(self, outputs: Iterable[int]) -> int:
        """Return the owner number that stands for these outputs."""
        key = tuple(sorted(set(outputs)))
        if len(key) < 2:
            return key[0] if key else NO_OUTPUT
        found = self._codes.get(key)
        if found is None:
            found = self._codes[key] = -2 - len(self.several)
            self.several.append(key)
        return found

    def array(self) -> npt.NDArray[np.int32]:
        """Return the owner number of each subject, int32."""
        wanted = len(self._subjects)
        if wanted > self._of.size:
            larger = np.zeros(max(wanted, 2 * self._of.size), np.int32)
            larger[: self._n_owned] = self._of[: self._n_owned]
            self._of = larger
        for number in range(self._n_owned, wanted):
            members = self._subjects.members(number)
            if members is None:
                self._of[number] = self.code(self.outputs_of(self._subjects[number]))
            else:
                # XA COMMIT or ROLLBACK goes to every output that received part of the prepared transaction.
                self._of[number] = self.code(
                    k for member in members for k in self.members(int(self._of[member]))
                )
        self._n_owned = wanted
        return self._of


class SchemaOwners(Owners):
    """An output for each schema, and :data:`~dumpfilter.spark_jobs.split.names.REST` for events without a schema.

    ``unknown_xa_schemas`` are the schemas that receive XA COMMIT and XA ROLLBACK of transactions prepared before the
    set.
    """

    def __init__(self, subjects: Subjects, unknown_xa_schemas: Iterable[str] = ()) -> None:
        super().__init__(subjects, [REST], [0])
        self._numbers = {REST: 0}
        self._unknown_xa_schemas = tuple(unknown_xa_schemas)

    def outputs_of(self, subject: Subject) -> Sequence[int]:
        return [self._number(name) for name in encoded_schemas(subject)] or [0]

    @property
    def undecided(self) -> int:
        return 0

    @property
    def unknown_xa_ends(self) -> int:
        return self.code([self._number(name) for name in self._unknown_xa_schemas] or [0])

    def _number(self, name: str) -> int:
        found = self._numbers.get(name)
        if found is None:
            found = self._numbers[name] = len(self.names)
            self.names.append(name)
        return found


class FilterOwners(Owners):
    """An output for each filter. An output receives the events that a slave with the filter is sent.

    With ``rest`` there is one more output, for events that no filter passes.
    """

    def __init__(
        self, subjects: Subjects, filters: Sequence[tuple[str, ReplicationFilter]], rest: str | None = None
    ) -> None:
        names = [name for name, _ in filters] + ([] if rest is None else [rest])
        self._rest = [] if rest is None else [len(filters)]
        # A filter without rules passes everything, even transactions without owned events.
        without_rules = [k for k, (_, one) in enumerate(filters) if not one.is_on]
        super().__init__(subjects, names, without_rules or self._rest)
        self._filters = [one for _, one in filters]
        self._undecided_outputs: dict[int, tuple[int, ...]] = {}

    def outputs_of(self, subject: Subject) -> Sequence[int]:
        return [k for k, one in enumerate(self._filters) if one.verdict(subject).passes] or self._rest

    def undecided_outputs(self, number: int) -> tuple[int, ...]:
        found = self._undecided_outputs.get(number)
        if found is None:
            members = self._subjects.members(number)
            subjects = [self._subjects[k] for k in ((number,) if members is None else members)]
            # The table flags have the same rule: a set of subjects is sent for certain if one member is.
            found = self._undecided_outputs[number] = tuple(
                k
                for k, one in enumerate(self._filters)
                if _is_undecided({one.verdict(what) for what in subjects})
            )
        return found

    @property
    def undecided(self) -> int:
        return self.code(range(len(self.names)))


def _is_undecided(verdicts: set[Verdict]) -> bool:
    return Verdict.UNDECIDED in verdicts and Verdict.EXECUTE not in verdicts


def schemas_of(subject: Subject) -> tuple[str, ...]:
    """Return the schemas that a subject belongs to, or an empty tuple.

    Rows belong to their table's schema. A statement belongs to the databases of the objects that it changes. If these
    are unknown, the statement belongs to its current database.
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
    """Return the encoded names of a subject's schemas, sorted."""
    return tuple(sorted({encode_name(name) for name in schemas_of(subject)}))


def schemas_among(subjects: Iterable[Subject]) -> tuple[str, ...]:
    """Return the encoded names of all subjects' schemas, sorted."""
    return tuple(sorted({name for one in subjects for name in encoded_schemas(one)}))
