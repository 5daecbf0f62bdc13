"""Owners: for each table and each statement of a binlog, the outputs of the split that receive its events.

An output is a binlog that the split writes. A subject is a table or a statement that a filter decides about. Each
binlog set numbers its subjects from 0.
"""

from __future__ import annotations

import abc
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from dumpfilter.filter.base import ReplicationFilter
from dumpfilter.filter.decision import Verdict
from dumpfilter.index.subjects import Subject, Subjects
from dumpfilter.spark_jobs.split.names import REST, encode_name

NO_OUTPUT = -1
"""The owner number (the number that says which outputs receive an event) for no output. GTID, BEGIN and context events
(such as Intvar) have this number, since they go wherever their transaction or statement goes."""


class Owners(abc.ABC):
    """The outputs (the binlogs that the split writes) that receive the events of each table and each statement.

    An owner number says which outputs receive an event. A number from 0 is one output, the index in ``names``. The
    number -1 (:data:`NO_OUTPUT`) is no output. The number -2 - k means all outputs in ``several[k]``.
    """

    def __init__(self, subjects: Subjects, names: Iterable[str], default_outputs: Iterable[int]) -> None:
        self._subjects = subjects
        self._of: npt.NDArray[np.int32] = np.zeros(64, np.int32)
        self._n_owned = 0
        self.names = list(names)
        self.default_outputs = tuple(default_outputs)
        """The numbers of the outputs that receive a transaction in which no event belongs to any output, for example
        an empty transaction."""
        self.several: list[tuple[int, ...]] = []
        """The combinations of outputs that receive the same events, each combination once. For example, a statement
        that changes tables of two schemas goes to the outputs of both."""
        self._codes: dict[tuple[int, ...], int] = {}

    @abc.abstractmethod
    def outputs_of(self, subject: Subject) -> Sequence[int]:
        """Return the numbers of the outputs that receive a table's rows events, or a statement's event."""

    @property
    @abc.abstractmethod
    def undecided(self) -> int:
        """The number that says which outputs receive events that no filter can decide.

        Such events are incidents, events of unknown types, and rows events without a table map. In a split by filters
        every output receives them, and in a split by schema the output for events without a schema.
        """

    @property
    def unknown_xa_ends(self) -> int:
        """The number that says which outputs receive the XA COMMIT or XA ROLLBACK of a transaction that was prepared
        before the binlog set begins.

        The set does not show which tables such a transaction changed, so no output can be left out for certain.
        """
        return self.undecided

    def undecided_outputs(self, number: int) -> tuple[int, ...]:
        """Return the outputs whose filter can neither send nor drop subject ``number`` (a table or statement) for
        certain.

        Such an output receives the subject's events, because a slave's own filter may still need them. A split by
        schema has no filters, so its result is empty.
        """
        return ()

    def members(self, owner: int) -> tuple[int, ...]:
        """Return the numbers of the outputs that an owner number stands for.

        An owner number says which outputs receive an event. It stands for no output, one output, or several outputs.
        """
        if owner >= 0:
            return (owner,)
        return () if owner == NO_OUTPUT else self.several[-2 - owner]

    def code(self, outputs: Iterable[int]) -> int:
        """Return one number, an owner number, that stands for all of these outputs together.

        ``outputs`` are the outputs' numbers. A combination of several outputs gets a new owner number when it is seen
        for the first time.
        """
        key = tuple(sorted(set(outputs)))
        if len(key) < 2:
            return key[0] if key else NO_OUTPUT
        found = self._codes.get(key)
        if found is None:
            found = self._codes[key] = -2 - len(self.several)
            self.several.append(key)
        return found

    def array(self) -> npt.NDArray[np.int32]:
        """Return the owner number of every subject seen so far, int32, by the subject's number.

        The owner number says which outputs receive the events of the subject (a table or a statement).
        """
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
    """The owners in a split by schema. Each schema has one output, and events without a schema go to the output
    :data:`~dumpfilter.spark_jobs.split.names.REST`.

    ``unknown_xa_schemas`` are schemas' encoded names. Their outputs receive every XA COMMIT and XA ROLLBACK of a
    transaction that was prepared before the binlog set.
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
    """The owners in a split by filters. Each filter has one output, which receives the events that the master would
    send to a slave with the filter.

    With ``rest`` there is one more output of that name, which receives the events that every filter drops.
    """

    def __init__(
        self, subjects: Subjects, filters: Sequence[tuple[str, ReplicationFilter]], rest: str | None = None
    ) -> None:
        names = [name for name, _ in filters] + ([] if rest is None else [rest])
        self._rest = [] if rest is None else [len(filters)]
        # A slave whose filter has no rules receives every transaction, even an empty transaction.
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
            # An XA COMMIT concerns several subjects. It is sent for certain if one of the subjects is sent for certain.
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


def encoded_schemas(subject: Subject) -> tuple[str, ...]:
    """Return the schemas that receive the events of a table or statement, as file names, sorted, without repetition."""
    return tuple(sorted({encode_name(name) for name in subject.schemas()}))


def schemas_among(subjects: Iterable[Subject]) -> tuple[str, ...]:
    """Return the schemas that receive events of any of these tables and statements, as file names, sorted."""
    return tuple(sorted({name for one in subjects for name in encoded_schemas(one)}))
