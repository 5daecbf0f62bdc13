"""The lag and the bytes of a topology, computed from a binlog instead of run.

Enters: a topology and the traffic of its source. Leaves: arrivals, figures, tables and a page. It imports topology,
analyse, and the core below.
"""
