"""A simulation of replication: the lag of each node and the bytes on each link of a topology, computed from a binlog
without running any process.

Input: a topology, and the traffic of its origins (the nodes that write binlogs). Output: arrival times, figures,
Arrow tables and an HTML page. The package imports ``topology``, ``analyse`` and the core packages below them.
"""
