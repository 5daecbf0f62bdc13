"""Under what conditions events are sent: the vocabulary of :mod:`dumpfilter.dump.tally`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from dumpfilter.dump import _tally as K

ALWAYS = K.ALWAYS
"""Sent whatever the filter says: what belongs to the file, and what cannot be decided."""

ONE = K.ONE
"""Sent when its member, a subject, is."""

ANY = K.ANY
"""Sent when one of the members, subjects, is and, where there is one, the required subject too. Without members: sent
to a slave without rules only."""

EXACTLY = K.EXACTLY
"""Sent to the filters whose numbers are the members: compressed transactions of which filters get different parts."""

EVERYTHING = -1
"""Among the members of EXACTLY: any filter without rules."""

Mask = npt.NDArray[np.bool_]
_Item = TypeVar("_Item", bound=np.generic)


@dataclass(frozen=True)
class Conditions:
    """Conditions, no two of them equal.

    ``kind`` uint8 (:data:`ALWAYS`, :data:`ONE`, :data:`ANY`, :data:`EXACTLY`), ``required`` int32 (or -1), ``start``
    int64 (one entry more than there are conditions): where each one's members begin in ``member`` int32, ascending:
    subjects, or numbers of filters.
    """

    kind: npt.NDArray[np.uint8]
    required: npt.NDArray[np.int32]
    start: npt.NDArray[np.int64]
    member: npt.NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.kind)

    def members(self, number: int) -> npt.NDArray[np.int32]:
        """One's members."""
        return self.member[self.start[number] : self.start[number + 1]]

    def passing(self, sent: Mask) -> Mask:
        """Those on subjects that hold when ``sent``, bool a subject, is what is sent."""
        found = np.empty(len(self), np.bool_)
        K.passing(self.kind, self.required, self.start, self.member, sent, found)
        return found

    def among(self, number: int) -> Mask:
        """Those of kind :data:`EXACTLY` that have a filter among their members."""
        found = np.empty(len(self), np.bool_)
        K.among(self.kind, self.start, self.member, number, found)
        return found


class ConditionTable:
    """Numbers conditions as they come, equal ones alike. The arrays are the compiled code's to fill.

    ``state``: where the compiled code counts them (``T_CONDITIONS``, ``T_MEMBERS``).
    """

    def __init__(self, state: npt.NDArray[np.int64]) -> None:
        self._state = state
        self.rows: npt.NDArray[np.int64] = np.zeros((0, K.CONDITION_COLUMNS), np.int64)
        self.members: npt.NDArray[np.int32] = np.zeros(0, np.int32)
        self.slots: npt.NDArray[np.int64] = np.full(1, -1, np.int64)

    def make_room(self, conditions: int, members: int) -> None:
        """Room for that many more conditions, which have that many members together."""
        count, used = self._state[[K.T_CONDITIONS, K.T_MEMBERS]].tolist()
        if count + conditions > len(self.rows):
            self.rows = longer(self.rows, 2 * (count + conditions))
            self.slots = empty_slots(len(self.rows))
            K.rehash_conditions(self.rows, self.members, count, self.slots)
        if used + members > len(self.members):
            self.members = longer(self.members, 2 * (used + members))

    def intern(self, kind: int, members: npt.NDArray[np.int32], required: int = -1) -> int:
        """The number of a condition, whose members are ascending and different."""
        self.make_room(1, len(members))
        return int(
            K.intern(self._state, self.rows, self.members, self.slots, kind, required, members, len(members))
        )

    def conditions(self) -> Conditions:
        """All, as they are now."""
        count, used = self._state[[K.T_CONDITIONS, K.T_MEMBERS]].tolist()
        rows = self.rows[:count]
        return Conditions(
            rows[:, K.Q_KIND].astype(np.uint8),
            rows[:, K.Q_REQUIRED].astype(np.int32),
            np.append(rows[:, K.Q_START], used),
            self.members[:used].copy(),
        )

    def add(
        self,
        conditions: Conditions,
        wanted: npt.NDArray[np.int64],
        subject_start: npt.NDArray[np.int64],
        subject: npt.NDArray[np.int32],
        stand_in: npt.NDArray[np.int32],
    ) -> npt.NDArray[np.int64]:
        """Take in those ``wanted`` (int64, numbers) of other conditions; their numbers here.

        ``subject[subject_start[s] : subject_start[s + 1]]`` take the place of their subject ``s``, and ``stand_in[t]``
        that of each such ``t`` in a condition about several.
        """
        members = K.room(conditions.kind, conditions.start, conditions.member, wanted, subject_start)
        self.make_room(len(wanted), int(members))
        numbers = np.empty(len(wanted), np.int64)
        K.renumber(
            conditions.kind,
            conditions.required,
            conditions.start,
            conditions.member,
            wanted,
            subject_start,
            subject,
            stand_in,
            self._state,
            self.rows,
            self.members,
            self.slots,
            numbers,
        )
        return numbers


def longer(column: npt.NDArray[_Item], length: int) -> npt.NDArray[_Item]:
    """A column with room for ``length`` entries."""
    out = np.zeros((length, *column.shape[1:]), column.dtype)
    out[: len(column)] = column
    return out


def empty_slots(entries: int) -> npt.NDArray[np.int64]:
    """A hash table with room for so many entries."""
    return np.full(1 << (2 * entries - 1).bit_length(), -1, np.int64)
