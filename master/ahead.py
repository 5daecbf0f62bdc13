"""An iterator run ahead of its consumer, in a thread of its own, by a bounded number of items."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")

_POLL = 0.1
"""How often a producer that is held back looks whether it is still wanted, seconds."""


class Ahead(Generic[T]):
    """Iterate over it like over ``source``; :meth:`close` it when done. What ``source`` raises is raised here.

    While gRPC sends one chunk the next ones are planned and read: the kernels and the reads run without the
    interpreter's lock. A consumer that is slow holds the producer back after ``depth`` items.
    """

    def __init__(self, source: Iterator[T], depth: int) -> None:
        self._source = source
        self._items: queue.Queue[tuple[T | None, BaseException | None]] = queue.Queue(depth)
        self._unwanted = threading.Event()
        self._thread = threading.Thread(target=self._run, name="dump-ahead", daemon=True)
        self._thread.start()

    def __iter__(self) -> Iterator[T]:
        while True:
            item, end = self._items.get()
            if end is not None:
                if isinstance(end, StopIteration):
                    return
                raise end
            yield item  # type: ignore[misc]  # None only together with an end

    def close(self) -> None:
        """Stop the producer. It ends at its next item: see to it that one comes, or that ``source`` ends."""
        self._unwanted.set()

    def _run(self) -> None:
        try:
            for item in self._source:
                if not self._put((item, None)):
                    return
            self._put((None, StopIteration()))
        except BaseException as error:
            self._put((None, error))
        finally:
            close = getattr(self._source, "close", None)
            if close is not None:
                close()

    def _put(self, item: tuple[T | None, BaseException | None]) -> bool:
        while not self._unwanted.is_set():
            try:
                self._items.put(item, timeout=_POLL)
            except queue.Full:
                continue
            return True
        return False
