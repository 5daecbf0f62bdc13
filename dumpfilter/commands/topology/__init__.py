"""The command ``dumpfilter topology``, which runs topologies and asks them. Each module has a few of its verbs."""

from dumpfilter.commands.topology.app import topology_app

__all__ = ["topology_app"]
