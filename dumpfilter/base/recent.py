"""A mapping with a limit on its number of entries, so that clients who choose its keys cannot fill the memory."""

from __future__ import annotations

from collections import OrderedDict
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Recent(OrderedDict[K, V]):
    """A mapping of at most ``most`` entries, so that clients who choose the keys cannot fill the memory. Above the
    limit, the entry that was set longest ago is dropped.
    """

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        if len(self) > self._most:
            self.popitem(last=False)
