"""Explanations of a filter's decisions, for ``dumpfilter explain``."""
