"""``python -m dumpfilter.topology.links SOCKET``: carry links, as requests on the socket with this number say.

A request is a pickled tuple of a method's name, the link's name and the method's arguments. The answer is the method's
result, or a LinkError. The process ends when the socket's other end closes, or when the process that started it has
ended.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
from multiprocessing.connection import Connection
from typing import Any

from dumpfilter.base.errors import LinkError
from dumpfilter.topology.links.proxy import Link
from dumpfilter.topology.links.records import Counters, History
from dumpfilter.topology.links.shape import LinkShape

PARENT_INTERVAL = 1.0
"""The time between two looks at the parent process, seconds. A fork of it may keep the socket open."""


class Links:
    """The links of the process, by name."""

    def __init__(self) -> None:
        self._links: dict[str, Link] = {}

    def answer(self, method: str, name: str | None, arguments: tuple[Any, ...]) -> Any:
        """Call a method of the link with this name, or of this object for a new link or all links. Raises LinkError."""
        if name is None:
            return getattr(self, method)(*arguments)
        if name not in self._links:
            raise LinkError(
                f"there is no link {name}; the links are {', '.join(sorted(self._links)) or 'none'}"
            )
        return getattr(self._links[name], method)(*arguments)

    def open(self, name: str, address: tuple[str, int], shape: LinkShape, port: int) -> int:
        """Open a link and return its port. Raises LinkError."""
        if name in self._links:
            raise LinkError(f"there is a link {name} already; give the new one another name")
        self._links[name] = link = Link(name, address, shape, port=port)
        return link.port

    def counters(self) -> dict[str, Counters]:
        """Return the counters of all links."""
        return {name: link.counters() for name, link in self._links.items()}

    def history(self) -> dict[str, History]:
        """Return the histories of all links."""
        return {name: link.history() for name, link in self._links.items()}

    def close(self) -> None:
        """Close all links."""
        for link in self._links.values():
            link.close()


async def serve(caller: Connection) -> None:
    """Answer the requests of a caller until it closes the connection."""
    loop = asyncio.get_running_loop()
    links, ended = Links(), asyncio.Event()

    def answer() -> None:
        try:
            request = caller.recv()
        except (EOFError, OSError):
            loop.remove_reader(caller.fileno())
            ended.set()
            return
        try:
            found = links.answer(*request)
        except LinkError as error:
            found = error
        caller.send(found)

    watch = loop.create_task(_follow_parent(os.getppid()))
    gc.freeze()
    loop.add_reader(caller.fileno(), answer)
    await ended.wait()
    watch.cancel()
    links.close()


async def _follow_parent(parent: int) -> None:
    while os.getppid() == parent:
        await asyncio.sleep(PARENT_INTERVAL)
    os._exit(0)


def main() -> None:
    """Run the process. An interrupt from the keyboard is for its caller, which closes the connection then."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with Connection(int(sys.argv[1])) as caller:
        asyncio.run(serve(caller))


if __name__ == "__main__":
    main()
