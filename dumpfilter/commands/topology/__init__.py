"""Runs a topology of sources, slaves and shaped links, and asks it."""

# The docstring is the text of --help, which has the verbs in the order in which the modules are imported.

from dumpfilter.commands.topology import start

# isort: split
from dumpfilter.commands.topology import ask
from dumpfilter.commands.topology.options import topology_app

__all__ = ["ask", "start", "topology_app"]
