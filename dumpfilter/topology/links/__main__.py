"""``python -m dumpfilter.topology.links NUMBER``: carry links, as requests on the socket with this descriptor demand.

A request is a pickled tuple of a method's name, the link's name and the method's arguments. The answer is the method's
result, or a LinkError. The process ends when the other end of the socket closes, or when its parent process has ended.
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
"""The interval at which the process checks that its parent runs, seconds. A closed socket is not enough: a fork of the
parent may keep it open.
"""


class Links:
    """The links (connections with rate, delay and faults) that this process carries, by name."""

    def __init__(self) -> None:
        self._links: dict[str, Link] = {}

    def answer(self, method: str, name: str | None, arguments: tuple[Any, ...]) -> Any:
        """Call a method of the link ``name``, and return its result.

        With ``name`` None the method is one of this object, such as ``open``. Raises LinkError for an unknown link.
        """
        if name is None:
            return getattr(self, method)(*arguments)
        if name not in self._links:
            raise LinkError(
                f"there is no link {name}; the links are {', '.join(sorted(self._links)) or 'none'}"
            )
        return getattr(self._links[name], method)(*arguments)

    def open(self, name: str, address: tuple[str, int], shape: LinkShape, port: int) -> int:
        """Open a link to the address of a source, and return the port at which the link listens.

        ``port`` is the wanted port; 0 for any free port. Raises LinkError for a name that is in use and for a port that
        is not free.
        """
        if name in self._links:
            raise LinkError(f"there is a link {name} already; give the new one another name")
        self._links[name] = link = Link(name, address, shape, port=port)
        return link.port

    def counters(self) -> dict[str, Counters]:
        """Return the counters (bytes and connections) of each link, by the link's name."""
        return {name: link.counters() for name, link in self._links.items()}

    def history(self) -> dict[str, History]:
        """Return the history (changes, faults, bytes over time) of each link, by the link's name."""
        return {name: link.history() for name, link in self._links.items()}

    def close(self) -> None:
        """Close all links."""
        for link in self._links.values():
            link.close()


async def serve(caller: Connection) -> None:
    """Answer the requests that come over ``caller`` until the other side closes it or the parent process has ended."""
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
        except Exception as error:
            # Without an answer the caller would wait for a minute, and then kill this process with all its links.
            found = LinkError(f"{request!r}: {error!r}")
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
    """Run the process of the links until its caller closes the socket.

    SIGINT is ignored. The caller gets the interrupt, too, and then closes the socket.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with Connection(int(sys.argv[1])) as caller:
        asyncio.run(serve(caller))


if __name__ == "__main__":
    main()
