"""The server programs with which a test's topology runs: one, or several one after another."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from dumpfilter.binlog.format import Family
    from dumpfilter.topology.model import Topology

FAMILIES: tuple[Family, ...] = ("mariadb", "mysql")


@dataclass(frozen=True)
class ServerProgram:
    """A server program (``mysqld`` or ``mariadbd``) that the user names."""

    name: str
    """The name in the tests' ids, such as ``mysql-8.4``. It begins with the family."""
    family: Family
    path: str


@dataclass(frozen=True)
class ServerCase:
    """The server programs and the family with which one run of a test starts the servers of its topology."""

    programs: tuple[ServerProgram, ...] = ()
    """At most one program of each family. A family without a program is looked for on the PATH."""
    family: Family | None = None
    """The family of all servers of the topology. None: the families that the topology names."""

    @property
    def name(self) -> str:
        """The name of this choice of servers in a test's id, such as ``mysql-8.4``."""
        ours = [one.name for one in self.programs if self.family in (None, one.family)]
        return "+".join(ours) or self.family or "servers"

    def applied(self, topology: Topology) -> Topology:
        """Return a copy of ``topology`` whose servers have this case's family and programs.

        A node that names its own program keeps it, unless the node's family changes.
        """
        paths = {one.family: one.path for one in self.programs}
        nodes = []
        for node in topology.nodes:
            if node.server:
                family = self.family or node.server
                if family != node.server:
                    node = node.with_(server=family, program=None, root=None)
                if not node.root:
                    node = node.with_(program=node.program or paths.get(family))
            nodes.append(node)
        return replace(topology, nodes=tuple(nodes))


def parse_programs(texts: Iterable[str]) -> tuple[ServerProgram, ...]:
    """Return the server programs that the texts ``[NAME=]PROGRAM`` describe.

    Without a name, the family is guessed from the program's file name. Raises pytest.UsageError for a text of unknown
    family and for a repeated name.
    """
    found: list[ServerProgram] = []
    for text in texts:
        name, equals, path = text.partition("=")
        if not equals:
            name, path = _family_of_program(text), text
        family = next((one for one in FAMILIES if name.startswith(one)), None)
        if family is None or not path:
            raise pytest.UsageError(
                f"--topology-server {text}: give NAME=PROGRAM with a name that begins with mariadb or mysql, "
                "such as mysql-8.4=/opt/mysql-8.4/bin/mysqld"
            )
        if any(one.name == name for one in found):
            raise pytest.UsageError(f"--topology-server {text}: the name {name} is given twice")
        found.append(ServerProgram(name, family, path))
    return tuple(found)


def _family_of_program(path: str) -> str:
    """Return the family of a program by its file name, or an empty string for an unknown name."""
    return {"mariadbd": "mariadb", "mysqld": "mysql"}.get(Path(path).name, "")


def cases(
    programs: Sequence[ServerProgram], used: Sequence[Family], wanted: Sequence[Family] = ()
) -> list[ServerCase]:
    """Return the choices of server programs with which a test runs, one run for each.

    ``programs`` has the programs that the user names, and ``used`` the families of the topology's servers. ``wanted``
    has the families that the test's marker lists. If ``wanted`` is not empty, all servers of a run have one of these
    families. Otherwise each program of a used family is combined with each program of the other used family.
    """
    if wanted:
        return [ServerCase(case.programs, family) for family in wanted for case in cases(programs, [family])]
    choices: list[list[ServerProgram | None]] = [
        [one for one in programs if one.family == family] or [None] for family in FAMILIES if family in used
    ]
    return [ServerCase(tuple(one for one in chosen if one)) for chosen in itertools.product(*choices)]
