"""The HTML page of a simulation or an experiment, one file that needs no other file and no network."""

from dumpfilter.simulation.page.page import render_page

__all__ = ["render_page"]
