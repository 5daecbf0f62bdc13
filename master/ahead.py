"""An iterator that runs ahead of its consumer in a thread, by a bounded number of items."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")

_POLL = 0.1
"""The time between two checks of a waiting producer for :meth:`Ahead.close`, seconds."""


class Ahead(Generic[T]):
    """The items of ``source``, made in a thread before the consumer asks. Exceptions of ``source`` reach the consumer.

    While gRPC sends one chunk, the thread plans and reads the next chunks. Kernels and reads run without the
    interpreter's lock. After ``depth`` items the thread waits for the consumer. The consumer calls :meth:`close` at the
    end.
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
        """Stop the producer at its next item. The caller makes sure that ``source`` yields an item or ends."""
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
