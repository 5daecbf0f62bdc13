"""The client of the process that carries a topology's links (TCP proxies with a rate and a delay). The client starts
the process, opens links, changes them and reads their counters.
"""

from __future__ import annotations

from pathlib import Path

from dumpfilter.base.errors import LinkError
from dumpfilter.base.helper import Helper
from dumpfilter.topology.links.shape import PLAIN, Counters, Happening, LinkShape


class LinkProcess(Helper):
    """A process that carries the links of one topology. A link is a TCP proxy with a rate and a delay, which can be cut
    or silent.

    A request to the process is a link's name, a method of :class:`.proxy.Link` and its arguments. Without a name the
    method of every link is called, and the results are returned by the links' names.

    All methods may be called from any thread. They raise :class:`dumpfilter.base.errors.LinkError` when the process has
    ended, or when it refuses a request.
    """

    title = "the process of the links"
    error = LinkError
    timeout = 60.0

    def __init__(self, log: Path | None = None) -> None:
        """Start the process that carries the links (TCP proxies) of a topology. The new process's standard error is
        appended to ``log``. With None it goes to the standard error of the calling process.
        """
        super().__init__("dumpfilter.topology.links.proxy", log)

    def open(self, name: str, target_port: int, shape: LinkShape = PLAIN, *, host: str = "127.0.0.1") -> int:
        """Open a link, which is a TCP proxy that slows the connections of a replica or slave like a long line. Return
        the link's port of 127.0.0.1, at which the replica or slave connects.

        ``target_port`` and ``host`` are the address at which the link's source listens. The source need not listen yet.
        ``shape`` has the rate, delay, jitter and scheduled outages. No other link may have the name.
        """
        return int(self.ask(name, "open", (host, target_port), shape))

    def __getitem__(self, name: str) -> OpenLink:
        """Return a handle for the link (TCP proxy) ``name``, by which the link is queried and changed. For an unknown
        name, the methods and properties of the handle raise LinkError.
        """
        return OpenLink(self, name)

    def counters(self) -> dict[str, Counters]:
        """Return a dictionary from the name of each link to the link's counters: its state, its bytes and its
        connections.
        """
        return dict(self.ask(None, "counters"))


class OpenLink:
    """A handle for one open link of a :class:`LinkProcess`: a TCP proxy with a rate and a delay. The target (the
    reading node) connects to the proxy, and the proxy connects to the source.

    The methods and properties raise LinkError if the process has ended, if it has no such link, or if it refuses a
    value such as a negative time.
    """

    def __init__(self, process: LinkProcess, name: str) -> None:
        self.name = name
        self._process = process

    def retarget(self, target_port: int, *, host: str = "127.0.0.1") -> None:
        """Let the link's proxy connect new connections to another port and host, at which the source listens now. Open
        connections stay as they are.
        """
        self._process.ask(self.name, "retarget", (host, target_port))

    def reshape(self, shape: LinkShape) -> None:
        """Give the link another rate, delay, jitter and scheduled outages.

        The times of outages count from now on, unless the link has the same outages already. A shorter delay applies to
        the bytes in transit, too. A new rate applies to later bytes only. Raises LinkError for values that no link can
        have.
        """
        self._process.ask(self.name, "set", shape)

    def cut(self, seconds: float | None = None) -> None:
        """Cut the link: reset all its connections, and refuse new ones. The cut lasts for ``seconds``; None: until
        :meth:`heal` is called.

        The new cut replaces an earlier cut, outage or silence, and cancels a cut that :meth:`cut_after` planned. Raises
        LinkError for a negative number of seconds.
        """
        self._process.ask(self.name, "cut", seconds)

    def cut_after(self, nbytes: int, seconds: float | None = None) -> None:
        """Cut the link when ``nbytes`` more bytes have reached the target, the node that reads through the link.

        The connections end in order after these bytes, and new ones are refused. The cut lasts for ``seconds``; None:
        until :meth:`heal` is called. Raises LinkError for a negative number of bytes or seconds.
        """
        self._process.ask(self.name, "cut_after", nbytes, seconds)

    def silence(self, seconds: float | None = None) -> None:
        """Let no byte pass over the link for ``seconds``, but keep its connections open. With None the silence lasts
        until :meth:`heal` is called. Afterwards the bytes that were in transit are delivered, and new connections reach
        the source.

        The silence replaces a present cut or scheduled outage. A later cut or scheduled outage ends the silence, resets
        the connections, and discards the bytes in transit. Raises LinkError for a negative number of seconds.
        """
        self._process.ask(self.name, "silence", seconds)

    def drop_connections(self) -> None:
        """Reset all open TCP connections of the link, and discard the bytes in transit. The link's state stays. A link
        that is up accepts new connections at once.
        """
        self._process.ask(self.name, "reset")

    def heal(self) -> None:
        """End a cut, a silence or a present scheduled outage of the link, and cancel a cut that :meth:`cut_after`
        planned. Later scheduled outages still take place.
        """
        self._process.ask(self.name, "heal")

    @property
    def counters(self) -> Counters:
        """The link's present state (up, cut or silent), its bytes (passed in each direction, and waiting) and its
        connections.
        """
        found: Counters = self._process.ask(self.name, "counters")
        return found

    @property
    def history(self) -> tuple[Happening, ...]:
        """The link's latest changes, cuts, silences and connections with their times, oldest first."""
        return tuple(self._process.ask(self.name, "history"))
