"""Topologies: nodes and links, from a file, a short string or Python."""
