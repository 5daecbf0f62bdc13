"""A count of the turns of an asyncio loop."""

from __future__ import annotations

import asyncio
from typing import Self


class Turns:
    """The turns of the loop that other tasks get while the ``async with`` block runs."""

    number = 0

    async def __aenter__(self) -> Self:
        self._others = asyncio.create_task(self._count())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._others.cancel()

    async def _count(self) -> None:
        while True:
            self.number += 1
            await asyncio.sleep(0)
