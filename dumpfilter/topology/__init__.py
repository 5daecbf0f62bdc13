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

_NAMES = {
    "build": (
        "link",
        "make_topology",
        "master",
        "read",
        "recording",
        "running",
        "server",
        "slave",
        "workload",
    ),
    "model": ("Topology",),
    "short_string": ("parse_string", "topology_from"),
    "toml_notation": ("load_toml_topology", "parse_toml_topology", "to_toml"),
}

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
    """Import a public name's module at the first use of the name (PEP 562)."""
    for module, names in _NAMES.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
