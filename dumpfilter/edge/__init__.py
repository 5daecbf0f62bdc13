"""The edge: a slave that serves what it received to real replicas beside it, from its relay logs.

The edge joins the reading half of a master (:mod:`dumpfilter.master`) with the channels of a slave
(:mod:`dumpfilter.slave`). Each channel that has a replica port gets a binlog store over its relay log, a shared reader,
a register and a port of its own. Everything that a replica gets is read from the relay log.
"""
