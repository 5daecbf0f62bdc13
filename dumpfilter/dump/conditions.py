"""The conditions under which the tally (:mod:`dumpfilter.dump.tally`) counts events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from dumpfilter.dump import _tally as K

ALWAYS = K.ALWAYS
"""The kind of events that are sent whatever a filter says: events of the file, and events that cannot be decided."""

ONE = K.ONE
"""The kind of events that are sent if the filter sends the condition's member, a subject."""

ANY = K.ANY
"""The kind of events that are sent if the filter sends one of the members, which are subjects. If the condition has a
required subject, the filter must send that subject, too. Without members, only a slave without rules gets the
events."""

EXACTLY = K.EXACTLY
"""The kind of events that are sent to the filters whose numbers are the members. Such events are compressed
transactions of which filters get different parts."""

EVERYTHING = -1
"""A member of EXACTLY that stands for all filters without rules."""

Mask = npt.NDArray[np.bool_]
_Item = TypeVar("_Item", bound=np.generic)


@dataclass(frozen=True)
class Conditions:
    """Conditions, no two of them equal. Their numbers are their places in the columns."""

    kind: npt.NDArray[np.uint8]
    """:data:`ALWAYS`, :data:`ONE`, :data:`ANY` or :data:`EXACTLY`."""
    required: npt.NDArray[np.int32]
    """The number of the required subject, or -1."""
    start: npt.NDArray[np.int64]
    """The place of each condition's first member in ``member``. There is one entry more than there are conditions."""
    member: npt.NDArray[np.int32]
    """The members, ascending in each condition: numbers of subjects, or of filters."""

    def __len__(self) -> int:
        return len(self.kind)

    def members(self, number: int) -> npt.NDArray[np.int32]:
        """Return the members of a condition."""
        return self.member[self.start[number] : self.start[number + 1]]

    def passing(self, sent: Mask) -> Mask:
        """Return the conditions on subjects that hold for a filter. ``sent`` says which subjects the filter sends."""
        found = np.empty(len(self), np.bool_)
        K.passing(self.kind, self.required, self.start, self.member, sent, found)
        return found

    def among(self, number: int) -> Mask:
        """Return the conditions of kind :data:`EXACTLY` that have a filter, by its number, among their members."""
        found = np.empty(len(self), np.bool_)
        K.among(self.kind, self.start, self.member, number, found)
        return found


class ConditionTable:
    """A table of conditions, each of which has a number and is stored once. Compiled code fills the table's arrays."""

    def __init__(self) -> None:
        self.arrays = K.ConditionRows(
            np.zeros(2, np.int64),
            np.zeros((0, K.CONDITION_COLUMNS), np.int64),
            np.zeros(0, np.int32),
            np.full(1, -1, np.int64),
        )

    def make_room(self, conditions: int, members: int) -> None:
        """Make room for more conditions, and for as many members of all of them together."""
        count, used = self.arrays.counts.tolist()
        if count + conditions > len(self.arrays.rows):
            rows = longer(self.arrays.rows, 2 * (count + conditions))
            self.arrays = self.arrays._replace(rows=rows, slots=empty_slots(len(rows)))
            K.rehash_conditions(self.arrays)
        if used + members > len(self.arrays.members):
            self.arrays = self.arrays._replace(members=longer(self.arrays.members, 2 * (used + members)))

    def intern(self, kind: int, members: npt.NDArray[np.int32], required: int = -1) -> int:
        """Return the number of a condition. Its members ascend without duplicates."""
        self.make_room(1, len(members))
        return int(K.intern(self.arrays, kind, required, members, len(members)))

    def conditions(self) -> Conditions:
        """Return all conditions of the table."""
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
        """Add conditions of another table, and return their numbers in this table.

        Parameters:
            wanted: the numbers of the conditions in the other table, int64.
            subject_start, subject: ``subject[subject_start[s] : subject_start[s + 1]]`` take the place of the other
                table's subject ``s``.
            stand_in: in a condition about several subjects, ``stand_in[t]`` takes the place of such a subject ``t``.
        """
        members = K.room(conditions.kind, conditions.start, conditions.member, wanted, subject_start)
        self.make_room(len(wanted), int(members))
        numbers = np.empty(len(wanted), np.int64)
        columns = (conditions.kind, conditions.required, conditions.start, conditions.member)
        K.renumber(columns, wanted, subject_start, subject, stand_in, self.arrays, numbers)
        return numbers


def longer(column: npt.NDArray[_Item], length: int) -> npt.NDArray[_Item]:
    """Return a copy of a column with room for ``length`` entries."""
    out = np.zeros((length, *column.shape[1:]), column.dtype)
    out[: len(column)] = column
    return out


def empty_slots(entries: int) -> npt.NDArray[np.int64]:
    """Return an empty hash table with room for a number of entries."""
    return np.full(1 << (2 * entries - 1).bit_length(), -1, np.int64)
