"""The port for MySQL clients: protocol, replication commands, SELECT on tables of facts, and Prometheus metrics.

A fact is one value about a slave, a filter or the like, which becomes a column and a metric. Enters: statements of a
client, and the facts that a master or slave declares. Leaves: result sets, errors with the servers' numbers, and the
pages that Prometheus reads. The package imports filter, binlog and base.
"""
