"""Conditions such as "the filter sends one of these tables", each of which has a number.

The tally (:mod:`dumpfilter.dump.tally`) counts bytes under conditions, so that one pass over the binlogs serves any
number of filters. A subject is a table or a statement that a filter decides about.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from dumpfilter.dump import _tally as K

ALWAYS = K.ALWAYS
"""The condition kind of events that every slave is sent. Examples are Rotate events, and rows without a table map,
about which no filter can decide."""

ONE = K.ONE
"""The condition kind of events that a slave is sent if its filter sends the condition's only member, a subject (a table
or statement)."""

ANY = K.ANY
"""The condition kind of events that a slave is sent if its filter sends at least one member (a table or statement).

If the condition has a required subject, the filter must send the required subject, too. An example is a table map: it
is sent if its own table is sent and any later rows of the statement are sent. A condition without members holds only
for a slave without rules.
"""

EXACTLY = K.EXACTLY
"""The condition kind of events that are sent to an explicit list of filters, whose numbers are the members.

The tally uses this kind for compressed transactions of which different filters send different parts.
"""

EVERYTHING = -1
"""The number that stands for all filters without rules, in a condition that lists filters (kind EXACTLY)."""

Mask = npt.NDArray[np.bool_]
_Item = TypeVar("_Item", bound=np.generic)


@dataclass(frozen=True)
class Conditions:
    """Conditions under which a filter sends events, stored as columns. A condition's number is its index in ``kind``
    and ``required``. No two conditions are equal."""

    kind: npt.NDArray[np.uint8]
    """For each condition, its kind, which says how many of its tables and statements a filter must send:
    :data:`ALWAYS`, :data:`ONE`, :data:`ANY` or :data:`EXACTLY`."""
    required: npt.NDArray[np.int32]
    """For each condition, the number of the subject (table or statement) that the filter must send in any case; -1 if
    there is none."""
    start: npt.NDArray[np.int64]
    """The index in ``member`` of each condition's first member. One more entry at the end is the length of
    ``member``."""
    member: npt.NDArray[np.int32]
    """The members of all conditions, one condition after the other. The members of one condition ascend.

    A member is the number of a subject (a table or statement); in conditions of kind EXACTLY it is the number of a
    filter.
    """

    def __len__(self) -> int:
        return len(self.kind)

    def members(self, number: int) -> npt.NDArray[np.int32]:
        """Return the members of the condition with this number: numbers of subjects, or of filters for EXACTLY."""
        return self.member[self.start[number] : self.start[number + 1]]

    @property
    def names_subjects(self) -> Mask:
        """For each entry of ``member``, whether it is the number of a subject, and not of a filter."""
        return np.repeat(self.kind != EXACTLY, np.diff(self.start))

    def met(self, subjects: int) -> Mask:
        """Return for each of so many subjects (tables and statements) whether a condition names it."""
        found = np.zeros(subjects, np.bool_)
        found[self.required[self.required >= 0]] = True
        found[self.member[self.names_subjects]] = True
        return found

    def with_subjects(self, numbers: npt.NDArray[np.integer]) -> Conditions:
        """Return the conditions with another number for each subject. Subject ``s`` becomes ``numbers[s]``.

        The members of a condition ascend as before if the new numbers ascend.
        """
        required, member = self.required.copy(), self.member.copy()
        has_required, is_subject = required >= 0, self.names_subjects
        required[has_required] = numbers[required[has_required]]
        member[is_subject] = numbers[member[is_subject]]
        return Conditions(self.kind, required, self.start, member)

    def passing(self, sent: Mask) -> Mask:
        """Return for each condition whether it holds for a filter that sends exactly the subjects marked in ``sent``.

        Subjects are tables and statements. Conditions of the kinds ALWAYS and EXACTLY are False here.
        """
        found = np.empty(len(self), np.bool_)
        K.passing(self.kind, self.required, self.start, self.member, sent, found)
        return found

    def among(self, number: int) -> Mask:
        """Return for each condition whether it has kind :data:`EXACTLY` and lists the filter with this number."""
        found = np.empty(len(self), np.bool_)
        K.among(self.kind, self.start, self.member, number, found)
        return found


class ConditionTable:
    """A growing table that stores each condition once and gives it a number. Compiled code fills the table's arrays."""

    def __init__(self) -> None:
        self.arrays = K.ConditionRows(
            np.zeros(2, np.int64),
            np.zeros((0, K.CONDITION_COLUMNS), np.int64),
            np.zeros(0, np.int32),
            np.full(1, -1, np.int64),
        )

    def make_room(self, conditions: int, members: int) -> None:
        """Enlarge the arrays if needed. ``conditions`` more conditions with ``members`` members altogether must fit.

        Compiled code cannot enlarge arrays, so callers make room before they call it.
        """
        count, used = self.arrays.counts.tolist()
        if count + conditions > len(self.arrays.rows):
            rows = longer(self.arrays.rows, 2 * (count + conditions))
            self.arrays = self.arrays._replace(rows=rows, slots=empty_slots(len(rows)))
            K.rehash_conditions(self.arrays)
        if used + members > len(self.arrays.members):
            self.arrays = self.arrays._replace(members=longer(self.arrays.members, 2 * (used + members)))

    def intern(self, kind: int, members: npt.NDArray[np.int32], required: int = -1) -> int:
        """Return the number of the condition with this kind, members and required subject. Store it if it is new.

        The members must ascend without duplicates.
        """
        self.make_room(1, len(members))
        return int(K.intern(self.arrays, kind, required, members, len(members)))

    def chosen(self, numbers: npt.NDArray[np.int64]) -> Conditions:
        """Return a copy of the stored conditions with these numbers. They get the numbers from 0 on, in this order."""
        rows = self.arrays.rows[numbers]
        lengths = rows[:, K.Q_END] - rows[:, K.Q_START]
        start = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        places = np.repeat(rows[:, K.Q_START] - start[:-1], lengths) + np.arange(start[-1])
        return Conditions(
            rows[:, K.Q_KIND].astype(np.uint8),
            rows[:, K.Q_REQUIRED].astype(np.int32),
            start,
            self.arrays.members[places],
        )

    def conditions(self) -> Conditions:
        """Return a copy of all stored conditions."""
        count, used = self.arrays.counts.tolist()
        rows = self.arrays.rows[:count]
        return Conditions(
            rows[:, K.Q_KIND].astype(np.uint8),
            rows[:, K.Q_REQUIRED].astype(np.int32),
            np.append(rows[:, K.Q_START], used),
            self.arrays.members[:used].copy(),
        )

    def add(
        self,
        conditions: Conditions,
        wanted: npt.NDArray[np.int64],
        subject_start: npt.NDArray[np.int64],
        subject: npt.NDArray[np.int32],
        stand_in: npt.NDArray[np.int32],
    ) -> npt.NDArray[np.int64]:
        """Add conditions of another table, with their subjects renumbered. Return their numbers in this table.

        Parameters:
            wanted: the numbers of the conditions in ``conditions`` to add, int64.
            subject_start, subject: the renumbering. The subjects ``subject[subject_start[s] : subject_start[s + 1]]``
                replace subject ``s``, which may be a set of several tables.
            stand_in: a second renumbering, only for conditions about several subjects. Subject ``stand_in[t]``
                replaces each new subject ``t``, so that subjects with equal verdicts become one.
        """
        members = K.room(conditions.kind, conditions.start, conditions.member, wanted, subject_start)
        self.make_room(len(wanted), int(members))
        numbers = np.empty(len(wanted), np.int64)
        columns = (conditions.kind, conditions.required, conditions.start, conditions.member)
        K.renumber(columns, wanted, subject_start, subject, stand_in, self.arrays, numbers)
        return numbers


def longer(column: npt.NDArray[_Item], length: int) -> npt.NDArray[_Item]:
    """Return a copy of an array that is ``length`` entries long, with zeros after the old entries."""
    out = np.zeros((length, *column.shape[1:]), column.dtype)
    out[: len(column)] = column
    return out


def empty_slots(entries: int) -> npt.NDArray[np.int64]:
    """Return an empty hash table (int64, all -1) that ``entries`` entries fill at most by half."""
    return np.full(1 << (2 * entries - 1).bit_length(), -1, np.int64)
