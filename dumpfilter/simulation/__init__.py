"""The lag of nodes and the bytes on links of a topology, computed from a binlog instead of by running the processes.

Enters: a topology and the traffic of its source. Leaves: arrivals, figures, tables and a page. It imports topology,
analyse, and the core below.
"""
