"""``python -m dumpfilter.links``: carry links, as requests on standard input say.

Each request is a line of JSON, and so is its answer on standard output. The process ends when its standard input ends,
or when the process that started it has ended.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import sys
from dataclasses import asdict
from typing import Any

from dumpfilter.errors import LinkError
from dumpfilter.links.proxy import Link
from dumpfilter.links.shape import LinkShape
from dumpfilter.links.wire_format import shape_from_json

PARENT_INTERVAL = 1.0
"""The time between two looks at the parent process, seconds. A fork of it may keep the standard input open."""

LONGEST_REQUEST = 1 << 20
"""The longest line of a request, bytes."""


class Links:
    """The links of the process, by name."""

    def __init__(self) -> None:
        self._links: dict[str, Link] = {}

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Carry out a request and return its answer. Raises LinkError."""
        match request["do"]:
            case "open":
                return self._open(request)
            case "counters":
                return {"links": {name: asdict(link.counters()) for name, link in self._links.items()}}
            case "history":
                return {"links": {name: link.history().to_json() for name, link in self._links.items()}}
        link = self._named(request["link"])
        match request["do"]:
            case "set":
                link.set(_checked(shape_from_json(request["shape"])))
            case "retarget":
                link.retarget((request["to"][0], request["to"][1]))
            case "cut":
                link.cut(request["seconds"])
            case "cut_after":
                if request["count"] < 0:
                    raise LinkError(f"cut after {request['count']} bytes: the number must be 0 or more")
                link.cut_after(request["count"], request["seconds"])
            case "silence":
                link.silence(request["seconds"])
            case "reset":
                link.reset()
            case "heal":
                link.heal()
            case "close":
                link.close()
                del self._links[link.name]
            case unknown:
                raise LinkError(f"unknown request {unknown!r}")
        return {}

    def close(self) -> None:
        """Close all links."""
        for link in self._links.values():
            link.close()

    def _open(self, request: dict[str, Any]) -> dict[str, Any]:
        name = request["link"]
        if name in self._links:
            raise LinkError(f"there is a link {name} already; close it first")
        shape = _checked(shape_from_json(request["shape"]))
        link = Link(name, (request["to"][0], request["to"][1]), shape, port=request["port"])
        self._links[name] = link
        return {"port": link.port}

    def _named(self, name: str) -> Link:
        if name not in self._links:
            raise LinkError(
                f"there is no link {name}; the links are {', '.join(sorted(self._links)) or 'none'}"
            )
        return self._links[name]


def _checked(shape: LinkShape) -> LinkShape:
    """Return a shape that a link can have. Raises LinkError for another one."""
    if shape.rate is not None and shape.rate <= 0:
        raise LinkError(f"rate {shape.rate}: give bits per second above 0, or no rate; `cut` stops a link")
    if shape.delay < 0 or shape.jitter < 0:
        raise LinkError(f"delay {shape.delay}, jitter {shape.jitter}: give seconds, 0 or more")
    for outage in shape.outages:
        if outage.start < 0 or (outage.end is not None and outage.end <= outage.start):
            raise LinkError(
                f"outage from {outage.start} s to {outage.end} s: the end must be after the start"
            )
    return shape


async def serve() -> None:
    """Answer requests until standard input ends."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=LONGEST_REQUEST)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    watch = loop.create_task(_follow_parent(os.getppid()))
    links = Links()
    gc.freeze()
    while line := await reader.readline():
        try:
            answer = links.answer(json.loads(line))
        except LinkError as error:
            answer = {"error": str(error)}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    watch.cancel()
    links.close()


async def _follow_parent(parent: int) -> None:
    while os.getppid() == parent:
        await asyncio.sleep(PARENT_INTERVAL)
    os._exit(0)


def main() -> None:
    """Run the process. An interrupt from the keyboard is for its caller, which closes the standard input then."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    asyncio.run(serve())


if __name__ == "__main__":
    main()
