"""Topologies: nodes (servers, masters, slaves, recordings) and the links between them, from a file, a short string or
Python.

Input: TOML, a short string or Python calls. Output: one checked model of nodes and links, and links that delay and cut
connections. The package imports filter, binlog and base.

A name's module is imported when the name is first used, since the check of filter rules takes half a second to import.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dumpfilter.base.lazy import lazy_names

if TYPE_CHECKING:
    from dumpfilter.topology.model import Topology as Topology
    from dumpfilter.topology.notations import link as link
    from dumpfilter.topology.notations import make_topology as make_topology
    from dumpfilter.topology.notations import master as master
    from dumpfilter.topology.notations import parse_string as parse_string
    from dumpfilter.topology.notations import parse_toml_topology as parse_toml_topology
    from dumpfilter.topology.notations import read as read
    from dumpfilter.topology.notations import recording as recording
    from dumpfilter.topology.notations import running as running
    from dumpfilter.topology.notations import server as server
    from dumpfilter.topology.notations import slave as slave
    from dumpfilter.topology.notations import to_toml as to_toml
    from dumpfilter.topology.notations import topology_from as topology_from
    from dumpfilter.topology.notations import workload as workload


__getattr__ = lazy_names(__name__, ("notations",))
