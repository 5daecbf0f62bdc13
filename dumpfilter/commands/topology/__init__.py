"""Run a topology of sources, slaves, and links with limited rate and delay, and query it."""

# The docstring is the text of --help.

from dumpfilter.commands.topology.verbs import topology_app

__all__ = ["topology_app"]
