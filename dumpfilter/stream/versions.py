"""The versions of the protocol between slave and master, and the choice of the version that both speak.

``dumpfilter.proto`` lists the versions. A slave names the versions that it speaks when it registers. The master answers
with the highest version that both sides speak, or refuses the slave.
"""

from __future__ import annotations

from typing import NamedTuple

from dumpfilter.errors import ProtocolMismatch


class Versions(NamedTuple):
    """The versions of the protocol that a program speaks, from the lowest to the highest."""

    lowest: int
    highest: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.lowest <= version <= self.highest

    def __str__(self) -> str:
        return f"{self.lowest}" if self.lowest == self.highest else f"{self.lowest} to {self.highest}"


class Programs(NamedTuple):
    """The versions of the two programs, for the texts of errors. A program that names no version has an empty one."""

    slave: str
    master: str


MASTER_SPEAKS = Versions(1, 2)
SLAVE_SPEAKS = Versions(2, 2)
"""The versions of this release. A slave cannot prove the chunks of a master of version 1, and not place their gaps."""

UNVERSIONED = 1
"""The version of programs that name no version."""


def choose(slave: Versions, programs: Programs, *, master: Versions = MASTER_SPEAKS) -> int:
    """Return the highest version of the protocol that the slave and this master speak.

    Raises ProtocolMismatch when the two have no version in common.
    """
    chosen = min(slave.highest, master.highest)
    if chosen < max(slave.lowest, master.lowest):
        raise _mismatch(slave, master, programs)
    return chosen


def check_answer(version: int, programs: Programs, *, slave: Versions = SLAVE_SPEAKS) -> int:
    """Return the version of the protocol that a master has chosen, which is 0 in the answer of an unversioned master.

    Raises ProtocolMismatch for a version that this slave does not speak.
    """
    chosen = version or UNVERSIONED
    if chosen not in slave:
        raise _mismatch(slave, Versions(chosen, chosen), programs)
    return chosen


def _mismatch(slave: Versions, master: Versions, programs: Programs) -> ProtocolMismatch:
    behind = "the slave" if slave.highest < master.lowest else "the master"
    return ProtocolMismatch(
        f"slave and master have no protocol version in common: the slave ({_named(programs.slave)}) speaks {slave}, "
        f"the master ({_named(programs.master)}) speaks {master}; upgrade {behind}"
    )


def _named(program: str) -> str:
    return f"dumpfilter {program}" if program else "an early dumpfilter"
