"""The port for MySQL clients: the protocol, the replication commands, SELECT on tables of facts, and metrics.

Enters: statements of a client, and facts that a master or slave declares. Leaves: result sets, errors with the servers'
numbers, and the pages that Prometheus reads. It imports filter, binlog and base.
"""
