"""The version of the protocol that slave and master must both speak.

Each side names its version of the protocol and of its program when the slave registers.
"""

from __future__ import annotations

from typing import NamedTuple

from dumpfilter.base.errors import ProtocolMismatch

PROTOCOL = 2
"""The version of the protocol that this release speaks (``dumpfilter.proto`` tells what each version has)."""


class Peer(NamedTuple):
    """A program and the version of the protocol that it speaks. An old program that names no version has 0 and
    ``""``.
    """

    protocol: int
    program: str

    def __str__(self) -> str:
        program = f"dumpfilter {self.program}" if self.program else "an early dumpfilter"
        return f"({program}) speaks version {self.protocol or 1}"


def check_versions(*, slave: Peer, master: Peer) -> None:
    """Raise ProtocolMismatch if slave and master speak different versions. The error's text names the side to
    upgrade.
    """
    if slave.protocol != master.protocol:
        behind = "slave" if slave.protocol < master.protocol else "master"
        raise ProtocolMismatch(
            f"slave and master speak different versions of the protocol: the slave {slave}, the master {master}; "
            f"upgrade the {behind}"
        )
