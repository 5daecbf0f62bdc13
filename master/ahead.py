"""An iterator that computes a bounded number of items in a thread before its consumer asks for them."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import Generic, TypeVar

from dumpfilter.master.limits import Overloaded

T = TypeVar("T")

_POLL = 0.1
"""The interval at which a producer thread with a full queue checks whether the consumer has closed, seconds."""


class Ahead(Generic[T]):
    """An iterator over the items of ``source``, which a thread computes before the consumer asks for them.

    The master uses it for dumps. While gRPC sends one chunk to the slave, the thread filters and reads the next chunks.
    Both can run at once because compiled code and file reads release Python's global interpreter lock. When ``depth``
    items are waiting, the thread pauses until the consumer takes one. The consumer receives the exceptions of
    ``source``, and must call :meth:`close` at the end. Raises Overloaded when the system refuses another thread.
    """

    def __init__(self, source: Iterator[T], depth: int) -> None:
        self._source = source
        self._items: queue.Queue[tuple[T | None, BaseException | None]] = queue.Queue(depth)
        self._unwanted = threading.Event()
        self._thread = threading.Thread(target=self._run, name="dump-ahead", daemon=True)
        try:
            self._thread.start()
        except (RuntimeError, MemoryError):
            raise Overloaded("the system gives the master no more threads; try again later") from None

    def __iter__(self) -> Iterator[T]:
        while True:
            item, end = self._items.get()
            if end is not None:
                if isinstance(end, StopIteration):
                    return
                raise end
            yield item  # type: ignore[misc]  # an item is None only when ``end`` is set

    def close(self) -> None:
        """Tell the thread to stop when ``source`` yields its next item.

        The call does not wait. The caller makes sure that ``source`` soon yields an item or ends.
        """
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
