"""Runs a topology of sources, slaves and shaped links, and asks it."""

# The docstring is the text of --help.

from dumpfilter.commands.topology.verbs import topology_app

__all__ = ["topology_app"]
