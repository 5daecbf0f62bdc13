"""The requests of the user of the pytest plugin: options, the topology that a test needs, and the programs of its
servers.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from dumpfilter.base.errors import OptionError

if TYPE_CHECKING:
    from dumpfilter.binlog.format import Family
    from dumpfilter.topology.model import Topology

FAMILIES: tuple[Family, ...] = ("mariadb", "mysql")

MARK = "topology"

_OPTIONS = {
    # Machines that run tests are often busy.
    "timeout": ("SECONDS", "60", "the default limit for a start and for a wait"),
    "artifacts": ("DIRECTORY", "topology-artifacts", "where the artifacts of failed tests are written"),
    "missing": ("fail|skip", "fail", "what becomes of a test whose server is not installed"),
}
"""The options that have a key in pytest's configuration file, too: the values' form, the default and the help."""


class Settings(NamedTuple):
    """The values of the pytest plugin's options, such as the server programs to use, in one run of pytest."""

    programs: tuple[ServerProgram, ...]
    timeout: float
    artifacts: Path
    skips_missing: bool
    """Whether a test whose server is not installed is skipped. Otherwise the test fails."""
    keeps: bool
    """Whether the directories of all topologies are kept after the run."""
    default: str
    """The topology of tests without a mark, empty for none."""


def add_options(parser: pytest.Parser) -> None:
    """Declare the plugin's options of pytest's command line, and its keys of pytest's configuration file."""
    group = parser.getgroup("topology", "replication topologies (dumpfilter)")
    group.addoption(
        "--topology-server",
        metavar="[NAME=]PROGRAM",
        action="append",
        help="a server's program, such as mysql-8.4=/opt/mysql-8.4/bin/mysqld. The name begins with mariadb or mysql. "
        "With several programs of a family, each test that starts such a server runs once with each of them",
    )
    parser.addini("topology_servers", "programs of servers, as --topology-server", type="linelist")
    for key, (metavar, default, text) in _OPTIONS.items():
        group.addoption(f"--topology-{key}", metavar=metavar, help=f"{text} ({default})")
        parser.addini(f"topology_{key}", f"as --topology-{key}", default=default)
    group.addoption(
        "--topology-keep",
        action="store_true",
        help="leave the directories of all topologies, with data and logs, and name them at the end of the run",
    )
    parser.addini(
        "topology", "the topology of tests without a mark: a short string or a TOML file", default=""
    )


def read_settings(config: pytest.Config) -> Settings:
    """Return the plugin's options of a run. Options of the command line override keys of pytest's configuration file.

    Raises pytest.UsageError for an invalid value.
    """
    timeout, artifacts, missing = (
        config.getoption(f"topology_{key}") or config.getini(f"topology_{key}") for key in _OPTIONS
    )
    if missing not in ("fail", "skip"):
        raise pytest.UsageError(f"topology_missing = {missing}: give fail or skip")
    try:
        seconds = float(timeout)
    except ValueError:
        raise pytest.UsageError(f"topology_timeout = {timeout}: give a number of seconds") from None
    return Settings(
        parse_programs(config.getoption("topology_server") or config.getini("topology_servers")),
        seconds,
        config.rootpath / artifacts,
        missing == "skip",
        bool(config.getoption("topology_keep")),
        config.getini("topology"),
    )


class Spec(NamedTuple):
    """The arguments of a test's marker ``@pytest.mark.topology``: the topology to start for the test, and how."""

    topology: str | Path | Topology
    """A short string such as ``m >> web``, the path of a TOML file, or a model."""
    servers: tuple[Family, ...] = ()
    """The server families with which the test runs, one after another. Empty: the families that the topology names."""
    timeout: float | None = None
    """The time limit for a start and for a wait, seconds. None: the limit of the run."""


def spec_of(node: pytest.Item, default: str) -> Spec | None:
    """Return the topology and arguments that the marker of the test ``node`` gives.

    Without a marker, the result has the topology ``default`` from pytest's configuration file; None if ``default`` is
    empty. Raises OptionError for a marker with wrong arguments.
    """
    mark = node.get_closest_marker(MARK)
    if mark is None:
        return Spec(default) if default else None
    try:
        return _spec(*mark.args, **mark.kwargs)
    except TypeError as error:
        raise OptionError(
            f"@pytest.mark.topology: {str(error).removeprefix('_spec() ')}. "
            'Write for example @pytest.mark.topology("m >> web[do-db=shop]", timeout=120)'
        ) from None


def _spec(
    topology: str | Path | Topology, *, servers: Family | Sequence[Family] = (), timeout: float | None = None
) -> Spec:
    families = (servers,) if isinstance(servers, str) else tuple(servers)
    for family in families:
        if family not in FAMILIES:
            raise OptionError(f"@pytest.mark.topology: servers={family!r}: give mariadb or mysql, or both")
    return Spec(topology, families, timeout)


def load(spec: str | Path | Topology, *directories: Path) -> Topology:
    """Return the topology that ``spec`` describes: a short string, the path of a TOML file, or a model.

    The file of a relative path is sought in each of ``directories``, in order. Raises OptionError for a file that does
    not exist and for an invalid topology.
    """
    from dumpfilter.topology import topology_from

    if isinstance(spec, Path) or (isinstance(spec, str) and spec.endswith(".toml")):
        tried = list(dict.fromkeys(directory / spec for directory in directories))
        found = next((path for path in tried if path.exists()), None)
        if found is None:
            raise OptionError(f"there is no file {' and no file '.join(map(str, tried))}")
        spec = found
    return topology_from(spec)


class ServerProgram(NamedTuple):
    """A server program (``mysqld`` or ``mariadbd``) with which tests shall run, as the user named it in pytest's
    options.
    """

    name: str
    """The name in the tests' ids, such as ``mysql-8.4``. It begins with the family."""
    family: Family
    path: str


class ServerCase(NamedTuple):
    """The choice of server programs with which one run of a test starts the servers of its topology. A test runs once
    for each choice.
    """

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
            name, path = {"mariadbd": "mariadb", "mysqld": "mysql"}.get(Path(text).name, ""), text
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


def cases(
    programs: Sequence[ServerProgram], used: Collection[Family | None], wanted: Sequence[Family] = ()
) -> list[ServerCase]:
    """Return the choices of server programs with which a test runs, one run for each.

    ``programs`` has the programs that the user names, and ``used`` the families of the topology's servers. ``wanted``
    has the families that the test's marker lists. If ``wanted`` is not empty, all servers of a run have one of these
    families. Otherwise each program of a used family is combined with each program of the other used family.
    """
    if wanted:
        return [ServerCase(case.programs, family) for family in wanted for case in cases(programs, [family])]
    choices: list[list[tuple[ServerProgram, ...]]] = [
        [(one,) for one in programs if one.family == family] or [()] for family in FAMILIES if family in used
    ]
    return [ServerCase(sum(chosen, ())) for chosen in itertools.product(*choices)]
