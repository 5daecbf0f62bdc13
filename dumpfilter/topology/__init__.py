"""Topologies: nodes and links, from a file, a short string or Python.

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
    from dumpfilter.topology.notation import topology_from
    from dumpfilter.topology.short_string import parse_string, to_string
    from dumpfilter.topology.toml_notation import load_toml_topology, parse_toml_topology, to_toml

_MODULES = {
    "Topology": "model",
    "link": "build",
    "load_toml_topology": "toml_notation",
    "make_topology": "build",
    "master": "build",
    "parse_string": "short_string",
    "parse_toml_topology": "toml_notation",
    "read": "build",
    "recording": "build",
    "running": "build",
    "server": "build",
    "slave": "build",
    "to_string": "short_string",
    "to_toml": "toml_notation",
    "topology_from": "notation",
    "workload": "build",
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
    "to_string",
    "to_toml",
    "topology_from",
    "workload",
]


def __getattr__(name: str) -> object:
    """Import a public name's module at the first use of the name (PEP 562)."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
