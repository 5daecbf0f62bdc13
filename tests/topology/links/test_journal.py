"""A link's history in bounded memory."""

from __future__ import annotations

import asyncio

from dumpfilter.topology.links import proxy
from dumpfilter.topology.links.shape import PLAIN


def test_the_oldest_happenings_give_way() -> None:
    async def history_of_resets() -> None:
        link = proxy.Link("m:web", ("127.0.0.1", 1), PLAIN)
        for _ in range(proxy.MOST_HAPPENINGS + 5):
            link.reset()
        assert [one.kind for one in link.history()] == ["reset"] * proxy.MOST_HAPPENINGS
        link.cut()

    asyncio.run(history_of_resets())
