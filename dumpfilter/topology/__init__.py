"""Topologies: nodes (servers, masters, slaves, recordings) and the links between them, from a file, a short string or
Python.

Enters: TOML, a short string or Python calls. Leaves: one checked model of nodes and links, and links that delay and
cut connections. The package imports filter, binlog and base.

A name's module is imported when the name is first used, since the check of filter rules takes half a second to import.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dumpfilter.topology.build import (
        link,
        make_topology,
        master,
        read,
        recording,
        running,
        server,
        slave,
        workload,
    )
    from dumpfilter.topology.model import Topology
    from dumpfilter.topology.short_string import parse_string, topology_from
    from dumpfilter.topology.toml_notation import load_toml_topology, parse_toml_topology, to_toml

__all__ = [
    "Topology",
    "link",
    "load_toml_topology",
    "make_topology",
    "master",
    "parse_string",
    "parse_toml_topology",
    "read",
    "recording",
    "running",
    "server",
    "slave",
    "to_toml",
    "topology_from",
    "workload",
]


def __getattr__(name: str) -> object:
    """Import the modules with the public names at the first use of one of them (PEP 562)."""
    if name in __all__:
        for module in ("build", "short_string", "toml_notation"):
            found = importlib.import_module(f"{__name__}.{module}")
            if hasattr(found, name):
                return getattr(found, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
