"""What a filter decides on: tables and statements, numbered densely.

Every event of a segment that needs a decision carries the number of its subject. A filter is asked once
for each subject; for the dump thread its answer is then an array look-up (WL#2387: the flags cached on
the table object).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dumpfilter.binlog import _kernels as K
from dumpfilter.statement.statement import Statement


@dataclass(frozen=True)
class TableSubject:
    """A table named by a table map; names decoded as UTF-8 with surrogateescape."""

    database: str
    table: str


Subject = TableSubject | Statement


class Subjects:
    """The subjects met so far, shared by all scans of a binlog set.

    Tables are numbered by the compiled scan itself, in the arrays below; statements by :meth:`statement`.
    Numbers are never reused, so flags computed for them stay valid. One scan at a time may run with it;
    ``lock`` sees to that.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._known: list[Subject] = []
        self._statements: dict[Statement, int] = {}
        self.names: npt.NDArray[np.uint8] = np.zeros(1 << 14, np.uint8)
        self.name_start: npt.NDArray[np.int64] = np.zeros(512, np.int64)
        self.name_length: npt.NDArray[np.int64] = np.zeros(512, np.int64)
        self.name_slots: npt.NDArray[np.int64] = np.full(2048, -1, np.int64)
        self.count = 0
        self.name_bytes = 0

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, number: int) -> Subject:
        if number >= len(self._known):
            self._read_new_tables()
        return self._known[number]

    def since(self, first: int) -> Iterator[Subject]:
        """The subjects from number ``first`` on."""
        for number in range(first, self.count):
            yield self[number]

    def statement(self, statement: Statement) -> int:
        """The number of a statement's subject; equal statements have one number."""
        number = self._statements.get(statement)
        if number is None:
            self._read_new_tables()
            if self.count >= self.name_start.size:
                self.grow()
            number = self.count
            # a length no table's key has, so that the scan never takes it for one
            self.name_length[number] = -1
            self.count += 1
            self._known.append(statement)
            self._statements[statement] = number
        return number

    def grow(self) -> None:
        """Double the room for names and numbers (the scan came back with GROW_NAMES)."""
        self.names = np.concatenate([self.names, np.zeros_like(self.names)])
        self.name_start = np.concatenate([self.name_start, np.zeros_like(self.name_start)])
        self.name_length = np.concatenate([self.name_length, np.zeros_like(self.name_length)])
        slots = np.full(self.name_slots.size * 2, -1, np.int64)
        K.rehash_names(slots, self.names, self.name_start, self.name_length, self.count)
        self.name_slots = slots

    def load(self, state: npt.NDArray[np.int64]) -> None:
        state[K.S_SUBJECTS] = self.count
        state[K.S_NAME_BYTES] = self.name_bytes

    def store(self, state: npt.NDArray[np.int64]) -> None:
        self.count = int(state[K.S_SUBJECTS])
        self.name_bytes = int(state[K.S_NAME_BYTES])

    def _read_new_tables(self) -> None:
        for number in range(len(self._known), self.count):
            start, length = int(self.name_start[number]), int(self.name_length[number])
            key = self.names[start : start + length].tobytes()
            db_length = key[0]
            self._known.append(
                TableSubject(
                    key[1 : 1 + db_length].decode("utf-8", "surrogateescape"),
                    key[3 + db_length : -1].decode("utf-8", "surrogateescape"),
                )
            )
