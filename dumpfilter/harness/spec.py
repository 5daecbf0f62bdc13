"""The topology that a test asks for, in its marker or in pytest's configuration file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dumpfilter.base.errors import OptionError
from dumpfilter.harness.servers import FAMILIES

if TYPE_CHECKING:
    import pytest

    from dumpfilter.binlog.format import Family
    from dumpfilter.topology.model import Topology

MARK = "topology"

FILE_SUFFIX = ".toml"
"""The suffix of a string that names a file. Other strings are topologies themselves."""


@dataclass(frozen=True)
class Spec:
    """The arguments of a marker ``@pytest.mark.topology``."""

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

    if isinstance(spec, Path) or (isinstance(spec, str) and spec.endswith(FILE_SUFFIX)):
        tried = list(dict.fromkeys(directory / spec for directory in directories))
        found = next((path for path in tried if path.exists()), None)
        if found is None:
            raise OptionError(f"there is no file {' and no file '.join(map(str, tried))}")
        spec = found
    return topology_from(spec)


def families_of(topology: Topology) -> list[Family]:
    """Return the families (``mariadb``, ``mysql``) of the real servers that a topology starts, sorted."""
    return sorted({node.server for node in topology.nodes if node.server})
