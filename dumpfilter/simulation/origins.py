"""The binlog sets of a topology's origins, and the speeds at which they are replayed."""

from __future__ import annotations

from collections.abc import Sequence

from dumpfilter.base.errors import OptionError
from dumpfilter.base.options.near import did_you_mean
from dumpfilter.simulation.plan import Plan
from dumpfilter.topology.model import Topology


def speeds_of(topology: Topology) -> dict[str, float | None]:
    """Return the speed of each recording. None: all at once."""
    return {node.name: node.speed for node in topology.nodes if node.binlogs}


def binlog_sets(plan: Plan, topology: Topology | None, binlogs: Sequence[str]) -> dict[str, str]:
    """Return the binlog set of each origin, from texts such as ``bin.index`` or ``m=bin.index``.

    A recording of the topology needs no text. Raises OptionError for an origin without a set.
    """
    names = {origin: origin for origin in plan.origins}
    found: dict[str, str] = {}
    if topology is not None:
        for origin in plan.origins:
            node = topology[origin]
            if node.binlogs:
                found[origin] = str(node.binlogs)
            # A workload or recording is often known by the name of the master that reads it.
            names.update(
                (reader.name, origin) for reader in topology.readers(origin) if reader.name not in names
            )
    for text in binlogs:
        name, equals, path = text.partition("=")
        # A path or an address can have an equals sign, and the name of a node has no slash.
        if not equals or "/" in name:
            if len(plan.origins) > 1:
                origins = ", ".join(plan.origins)
                raise OptionError(
                    f"--binlog {text}: the topology has several origins ({origins}); write NODE={text}"
                )
            found[plan.origins[0]] = text
        elif name in names:
            found[names[name]] = path
        else:
            raise OptionError(
                f"--binlog {text}: there is no origin {name!r}{did_you_mean(name, sorted(names))}"
            )
    for origin in plan.origins:
        if origin not in found:
            option = "--binlog SET" if len(plan.origins) == 1 else f"--binlog {origin}=SET"
            raise OptionError(f"the binlog set of {origin} is missing; give it with {option}")
    return found
