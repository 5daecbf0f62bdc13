"""``python -m dumpfilter.topology.links NUMBER``: carry links, as requests on the socket with this descriptor demand.

A request is a pickled tuple of a method's name, the link's name and the method's arguments. The method ``open`` makes
the link. Without a link's name the method of every link is called. The answer is the method's result, for every link
by its name, or a LinkError. The process ends when the other end of the socket closes, or when its parent process has
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

PARENT_INTERVAL = 1.0
"""The interval at which the process checks that its parent runs, seconds. A closed socket is not enough: a fork of the
parent may keep it open.
"""


async def serve(caller: Connection) -> None:
    """Open and change links (proxies with rate and delay) at the requests of another process, which is connected to
    ``caller``.

    Return when the other process closes the connection. If the parent process has ended, this process ends at once. A
    request is the name of a method of :class:`Link`, a link's name (None: all links) and the arguments. The answer is
    the method's result, or its error.
    """
    loop = asyncio.get_running_loop()
    links: dict[str, Link] = {}
    ended = asyncio.Event()

    def result_of(method: str, name: str | None, arguments: tuple[Any, ...]) -> Any:
        if name is None:
            return {each: getattr(link, method)() for each, link in links.items()}
        if method == "open":
            if name in links:
                raise LinkError(f"there is a link {name} already; give the new one another name")
            links[name] = Link(name, *arguments)
            return links[name].port
        if name not in links:
            raise LinkError(f"there is no link {name}; the links are {', '.join(sorted(links)) or 'none'}")
        return getattr(links[name], method)(*arguments)

    def answer() -> None:
        try:
            request = caller.recv()
        except (EOFError, OSError):
            loop.remove_reader(caller.fileno())
            ended.set()
            return
        try:
            found = result_of(*request)
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
    for link in links.values():
        link.close()


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
