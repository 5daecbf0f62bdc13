"""Topologies: nodes and links, from a file, a short string or Python."""

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
